"""Starts of calls that run a model, votes, calibrations and conversations.

R asks a question of a conversation in steps, between which it prints text and looks for
Ctrl-C: `chat_ask`, then `chat_read` until the answer is done, then `chat_result`; after
Ctrl-C `chat_cancel` before it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import clean, clean_or_none, form_of, given_prompts
from llamaherd._r.forms import (
    Part,
    fields,
    items,
    named_numbers,
    parts,
    r_object,
    table_of,
    vector,
)
from llamaherd._r.results import Display, displays
from llamaherd.calls.asks.scores import count_votes
from llamaherd.coding.annotation.columns import as_results
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import renamed
from llamaherd.engine.core.sampling import OF_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def model_start(
    task: str,
    host: lh.Context | lh.Model,
    prompts: Sequence[Any],
    options: Mapping[str, Any],
) -> lh.Job[Any]:
    """Start a call of `task`, such as "embed"; `options` are its function's arguments."""
    texts = given_prompts(prompts, chat=bool(options.get("chat")))
    if task == "generate":
        return _start_generate(host, texts, prompts, dict(options))
    if task == "classify":
        return _start_classify(host, texts, **options)
    start: Callable[..., lh.Job[Any]] = getattr(lh, f"start_{task}")
    return start(host, texts, **options)


def _start_generate(
    context: Any,  # checked by `start_parallel`
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
    context: Any,  # checked by `start_classify`
    texts: list[Any],
    *,
    labels: Sequence[str],
    names: Sequence[str],
    **options: Any,  # of `start_classify`
) -> lh.Job[Any]:
    """Start to classify by `labels`, which the model reads, with R's names of them."""
    checks.distinct("labels", labels)
    by_label = dict(zip(labels, names, strict=True))
    return lh.start_classify(context, texts, labels=by_label, **options)


def vote(labels: Sequence[Sequence[str | None]]) -> Part:
    """Return majority votes as a table; `labels` has a list of labels per prompt."""
    votes = [count_votes(list(samples)) for samples in labels]
    table = table_of(votes, "majority agreement n_votes n_failed is_tie")
    shares = items(
        (
            named_numbers({str(k): n for k, n in counts.shares.items()})
            for counts in votes
        ),
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
    return as_results(values, tuple(names))


def chat_create(
    context: lh.Context | lh.Model,
    system: str | None,
    turns: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
) -> dict[str, lh.Chat]:
    """Start a conversation, and return it as `python`."""
    earlier = [{k: v for k, v in turn.items() if v is not None} for turn in turns]
    return {"python": lh.chat(context, system, turns=earlier, **_settings(settings))}


def chat_ask(
    chat: lh.Chat, text: str | None, settings: Mapping[str, Any]
) -> dict[str, lh.types.Reply]:
    """Submit a question, or the last one again for None; return its `reply` at once."""
    options = _settings(settings)
    if text is None:
        return {"reply": chat.retry(stream=True, **options)}
    return {"reply": chat.stream(text, **options)}


def chat_read(reply: lh.types.Reply, n_read: int, timeout_s: float) -> dict[str, Any]:
    """Wait for new pieces of an answer for at most `timeout_s` seconds."""
    done = reply.done()  # `done` is read before the pieces, so that no piece is missed
    pieces = reply.read(n_read, timeout_s)
    return {
        "texts": [clean(piece) for piece in pieces],
        "kinds": [piece.kind for piece in pieces],
        "done": done,
    }


def chat_result(reply: lh.types.Reply) -> dict[str, Any]:
    """Wait for the end of an answer and return its result."""
    result = reply.result()
    texts = ("text", "partial", "thinking")
    numbers = ("n_thinking_tokens", "n_prompt_tokens", "n_generated_tokens")
    others = ("thinking_complete", "finish_reason", "complete")
    stats = result.stats
    return {
        **{name: clean_or_none(getattr(result, name)) for name in texts},
        **{name: getattr(result, name) for name in (*numbers, *others)},
        "n_computed_tokens": 0 if stats is None else stats.n_prefill_tokens,
        "seed": float(result.seed),
    }


def chat_turns(chat: lh.Chat) -> Part:
    """Return `system`, and the `turns` with the system message, see `_turns`."""
    first = [] if chat.system is None else [{"role": "system", "content": chat.system}]
    return parts(system=chat.system, turns=_turns([*first, *chat.turns]))


def chat_set_system(chat: lh.Chat, text: str | None) -> None:
    """Set the system message for later questions; None removes it."""
    with renamed(system="text"):
        chat.system = text


def chat_undo(chat: lh.Chat) -> Part:
    """Remove the last question with its answer, and return both as a table."""
    return _turns(chat.undo())


def chat_forget(chat: lh.Chat, n: int) -> Part:
    """Remove the n oldest questions with their answers, and return them as a table."""
    return _turns(chat.forget(n))


def chat_fork(chat: lh.Chat, n: int) -> dict[str, list[lh.Chat]]:
    """Return n independent conversations that continue this one, as `pythons`."""
    return {"pythons": chat.fork(n)}


def chat_ask_all(
    chat: lh.Chat, texts: Sequence[str | None], settings: Mapping[str, Any]
) -> lh.Job[lh.Results]:
    """Start to answer many questions in one batch, each as a continuation of the chat."""
    return chat.start_all(given_prompts(texts, chat=True), **_settings(settings))


def _turns(turns: Sequence[Any]) -> Part:
    """Return messages as a table; `thinking` is NA for turns without a thought."""
    rows = [
        {
            "role": turn["role"],
            "content": turn["content"],
            "thinking": turn.get("reasoning_content"),
            "interrupted": turn.get("interrupted", False),
        }
        for turn in turns
    ]
    return table_of(rows, "role content thinking interrupted")


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(settings or {})  # an empty list from R arrives as []
    sampling = options.pop("sampling", {})
    return {**options, **sampling}
