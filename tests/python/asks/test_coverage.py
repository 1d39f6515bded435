"""Notes on labels that are improbable, and the causes that they name."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.calls.asks.calibration import coverage_cause, low_coverage, opened
from llamaherd.calls.asks.options import ClassifyOptions
from llamaherd.coding.annotation.record import notes_of
from llamaherd.tasks.classify import Classify

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    assert opened(prompt).endswith(marker)
    assert bool(opened(prompt)) == bool(marker)


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
    told = coverage_cause(prompt, chat=chat, has_template=True)
    assert re.search(cause, told), told


def test_codings_of_few_texts_name_an_open_thought() -> None:
    how = {"method": "classify", "chat": True, "calibrate": None}
    given = (["Sports", None], np.array([0.001, np.nan]), BOOK, how)
    (note,) = notes_of(*given, "assistant\n<think>\n")
    assert "Prompts end in '<think>', inside a thought" in note
    assert note.endswith("another model")
    (note,) = notes_of(*given)
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
        found = lh.classify_parallel(context, [opened] * 2, ["Zebra", "Xylophone"])
    assert len(warned) == 1
    assert found.notes == (str(warned[0].message),)
    assert (found.coverage < 0.05).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = lh.classify_parallel(
            context, ["The weather was great. Sentiment:"], ["positive", "negative"]
        )
    assert good.notes == ()
    assert good.coverage[0] > 0.05
