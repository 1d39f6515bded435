"""`llamaherd codebooks`: from a coded sheet to an evaluation, with files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.cli.main import main
from llamaherd.coding.selection import evaluation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DATA = {"text": [f"Text {i} says {'this' if i % 3 else 'that'}" for i in range(80)]}


@pytest.fixture
def gold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_path: Callable[[str], Path]
) -> str:
    """Create a working folder with gold.csv, two codebooks and model.gguf."""
    monkeypatch.setattr(evaluation, "_OPENED", {})
    monkeypatch.chdir(tmp_path)
    sample = lh.gold_sample(DATA, 60, text="text", names=["a", "b"], seed=1)
    sample.with_codes(["a" if row % 3 else "b" for row in sample.rows]).write("gold.csv")
    lh.write_codebook(lh.Codebook("Which?", ["a", "b"]), tmp_path / "one.yaml")
    lh.write_codebook(lh.Codebook("Say which.", ["a", "b"]), tmp_path / "two.yaml")
    (tmp_path / "model.gguf").symlink_to(tiny_path("llama"))
    return "gold.csv"


def split(gold: str) -> int:
    shares = ["--explore", "0.2", "--select", "0.4", "--evaluate", "0.4"]
    return main(["codebooks", "split", gold, *shares, "--seed", "1"])


@pytest.mark.filterwarnings("always:evaluate was opened")
def test_from_a_sheet_to_an_evaluation(
    gold: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert split(gold) == 0
    assert capsys.readouterr().out == "explore\t12\nselect\t24\nevaluate\t24\n"
    books = ["-c", "one.yaml", "-c", "two.yaml", "-m", "model.gguf"]
    out = ["-o", "comparison.json", "--journal", "compare.journal"]
    assert main(["codebooks", "compare", gold, *books, *out]) == 0
    assert "2 candidates, 24 texts of select" in capsys.readouterr().out
    stored = (tmp_path / "comparison.json").read_text(encoding="utf-8")
    assert lh.types.CodebookComparison.from_json(stored).names == ("one", "two")
    best = ["codebooks", "best", "comparison.json", "--name", "two", "-o", "choice.json"]
    assert main(best) == 0
    assert "'two' of 2 candidates" in capsys.readouterr().out
    kept = (tmp_path / "choice.json").read_bytes()
    for path in ("choice.json", "comparison.json", "one.yaml"):  # another choice
        other = ["codebooks", "best", "comparison.json", "--name", "one", "-o", path]
        assert main(other) == 2
        assert f"{path}' already exists" in capsys.readouterr().err
    assert (tmp_path / "choice.json").read_bytes() == kept
    assert main([*best[:-1], "new.json"]) == main([*other[:-1], "new.json"]) - 2 == 0
    assert main([*other[:-1], "new.json", "--overwrite"]) == 0
    capsys.readouterr()
    evaluate = ["codebooks", "evaluate", "choice.json", gold, "-m", "model.gguf"]
    assert main(evaluate) == 0
    said = capsys.readouterr()
    assert "evaluate was opened for the first time" in said.out
    assert "<Validation> 24 of 24 texts" in said.out
    assert main(evaluate) == 0
    assert "opened before for this same choice" in capsys.readouterr().err
    design = lh.read_gold(gold).design["split"]
    assert [each["name"] for each in design["opened"]] == ["two", "two"]


def test_what_is_wrong(
    gold: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = ["-c", "one.yaml", "-m", "model.gguf"]
    assert main(["codebooks", "compare", gold, *one]) == 2
    assert "has no split" in capsys.readouterr().err
    assert split(gold) == 0
    assert split(gold) == 2
    assert "split already" in capsys.readouterr().err
    assert main(["codebooks", "compare", gold, *one, "-c", "./one.yaml"]) == 2
    assert "two files of the name" in capsys.readouterr().err
    assert main(["codebooks", "compare", gold, "-m", "model.gguf"]) == 2
    assert main(["codebooks", "best", "nothing.json"]) == 2
    (tmp_path / "choice.json").write_text(json.dumps({"name": "x"}), encoding="utf-8")
    evaluate = ["codebooks", "evaluate", "choice.json", gold, "-m", "model.gguf"]
    assert main(evaluate) == 2
    assert "is not a stored choice" in capsys.readouterr().err


def test_ready_codebooks_are_listed_and_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["codebooks", "ready"]) == 0
    assert capsys.readouterr().out.startswith("sentiment\t")
    assert main(["codebooks", "ready", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == [r.name for r in lh.list_ready_codebooks()]
    path = tmp_path / "mine.yaml"
    given = ["stance", "--target", "taxes", "-o", str(path)]
    assert main(["codebooks", "ready", *given]) == 0
    assert lh.read_codebook(path) == lh.ready_codebook("stance", "taxes")
    assert main(["codebooks", "ready", "nothing"]) == 2
    assert main(["codebooks", "ready", "stance"]) == 2
    assert main(["codebooks", "ready", "--target", "taxes"]) == 2


def test_texts_are_coded_by_a_ready_codebook(gold: str) -> None:
    del gold
    lines = ["text", *(f"Text {i}" for i in range(3))]
    with open("texts.csv", "w", encoding="utf-8") as file:  # noqa: PTH123 - in the folder
        file.write("\n".join(lines) + "\n")
    options = ["-m", "model.gguf", "-o", "coded.csv"]
    for name in ("ready:sentiment", "ready:stance:taxes"):
        given = ["annotate", "texts.csv", "--codebook", name, *options]
        assert main([*given, "--overwrite"]) == 0
    with open("coded.csv", encoding="utf-8") as file:  # noqa: PTH123
        assert "p_favour" in file.readline()
    assert main(["annotate", "texts.csv", "--codebook", "ready:no", *options]) == 2
