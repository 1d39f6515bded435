"""Calibration and coverage of labels."""

from __future__ import annotations

import math
import re
import warnings
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.calls.asks.calibration import coverage_cause, low_coverage, thought_opening
from llamaherd.calls.asks.options import ClassifyOptions
from llamaherd.coding.annotation.record import notes_of
from llamaherd.tasks.classify import Classify

if TYPE_CHECKING:
    from collections.abc import Iterator


NAN = math.nan


def results(probs: list[list[float]]) -> lh.types.ClassifyResults:
    values = np.array(probs)
    return lh.types.ClassifyResults(
        names=("yes", "no"),
        probs=values,
        logprobs=np.log(values / 2),
        normalize="sum",
        errors=[None] * len(probs),
        finish_reasons=["stop"] * len(probs),
        stats=lh.Stats(),
    )


def test_contextual_by_hand() -> None:
    # Without content: the mean of (0.7, 0.3) and (0.9, 0.1), (0.8, 0.2). A text at
    # (0.75, 0.25): 0.75 / 0.8 = 0.9375 and 0.25 / 0.2 = 1.25, of 2.1875 in all.
    calibration = lh.calibrate_contextual(results([[0.7, 0.3], [0.9, 0.1]]))
    assert calibration.prior == pytest.approx((0.8, 0.2))
    assert (calibration.method, calibration.n) == ("contextual", 2)
    calibrated = results([[0.75, 0.25]]).calibrated(calibration)
    assert calibrated.probs == pytest.approx(np.array([[3 / 7, 4 / 7]]))
    assert calibrated.labels == ["no"]
    assert calibrated.calibration is calibration
    assert calibrated.logprobs == pytest.approx(np.log([[0.375, 0.125]]))


def test_batch_by_hand() -> None:
    # The mean of (0.9, 0.1), (0.6, 0.4), (0.6, 0.4) is (0.7, 0.3); so the second is
    # 0.6 / 0.7 = 6/7 and 0.4 / 0.3 = 4/3, of 46/21: 9/23 and 14/23. A failed row is
    # left out.
    rows = [[0.9, 0.1], [0.6, 0.4], [NAN, NAN], [0.6, 0.4]]
    calibration = lh.calibrate_batch(np.array(rows))
    assert calibration.prior == pytest.approx((0.7, 0.3))
    assert calibration.n == 3
    calibrated = results(rows).calibrated(calibration)
    # 0.9 / 0.7 = 9/7 and 0.1 / 0.3 = 1/3, of 34/21.
    assert calibrated.probs[0] == pytest.approx([27 / 34, 7 / 34])
    assert calibrated.probs[1] == pytest.approx([9 / 23, 14 / 23])
    assert np.isnan(calibrated.probs[2]).all()
    assert calibrated.labels == ["yes", "no", None, "no"]


def test_a_calibration_is_stored_and_applied_to_texts_to_come() -> None:
    calibration = lh.calibrate_batch(results([[0.25, 0.75], [0.1, 0.9]]))
    stored = lh.Calibration.from_json(calibration.to_json())
    assert stored == calibration
    probs = np.array([[0.2, 0.8], [0.0, 1.0]])
    assert stored.apply(probs).tolist() == calibration.apply(probs).tolist()
    assert stored.apply(probs)[1].tolist() == [0.0, 1.0]


def test_a_label_without_any_probability_divides_nothing_by_zero() -> None:
    calibration = lh.calibrate_batch(np.array([[1.0, 0.0]]))
    assert calibration.apply(np.array([[1.0, 0.0], [0.0, 0.0]])).tolist() == [
        [1.0, 0.0],
        [0.0, 0.0],
    ]


def test_what_does_not_fit_is_refused() -> None:
    labelled = results([[0.5, 0.5]])
    calibration = lh.calibrate_batch(labelled)
    with pytest.raises(ValueError, match="is for the labels"):
        lh.Calibration(
            names=("a", "b"), prior=(0.5, 0.5), method="batch", n=1
        ).check_names(("b", "a"))
    with pytest.raises(ValueError, match="is for 2 labels, not 3"):
        lh.calibrate_batch(labelled.probs).check_names(("a", "b", "c"))
    with pytest.raises(ValueError, match="2 columns, as the calibration has, not 3"):
        calibration.apply(np.ones((1, 3)))
    with pytest.raises(ValueError, match="not have 1 dimensions"):
        calibration.apply(np.ones(2))
    with pytest.raises(ValueError, match="calibrated already"):
        labelled.calibrated(calibration).calibrated(calibration)
    with pytest.raises(ValueError, match="calibrated already"):
        lh.calibrate_batch(labelled.calibrated(calibration))
    with pytest.raises(ValueError, match="no row of probabilities"):
        lh.calibrate_batch(results([[NAN, NAN]]))
    with pytest.raises(TypeError, match="probs must be a matrix of numbers, not 'x'"):
        lh.calibrate_batch("x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"names": ["a"], "prior": [0.5, 0.5], "method": "batch", "n": 1}',
        '{"names": [], "prior": [2], "method": "batch", "n": 1}',
        '{"names": [], "prior": [1], "method": "magic", "n": 1}',
    ],
)
def test_what_is_no_stored_calibration_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="not a stored calibration"):
        lh.Calibration.from_json(text)


LABELS = ["Politics", "Sports"]
BOOK = lh.Codebook("Which topic?", LABELS)
ASKED = "<|im_start|>user\nPolitics or Sports? The keeper saved it.<|im_end|>"


def test_the_median_of_known_coverages_counts() -> None:
    nan = float("nan")
    assert "Median coverage is 0.049:" in low_coverage(np.array([0.049, nan, 0.9, 0.001]))
    assert low_coverage(np.array([0.05, 0.05, 0.001])) == ""
    assert low_coverage(np.array([nan])) == low_coverage(np.array([])) == ""


@pytest.mark.parametrize(
    ("prompt", "marker"),
    [
        ("<|im_start|>assistant\n<think>\n", "<think>"),
        ("[THINK]", "[THINK]"),
        ("<|start|>assistant<|channel|>analysis<|message|>", "analysis<|message|>"),
        ("<think>\n\n</think>\n\n", ""),
        ("What does <think> mean? Answer:", ""),
    ],
)
def test_an_open_thought_is_seen(prompt: str, marker: str) -> None:
    assert thought_opening(prompt).endswith(marker)
    assert bool(thought_opening(prompt)) == bool(marker)


@pytest.mark.parametrize(
    ("prompt", "chat", "cause"),
    [
        (
            "<think>\n",
            False,
            "'<think>', inside a thought: with chat=True, thinking=False closes",
        ),
        ("The topic is ", False, "leave out the white space there"),
        ("I like it", False, "'I like it': try an end .* 'Answer:' or chat=True"),
        ("Topic:", False, "'Topic:': list the labels in the prompt"),
        ("assistant\n", True, r"'assistant\\n', .* start the answer with prefix"),
        ([1, 2], False, "may end where no label can follow"),
    ],
)
def test_the_cause_is_in_the_end_of_prompts(
    prompt: object, *, chat: bool, cause: str
) -> None:
    text = coverage_cause(prompt, chat=chat, has_template=True)
    assert re.search(cause, text), text


def test_codings_of_few_texts_name_an_open_thought() -> None:
    how = {"method": "classify", "chat": True, "calibrate": None}
    arguments = (["Sports", None], np.array([0.001, np.nan]), BOOK, how)
    (note,) = notes_of(*arguments, "assistant\n<think>\n")
    assert "Prompts end in '<think>', inside a thought" in note
    assert note.endswith("another model")
    (note,) = notes_of(*arguments)
    assert "thought" not in note
    assert notes_of(["Sports"], np.array([0.5]), BOOK, how) == []
    # The note that all texts have one label needs many texts.
    assert notes_of(["Sports"] * 19, np.full(19, 0.5), BOOK, how) == []


def test_runs_note_a_low_coverage() -> None:
    task = Classify(ClassifyOptions(labels=LABELS))
    (note,) = task.notes({"coverage": [0.01, None]})
    assert "Median coverage is 0.01" in note
    assert "chat=True" in note
    assert task.notes({"coverage": [0.9]}) == []


# ---- a real model ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2) as context:
        yield context


@pytest.mark.model
def test_labels_inside_a_thought_are_not_taken_without_a_word(
    context: lh.Context,
) -> None:
    opened = f"{ASKED}\n<|im_start|>assistant\n<think>\n"
    with pytest.warns(UserWarning, match="in '<think>', inside a thought") as warned:
        labelled = lh.classify_parallel(context, [opened] * 2, ["Zebra", "Xylophone"])
    assert len(warned) == 1
    assert labelled.notes == (str(warned[0].message),)
    assert (labelled.coverage < 0.05).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = lh.classify_parallel(
            context, ["The weather was great. Sentiment:"], ["positive", "negative"]
        )
    assert good.notes == ()
    assert good.coverage[0] > 0.05
