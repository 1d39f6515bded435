"""`llamaherd codebooks`, `pairs` and `report`: from tables to results, with files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pytest
import tiny_models
from llamaherd.cli import main
from llamaherd.coding.selection import evaluation
from llamaherd.tables.whole import read_coded

if TYPE_CHECKING:
    from collections.abc import Callable


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


ROWS = [
    "id,text,known,known_by",  # the last column has words
    "a,It rains.,1,Ann",
    "b,I hate it!,5,Ann",
    'c,"Fine, {first}.",2,Bob',
    "d,Oh,,Bob",
]
ASKED = ["pairs", "texts.csv", "--question", "Which is angrier?", "-m", "model.gguf"]


@pytest.fixture
def pairs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_path: Callable[[str], Path]
) -> None:
    """Create a working folder with texts.csv and model.gguf."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.gguf").symlink_to(tiny_path("llama"))
    Path("texts.csv").write_text("\n".join(ROWS) + "\n", encoding="utf-8")


def read(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.filterwarnings("ignore:the model favours", "ignore:.*texts won")
@pytest.mark.usefixtures("pairs_folder")
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


@pytest.mark.filterwarnings("ignore:the model favours", "ignore:.*texts won")
@pytest.mark.usefixtures("pairs_folder")
def test_rows_are_numbered_without_ids(capsys: pytest.CaptureFixture[str]) -> None:
    layout = "{question} {a}={first} {b}={second}. Answer:"
    Path("layout.txt").write_text(layout, encoding="utf-8")
    more = ["--n-pairs", "4", "--layout", "layout.txt", "--labels", "x", "y"]
    assert main([*ASKED, *more]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0].startswith("row,text,strength,std_error")
    assert "4 texts, 4 pairs" in said.err


@pytest.mark.filterwarnings("ignore:the model favours", "ignore:.*texts won")
@pytest.mark.usefixtures("pairs_folder")
def test_equal_ids_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("texts.csv").write_text("id,text\na,One.\na,Two.\n", encoding="utf-8")
    assert main([*ASKED, "--id", "id"]) == 2
    assert "id[1] must have a different value" in capsys.readouterr().err


TEXTS = ["The answer", "yes or no", "an answer", "", "no answer", "the answer, yes"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_models.write(tmp_path_factory.mktemp("model") / "tiny.gguf", "llama"))


@pytest.fixture
def _report_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f'{i},"{text}"\n' for i, text in enumerate(TEXTS)]
    Path("in.csv").write_text("id,text\n" + "".join(rows))
    Path("book.yaml").write_text("question: Is it?\nlabels: [yes, no]\n")


def _annotate(model: str, out: str, *more: str, book: str = "book.yaml") -> None:
    run = ["annotate", "in.csv", "--codebook", book, "-m", model, "--n-threads", "1"]
    assert main([*run, "-q", "-o", out, *more]) in {0, 3}  # an empty text is an error


BOOKS = {
    "one": "question: Is it?\nlabels: ['yes', 'no']\n",
    "several": "question: Which?\nlabels: ['yes', 'no']\ntype: multiple\n",
    "ordinal": "question: How?\nlabels: ['low', 'high']\ntype: ordinal\n",
    "numbers": "question: How many?\nscale: {from: 0, to: 3}\ntype: scale\n",
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("_report_folder")
@pytest.mark.parametrize("kind", ["one", "several", "ordinal"])
@pytest.mark.parametrize("out", ["out.csv", "out.jsonl.gz", "out.parquet"])
def test_an_output_is_read_as_the_result_of_annotate(
    model: str, kind: str, out: str
) -> None:
    Path("b.yaml").write_text(BOOKS[kind])
    _annotate(model, out, "--prefix", "m_", book="b.yaml")
    found = read_coded(out)
    texts = [text or None for text in TEXTS]
    with lh.Model(model) as opened, lh.Context(opened, n_threads=1) as context:
        book = lh.read_codebook("b.yaml")
        same = lh.annotate({"text": texts}, "text", book, context)
    assert found.labels == same.labels
    assert found.names == same.names
    assert found.probs is not None
    assert same.probs is not None
    np.testing.assert_allclose(found.probs, same.probs, atol=1e-3)
    assert [each is None for each in found.errors] == [bool(text) for text in TEXTS]
    for part in ("codebook", "settings", "model", "prompts"):
        assert found.run[part] == same.run[part]
    assert found.run["n_texts"] == same.run["n_texts"]
    assert found.run["texts_sha256"] == same.run["texts_sha256"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("_report_folder")
def test_a_report_compares_labels_with_codes(model: str) -> None:
    _annotate(model, "coded.csv")
    sample = ["gold", "sample", "coded.csv", "-n", "4", "--seed", "1", "-o", "gold.csv"]
    assert main(sample) == 0
    sheet = Path("gold.csv").read_text(encoding="utf-8-sig").splitlines()
    coded = [line[: -len('""')] + '"yes"' for line in sheet[1:]]
    Path("gold.csv").write_text("\n".join([sheet[0], *coded]) + "\n")
    assert main(["report", "coded.csv", "--gold", "gold.csv", "--title", "Ours"]) == 0
    page = Path("report.html").read_text()
    assert "Ours" in page
    assert "The answer" in page
    assert main(["report", "coded.csv"]) == 2  # the report exists
    assert main(["report", "coded.csv", "-o", "r.json", "--no-texts"]) == 0
    contents = json.loads(Path("r.json").read_text())
    assert "The answer" not in Path("r.json").read_text()
    assert contents["run"]["model"]["sha256"]
    _annotate(model, "joined.csv", "--prompt", "{id}: {text}")
    assert main(["report", "joined.csv", "-o", "joined.html"]) == 0
    assert "0: The answer" in Path("joined.html").read_text()
    joined = ["report", "joined.csv", "--gold", "gold.csv", "-o", "other.html"]
    assert main(joined) == 2


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("_report_folder")
def test_other_tables_are_refused(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    _annotate(model, "coded.csv")
    content = Path("coded.csv").read_text()
    Path("coded.csv").write_text(content.replace("yes", "no"))
    assert main(["report", "coded.csv"]) == 2
    assert "was edited" in capsys.readouterr().err
    assert main(["report", "in.csv"]) == 2
    Path("b.yaml").write_text(
        "question: Count.\nschema: {type: object, properties: "
        "{n: {type: integer}}}\ntype: fields\n"
    )
    _annotate(model, "fields.csv", book="b.yaml")
    assert main(["report", "fields.csv"]) == 2
    assert "fields" in capsys.readouterr().err
