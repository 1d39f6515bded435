"""Starts of calls that run a model, votes and calibrations."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import form_of, given_prompts
from llamaherd._r.forms import Part, fields, items, named, r_object, table_of, vector
from llamaherd._r.results import Display, displays
from llamaherd.calls.asks.scores import counted
from llamaherd.engine.core import checks
from llamaherd.engine.core.sampling import OF_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def model_start(
    task: str,
    host: lh.Context | lh.Model,
    prompts: Sequence[Any],
    options: Mapping[str, Any],
) -> lh.Job[Any]:
    """Start a call of `task`, a name such as "generate" or "embed".

    `options` are arguments of the task's function, see also the functions below.
    """
    texts = given_prompts(prompts, chat=bool(options.get("chat")))
    if task == "generate":
        return _start_generate(host, texts, prompts, dict(options))
    if task == "classify":
        return _start_classify(host, texts, **options)
    start: Callable[..., lh.Job[Any]] = getattr(lh, f"start_{task}")
    return start(host, texts, **options)


def _start_generate(
    context: Any,  # noqa: ANN401 - checked by `start_parallel`
    texts: list[Any],
    prompts: Sequence[Any],
    options: dict[str, Any],
) -> lh.Job[Any]:
    """Start to generate.

    Among the options are fields of SamplingParams: `sampling`, those of all prompts, and
    `each`, those with a value per prompt; `hash` and `clean` are for `Display`.
    """
    sampling, by_prompt = dict(options.pop("sampling")), dict(options.pop("each"))
    has_hash = checks.flag("hash", options.pop("hash"))
    clean = checks.flag("clean", options.pop("clean"))
    has_schema = (sampling.get("schema") or by_prompt.get("schema")) is not None
    # Fields with one value for the whole call.
    options |= {name: sampling.pop(name) for name in OF_REQUEST if name in sampling}
    # all prompts share the choices, so that they are checked once
    if sampling.get("choices") is not None:
        sampling["choices"] = lh.SamplingParams(choices=sampling["choices"]).choices
    params: Any = lh.SamplingParams(**sampling)
    if by_prompt:
        rows = [
            dict(zip(by_prompt, row, strict=True))
            for row in zip(*by_prompt.values(), strict=True)
        ]
        params = [lh.SamplingParams(**sampling, **row) for row in rows]
    job = lh.start_parallel(context, texts, params=params, **options)
    displays[job] = Display(prompts if has_hash else None, clean and not has_schema)
    return job


def _start_classify(
    context: Any,  # noqa: ANN401 - checked by `start_classify`
    texts: list[Any],
    *,
    labels: Sequence[str],
    names: Sequence[str],
    **options: Any,  # noqa: ANN401 - of `start_classify`
) -> lh.Job[Any]:
    """Start to classify by `labels`, which the model reads, with R's names of them."""
    checks.distinct("labels", labels)
    by_label = dict(zip(labels, names, strict=True))
    return lh.start_classify(context, texts, labels=by_label, **options)


def vote(labels: Sequence[Sequence[str | None]]) -> Part:
    """Return majority votes as a table; `labels` has a list of labels per prompt."""
    votes = [counted(list(samples)) for samples in labels]
    table = table_of(votes, "majority agreement n_votes n_failed is_tie")
    shares = items(
        (named({str(k): n for k, n in counts.shares.items()}) for counts in votes),
        "shares",
    )
    return {**table, "columns": [*table["columns"], shares]}


def calibration_fit(
    probs: Sequence[Sequence[float]], names: Sequence[str], method: str
) -> lh.Calibration:
    """Fit a calibration to rows of probabilities of labels, which may have no names."""
    fit = {"batch": lh.calibrate_batch, "contextual": lh.calibrate_contextual}[method]
    n = len(probs[0]) if probs else len(names)
    calibration = fit(np.array(probs, dtype=float).reshape(len(probs), n))
    return dataclasses.replace(calibration, names=tuple(names))


@form_of.register
def _(calibration: lh.Calibration) -> Part:
    parts = {
        "names": calibration.names or None,
        "prior": vector("number", calibration.prior),
        **fields(calibration, "method n"),
    }
    return r_object("calibration", parts, page=calibration, json=calibration.to_json())


def calibration_apply(
    calibration: str, probs: Sequence[Sequence[float]], names: Sequence[str]
) -> lh.types.ClassifyResults:
    """Calibrate rows of probabilities."""
    fitted = lh.Calibration.from_json(calibration)
    fitted.check_names(names)
    values = fitted.apply(np.array(probs, dtype=float).reshape(len(probs), len(names)))
    return lh.types.ClassifyResults(
        names=tuple(names),
        probs=values,
        logprobs=values,
        normalize="sum",
        errors=[None] * len(values),
        finish_reasons=["stop"] * len(values),
        stats=lh.Stats(),
    )
