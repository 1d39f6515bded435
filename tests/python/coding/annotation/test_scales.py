"""Tests of scales of numbers: content, prompts, and coding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from llamaherd.coding import frames
from llamaherd.coding.annotation.codebook_file import codebook_of_yaml, codebook_yaml
from llamaherd.coding.annotation.prompts import frame_of
from llamaherd.coding.selection.variants import variants_of

ANGER = lh.Codebook(
    "How angry is the text?",
    lh.number_scale(0, 10, names=["not at all", "extremely"]),
    examples=[("A goal.", 0), ("I hate it!", "10")],
)
TEXTS = ["The team won.", None, "Profits fell.", "The team won.", " ", "?"]
DATA = {"text": TEXTS}
THERE = [0, 2, 3, 5]


@pytest.mark.parametrize(
    ("scale", "values"),
    [
        ((0, 3), (0, 1, 2, 3)),
        ((-1, 1, 0.5), (-1, -0.5, 0, 0.5, 1)),
        ((0, 0.3, 0.1), (0, 0.1, 0.2, 0.3)),
        ((np.float32(0.1), np.int64(1), 0.3), (0.1, 0.4, 0.7, 1)),
        ((-20, -10, 5), (-20, -15, -10)),
        ((0, 1000), tuple(range(1001))),
    ],
)
def test_numbers_are_exact(scale: tuple[Any, ...], values: tuple[float, ...]) -> None:
    labels = lh.number_scale(*scale)
    assert labels.numbers == values
    assert list(labels.definitions) == [str(value) for value in values]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, 3), ValueError, "high must be above the lowest number, 3, not 3"),
        ((3, 0), ValueError, "high must be above"),
        ((0, 10, 3), ValueError, "step must divide the range from 0 to 10"),
        ((0, 10, 0), ValueError, "step must be above 0"),
        ((0, 10, -1), ValueError, "step must be above 0"),
        ((0, 10_000), ValueError, "step must give at most 1,001 numbers"),
        ((True, 10), TypeError, "low must be a finite number"),
        ((0, float("nan")), TypeError, "high must be a finite number"),
        ((0, float("inf")), TypeError, "high must be a finite number"),
        ((0, "ten"), TypeError, "high must be a finite number .* not 'ten'"),
        ((0, None), TypeError, "high must be a finite number"),
        ((0, 2, 1, ["low"]), TypeError, "names must map numbers to names"),
        ((0, 2, 1, "ab"), TypeError, "names must map numbers to names"),
        ((0, 2, 1, {3: "x"}), ValueError, "names has 3 .int., which is not a number"),
        ((0, 2, 1, {1: 2}), TypeError, "names"),
        ((0, 2, 1, {1: "a\nb"}), ValueError, "one line"),
    ],
)
def test_a_wrong_scale_names_its_argument(
    arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lh.number_scale(*arguments)


def test_a_codebook_knows_its_numbers() -> None:
    assert ANGER.type == "scale"
    assert ANGER.numbers == tuple(range(11))
    assert ANGER.definitions["0"] == "not at all"
    assert [example.label for example in ANGER.examples] == ["0", "10"]
    assert "Scale from 0 to 10 in steps of 1" in str(ANGER)
    likert = lh.Codebook("Q?", ["1", "2", "5"], type="ordinal")
    assert likert.numbers == (1, 2, 5)
    assert lh.Codebook("Q?", ["1", "2"]).numbers is None  # the labels are not ordered
    assert lh.Codebook("Q?", ["1", "01"], type="ordinal").numbers is None
    assert lh.Codebook("Q?", ["1", "1.0"], type="ordinal").numbers is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"type": "scale"}, "needs a scale"),
        ({"labels": ["a", "b"], "scale": {"from": 0, "to": 1}}, "goes with type='scale'"),
        (
            {"type": "scale", "labels": ["a"], "scale": {"from": 0, "to": 1}},
            "labels cannot be combined with type='scale'",
        ),
        ({"type": "scale", "scale": {"from": 0}}, "to.* is missing"),
        (
            {"type": "scale", "scale": {"from": 0, "to": 1, "by": 1}},
            "by.* is not a field",
        ),
        ({"type": "scale", "scale": 3}, "scale must map .* as number_scale"),
        ({"labels": lh.number_scale(0, 2), "type": "ordinal"}, "goes with type='scale'"),
    ],
)
def test_a_wrong_codebook_says_why(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        lh.Codebook("Q?", **arguments)


def test_an_example_has_a_number_of_the_scale() -> None:
    with pytest.raises(ValueError, match=r"examples\[0\].label.* must be one of"):
        lh.Codebook("Q?", lh.number_scale(0, 3), examples=[("A", 4)])


def test_a_file_keeps_the_scale() -> None:
    text = codebook_yaml(ANGER)
    assert "scale:\n  from: 0\n  to: 10\n  step: 1\n" in text
    assert "labels:" not in text
    assert codebook_of_yaml(text) == ANGER
    assert codebook_of_yaml(text).hash == ANGER.hash
    short = "question: Q?\ntype: scale\nscale:\n  from: -1\n  to: 1\n  step: 0.5\n"
    assert codebook_of_yaml(short).numbers == (-1, -0.5, 0, 0.5, 1)
    with pytest.raises(ValueError, match=r"line 5: .*to.* must be above the lowest"):
        codebook_of_yaml("question: Q?\ntype: scale\nscale:\n  from: 2\n  to: 1\n")


def test_the_prompt_lists_named_numbers_alone() -> None:
    frame = frame_of(ANGER)
    assert frame.before == (
        "How angry is the text?\n\n"
        "Numbers:\n- 0: not at all\n- 10: extremely\n\n"
        "Answer with exactly one number from 0 to 10, in steps of 1.\n\n"
        "Text: A goal.\nNumber: 0\n\nText: I hate it!\nNumber: 10\n\nText: "
    )
    assert frame.after == ("\nNumber:",)
    plain = lh.Codebook("Wie?", lh.number_scale(-1, 1, 0.5), language="de")
    assert "Zahl von -1 bis 1, in Schritten von 0.5." in frame_of(plain).before
    assert "Zahlen:" not in frame_of(plain).before


def test_other_languages_need_the_words_of_a_scale() -> None:
    words = {key: key for key in lh.Codebook("Q", ["a", "b"]).fixed if "numb" not in key}
    assert lh.Codebook("Q", ["a", "b"], language="it", words=words)
    with pytest.raises(ValueError, match="unless words contains 'number', 'numbers'"):
        lh.Codebook("Q", lh.number_scale(0, 1), language="it", words=words)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_each_text_gets_its_expected_value(context: lh.Context, make: Any) -> None:
    coded = lh.annotate(make(DATA), "text", ANGER, context)
    assert frames.names(coded.frame) == [
        *("text", "label", "mean", "sd", "prob", "margin", "entropy", "coverage"),
        "error",
    ]
    prompts = frame_of(ANGER).prompts([str(TEXTS[i]) for i in THERE])
    labelled = lh.classify_parallel(context, prompts, ANGER.names)
    values = np.arange(11.0)
    mean = labelled.probs @ values
    sd = np.sqrt(labelled.probs @ values**2 - mean**2)
    column = {name: frames.column(coded.frame, name, name) for name in coded.columns}
    for role, expected in (("mean", mean), ("sd", sd), ("prob", labelled.prob)):
        numbers = [column[role][i] for i in THERE]
        np.testing.assert_allclose(numbers, expected, atol=1e-5)
    assert [column["label"][i] for i in THERE] == [int(str(x)) for x in labelled.labels]
    assert all(type(column["label"][i]) is int for i in THERE)
    assert column["label"][1] is column["mean"][1] is column["sd"][4] is None
    assert coded.errors[4] is not None
    assert coded.labels[0] == str(column["label"][0])
    assert coded.probs is not None
    assert coded.probs.shape == (6, 11)


def test_the_whole_distribution_on_request(context: lh.Context) -> None:
    half = lh.Codebook("Pro or contra?", lh.number_scale(-1, 1, 0.5))
    coded = lh.annotate(pd.DataFrame(DATA), "text", half, context, distribution=True)
    names = ["p_-1", "p_-0.5", "p_0", "p_0.5", "p_1"]
    assert list(coded.frame.columns)[-6:] == [*names, "error"]
    np.testing.assert_allclose(coded.frame[names].to_numpy(), coded.probs)
    np.testing.assert_allclose(coded.frame[names].iloc[THERE].sum(axis=1), 1, atol=1e-6)
    assert coded.frame["label"].dtype == np.float64
    assert set(coded.frame["label"].dropna()) <= {-1, -0.5, 0, 0.5, 1}


def test_a_number_that_begins_another_ends_where_it_does(context: lh.Context) -> None:
    """The probability of 1 is the probability of "1" minus the probability of "10"."""
    book = lh.Codebook("How many?", lh.number_scale(1, 10, 9))
    prompt = frame_of(book).prompts(["Ten."])[0]
    coded = lh.annotate({"text": ["Ten."]}, "text", book, context)
    scores = lh.score_parallel(context, [prompt], [[" 1", " 10"]])
    first, second = scores.continuations[0] or []
    # 10 is written digit by digit
    assert second.tokens[: len(first.tokens)] == first.tokens
    one, ten = (np.exp(answer.token_logprobs.sum()) for answer in (first, second))
    assert coded.probs is not None
    assert coded.probs[0, 1] == pytest.approx(ten / one, rel=1e-4)


def test_ordinal_labels_that_are_numbers_stay_numbers(context: lh.Context) -> None:
    likert = lh.Codebook("Agrees?", ["1", "2", "3", "5"], type="ordinal")
    table = lh.annotate(pd.DataFrame(DATA), "text", likert, context).frame
    assert str(table["label"].dtype) == "Int64"
    means = table["p_1"] + 2 * table["p_2"] + 3 * table["p_3"] + 5 * table["p_5"]
    np.testing.assert_allclose(table["mean"].astype(float), means.astype(float))


def test_after_a_thought_too(context: lh.Context) -> None:
    coded = lh.annotate(
        DATA,
        "text",
        ANGER,
        context,
        chat=True,
        template="{% for m in messages %}{{ m.content }}{% endfor %}<think>",
        thinking=lh.Thinking(budget=4, start="<think>", end="</think>"),
        n_thoughts=2,
    )
    assert list(coded.columns)[-5:] == [
        "between",
        "thinking",
        "n_thinking_tokens",
        "thinking_complete",
        "error",
    ]
    means = coded.frame["mean"]
    np.testing.assert_allclose(means[0], coded.probs[0] @ np.arange(11.0))  # type: ignore[index]


def test_an_order_of_numbers_is_no_variant() -> None:
    with pytest.raises(ValueError, match="orders cannot be combined with an ordinal"):
        variants_of({"a": ANGER}, {"one": None}, orders=1)


def test_the_example_is_a_codebook() -> None:
    root = next(p for p in Path(__file__).resolve().parents if (p / "examples").is_dir())
    book = lh.read_codebook(root / "examples" / "data" / "anger.yaml")
    assert book.numbers == tuple(range(11))
    assert [example.label for example in book.examples] == ["0", "3", "9"]
