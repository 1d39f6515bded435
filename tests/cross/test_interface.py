"""Assumptions of the R package about Python are true."""

from __future__ import annotations

import dataclasses
import inspect
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import rscript
from llamaherd import _r
from llamaherd.calls.journal.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def interface(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("r") / "interface.json"
    rscript.run_shared("interface.R", path)
    return json.loads(path.read_text(encoding="utf-8"))


def test_r_knows_all_sampling_settings(interface: dict[str, Any]) -> None:
    fields = {field.name for field in dataclasses.fields(lh.SamplingParams)}
    assert set(interface["sampling"]) == fields


def test_r_has_the_same_defaults(interface: dict[str, Any]) -> None:
    parameters = inspect.signature(lh.generate_parallel).parameters
    for name, default in interface["defaults"].items():
        if name not in ("verbosity", "clean", "hash", "dotted"):
            assert default == parameters[name].default, name


def test_r_knows_all_settings_of_contexts(interface: dict[str, Any]) -> None:
    known = {*interface["context"], *interface["context_dots"]} - {"verbosity", "..."}
    known -= {"cluster", "n_actors", "num_cpus"}  # functions of herds
    assert known == set(inspect.signature(lh.Context).parameters)


def test_contexts_have_the_same_defaults(interface: dict[str, Any]) -> None:
    parameters = inspect.signature(lh.Context).parameters
    defaults = interface["context_defaults"]
    assert {"n_ctx", "n_threads", "n_seq_max", "kv_layout"} <= set(defaults)
    for name, default in defaults.items():
        python = "auto" if parameters[name].default is None else parameters[name].default
        assert default == python, name


def test_r_has_the_arguments_of_embed_parallel(interface: dict[str, Any]) -> None:
    parameters = inspect.signature(lh.embed_parallel).parameters
    assert set(interface["embed"]) - {"verbosity"} == set(parameters)


def value(status: dict[str, Any]) -> Any:
    assert status["ok"], status
    assert status["warnings"] == []
    return status["value"]


def test_a_journal_is_a_table(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    journal = Journal(path)
    empty = value(_r.journal_read(str(path)))
    journal.add(
        [
            lh.types.JournalEntry(
                prompt="NUL \0",
                text="a",
                finish_reason="stop",
                complete=True,
                error=None,
                n_prompt_tokens=1,
                tokens=[1, 2],
                seed=2**32 - 1,
                model="m.gguf",
                model_sha256="ab" * 32,
                settings="{}",
                created=datetime.fromtimestamp(1.5e9, UTC),
                version=lh.__version__,
                key="cd" * 32,
            )
        ]
    )
    journal.close()
    real = value(_r.journal_read(str(path)))
    kinds = [
        {column["name"]: column["type"] for column in table["columns"]}
        for table in (real, empty)
    ]
    assert kinds[0] == kinds[1]
    columns = {column["name"]: column["values"] for column in real["columns"]}
    assert columns["prompt"] == ["NUL \ufffd"]  # R's strings contain no NUL
    assert columns["created"] == [1.5e9]
    status = _r.journal_read(str(tmp_path))
    assert (status["ok"], status["error_type"]) == (False, "JournalError")


def test_every_exception_comes_back_as_data() -> None:
    status = _r.model_load("/no/such/file.gguf", {})
    assert not status["ok"]
    assert status["error_type"] == "ModelLoadError"
    assert "/no/such/file.gguf" in status["message"]
    assert "Traceback" in status["traceback"]
    status = _r.tokenize(None, ["a"], True, False)
    assert not status["ok"]
    assert status["value"] is None
