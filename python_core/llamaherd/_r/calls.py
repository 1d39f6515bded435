"""Starts of calls that run a model, journals, votes and calibrations."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import boundary, form_of, given_prompts
from llamaherd._r.forms import (
    Part,
    items,
    named,
    r_object,
    table_of_objects,
    value,
    vector,
)
from llamaherd.calls.api.classify import check_contextual
from llamaherd.calls.asks.keywords import (
    ClassifySettings,
    GenerateSettings,
    PerplexitySettings,
    ScoreSettings,
)
from llamaherd.calls.asks.scores import counted
from llamaherd.engine.core import checks
from llamaherd.engine.core.sampling import OF_REQUEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Started = dict[str, Any]  # with the `job`


@boundary
def generate_start(
    context: lh.Context, prompts: Sequence[Any], options: Mapping[str, Any]
) -> Started:
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
    call |= _given(options, GenerateSettings)
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
    texts = given_prompts(prompts, chat=bool(options.get("chat")))
    return {"job": lh.start_parallel(context, texts, params=params, **call)}


@boundary
def classify_start(
    context: lh.Context, prompts: Sequence[Any], options: Mapping[str, Any]
) -> Started:
    """Start `classify_parallel`; see `generate_start`.

    Args:
        context: Context to run in.
        prompts: As for `generate_start`.
        options: `labels`, texts of the labels for the model; `names`, the corresponding
            names in R; and any other option of `start_classify`.
    """
    arguments = _given(options, ClassifySettings)
    checks.distinct("labels", options["labels"])
    arguments["labels"] = dict(zip(options["labels"], options["names"], strict=True))
    texts = given_prompts(prompts, chat=bool(options.get("chat")))
    return {"job": lh.start_classify(context, texts, **arguments)}


@boundary
def score_start(
    context: lh.Context, prompts: Sequence[Any], options: Mapping[str, Any]
) -> Started:
    """Start `score_parallel`; `continuations` has a list for each prompt."""
    texts = given_prompts(prompts, chat=bool(options.get("chat")))
    own = _given(options, ScoreSettings)
    return {"job": lh.start_score(context, texts, options["continuations"], **own)}


@boundary
def perplexity_start(
    context: lh.Context, texts: Sequence[Any], options: Mapping[str, Any]
) -> Started:
    """Start `perplexity`. A missing text (None) fails."""
    own = _given(options, PerplexitySettings)
    return {"job": lh.start_perplexity(context, given_prompts(texts), **own)}


@boundary
def embed_start(
    model: lh.Model | lh.Context, texts: Sequence[Any], options: Mapping[str, Any]
) -> Started:
    """Start to compute embeddings. A missing text (None) fails."""
    return {"job": lh.start_embed(model, given_prompts(texts), **options)}


@boundary
def optimize_start(path: str, out: str | None, options: Mapping[str, Any]) -> Started:
    """Start to requantize a model; the result is a table, or None if cancelled."""
    return {"job": lh.start_optimize(path, out, **options)}


def _given(options: Mapping[str, Any], settings: type) -> dict[str, Any]:
    """Return the options that are keyword arguments of a call."""
    names = settings.__annotations__
    return {name: options[name] for name in names if name in options}


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
def vote(labels: Sequence[Sequence[str | None]]) -> Part:
    """Return majority votes as a table; `labels` has a list of labels per prompt."""
    votes = [counted(list(samples)) for samples in labels]
    kinds = {
        "majority": "text",
        "agreement": "number",
        "n_votes": "integer",
        "n_failed": "integer",
        "is_tie": "flag",
    }
    made = table_of_objects(votes, kinds)
    shares = items(
        (named({str(k): n for k, n in each.shares.items()}) for each in votes), "shares"
    )
    return {**made, "columns": [*made["columns"], shares]}


@boundary
def calibration_fit(
    probs: Sequence[Sequence[float]], names: Sequence[str], method: str
) -> lh.Calibration:
    """Fit a calibration to rows of probabilities.

    `names` are the labels of the columns. Without names, the calibration can be applied
    to any labels.
    """
    fit = {"batch": lh.calibrate_batch, "contextual": lh.calibrate_contextual}[method]
    n = len(probs[0]) if probs else len(names)
    calibration = fit(np.array(probs, dtype=float).reshape(len(probs), n))
    return dataclasses.replace(calibration, names=tuple(names))


@form_of.register
def _(found: lh.Calibration) -> Part:
    names = [str(i + 1) for i in range(len(found.prior))]
    shares = zip(found.names or names, found.prior, strict=True)
    n = f"{found.n} {'text' if found.n == 1 else 'texts'}"
    page = [
        f"<Calibration: {found.method}, fitted to {n}>",
        *(f"{name}: {share:.3g}" for name, share in shares),
    ]
    made = {
        "names": vector("text", found.names) if found.names else None,
        "prior": vector("number", found.prior),
        "method": value(found.method),
        "n": vector("integer", [found.n]),
    }
    return r_object("calibration", made, page="\n".join(page), json=found.to_json())


@boundary
def contextual_check(thinking: object) -> None:
    """Check `thinking` for a contextual calibration, see `check_contextual`."""
    check_contextual(thinking)


@boundary
def calibration_apply(
    calibration: str, probs: Sequence[Sequence[float]], names: Sequence[str]
) -> lh.ClassifyResults:
    """Calibrate rows of probabilities."""
    made = lh.Calibration.from_json(calibration)
    made.check_names(names)
    values = made.apply(np.array(probs, dtype=float).reshape(len(probs), len(names)))
    return lh.ClassifyResults(
        names=tuple(names),
        probs=values,
        logprobs=values,
        normalize="sum",
        errors=[None] * len(values),
        finish_reasons=["stop"] * len(values),
        stats=lh.Stats(),
    )
