"""Calls that generate, jobs of all kinds, and journals."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import (
    NO_TEXT,
    boundary,
    clean,
    clean_or_none,
    numbers_of,
    timing_of,
)
from llamaherd.api.embed import speed
from llamaherd.api.progress import rates
from llamaherd.core.sampling import OF_REQUEST
from llamaherd.model.chat import chat_prompts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@boundary
def generate_start(
    context: lh.Context,
    prompts: Sequence[Any],
    options: Mapping[str, Any],
) -> dict[str, lh.Job[lh.Results]]:
    """Starts to answer prompts; None is one that fails.

    Args:
        context: What to answer them with.
        prompts: Texts or token ids; with `chat` texts or lists of messages.
        options: `sampling`, the fields of SamplingParams; `each`, those of them that have
            one value per prompt; `parse_special`; `on_error`; `strict`; `retries`;
            `logprobs`, or None; if any, `journal`, `chat` and `system`, and `n`.
    """
    sampling = dict(options["sampling"])
    # Unless they are in `each`.
    call = {name: sampling.pop(name) for name in OF_REQUEST if name in sampling}
    each = dict(options["each"])
    parse_special = options["parse_special"]
    if options.get("chat"):
        given = [prompt for prompt in prompts if prompt is not None]
        rendered = iter(chat_prompts(context.model, given, options.get("system")))
        prompts = [None if prompt is None else next(rendered) for prompt in prompts]
        parse_special = True if parse_special == "auto" else parse_special
    # Seeds above 2^31 come as floats.
    if "seed" in call:
        call["seed"] = int(call["seed"])
    if "seed" in each:
        each["seed"] = [int(seed) for seed in each["seed"]]
    if sampling.get("choices") is not None:  # checked once, however many prompts
        sampling["choices"] = lh.SamplingParams(choices=sampling["choices"]).choices
    params: lh.SamplingParams | list[lh.SamplingParams] = lh.SamplingParams(**sampling)
    if each:
        params = [
            lh.SamplingParams(
                **sampling, **{name: values[i] for name, values in each.items()}
            )
            for i in range(len(prompts))
        ]
    job = lh.start_parallel(
        context,
        [NO_TEXT if prompt is None else prompt for prompt in prompts],
        params=params,
        parse_special=parse_special,
        on_error=options["on_error"],
        n=options.get("n", 1),
        journal=options.get("journal"),
        strict=options["strict"],
        retries=options["retries"],
        logprobs=options["logprobs"],
        **call,
    )
    return {"job": job}


@boundary
def job_wait(
    job: lh.Job[Any] | lh.OptimizeJob | lh.EmbedJob, timeout_s: float
) -> dict[str, Any]:
    """Waits for the end of a job, at most `timeout_s`. Tells how far it is."""
    done = job.wait(timeout_s)
    progress = job.progress
    state = {"done": done, **dataclasses.asdict(progress)}
    if isinstance(progress, lh.Progress):
        state["rates"] = rates(progress)
    elif isinstance(progress, lh.EmbedProgress):
        state["rates"] = speed(progress)
    return state


@boundary
def job_cancel(job: lh.Job[Any] | lh.OptimizeJob | lh.EmbedJob) -> None:
    """Tells a job to end; returns at once."""
    job.cancel()


@boundary
def job_result(job: lh.Job[lh.Results]) -> dict[str, Any]:
    """The results as columns, those of each prompt together. Waits for the end of a job.

    That a prompt failed is in the columns, whatever `on_error` says: R makes its own
    error of it, with places that count from 1.
    """
    try:
        results = job.results()
    except lh.GenerationError as error:
        results = error.results
    every = [result for samples in results.samples for result in samples]
    return {
        "texts": [clean_or_none(result.text) for result in every],
        "errors": [clean_or_none(result.error) for result in every],
        "partials": [clean_or_none(result.partial) for result in every],
        "finish_reasons": [result.finish_reason for result in every],
        "complete": [result.complete for result in every],
        "n_prompt_tokens": [result.n_prompt_tokens for result in every],
        "n_reused_tokens": [result.n_reused_tokens for result in every],
        "n_generated_tokens": [result.n_generated_tokens for result in every],
        "seeds": [float(result.seed) for result in every],
        "timing": timing_of([result.stats for result in every]),
        "logprobs": _logprobs(every),
        "stats": numbers_of(results.stats),
    }


def _logprobs(results: Sequence[lh.Result]) -> list[dict[str, Any] | None]:
    """What `logprobs` asked for, the most likely tokens of all places in one list."""
    return [
        None
        if result.logprobs is None
        else {
            "tokens": result.tokens,
            "logprobs": list(result.logprobs),
            "n_top": [len(top) for top in result.top_logprobs or []],
            "top_tokens": [token for top in result.top_logprobs or [] for token in top],
            "top_logprobs": [
                value for top in result.top_logprobs or [] for value in top.values()
            ],
        }
        for result in results
    ]


@boundary
def journal_read(path: str) -> dict[str, list[Any]]:
    """What a journal holds, as columns."""
    entries = lh.journal_read(path)
    return {
        "prompts": [clean(entry.prompt) for entry in entries],
        "texts": [clean_or_none(entry.text) for entry in entries],
        "finish_reasons": [entry.finish_reason for entry in entries],
        "complete": [entry.complete for entry in entries],
        "errors": [clean_or_none(entry.error) for entry in entries],
        "n_prompt_tokens": [entry.n_prompt_tokens for entry in entries],
        "n_generated_tokens": [entry.n_generated_tokens for entry in entries],
        "seeds": [float(entry.seed) for entry in entries],
        "models": [clean(entry.model) for entry in entries],
        "model_sha256s": [entry.model_sha256 for entry in entries],
        "settings": [clean(entry.settings) for entry in entries],
        "created": [entry.created.timestamp() for entry in entries],
        "versions": [entry.version for entry in entries],
    }
