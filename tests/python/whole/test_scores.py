"""Scores on both real models equal llama-cpp-python's logits, and each other."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.engine.native import models
from llamaherd.optimize.requantize import TYPES
from step_by_step import StepByStep

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.model

# Labels of 1 to 6 tokens; some are the beginning of other labels.
LABELS = [
    " positive",
    " negative",
    " neutral",
    " positive and hopeful",
    " positive and hopeful about it",
    " mixed, neither good nor bad",
]
TEXTS = [
    "The weather was great.",
    "I lost my keys again, and it rains!",
    "Trains run from Monday to Friday; see the timetable.",
    "Best concert of the year, though the queue was long and the beer was warm.",
    "no",
    "What on earth is this supposed to be?",
]
PROMPTS = [f"Text: {text}\nSentiment:" for text in TEXTS]


@pytest.fixture(scope="module")
def gemma3_q8_path(gemma3_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model in a type that rounds a row equally for any number of rows."""
    path = tmp_path_factory.mktemp("gemma") / "q8.gguf"
    ftype = TYPES["Q8_0"].ftype
    models.model_quantize(str(gemma3_path).encode(), str(path).encode(), ftype=ftype,
                            n_threads=2)  # fmt: skip
    return path


def furthest(
    a: Sequence[Sequence[np.ndarray]], b: Sequence[Sequence[np.ndarray]]
) -> float:
    return max(
        float(np.abs(x - y).max())
        for rows in zip(a, b, strict=True)
        for x, y in zip(*rows, strict=True)
    )


def expected(path: Path, model: lh.Model, *, together: bool) -> list[list[np.ndarray]]:
    out = []
    with StepByStep(path) as steps:
        for prompt in PROMPTS:
            tokens = lh.tokenize(model, prompt)
            wholes = [lh.tokenize(model, prompt + label) for label in LABELS]
            assert all(whole[: len(tokens)] == tokens for whole in wholes)
            behind = [whole[len(tokens) :] for whole in wholes]
            assert {1, 6} <= {len(tail) for tail in behind}
            out.append(steps.token_logprobs(tokens, behind, together=together))
    return out


def test_scores_are_those_of_a_plain_loop(smollm2: lh.Model, smollm2_path: Path) -> None:
    with lh.Context(smollm2, flash_attn=True) as context:
        scores = lh.score_parallel(context, PROMPTS, [LABELS] * len(PROMPTS))
    steps = expected(smollm2_path, smollm2, together=False)
    assert furthest(scores.token_logprobs, steps) < 1e-4


@pytest.mark.long(reason="many calls of a real model")
def test_labels_end_as_those_of_a_plain_loop(
    smollm2: lh.Model, smollm2_path: Path
) -> None:
    # After a continued sequence of numbers, the end of the shorter label has little
    # probability. The prompts begin differently, because a prompt computed in pieces is
    # rounded differently.
    tens = "10 20 30 40 50 60 70 80 90 100 "
    numbers = [f"{n} times: {tens * n}10 20 30" for n in (1, 4, 6)]
    longer = [" 40", " 40 50", " 40 50 60", " 40 50 60 70 80"]
    with (
        lh.Context(smollm2, flash_attn=True) as context,
        StepByStep(smollm2_path) as steps,
    ):
        for prompts, labels in ((PROMPTS, LABELS), (numbers, longer)):
            labelled = lh.classify_parallel(context, prompts, labels, space=False)
            for prompt, row in zip(prompts, labelled.logprobs, strict=True):
                tokens = lh.tokenize(smollm2, prompt)
                wholes = [lh.tokenize(smollm2, prompt + label) for label in labels]
                assert all(whole[: len(tokens)] == tokens for whole in wholes)
                behind = [whole[len(tokens) :] for whole in wholes]
                expected = steps.label_logprobs(tokens, behind)
                assert np.abs(row - expected).max() < 1e-4
    assert (np.exp(labelled.logprobs[1:, 0]) < 0.02).all()


@pytest.mark.long(reason="many calls of a real model")
def test_scores_are_those_of_a_plain_loop_with_gemma(gemma3_q8_path: Path) -> None:
    with lh.Model(gemma3_q8_path) as model, lh.Context(model, flash_attn=True) as context:
        scores = lh.score_parallel(context, PROMPTS, [LABELS] * len(PROMPTS))
        steps = expected(gemma3_q8_path, model, together=False)
        assert furthest(scores.token_logprobs, steps) < 1e-4


@pytest.mark.long(
    reason="a plain loop on Gemma; one with shapes of its own runs in make test"
)
def test_scores_are_those_of_a_loop_of_the_same_shapes_with_gemma(
    gemma3: lh.Model, gemma3_path: Path
) -> None:
    # K-quants round one row differently than several rows, so even a plain loop is
    # inconsistent. A kept beginning would change the rows that are computed together.
    with lh.Context(gemma3, flash_attn=True, n_seq_max=1, keep_prefixes=False) as context:
        scores = [
            [
                lh.score_parallel(context, [prompt], label).token_logprobs[0][0]
                for label in LABELS
            ]
            for prompt in PROMPTS
        ]
    assert furthest(scores, expected(gemma3_path, gemma3, together=True)) < 1e-4


@pytest.mark.long(reason="many calls of a real model")
@pytest.mark.parametrize(
    "name",
    [
        "smollm2",
        pytest.param(
            "gemma3",
            marks=pytest.mark.long(
                reason="a large vocabulary and sliding windows, four times as slow"
            ),
        ),
    ],
)
def test_scores_depend_on_nothing_else(name: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(name)
    draw = random.Random(4)
    words = [
        "the",
        "sea",
        "bread",
        "Paris",
        "winter",
        "trains",
        "music",
        "moon",
        "river",
        "stone",
    ]
    prompts = [*PROMPTS, *(" ".join(draw.choices(words, k=n)) for n in (3, 70, 530))]
    texts = [draw.sample(LABELS, draw.randint(1, 6)) for _ in prompts]
    texts[-1].append(" " + " ".join(draw.choices(words, k=60)))
    texts[-2].append(texts[-1][-1])
    with lh.Context(model, n_seq_max=1, deterministic=True) as context:
        alone = [
            lh.score_parallel(context, [prompt], [labels]).logprob[0]
            for prompt, labels in zip(prompts, texts, strict=True)
        ]
    for n_seq_max, n_batch in ((3, 64), (9, 512)):
        order = draw.sample(range(len(prompts)), len(prompts))
        with lh.Context(
            model, n_seq_max=n_seq_max, n_batch=n_batch, deterministic=True
        ) as context:
            beside = [
                context.submit(words[i], max_tokens=40, ignore_eos=True) for i in range(4)
            ]
            together = lh.score_parallel(
                context, [prompts[i] for i in order], [texts[i] for i in order]
            )
            for handle in beside:
                handle.cancel()
        assert together.logprob == [alone[i] for i in order]


def test_scores_and_answers_run_beside_each_other(smollm2: lh.Model) -> None:
    with lh.Context(smollm2, n_seq_max=4) as context:
        handles = [context.submit(text, max_tokens=30) for text in TEXTS]
        labelled = lh.classify_parallel(context, PROMPTS, LABELS)
        answers = [handle.result().text for handle in handles]
        assert labelled.errors == [None] * len(PROMPTS)
        alone = lh.classify_parallel(context, PROMPTS, LABELS)
        assert labelled.labels == alone.labels
        assert labelled.logprobs == pytest.approx(alone.logprobs, abs=0.05)
        assert None not in answers


@pytest.mark.long(reason="9 s on Gemma; make test scores shorter prompts on it")
def test_prompts_longer_than_the_window_keep_what_paths_need(
    gemma3_q8_path: Path,
) -> None:
    prompts = [f"{'It was a long day. ' * 100}{prompt}" for prompt in PROMPTS[:2]]
    labels = [*LABELS, " " + "very " * 80 + "good", " " + "very " * 80 + "bad"]
    with (
        lh.Model(gemma3_q8_path) as model,
        lh.Context(model, flash_attn=True) as context,
        lh.Context(model, flash_attn=True, swa_full=True) as full,
    ):
        assert len(lh.tokenize(model, prompts[0])) > 512  # the window
        for prompt in prompts:  # alone: what they share would be a piece by itself
            windowed, whole = (
                lh.score_parallel(host, [prompt], [labels]).token_logprobs
                for host in (context, full)
            )
            assert furthest(windowed, whole) < 1e-4


@pytest.mark.parametrize("kind", ["mamba", "mamba2", "jamba"])
def test_recurrent_models_score_too(kind: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue("tiny_path")(kind)
    with lh.Model(path) as model, lh.Context(model) as context:
        prompts = [[5, 6, 7, 8], [9, 10, 11]]
        texts = ["ab", "ac", "bcd", "b"]
        scores = lh.score_parallel(context, prompts, [texts] * 2)
        assert scores.errors == [None, None]
        for i, prompt in enumerate(prompts):
            for j, text in enumerate(texts):
                [alone] = lh.score_parallel(context, [prompt], text).logprob
                assert scores.logprob[i][j] == pytest.approx(alone[0], abs=1e-3)
