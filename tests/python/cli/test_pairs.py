"""`llamaherd pairs`: from a table of texts to strengths."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from llamaherd.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore:the model favours", "ignore:.*texts won")
ROWS = [
    "id,text,known,known_by",  # the last column has words
    "a,It rains.,1,Ann",
    "b,I hate it!,5,Ann",
    'c,"Fine, {first}.",2,Bob',
    "d,Oh,,Bob",
]
ASKED = ["pairs", "texts.csv", "--question", "Which is angrier?", "-m", "model.gguf"]


@pytest.fixture(autouse=True)
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_path: Callable[[str], Path]
) -> None:
    """Create a working folder with texts.csv and model.gguf."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.gguf").symlink_to(tiny_path("llama"))
    Path("texts.csv").write_text("\n".join(ROWS) + "\n", encoding="utf-8")


def read(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_strengths_and_pairs_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("people.csv").write_text("first,second,winner\na,b,b\nc,d,\n", encoding="utf-8")
    out = ["-o", "out.csv", "--pairs-out", "pairs.jsonl", "--id", "id"]
    more = ["--known", "known", "--people", "people.csv", "--journal", "j"]
    assert main([*ASKED, *out, *more]) == 0
    rows = read("out.csv")
    assert [row["id"] for row in rows] == ["a", "b", "c", "d"]
    assert sum(float(row["strength"]) for row in rows) == pytest.approx(0, abs=1e-6)
    assert sorted(row["rank"] for row in rows) == ["1", "2", "3", "4"]
    assert len(Path("pairs.jsonl").read_text(encoding="utf-8").splitlines()) == 6
    said = capsys.readouterr().err
    assert "4 texts, 6 pairs" in said
    assert "Spearman's correlation with known scores" in said
    assert "1 pair without a winner is left out" in said
    first = rows
    assert main([*ASKED, *out, *more]) == 2  # the outputs exist
    assert "already exists" in capsys.readouterr().err
    assert main([*ASKED, *out, *more, "--overwrite"]) == 0
    assert read("out.csv") == first


def test_rows_are_numbered_without_ids(capsys: pytest.CaptureFixture[str]) -> None:
    layout = "{question} {a}={first} {b}={second}. Answer:"
    Path("layout.txt").write_text(layout, encoding="utf-8")
    more = ["--n-pairs", "4", "--layout", "layout.txt", "--labels", "x", "y"]
    assert main([*ASKED, *more]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0].startswith("row,text,strength,std_error")
    assert "4 texts, 4 pairs" in said.err


def test_equal_ids_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("texts.csv").write_text("id,text\na,One.\na,Two.\n", encoding="utf-8")
    assert main([*ASKED, "--id", "id"]) == 2
    assert "id[1] must have a different value" in capsys.readouterr().err
