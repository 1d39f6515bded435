"""R, Python, the command line, Ray and merged shards return equal columns.

Interfaces differ in three points. In R's tables the reasons of failures are an attribute,
except in tables of `annotate_texts`. Files contain the whole answer and its finish reason
in addition to the fields of a schema. Errors name a setting as the user writes it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import doors
import llamaherd as lh
import numpy as np
import pyarrow.parquet as pq
import pytest
import rscript
import scripted_model
import tiny_models
from doors import (
    BOOK,
    DRAWN,
    FIELDS,
    LABELS,
    SCALE,
    SCHEMA,
    TASKS,
    TEXTS,
    THINKING,
    THOUGHTS,
)
from llamaherd.cli import main
from llamaherd.tasks.make import make_task

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from doors import Columns

    Tiny = Callable[[str], Path]

# How the error of a long text names the setting that helps; shards run from a TOML file.
ADVICE = {
    "command line": "--split {}",
    "shards": 'split = "{}"',
    "Ray": "split='{}'",
    "R": 'split = "{}"',
}
KEPT_BY_FILES = ("answer", "finish_reason")  # in addition to the fields of a schema


@pytest.fixture(scope="module")
def path_of(
    tiny_path: Tiny, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Return the model of a task."""
    folder = tmp_path_factory.mktemp("models")
    paths = {
        "random": tiny_models.write(
            folder / "random.gguf", "llama", changes={"context_length": 2048}
        ),
        "scripted": scripted_model.write(
            folder / "scripted.gguf", "Hmm", "</think>", n_ctx=2048
        ).path,
    }
    for name in ("llama", "bert"):
        paths[name] = tiny_path(name)

    def path(name: str) -> Path:
        kind = "bert" if TASKS[name][0] == "embed" else "llama"
        thinker = "scripted" if name.startswith("scripted") else "random"
        return paths[thinker if name in THINKING else kind]

    return path


@pytest.fixture(scope="module")
def from_r(
    path_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Columns]:
    folder = tmp_path_factory.mktemp("r")
    lh.write_codebook(BOOK, folder / "book.yaml")
    lh.write_codebook(SCALE, folder / "scale.yaml")
    lh.write_codebook(FIELDS, folder / "fields.yaml")
    tasks = {name: doors.job_of_r(name, path_of(name), folder) for name in THINKING}
    job = {
        "model": str(path_of("annotate")),
        "encoder": str(path_of("embed")),
        "thinking": tasks,
        "texts": TEXTS,
        "codebook": str(folder / "book.yaml"),
        "scale": str(folder / "scale.yaml"),
        "fields": str(folder / "fields.yaml"),
        "schema": json.dumps(SCHEMA),
        "labels": LABELS,
    }
    columns_of = rscript.results("texts.R columns", folder, job)
    return {
        task: {
            name: (kind[0], columns["values"][name])
            for name, kind in columns["kinds"].items()
        }
        for task, columns in columns_of.items()
    }


def is_missing(value: Any) -> bool:
    """Replace NaN of Python's data frames and NA of R's matrices by None."""
    flat = np.atleast_1d(np.array(value, dtype=np.float64))
    return bool(np.isnan(flat).all())


def assert_same(
    table: Columns, expected: Columns, door: str, *, is_drawn: bool = False
) -> None:
    """Compare columns; with `is_drawn`, thoughts were drawn with different seeds."""
    assert list(table) == list(expected), door
    for name, (kind, values) in expected.items():
        assert table[name][0] == kind, (door, name)
        if kind in ("number", "vector"):
            for one, other in zip(table[name][1], values, strict=True):
                assert is_missing(one) == is_missing(other), (door, name)
                if not is_missing(other) and not is_drawn:
                    np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=door)
        elif is_drawn:
            assert [one is None for one in table[name][1]] == [v is None for v in values]
        else:
            assert table[name][1] == values, (door, name)


def in_python(columns: Columns, door: str) -> Columns:
    """Return columns whose errors name the setting that helps as Python does."""

    def translated(value: Any) -> Any:
        if isinstance(value, str):
            value = value.replace("`", "") if door == "R" else value
            for way in ("mean", "first"):
                advice, pythons = (ADVICE[host].format(way) for host in (door, "Ray"))
                value = value.replace(f"by {advice}", f"by {pythons}")
        return value

    return {
        name: (kind, [translated(value) for value in values])
        for name, (kind, values) in columns.items()
    }


def check_thoughts(name: str, columns: Columns, prefix: str) -> None:
    """Check that the failed row has no thought, and all other rows have the model's."""
    dot = "." if name == "scripted fields" else ""  # a field is called "thinking"
    names = [f"{prefix}{dot if role == 'thinking' else ''}{role}" for role in THOUGHTS]
    assert list(columns)[-4:-1] == names
    texts, counts, whole = (columns[column][1] for column in names)
    assert [text is None for text in texts] == [False, False, False, True, False]
    assert [count is None for count in counts] == [False, False, False, True, False]
    is_whole = name.startswith("scripted")
    assert whole == [is_whole, is_whole, is_whole, None, is_whole]
    if is_whole:
        assert set(texts) == {"Hmm", None}
    else:
        assert len(set(texts)) > 2
    if name in DRAWN:
        between = np.array(columns[f"{prefix}between"][1], dtype=np.float64)
        assert (between[[0, 1, 2, 4]] > 0).all()
        assert np.isnan(between[3])


@pytest.mark.more(reason="starts R, with a real model or several calls", cases=1)
@pytest.mark.parametrize("name", TASKS)
def test_five_doors_fill_the_same_columns(
    name: str,
    from_r: dict[str, Columns],
    path_of: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = doors.from_python(name, path_of(name))
    kind, settings = TASKS[name]
    prefix = "x_" if doors.is_prefixed(name) else ""
    roles = [prefix + role for role in make_task(kind, settings).columns]  # type: ignore[arg-type]
    assert list(expected) == roles
    errors = expected[f"{prefix}error"][1]
    assert [error is None for error in errors] == [True, True, True, False, True]

    if name in THINKING:
        check_thoughts(name, expected, prefix)

    run = doors.command(name, path_of(name))
    assert main(run) == 3
    from_cli = doors.of_arrow(pq.read_table("out.parquet"))
    assert main([*run, "--save", "run.toml"]) == 0
    for i in (1, 2):
        shard = ["--shard", f"{i}/2", "--journal", f"{i}.journal"]
        assert main(["run", "run.toml", *shard]) in (0, 3)
    assert main(["merge", "1.journal", "2.journal", "--out", "merged.parquet"]) == 3
    from_shards = doors.of_arrow(pq.read_table("merged.parquet"))
    if kind == "generate":
        for table in (from_cli, from_shards):
            assert [table.pop(key)[0] for key in KEPT_BY_FILES] == ["string", "string"]
    # If thoughts are drawn, the seed of a text depends on its row. It depends on the
    # content of the text in tasks that must return the same values for a part of a table
    # and for the whole table.
    tables = {
        "command line": from_cli,
        "shards": from_shards,
        "Ray": doors.from_ray(name, path_of(name)),
        "R": from_r[name],
    }
    tables = {door: in_python(table, door) for door, table in tables.items()}
    by_content = list(tables)[2:3] if name == "drawn classes" else list(tables)[:3]
    for door, table in tables.items():
        is_drawn = name in DRAWN and door in by_content
        assert_same(table, expected, door, is_drawn=is_drawn)
        if is_drawn:
            assert_same(table, tables[by_content[0]], door)
