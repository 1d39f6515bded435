"""Calls that score, and calibrations."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import (
    NO_TEXT,
    Status,
    boundary,
    clean,
    clean_or_none,
    numbers_of,
    timing_of,
)
from llamaherd.model.chat import answer_space, chat_prompt, chat_prompts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_T = TypeVar("_T")


def _given(prompts: Sequence[Any], model: lh.Model, options: Mapping[str, Any]) -> Status:
    """Arguments of all calls that score, and `prompts`; None is one that fails."""
    arguments = {name: options[name] for name in ("parse_special", "on_error")}
    arguments["journal"] = options.get("journal")
    if options.get("chat"):
        given = [prompt for prompt in prompts if prompt is not None]
        rendered = iter(chat_prompts(model, given, options.get("system")))
        prompts = [None if prompt is None else next(rendered) for prompt in prompts]
        if arguments["parse_special"] == "auto":
            arguments["parse_special"] = True
    arguments["prompts"] = [NO_TEXT if prompt is None else prompt for prompt in prompts]
    return arguments


@boundary
def classify_start(
    context: lh.Context, prompts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, lh.Job[lh.ClassifyResults]]:
    """Starts `classify_parallel`; None is a prompt that fails.

    Args:
        context: Where to run.
        prompts: Texts or token ids; with `chat` texts or lists of messages.
        options: `labels`, which the model reads; `names`, what R gets, as many;
            `normalize`; `pmi_prompt`; `space`; `parse_special`; `on_error`; `journal`, if
            any; `chat` and `system`, if any.
    """
    arguments = _given(prompts, context.model, options)
    pmi_prompt = options.get("pmi_prompt", "")
    if options.get("chat"):
        pmi_prompt = chat_prompt(context.model, pmi_prompt, options.get("system"))
    labels = _labels(options["labels"], options["names"])
    job = lh.start_classify(
        context,
        labels=labels,
        normalize=options["normalize"],
        pmi_prompt=pmi_prompt,
        space=_space(context.model, options),
        **arguments,
    )
    return {"job": job}


def _space(model: lh.Model, options: Mapping[str, Any]) -> Any:  # noqa: ANN401 - one of its choices
    """Whether a space comes before what follows; in a chat as its template has it."""
    space = options["space"]
    if options.get("chat") and space == "auto":
        return answer_space(model) == " "
    return space


def _labels(readings: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """What the model reads, by which R gets what.

    Raises:
        ValueError: A reading is there twice.
    """
    labels = dict(zip(readings, names, strict=True))
    if len(labels) < len(readings):
        raise ValueError("labels must be different texts: one is there twice")
    return labels


@boundary
def classify_result(job: lh.Job[lh.ClassifyResults]) -> dict[str, Any]:
    """The results as columns, matrices by rows. Waits for the end of the job."""
    results = _results(job)
    return {
        "names": [clean(name) for name in results.names],
        "labels": [clean_or_none(label) for label in results.labels],
        "probs": results.probs.tolist(),
        "logprobs": results.logprobs.tolist(),
        "prob": results.prob.tolist(),
        "margin": results.margin.tolist(),
        "entropy": results.entropy.tolist(),
        "coverage": results.coverage.tolist(),
        "timing": timing_of(results.requests),
        **_outcome(results),
    }


@boundary
def score_start(
    context: lh.Context, prompts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, lh.Job[lh.ScoreResults]]:
    """Starts `score_parallel`; None is a prompt that fails.

    Args:
        context: Where to run.
        prompts: As for `classify_start`.
        options: `continuations`, a list for each prompt; others as for `classify_start`.
    """
    job = lh.start_score(
        context,
        continuations=options["continuations"],
        space=_space(context.model, options),
        **_given(prompts, context.model, options),
    )
    return {"job": job}


@boundary
def score_result(job: lh.Job[lh.ScoreResults]) -> dict[str, Any]:
    """The results, a row for each continuation given; None and NaN: it failed."""
    results = _results(job)
    rows = [
        (None if each is None else each[j])
        for each, n in zip(results.continuations, results.n_given, strict=True)
        for j in range(n)
    ]
    return {
        "logprobs": [float("nan") if row is None else row.logprob for row in rows],
        "token_logprobs": [
            None if row is None else row.token_logprobs.tolist() for row in rows
        ],
        **_outcome(results),
    }


@boundary
def perplexity_start(
    context: lh.Context, texts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, lh.Job[lh.PerplexityResults]]:
    """Starts `perplexity`; None is a text that fails.

    Args:
        context: Where to run.
        texts: Texts or token ids.
        options: `parse_special`; `on_error`; `journal`, if any.
    """
    arguments = _given(texts, context.model, options)
    return {"job": lh.start_perplexity(context, arguments.pop("prompts"), **arguments)}


@boundary
def perplexity_result(job: lh.Job[lh.PerplexityResults]) -> dict[str, Any]:
    """The results as columns. Waits for the end of the job."""
    results = _results(job)
    known = [each is not None for each in results.token_logprobs]
    return {
        "perplexities": results.perplexity.tolist(),
        "n_tokens": [
            float(n) if is_known else float("nan")
            for n, is_known in zip(results.n_tokens, known, strict=True)
        ],
        **_outcome(results),
    }


@boundary
def calibration_fit(
    probs: Sequence[Sequence[float]], names: Sequence[str], method: str
) -> str:
    """Fits a calibration to probabilities, by rows. Returns it as JSON, for `apply`.

    `names` are those of the columns; none: it is for any labels.
    """
    fit = {"batch": lh.calibrate_batch, "contextual": lh.calibrate_contextual}[method]
    n = len(probs[0]) if probs else len(names)
    calibration = fit(np.array(probs, dtype=float).reshape(len(probs), n))
    return dataclasses.replace(calibration, names=tuple(names)).to_json()


@boundary
def calibration_apply(
    calibration: str, probs: Sequence[Sequence[float]], names: Sequence[str]
) -> dict[str, Any]:
    """Calibrates probabilities, by rows. Returns what `classify_result` says of them."""
    made = lh.Calibration.from_json(calibration)
    made.check_names(names)
    values = made.apply(np.array(probs, dtype=float).reshape(len(probs), len(names)))
    results = lh.ClassifyResults(
        names=tuple(names),
        probs=values,
        logprobs=values,
        normalize="sum",
        errors=[None] * len(values),
        finish_reasons=["stop"] * len(values),
        stats=lh.Stats(),
    )
    return {
        "labels": results.labels,
        "probs": values.tolist(),
        "prob": results.prob.tolist(),
        "margin": results.margin.tolist(),
        "entropy": results.entropy.tolist(),
    }


def _results(job: lh.Job[_T]) -> _T:
    """A job's results, also where a prompt failed and that stopped the call."""
    try:
        return job.results()
    except lh.GenerationError as error:
        results: _T = error.results
        return results


def _outcome(
    results: lh.ClassifyResults | lh.ScoreResults | lh.PerplexityResults,
) -> dict[str, Any]:
    return {
        "errors": [clean_or_none(error) for error in results.errors],
        "finish_reasons": list(results.finish_reasons),
        "stats": numbers_of(results.stats),
    }
