"""R and Python return the same quotes, in R with the positions that substr() uses."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import rscript

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXTS = [
    'He said "no\\way",\r\nthen left.',
    (
        "Gr\u00fc\u00dfe \U0001f469\u200d\U0001f680 aus e\u0301t\u00e9 "
        "\u05d0\u05d1 \u6f22\u5b57"
    ),
    "One two one two three.",
]
FIELD = {
    "type": "object",
    "properties": {"why": lh.structured.type_quote(least=2, most=6)},
    "required": ["why"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def folder(
    tiny_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Folder with the quotes and the reports that R wrote."""
    folder = tmp_path_factory.mktemp("quotes")
    job = {"model": str(tiny_path("llama")), "texts": TEXTS}
    rscript.results("texts.R quotes", folder, job)
    return folder


@pytest.fixture(scope="module")
def quotes(folder: Path) -> dict[str, dict[str, list[Any]]]:
    found: dict[str, dict[str, list[Any]]] = json.loads(
        (folder / "out.json").read_text(encoding="utf-8")
    )
    return found


def marked(page: Path) -> list[str]:
    """Return the texts with highlighted passages of a report, as HTML."""
    return re.findall(r'<p class="marked".*?</p>', page.read_text("utf-8"), re.DOTALL)


def in_python(path: Path, folder: Path) -> dict[str, list[dict[str, Any]]]:
    data = {"text": TEXTS}
    with (
        lh.Model(path) as model,
        lh.Context(model, deterministic=True, n_threads=1) as context,
    ):
        answers = lh.generate_parallel(
            context, ["Quote: "] * 3, schema=FIELD, quote_from=TEXTS, max_tokens=150
        )
        topics = lh.Codebook("Which topic?", ["Sports", "Business"])
        coded = lh.annotate(data, "text", topics, context, evidence=True)
        labels = coded.frame
        lh.report(coded, folder / "evidence_of_python.html")
        book = lh.Codebook("Why?", type="fields", schema=FIELD)
        found = lh.annotate(data, "text", book, context, max_tokens=80).frame
        marks = lh.Codebook("Mark.", ["a", "b"], type="spans", max_spans=2)
        coded = lh.annotate(
            data, "text", marks, context, max_tokens=200, temperature=99.0
        )
        lh.report(coded, folder / "spans_of_python.html")
        spans = coded.spans()
    names = ("quote", "start", "end")
    return {
        "generate": [each["why"] for each in answers.parsed],  # type: ignore[index]
        "evidence": [
            dict(zip(names, row, strict=True))
            for row in zip(*(labels[name] for name in names), strict=True)
        ],
        "fields": found["why"],
        "spans": [
            {"text": TEXTS[row], **dict(zip(names, values, strict=True))}
            for row, *values in zip(
                spans["row"], *(spans[name] for name in names), strict=True
            )
        ],
    }


@pytest.mark.filterwarnings("ignore:median coverage")
@pytest.mark.filterwarnings("ignore:all texts")
@pytest.mark.slow(reason="starts R, and llguidance compiles a schema for each text")
def test_r_has_the_quotes_of_python(
    quotes: dict[str, dict[str, list[Any]]],
    folder: Path,
    tiny_path: Callable[[str], Path],
) -> None:
    for name, rows in in_python(tiny_path("llama"), folder).items():
        found = quotes[name]
        assert found["quote"] == [row["quote"] for row in rows], name
        assert found["start"] == [row["start"] + 1 for row in rows], name
        assert found["end"] == [row["end"] for row in rows], name
        assert found["cut"] == found["quote"], name
        assert rows, name
        for i, row in enumerate(rows):
            text = row.get("text") or TEXTS[i]
            assert text[row["start"] : row["end"]] == row["quote"]
    for name in ("evidence", "spans"):
        page = marked(folder / f"{name}.html")
        assert page == marked(folder / f"{name}_of_python.html")
        assert "<mark" in "".join(page)
    # After sorting, each row still has its own quotes.
    own, every = marked(folder / "rows.html"), marked(folder / "evidence.html")
    number = re.compile(r'<span class="row">.*?</span>')
    assert [number.sub("", text) for text in own] == [
        number.sub("", text) for text in (every[2], every[1])
    ]
