"""`llamaherd codebooks`, `pairs` and `report`: from tables to results, with files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.coding.selection import evaluation
from llamaherd.tables.whole import read_coded

if TYPE_CHECKING:
    from commands import Commands


DATA = {"text": [f"Text {i} says {'this' if i % 3 else 'that'}" for i in range(80)]}
COMPARE = "codebooks compare gold.csv -m MODEL"
EVALUATE = "codebooks evaluate choice.json gold.csv -m MODEL"
SPLIT = "codebooks split gold.csv --explore 0.2 --select 0.4 --evaluate 0.4 --seed 1"


@pytest.fixture
def gold(cli: Commands, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Create gold.csv and two codebooks."""
    monkeypatch.setattr(evaluation, "_OPENED", {})
    sample = lh.gold_sample(DATA, 60, text="text", names=["a", "b"], seed=1)
    sample.with_codes(["a" if row % 3 else "b" for row in sample.rows]).write("gold.csv")
    lh.write_codebook(lh.Codebook("Which?", ["a", "b"]), "one.yaml")
    lh.write_codebook(lh.Codebook("Say which.", ["a", "b"]), "two.yaml")
    return cli


@pytest.mark.filterwarnings("always:evaluate was opened")
def test_from_a_sheet_to_an_evaluation(gold: Commands) -> None:
    assert gold(SPLIT).out == "explore\t12\nselect\t24\nevaluate\t24\n"
    out = "-o comparison.json --journal compare.journal"
    summary = "2 candidates, 24 texts of select"
    gold(f"{COMPARE} -c one.yaml -c two.yaml {out}", out=summary)
    stored = Path("comparison.json").read_text(encoding="utf-8")
    assert lh.types.CodebookComparison.from_json(stored).names == ("one", "two")
    best, other = (
        f"codebooks best comparison.json --name {name} -o" for name in ("two", "one")
    )
    gold(best, "choice.json", out="'two' of 2 candidates")
    kept = Path("choice.json").read_bytes()
    for path in ("choice.json", "comparison.json", "one.yaml"):  # another choice
        gold(other, path, status=2, err=f"{path}' already exists")
    assert Path("choice.json").read_bytes() == kept
    gold(best, "new.json")
    gold(other, "new.json", status=2)
    gold(other, "new.json", "--overwrite")
    printed = gold(EVALUATE, out="evaluate was opened for the first time")
    assert "<Validation> 24 of 24 texts" in printed.out
    gold(EVALUATE, err="opened before for this same choice")
    design = lh.read_gold("gold.csv").design["split"]
    assert [entry["name"] for entry in design["opened"]] == ["two", "two"]


def test_what_is_wrong(gold: Commands) -> None:
    one = f"{COMPARE} -c one.yaml"
    gold(one, status=2, err="has no split")
    gold(SPLIT)
    gold(SPLIT, status=2, err="split already")
    gold(f"{one} -c ./one.yaml", status=2, err="two files of the name")
    gold(COMPARE, status=2)
    gold("codebooks best nothing.json", status=2)
    Path("choice.json").write_text(json.dumps({"name": "x"}), encoding="utf-8")
    gold(EVALUATE, status=2, err="is not a stored choice")


def test_ready_codebooks_are_listed_and_stored(cli: Commands) -> None:
    assert cli("codebooks ready").out.startswith("sentiment\t")
    rows = json.loads(cli("codebooks ready --json").out)
    assert [row["name"] for row in rows] == [r.name for r in lh.list_ready_codebooks()]
    cli("codebooks ready stance --target taxes -o mine.yaml")
    assert lh.read_codebook("mine.yaml") == lh.ready_codebook("stance", "taxes")
    for wrong in ("nothing", "stance", "--target taxes"):
        cli(f"codebooks ready {wrong}", status=2)


def test_texts_are_coded_by_a_ready_codebook(cli: Commands) -> None:
    Path("texts.csv").write_text("text\nText 0\nText 1\nText 2\n")
    annotate = "annotate texts.csv -m MODEL -o coded.csv --overwrite --codebook"
    for name in ("ready:sentiment", "ready:stance:taxes"):
        cli(annotate, name)
    assert "p_favour" in Path("coded.csv").read_text("utf-8").splitlines()[0]
    cli(annotate, "ready:no", status=2)


ROWS = [
    "id,text,known,known_by",  # the last column has words
    "a,It rains.,1,Ann",
    "b,I hate it!,5,Ann",
    'c,"Fine, {first}.",2,Bob',
    "d,Oh,,Bob",
]
ASKED = "pairs texts.csv --question 'Which is angrier?' -m MODEL"


def read(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.filterwarnings("ignore:the model favours", "ignore:.*texts won")
def test_strengths_and_pairs_are_written(cli: Commands) -> None:
    Path("texts.csv").write_text("\n".join(ROWS) + "\n", encoding="utf-8")
    Path("people.csv").write_text("first,second,winner\na,b,b\nc,d,\n", encoding="utf-8")
    out = f"{ASKED} -o out.csv --pairs-out pairs.jsonl --id id"
    out += " --known known --people people.csv --journal j"
    stderr = cli(out).err
    rows = read("out.csv")
    assert [row["id"] for row in rows] == ["a", "b", "c", "d"]
    assert sum(float(row["strength"]) for row in rows) == pytest.approx(0, abs=1e-6)
    assert sorted(row["rank"] for row in rows) == ["1", "2", "3", "4"]
    assert len(Path("pairs.jsonl").read_text(encoding="utf-8").splitlines()) == 6
    assert "4 texts, 6 pairs" in stderr
    assert "Spearman's correlation with known scores" in stderr
    assert "1 pair without a winner is left out" in stderr
    cli(out, status=2, err="already exists")
    cli(out, "--overwrite")
    assert read("out.csv") == rows
    # Without ids, rows are numbered.
    layout = "{question} {a}={first} {b}={second}. Answer:"
    Path("layout.txt").write_text(layout, encoding="utf-8")
    more = "--n-pairs 4 --layout layout.txt --labels x y"
    numbered = cli(f"{ASKED} {more}", err="4 texts, 4 pairs").out
    assert numbered.startswith("row,text,strength,std_error")
    Path("texts.csv").write_text("id,text\na,One.\na,Two.\n", encoding="utf-8")
    equal = "id[1] must have a different value"
    cli(f"{ASKED} --id id", status=2, err=equal)


TEXTS = ["The answer", "yes or no", "an answer", "", "no answer", "the answer, yes"]
BOOKS = {
    "one": "question: Is it?\nlabels: ['yes', 'no']\n",
    "several": "question: Which?\nlabels: ['yes', 'no']\ntype: multiple\n",
    "ordinal": "question: How?\nlabels: ['low', 'high']\ntype: ordinal\n",
    "fields": "question: Count.\nschema: {type: object, properties: "
    "{n: {type: integer}}}\ntype: fields\n",
}


@pytest.fixture
def coding(cli: Commands) -> Commands:
    """Create in.csv and a codebook of each kind."""
    rows = [f'{i},"{text}"\n' for i, text in enumerate(TEXTS)]
    Path("in.csv").write_text("id,text\n" + "".join(rows))
    for name, content in BOOKS.items():
        Path(f"{name}.yaml").write_text(content)
    return cli


def annotate(coding: Commands, out: str, *more: str, kind: str = "one") -> None:
    """Code the texts; the empty one is an error."""
    run = f"annotate in.csv --codebook {kind}.yaml -m MODEL --n-threads 1 -q -o"
    coding(run, out, *more, status=3)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["one", "several", "ordinal"])
@pytest.mark.parametrize("out", ["out.csv", "out.jsonl.gz", "out.parquet"])
def test_an_output_is_read_as_the_result_of_annotate(
    coding: Commands, kind: str, out: str
) -> None:
    annotate(coding, out, "--prefix", "m_", kind=kind)
    coded = read_coded(out)
    texts = [text or None for text in TEXTS]
    (path,) = coding.words("MODEL")
    with lh.Model(path) as model, lh.Context(model, n_threads=1) as context:
        book = lh.read_codebook(f"{kind}.yaml")
        expected = lh.annotate({"text": texts}, "text", book, context)
    assert coded.labels == expected.labels
    assert coded.names == expected.names
    assert coded.probs is not None
    assert expected.probs is not None
    np.testing.assert_allclose(coded.probs, expected.probs, atol=1e-3)
    assert [error is None for error in coded.errors] == [bool(text) for text in TEXTS]
    for part in ("codebook", "settings", "model", "prompts", "n_texts", "texts_sha256"):
        assert coded.run[part] == expected.run[part]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_report_compares_labels_with_codes(coding: Commands) -> None:
    annotate(coding, "coded.csv")
    coding("gold sample coded.csv -n 4 --seed 1 -o gold.csv")
    sheet = Path("gold.csv").read_text(encoding="utf-8-sig").splitlines()
    coded = [line[: -len('""')] + '"yes"' for line in sheet[1:]]
    Path("gold.csv").write_text("\n".join([sheet[0], *coded]) + "\n")
    coding("report coded.csv --gold gold.csv --title Ours")
    page = Path("report.html").read_text()
    assert "Ours" in page
    assert "The answer" in page
    coding("report coded.csv", status=2)  # the report exists
    coding("report coded.csv -o r.json --no-texts")
    contents = Path("r.json").read_text()
    assert "The answer" not in contents
    assert json.loads(contents)["run"]["model"]["sha256"]
    annotate(coding, "joined.csv", "--prompt", "{id}: {text}")
    coding("report joined.csv -o joined.html")
    assert "0: The answer" in Path("joined.html").read_text()
    coding("report joined.csv --gold gold.csv -o other.html", status=2)
    # Other tables than outputs of annotate are refused.
    Path("coded.csv").write_text(Path("coded.csv").read_text().replace("yes", "no"))
    coding("report coded.csv -o new.html", status=2, err="was edited")
    coding("report in.csv -o new.html", status=2)
    annotate(coding, "fields.csv", kind="fields")
    coding("report fields.csv -o new.html", status=2, err="of the type 'fields'")
