"""What examples in the prompt cost or gain is measured and stated."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from classified import labelled
from llamaherd._r.functions import function_of
from llamaherd.coding.selection import examples, measures
from llamaherd.coding.selection.measures import (
    PairedDifference,
    effect_of_examples,
    n_more_examples,
)
from plain_forms import plain

if TYPE_CHECKING:
    from collections.abc import Callable

N = 90
DATA = {"text": [f"Text {i} of these." for i in range(N)]}
CODES = ["a" if i % 2 else "b" for i in range(N)]
BOOK = lh.Codebook("Which?", ["a", "b"])


@pytest.fixture(scope="module")
def gold() -> lh.GoldSample:
    sample = lh.gold_sample(DATA, N, text="text", names=["a", "b"], seed=1)
    sample = sample.with_codes([CODES[row] for row in sample.rows])
    return lh.gold_split(sample, 0.4, 0.3, 0.3, seed=2)


def right_with(
    monkeypatch: pytest.MonkeyPatch, share: Callable[[lh.Codebook], float]
) -> None:
    """Let a codebook give the right label for this share of the texts."""

    def annotated(
        data: dict[str, list[str]], text: str, book: lh.Codebook, *_: Any, **__: Any
    ) -> lh.Coded:
        n = len(data[text])
        truth = [CODES[DATA["text"].index(content)] for content in data[text]]
        wrong = {"a": "b", "b": "a"}
        labels = [t if i < share(book) * n else wrong[t] for i, t in enumerate(truth)]
        return labelled(labels, "ab")

    monkeypatch.setattr(examples, "annotate_quietly", annotated)


@pytest.mark.parametrize(
    ("shares", "pattern"),
    [
        ((1.0, 0.1), r"from 1.00 to 0.12 \(-0.88 \[.*: labels become worse. Try other"),
        ((0.5, 0.6), r"from 0.50 to 0.62 \(\+0.12 \[.*: this may be chance. Try other"),
        ((0.1, 1.0), ""),
    ],
)
def test_the_change_on_other_texts_is_measured(
    gold: lh.GoldSample,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    shares: tuple[float, float],  # of right labels without and with examples
    pattern: str,
) -> None:
    right_with(monkeypatch, lambda book: shares[bool(book.examples)])
    context: Any = object()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        book = lh.choose_examples(gold, 4, BOOK, context=context)
    assert book == lh.choose_examples(gold, 4, BOOK)
    start = "The 4 examples change the accuracy on 32 other texts of explore "
    if pattern:
        (warning,) = caught
        assert str(warning.message).startswith(start)
        assert warning.filename == __file__
        assert re.search(pattern, str(warning.message))
    else:
        assert not caught
        line = capsys.readouterr().err
        assert line.startswith(f"llamaherd: {start}")
        assert line.endswith(": labels become better\n")


def test_a_model_is_asked_with_the_settings(
    gold: lh.GoldSample, context: lh.Context
) -> None:
    with pytest.warns(UserWarning, match=r"The 2 examples change the accuracy on"):
        lh.choose_examples(gold, 2, BOOK, context=context, calibrate="batch")
    options: dict[str, Any] = {"by": "diverse", "coded": None, "embeddings": None}
    reply = function_of("choose_examples")(gold, 2, BOOK, **options, context=context)
    fields = plain(reply)
    assert fields["effect"].startswith("The 2 examples change the accuracy")
    assert fields["is_gain"] in {True, False}
    with pytest.raises(TypeError, match="calibrate is used only with a context"):
        lh.choose_examples(gold, 2, BOOK, calibrate="batch")


def test_no_other_texts_are_left(gold: lh.GoldSample) -> None:
    context: Any = object()
    with pytest.warns(UserWarning, match="is not measured: explore has no other"):
        lh.choose_examples(gold, 36, BOOK, context=context)


def test_a_comparison_states_the_effect_of_examples(
    gold: lh.GoldSample, context: lh.Context
) -> None:
    shots = lh.choose_examples(gold, 3, BOOK)
    tried = {"shots": shots, "plain": BOOK, "other": lh.Codebook("What?", ["a", "b"])}
    comparison = lh.compare_codebooks(DATA, tried, gold, context)
    (effect,) = comparison.effects
    value = {candidate.name: candidate.value.value for candidate in comparison.candidates}
    assert effect.startswith(
        "The 3 examples that 'shots' has and 'plain' lacks change the "
    )
    assert f"from {value['plain']:.2f} to {value['shots']:.2f} (" in effect
    assert effect[:40] in str(comparison)


def difference(value: float, half: float) -> PairedDifference:
    low, high = value - half, value + half
    return PairedDifference(
        first=1, second=0, value=value, low=low, high=high, differ=0.5
    )


@pytest.mark.parametrize(
    ("measure", "value", "half", "verdict"),
    [
        ("accuracy", 0.3, 0.1, "better"),
        ("accuracy", -0.3, 0.1, "worse"),
        ("accuracy", -0.3, 0.4, "uncertain"),
        ("mae", 0.3, 0.1, "worse"),  # an error that grows
        ("mae", -0.3, 0.1, "better"),
        ("kappa", 0.3, float("nan"), "uncertain"),
    ],
)
def test_the_verdict_follows_the_interval(
    measure: Any, value: float, half: float, verdict: str
) -> None:
    change = difference(value, half)
    assert change.verdict(measure) == verdict
    sentence = effect_of_examples(1, measure, (0.5, 0.5 + value), change)
    title = measures.TITLES[measure]
    assert sentence.startswith(f"The example changes the {title} from 0.50 to ")


def test_only_codebooks_that_differ_in_examples_are_compared() -> None:
    one, two = ({"text": "x", "label": "a"}, {"text": "y", "label": "b"})
    plain = {"question": "Which?", "labels": {"a": "", "b": ""}}
    assert n_more_examples({**plain, "examples": [one, two]}, plain) == 2
    assert n_more_examples(
        {**plain, "examples": [one, two]}, {**plain, "examples": [one]}
    )
    assert not n_more_examples({**plain, "examples": [one]}, {**plain, "examples": [two]})
    assert not n_more_examples(plain, {**plain, "examples": [one]})
    assert not n_more_examples(
        {**plain, "examples": [one]}, {**plain, "question": "Who?"}
    )
