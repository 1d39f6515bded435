"""Calls that generate, and journals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.arguments import given
from llamaherd._r.boundary import (
    boundary,
    clean_or_none,
    given_prompts,
    numbers_of,
    thoughts_of,
    timing_of,
)
from llamaherd._r.forms import Part, table_of_objects
from llamaherd._r.quotes import text_of
from llamaherd.asks.keywords import GenerateSettings
from llamaherd.asks.votes import counted
from llamaherd.core.results import thought_cells
from llamaherd.core.sampling import OF_REQUEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@boundary
def generate_start(
    context: lh.Context,
    prompts: Sequence[Any],
    options: Mapping[str, Any],
) -> dict[str, lh.Job[lh.Results]]:
    """Start to answer prompts. A missing prompt (None) fails.

    Args:
        context: Context to run in.
        prompts: Texts or token ids; with `chat`, texts or lists of messages.
        options: `sampling`, the fields of SamplingParams; `each`, names of fields with
            one value per prompt; and any other option of `start_parallel`.
    """
    sampling = dict(options["sampling"])
    # Fields with one value for the whole call; fields in `each` have one value per
    # prompt.
    call = {name: sampling.pop(name) for name in OF_REQUEST if name in sampling}
    each = dict(options["each"])
    names = GenerateSettings.__annotations__
    call |= {name: options[name] for name in names if name in options}
    # R sends seeds above 2^31 as floats.
    for part in (call, each):
        if "seed" in part:
            part["seed"] = given(part["seed"])
    # all prompts share the choices, so that they are checked once
    if sampling.get("choices") is not None:
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
        given_prompts(prompts, chat=bool(options.get("chat"))),
        params=params,
        **call,
    )
    return {"job": job}


@boundary
def job_result(job: lh.Job[lh.Results]) -> dict[str, Any]:
    """Wait until a job ends; return its results as columns, ordered by prompt.

    For every value of `on_error`, the columns contain the failed prompts. R itself raises
    the error about failed prompts, with indices from 1.
    """
    try:
        results = job.results()
    except lh.GenerationError as error:
        results = error.results
    every = [result for samples in results.samples for result in samples]
    return {
        "texts": [clean_or_none(text_of(result)) for result in every],
        "errors": [clean_or_none(result.error) for result in every],
        "partials": [clean_or_none(result.partial) for result in every],
        "finish_reasons": [result.finish_reason for result in every],
        "complete": [result.complete for result in every],
        "n_prompt_tokens": [result.n_prompt_tokens for result in every],
        "n_reused_tokens": [result.n_reused_tokens for result in every],
        "n_generated_tokens": [result.n_generated_tokens for result in every],
        "seeds": [float(result.seed) for result in every],
        "thoughts": (
            thoughts_of(thought_cells(lh.Results(every, results.stats)))
            if results.has_thoughts
            else None
        ),
        "timing": timing_of([result.stats for result in every]),
        "logprobs": _logprobs(every),
        "stats": numbers_of(results.stats),
    }


def _logprobs(results: Sequence[lh.Result]) -> list[dict[str, Any] | None]:
    """Return log-probabilities; alternatives of all tokens are in one list."""
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


_JOURNAL = {
    **dict.fromkeys(("prompt", "text", "finish_reason"), "text"),
    "complete": "flag",
    "error": "text",
    "n_prompt_tokens": "integer",
    "n_generated_tokens": "integer",
    "seed": "number",
    "thinking": "text",
    "n_thinking_tokens": "integer",
    "thinking_complete": "flag",
    **dict.fromkeys(("model", "model_sha256", "settings"), "text"),
    "created": "time",
    "version": "text",
}


@boundary
def journal_read(path: str) -> Part:
    """Return the content of a journal as a table."""
    return table_of_objects(lh.journal_read(path), _JOURNAL, "journal")


@boundary
def vote(labels: Sequence[Sequence[str | None]]) -> dict[str, list[Any]]:
    """Return majority votes as columns; `labels` has a list of labels per prompt."""
    votes = [counted(list(samples)) for samples in labels]
    return {
        "majority": [vote.majority for vote in votes],
        "agreement": [vote.agreement for vote in votes],
        "n_votes": [vote.n_votes for vote in votes],
        "n_failed": [vote.n_failed for vote in votes],
        "is_tie": [vote.is_tie for vote in votes],
        "labels": [list(vote.shares) for vote in votes],
        "shares": [list(vote.shares.values()) for vote in votes],
    }
