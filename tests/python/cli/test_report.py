"""`llamaherd report` on outputs of `llamaherd annotate`."""

from __future__ import annotations

import json
from pathlib import Path

import llamaherd as lh
import numpy as np
import pytest
import tiny_models
from llamaherd.cli import main
from llamaherd.tables.whole import read_coded

TEXTS = ["The answer", "yes or no", "an answer", "", "no answer", "the answer, yes"]
# Labels of a random model are improbable, and few codes have wide intervals.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_models.write(tmp_path_factory.mktemp("model") / "tiny.gguf", "llama"))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
