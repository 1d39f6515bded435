"""Starts of calls that run a model, votes and calibrations."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import form_of, given_prompts
from llamaherd._r.forms import Part, fields, items, named, r_object, table_of, vector
from llamaherd._r.results import Display, displays
from llamaherd.calls.asks.keywords import (
    ClassifySettings,
    EmbedSettings,
    GenerateSettings,
    PerplexitySettings,
    ScoreSettings,
)
from llamaherd.calls.asks.scores import counted
from llamaherd.engine.core import checks
from llamaherd.engine.core.sampling import OF_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Options = Mapping[str, Any]
    Start = Callable[..., lh.Job[Any]]


def model_start(
    task: str,
    host: lh.Context | lh.Model,
    prompts: Sequence[Any],
    options: Mapping[str, Any],
) -> lh.Job[Any]:
    """Start a call that runs a model. A missing prompt (None) fails.

    Args:
        task: Key of `_TASKS`.
        host: Context, or a model for embeddings.
        prompts: Texts or token ids; with the option `chat`, texts or lists of messages.
        options: Arguments of the task's function, see also the functions in `_TASKS`;
            for texts `hash` and `clean`, see `Display`.
    """
    start, settings = _TASKS[task]
    names = settings.__annotations__
    keywords = {name: options[name] for name in names if name in options}
    texts = given_prompts(prompts, chat=bool(options.get("chat")))
    display = _display(prompts, options) if "clean" in options else None
    job = start(options)(host, texts, **keywords)
    if display is not None:
        displays[job] = display
    return job


def _display(prompts: Sequence[Any], options: Options) -> Display:
    schemas = [
        options[kind].get("schema") for kind in ("sampling", "each") if options[kind]
    ]
    has_schema = any(schema is not None for schema in schemas)
    return Display(
        prompts if checks.flag("hash", options["hash"]) else None,
        checks.flag("clean", options["clean"]) and not has_schema,
    )


def _generation(options: Options) -> Start:
    """Read `sampling`, fields of SamplingParams, and `each`, with one per prompt."""
    sampling, by_prompt = dict(options["sampling"]), dict(options["each"])
    # Fields with one value for the whole call.
    call = {name: sampling.pop(name) for name in OF_REQUEST if name in sampling}
    # all prompts share the choices, so that they are checked once
    if sampling.get("choices") is not None:
        sampling["choices"] = lh.SamplingParams(choices=sampling["choices"]).choices

    def start(context: lh.Context, texts: list[Any], **keywords: Any) -> lh.Job[Any]:  # noqa: ANN401
        params: Any = lh.SamplingParams(**sampling)
        if by_prompt:
            rows = [
                dict(zip(by_prompt, row, strict=True))
                for row in zip(*by_prompt.values(), strict=True)
            ]
            params = [lh.SamplingParams(**sampling, **row) for row in rows]
        return lh.start_parallel(context, texts, params=params, **call, **keywords)

    return start


def _classification(options: Options) -> Start:
    """Read `labels`, texts of the labels for the model, and `names`, those in R."""
    checks.distinct("labels", options["labels"])
    labels = dict(zip(options["labels"], options["names"], strict=True))

    def start(context: lh.Context, texts: list[Any], **keywords: Any) -> lh.Job[Any]:  # noqa: ANN401
        return lh.start_classify(context, texts, **{**keywords, "labels": labels})

    return start


def _scores(options: Options) -> Start:
    """Read `continuations`, a list for each prompt."""

    def start(context: lh.Context, texts: list[Any], **keywords: Any) -> lh.Job[Any]:  # noqa: ANN401
        return lh.start_score(context, texts, options["continuations"], **keywords)

    return start


_TASKS: dict[str, tuple[Callable[[Options], Start], type]] = {
    "generate": (_generation, GenerateSettings),
    "classify": (_classification, ClassifySettings),
    "score": (_scores, ScoreSettings),
    "perplexity": (lambda _: lh.start_perplexity, PerplexitySettings),
    "embed": (lambda _: lh.start_embed, EmbedSettings),
}


def vote(labels: Sequence[Sequence[str | None]]) -> Part:
    """Return majority votes as a table; `labels` has a list of labels per prompt."""
    votes = [counted(list(samples)) for samples in labels]
    table = table_of(
        votes,
        "majority agreement n_votes n_failed is_tie",
        text="majority",
        integer="n_votes n_failed",
        flag="is_tie",
    )
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
