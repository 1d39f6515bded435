"""Conversations.

`chat_create` returns the chat in the field `python`, and `_r.close` closes the chat. R
asks a question in steps, between which it can print text and check for Ctrl-C:
`chat_ask`, then `chat_read` until the answer is done, then `chat_result`. After Ctrl-C, R
calls `chat_cancel` and then `chat_result`; the conversation keeps the text generated so
far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import clean, clean_or_none, given_prompts
from llamaherd._r.forms import Part, parts, table_of
from llamaherd.engine.core.errors import renamed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
