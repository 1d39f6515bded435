"""Tests of quotes that support labels, with a tiny random model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pandas as pd
import pytest
from llamaherd.coding import frames
from llamaherd.coding.annotation.model_step import BLOCK
from llamaherd.coding.annotation.texts import parts_of

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = lh.Codebook("Which topic?", ["Sports", "Business"])
TEXTS = [
    'The team "won" the cup \u2013 at last.',
    None,
    "",
    "Profits rose by ten percent.\r\nShares fell.",
    "The team \u201cwon\u201d \U0001f3c6\U0001f3c6\U0001f3c6",
    "Rain",
    'The team "won" the cup \u2013 at last.',
    "?",
]


def columns(coded: lh.Coded, *names: str) -> list[list[Any]]:
    return [frames.column(coded.frame, name, name) for name in names]


@pytest.mark.parametrize("evidence", [True, lh.structured.type_quote(least=1, most=2)])
@pytest.mark.parametrize("method", ["classify", "generate"])
def test_each_label_has_a_quote(context: lh.Context, evidence: Any, method: Any) -> None:
    data = {"text": TEXTS}
    without = lh.annotate(data, "text", TOPICS, context, method=method)
    coded = lh.annotate(data, "text", TOPICS, context, method=method, evidence=evidence)
    assert coded.labels == without.labels
    assert coded.errors == without.errors
    assert frames.names(coded.frame)[-4:] == ["quote", "start", "end", "error"]
    for text, label, quote, start, end in zip(
        TEXTS, coded.labels, *columns(coded, "quote", "start", "end"), strict=True
    ):
        if label is None:
            assert (quote, start, end) == (None, None, None)
        else:
            assert text is not None
            assert text[start:end] == quote == quote.strip() != ""
    quotes = columns(coded, "quote")[0]
    assert quotes[0] == quotes[6]  # equal texts have equal quotes
    assert coded.stats.n_prompts == 2 * without.stats.n_prompts
    lengths = {"unit": "words", "least": 3, "most": 40}
    if evidence is not True:
        lengths |= {"least": 1, "most": 2}
    assert coded.run["settings"]["evidence"] == lengths


def test_a_data_frame_with_missing_places(context: lh.Context) -> None:
    frame = pd.DataFrame({"text": ["The team won.", None]})
    coded = lh.annotate(frame, "text", TOPICS, context, evidence=True, columns="x_")
    table = coded.frame
    assert table["x_start"].tolist()[0] == 0
    assert table["x_start"].isna().tolist() == [False, True]
    assert table["x_quote"].tolist()[0] == "The team won"[: table["x_end"].tolist()[0]]


def test_the_label_is_calibrated_first(context: lh.Context) -> None:
    data = {"text": TEXTS}
    options: Any = {"calibrate": "batch", "evidence": True}
    coded = lh.annotate(data, "text", TOPICS, context, **options)
    plain = lh.annotate(data, "text", TOPICS, context, calibrate="batch")
    assert coded.labels == plain.labels
    assert all(
        columns(coded, "quote")[0][i] for i, label in enumerate(coded.labels) if label
    )


def test_the_quote_follows_the_label(context: lh.Context, tmp_path: Path) -> None:
    file = tmp_path / "j"
    lh.annotate({"text": TEXTS[:1]}, "text", TOPICS, context, evidence=True, journal=file)
    last = [entry.prompt for entry in lh.journal_read(file)][-1]
    label = lh.annotate({"text": TEXTS[:1]}, "text", TOPICS, context).labels[0]
    assert last.endswith(
        f"Text: {TEXTS[0]}\nLabel: {label}\nWords of the text that this label rests on:"
    )


def test_places_in_a_text_that_is_cut(context: lh.Context) -> None:
    text = "one two three four five six seven eight nine ten " * 20
    for split in ("first", "last"):
        coded = lh.annotate(
            {"text": [text]},
            "text",
            TOPICS,
            context,
            evidence=True,
            split=split,
            part_tokens=40,
        )
        quote, start, end = (
            column[0] for column in columns(coded, "quote", "start", "end")
        )
        assert text[start:end] == quote
        assert (start < len(text) / 2) == (split == "first")


@pytest.mark.parametrize("split", ["mean", "majority"])
def test_a_quote_is_from_the_part_that_supports_the_label_most(
    context: lh.Context, split: str
) -> None:
    """Before, quotes of labels of several parts were refused."""
    text = "The team won the cup. " * 12 + "Shares fell by ten percent. " * 12
    options: Any = {"split": split, "part_tokens": 60}
    coded = lh.annotate(
        {"text": [text, text]}, "text", TOPICS, context, evidence=True, **options
    )
    quote, start, end = (column[0] for column in columns(coded, "quote", "start", "end"))
    assert text[start:end] == quote
    parts = parts_of(context.model, text, 60)
    assert len(parts) > 2
    by_part = lh.annotate({"text": parts}, "text", TOPICS, context)
    assert by_part.probs is not None
    best = int(by_part.probs[:, TOPICS.names.index(coded.labels[0])].argmax())
    first = sum(map(len, parts[:best]))
    assert first <= start < end <= first + len(parts[best])


def test_no_quote_is_a_note(context: lh.Context) -> None:
    with pytest.warns(UserWarning, match="have no quote: the answer was cut off"):
        coded = lh.annotate(
            {"text": ["The team won the cup.", "Shares fell by ten percent."]},
            "text",
            TOPICS,
            context,
            evidence=True,
            max_tokens=1,
        )
    assert None not in coded.labels
    assert columns(coded, "quote", "start", "end", "error") == [[None] * 2] * 4


def test_fields_may_be_quotes(context: lh.Context) -> None:
    schema = {
        "type": "object",
        "properties": {"why": lh.structured.type_quote(least=2)},
        "required": ["why"],
        "additionalProperties": False,
    }
    book = lh.Codebook("Why?", type="fields", schema=schema)
    texts = ["The team won the cup.", "Shares fell."]
    coded = lh.annotate({"text": texts}, "text", book, context, max_tokens=99)
    for text, why in zip(texts, columns(coded, "why")[0], strict=True):
        assert text[why["start"] : why["end"]] == why["quote"]


def test_blocks_of_quotes(context: lh.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = lh.annotate({"text": TEXTS}, "text", TOPICS, context, evidence=True)
    assert len(TEXTS) < BLOCK
    monkeypatch.setattr("llamaherd.coding.annotation.model_step.BLOCK", 2)
    parts = lh.annotate({"text": TEXTS}, "text", TOPICS, context, evidence=True)
    assert columns(parts, "quote", "start") == columns(whole, "quote", "start")
