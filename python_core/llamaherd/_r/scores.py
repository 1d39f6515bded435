"""Calls that compute probabilities, and calibrations."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import llamaherd as lh
from llamaherd._r.arguments import given
from llamaherd._r.boundary import (
    boundary,
    clean,
    clean_or_none,
    given_prompts,
    numbers_of,
    thoughts_of,
    timing_of,
)
from llamaherd.api.classify import check_contextual
from llamaherd.asks.keywords import ClassifySettings, PerplexitySettings, ScoreSettings
from llamaherd.core import checks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_T = TypeVar("_T")


def _given(options: Mapping[str, Any], settings: type) -> dict[str, Any]:
    """Return the options that are keyword arguments of a call."""
    names = settings.__annotations__
    return {name: options[name] for name in names if name in options}


@boundary
def classify_start(
    context: lh.Context, prompts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, lh.Job[lh.ClassifyResults]]:
    """Start `classify_parallel`. A missing prompt (None) fails.

    Args:
        context: Context to run in.
        prompts: Texts or token ids; with `chat`, texts or lists of messages.
        options: `labels`, texts of the labels for the model; `names`, the corresponding
            names in R; and any other option of `start_classify`.
    """
    arguments = _given(options, ClassifySettings)
    arguments["labels"] = _labels(options["labels"], options["names"])
    if "seed" in arguments:
        arguments["seed"] = given(arguments["seed"])  # R sends seeds above 2^31 as floats
    texts = given_prompts(prompts, chat=bool(options.get("chat")))
    return {"job": lh.start_classify(context, texts, **arguments)}


def _labels(readings: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return a dict that maps each label's text for the model to its name in R.

    Raises:
        ValueError: A label text occurs twice.
    """
    checks.distinct("labels", readings)
    return dict(zip(readings, names, strict=True))


@boundary
def classify_result(job: lh.Job[lh.ClassifyResults]) -> dict[str, Any]:
    """Wait until the job ends; return results as columns, and matrices as rows.

    `between` is None if prompts have at most one thought; `thoughts` is None without
    thinking.
    """
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
        "between": None if results.between is None else results.between.tolist(),
        "thoughts": thoughts_of(results.further()),
        "notes": [clean(note) for note in results.notes],
        "timing": timing_of(results.requests),
        **_outcome(results),
    }


@boundary
def score_start(
    context: lh.Context, prompts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, lh.Job[lh.ScoreResults]]:
    """Start `score_parallel`. A missing prompt (None) fails.

    Args:
        context: Context to run in.
        prompts: As for `classify_start`.
        options: `continuations`, a list for each prompt; and options as for
            `classify_start`.
    """
    job = lh.start_score(
        context,
        given_prompts(prompts, chat=bool(options.get("chat"))),
        options["continuations"],
        **_given(options, ScoreSettings),
    )
    return {"job": job}


@boundary
def score_result(job: lh.Job[lh.ScoreResults]) -> dict[str, Any]:
    """Return columns with a row for each continuation; None or NaN after a failure."""
    results = _results(job)
    places = [(i, j) for i, n in enumerate(results.n_given) for j in range(n)]
    found = results.continuations
    rows = [None if (each := found[i]) is None else each[j] for i, j in places]
    return {
        "thoughts": thoughts_of(results.further([i for i, _ in places])),
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
    """Start `perplexity`. A missing text (None) fails.

    Args:
        context: Context to run in.
        texts: Texts or token ids.
        options: `parse_special`; `on_error`; optionally `journal`.
    """
    arguments = _given(options, PerplexitySettings)
    return {"job": lh.start_perplexity(context, given_prompts(texts), **arguments)}


@boundary
def perplexity_result(job: lh.Job[lh.PerplexityResults]) -> dict[str, Any]:
    """Wait until the job ends, and return the results as columns."""
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
    """Fit a calibration to rows of probabilities; return the calibration as JSON.

    `names` are the labels of the columns. Without names, the calibration can be applied
    to any labels.
    """
    fit = {"batch": lh.calibrate_batch, "contextual": lh.calibrate_contextual}[method]
    n = len(probs[0]) if probs else len(names)
    calibration = fit(np.array(probs, dtype=float).reshape(len(probs), n))
    return dataclasses.replace(calibration, names=tuple(names)).to_json()


@boundary
def contextual_check(thinking: object) -> None:
    """Check `thinking` for a contextual calibration, see `check_contextual`."""
    check_contextual(thinking)


@boundary
def calibration_apply(
    calibration: str, probs: Sequence[Sequence[float]], names: Sequence[str]
) -> dict[str, Any]:
    """Calibrate rows of probabilities, and return the columns of `classify_result`."""
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
    """Return a job's results, even if a failed prompt stopped the call."""
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
