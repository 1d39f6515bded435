"""Samples of a prompt: the prompt is computed once, each sample is drawn as if alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.model

STORY = "Once upon a time there was a small village at the foot of a mountain. " * 3
PROMPTS = ["The sea is", "A good name for a cat is", f"{STORY}In it", f"{STORY}One day"]
SETTINGS = {"max_tokens": 12, "temperature": 1.2, "min_p": 0.0, "top_k": 0}


@pytest.fixture
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2, deterministic=True) as context:
        yield context


def texts(out: lh.Results) -> list[list[str | None]]:
    return [[sample.text for sample in samples] for samples in out.samples]


def test_a_prompt_is_computed_once_for_all_its_samples(smollm2: lh.Model) -> None:
    prompt = "A good name for a cat is"
    n_prompt = len(lh.tokenize(smollm2, prompt))
    for layout in ("unified", "per_sequence"):
        with lh.Context(smollm2, kv_layout=layout) as context:
            out = lh.generate_parallel(context, [prompt], n=16, **SETTINGS)
        assert out.stats.n_prompts == 1
        assert out.stats.n_samples == 16
        assert out.stats.n_prompt_tokens == n_prompt
        assert out.stats.n_prefill_tokens == n_prompt
        assert all(s.n_reused_tokens == n_prompt for s in out.samples[0])
        assert out.stats.n_generated_tokens == sum(len(s.tokens) for s in out.samples[0])
        assert len(set(texts(out)[0])) > 8


def test_shared_beginnings_are_computed_once_as_well(context: lh.Context) -> None:
    once = lh.generate_parallel(context, PROMPTS, **SETTINGS).stats
    many = lh.generate_parallel(context, PROMPTS, n=5, **SETTINGS).stats
    assert many.n_prompt_tokens == once.n_prompt_tokens
    assert many.n_prefill_tokens == once.n_prefill_tokens < once.n_prompt_tokens


@pytest.mark.long(reason="many calls of a real model")
def test_a_sample_is_the_same_whatever_else_is_asked_for(context: lh.Context) -> None:
    many = texts(lh.generate_parallel(context, PROMPTS, n=6, **SETTINGS))
    few = texts(lh.generate_parallel(context, PROMPTS, n=2, **SETTINGS))
    one = lh.generate_parallel(context, PROMPTS, **SETTINGS)
    assert few == [samples[:2] for samples in many]
    assert one.texts == [samples[0] for samples in many]
    assert texts(one) == [samples[:1] for samples in many]
    with lh.Context(context.model, deterministic=True, n_seq_max=3) as narrow:
        assert texts(lh.generate_parallel(narrow, PROMPTS, n=6, **SETTINGS)) == many
        alone = lh.generate_parallel(narrow, PROMPTS[:1], n=3, **SETTINGS)
        assert texts(alone) == [many[0][:3]]


def test_samples_of_any_kind_of_model_are_what_equal_prompts_get(
    tiny_path: Callable[[str], Path],
) -> None:
    # Only the seeds differ; the prompt is shared in one case only.
    for kind in ("llama", "mamba", "jamba"):
        with lh.Model(tiny_path(kind)) as model:
            out = []
            for n_seq_max in (1, 6):
                with lh.Context(model, n_threads=1, n_seq_max=n_seq_max) as context:
                    samples = lh.generate_parallel(
                        context, ["some text", "others"], n=3, **SETTINGS
                    ).samples
                    out.append([[s.tokens for s in of_prompt] for of_prompt in samples])
            assert out[0] == out[1], kind
            assert len({tuple(t) for of_prompt in out[0] for t in of_prompt}) == 6


def test_samples_are_stored_and_found_whatever_n_is(
    context: lh.Context, tmp_path: Path
) -> None:
    path = tmp_path / "run.sqlite"
    one = lh.generate_parallel(context, PROMPTS, journal=path, **SETTINGS)
    many = lh.generate_parallel(context, PROMPTS, n=3, journal=path, **SETTINGS)
    assert many.stats.n_journal == len(PROMPTS)
    assert many.texts == one.texts
    again = lh.generate_parallel(context, PROMPTS, n=2, journal=path, **SETTINGS)
    assert again.stats.n_journal == 2 * len(PROMPTS)
    assert texts(again) == [samples[:2] for samples in texts(many)]


def test_a_prompt_that_fails_fails_with_all_its_samples(context: lh.Context) -> None:
    out = lh.generate_parallel(context, ["", "Hello"], n=3, **SETTINGS)
    assert [[s.finish_reason for s in of_prompt] for of_prompt in out.samples] == [
        ["error"] * 3,
        ["length"] * 3,
    ]
    assert out.stats.n_failed == 3
    assert [vote.n_failed for vote in lh.vote(out)] == [3, 0]
    with pytest.raises(lh.GenerationError, match=r"prompts\[0\], sample 0, failed: the"):
        lh.generate_parallel(context, ["", "Hello"], n=3, on_error="stop", **SETTINGS)


def test_progress_counts_samples(context: lh.Context) -> None:
    seen: list[lh.types.Progress] = []
    out = lh.generate_parallel(context, ["Hello"], n=3, progress=seen.append, **SETTINGS)
    assert len(out) == 1
    assert (seen[-1].n_done, seen[-1].n_total) == (3, 3)


def test_greedy_samples_are_refused(context: lh.Context) -> None:
    with pytest.raises(ValueError, match="n is 2, but with temperature 0 a prompt's"):
        lh.generate_parallel(context, ["Hello"], n=2)
    params = [lh.SamplingParams(temperature=1), lh.SamplingParams()]
    with pytest.raises(ValueError, match="n is 2, but with temperature 0 a prompt's"):
        lh.start_parallel(context, ["a", "b"], n=2, params=params)
    for n, error in ((0, ValueError), (1.5, TypeError), ("2", TypeError)):
        with pytest.raises(error, match="n must be"):
            lh.generate_parallel(context, ["Hello"], n=n)
