"""Tests of passages and quotes in reports and plots."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.coding.codes.span_files import Unit
from llamaherd.coding.plots.counts import Passage, passage_counts, passages_of
from llamaherd.coding.plots.plot import plot_of
from llamaherd.coding.reports.page import pieces_of
from plotted import notes, values

if TYPE_CHECKING:
    from pathlib import Path

QUOTE = lh.structured.type_quote(least=1, most=3)
EVIL = '<script>alert("x")</script> & Ann\u2019s "Rome"'
TEXTS = [EVIL, "Peter sang in Paris.", None]
SPANS = [
    [
        {"start": 0, "end": 8, "label": "<b>bold"},
        {"start": 4, "end": 33, "label": "place"},
    ],
    [
        {"start": 0, "end": 5, "label": "actor"},
        {"start": 14, "end": 19, "label": "place"},
    ],
]


@pytest.fixture(scope="module")
def coded(context: lh.Context) -> lh.Coded:
    book = lh.Codebook("Mark.", ["actor", "place"], type="spans", quote=QUOTE)
    answers = lh.annotate({"text": TEXTS}, "text", book, context, max_tokens=200)
    labels = [json.dumps({"spans": spans}) for spans in SPANS]
    return replace(answers, labels=[*labels, None], errors=[None] * 3)


def marked(page: str) -> list[str]:
    """Return the marked paragraphs of a page as a reader sees them."""
    paragraphs = re.findall(r'<p class="marked".*?</p>', page, re.DOTALL)
    return [unescape(re.sub(r"<[^<>]*>", "", paragraph)) for paragraph in paragraphs]


def test_a_text_is_cut_at_overlapping_passages() -> None:
    passages = [Passage(1, 4, "x"), Passage(3, 9, "y"), Passage(2, 2, "z")]
    pieces = pieces_of("abcdef", passages, ["x", "y"])
    assert [(piece.text, piece.labels) for piece in pieces] == [
        ("a", ""),
        ("bc", "x"),
        ("d", "x, y"),
        ("ef", "y"),
    ]
    assert [piece.starts for piece in pieces] == ["", "x", "y", ""]
    whole = pieces_of(EVIL, [Passage(-3, 99, "a")], [])
    assert "".join(piece.text for piece in whole) == EVIL
    assert pieces_of("", [Passage(0, 1, "a")], []) == []
    assert passages_of(None) == []


def test_passages_are_counted() -> None:
    labels = [json.dumps({"spans": spans}) for spans in SPANS]
    counts = passage_counts([*labels, None], ["actor", "place", "none"])
    assert [tuple(spans.values()) for spans in counts] == [
        ("actor", 1, 1, 0.5, 5.0),
        ("place", 2, 2, 1.0, 17.0),
        ("none", 0, 0, 0.0, None),
        ("<b>bold", 1, 1, 0.5, 8.0),
    ]
    (nothing,) = passage_counts([None], ["actor"])
    assert nothing["share"] is None


def test_a_report_highlights_passages_and_escapes_all(
    coded: lh.Coded, tmp_path: Path
) -> None:
    page = lh.report(coded, tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<b>bold" not in page
    first, second = marked(page)
    assert first.replace("<b>bold", "", 1).replace("place", "", 1) == f"1 {EVIL}"
    assert second == "2 actorPeter sang in placeParis."
    assert 'title="<b' not in page
    assert "Passages in 2 texts" in page
    words = " ".join(re.sub("<[^<>]*>", " ", page).split())
    assert "place 2 2 100.0% 17" in words


def test_a_document_has_the_passages_in_bold(coded: lh.Coded, tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    document = docx.Document(str(lh.report(coded, tmp_path / "a.docx")))
    (line,) = [p for p in document.paragraphs if p.text.startswith("2 actorPeter sang")]
    assert [run.text for run in line.runs if run.bold] == [
        "actor",
        "Peter",
        "place",
        "Paris",
    ]


def test_a_report_without_texts_has_no_passages(coded: lh.Coded, tmp_path: Path) -> None:
    page = lh.report(coded, tmp_path / "b.html", texts=False).read_text(encoding="utf-8")
    assert 'class="marked"' not in page
    assert "Peter" not in page


def test_passages_are_plotted(coded: lh.Coded) -> None:
    axes = lh.plot(coded)
    names = {label.get_text() for label in axes.get_yticklabels()}
    assert {"actor", "place"} <= names
    assert notes(plot_of(coded))["place"] == "2 (100%; 17)"


def spans_of(coder: str, *texts: list[list[object]]) -> lh.types.SpanCodes:
    """Return passages of one coder in texts of 30 characters: start, end and label."""
    codes = {
        f"{i:030d}": tuple(Unit(*unit) for unit in units) for i, units in enumerate(texts)
    }
    return lh.types.SpanCodes({coder: codes}, {text: text for text in codes})


def test_validations_of_passages_are_plotted() -> None:
    model = spans_of("model", [[0, 5, "a"], [9, 12, "b"]], [[3, 9, "a"]])
    anna = spans_of("anna", [[0, 5, "a"], [9, 14, "b"]], [])
    validation = lh.validate_spans(model, anna)
    plot = plot_of(validation)
    assert plot.series.names == ["model and anna", "model and people"]
    value = {row: number for (row, _), (number, _, _) in values(plot).items()}
    assert value["exact precision"] == pytest.approx(1 / 3)
    assert value["overlap recall"] == 1
    assert {"exact F1", "unitizing alpha"} <= set(value)
    labels = plot_of(validation, "labels")
    assert labels.y.names == ["a", "b"]
    assert labels.series.names == ["exact F1", "overlap F1", "unitizing alpha"]
    exact = [values(labels)[label, "exact F1"][0] for label in ("a", "b")]
    assert exact == pytest.approx([2 / 3, 0])
    assert "95% interval" in lh.plot(validation, kind="labels").get_xlabel()
    ben = lh.types.SpanCodes({**anna.coders, "ben": model.coders["model"]}, anna.ids)
    two = plot_of(lh.validate_spans(model, ben), "labels")
    assert two.series.names[:2] == ["exact F1, model and anna", "exact F1, model and ben"]
    single = spans_of("model", [[0, 5, "a"]])
    with pytest.raises(ValueError, match="same label"):
        plot_of(lh.validate_spans(single, single), "labels")
    with pytest.raises(ValueError, match="kind"):
        plot_of(validation, "confusion")


def test_quotes_of_labels_are_highlighted(context: lh.Context, tmp_path: Path) -> None:
    book = lh.Codebook("Which?", ["sport", "art"])
    data = {"text": ["Peter <i>sang</i> in Paris.", "They won & won."]}
    coded = lh.annotate(data, "text", book, context, evidence=True)
    page = lh.report(coded, tmp_path / "c.html").read_text(encoding="utf-8")
    assert "<i>sang" not in page
    quotes = [quote for quote in coded.frame["quote"] if quote]
    assert quotes
    assert len(marked(page)) == len(quotes)
    marks = re.findall(r"<mark class=\"label\d.*?</small>(.*?)</mark>", page)
    assert [unescape(quote) for quote in marks] == quotes


def test_fields_named_like_quotes_are_no_quotes(
    context: lh.Context, tmp_path: Path
) -> None:
    word = {"type": "string", "maxLength": 3}
    names = ("quote", "start", "end")
    schema = {
        "type": "object",
        "properties": dict.fromkeys(names, word),
        "required": list(names),
    }
    book = lh.Codebook("When?", type="fields", schema=schema)
    coded = lh.annotate({"text": ["He sang."]}, "text", book, context, max_tokens=99)
    assert coded.errors == [None]
    page = lh.report(coded, tmp_path / "d.html").read_text(encoding="utf-8")
    assert marked(page) == []
