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
from llamaherd._r.boundary import (
    boundary,
    clean,
    clean_or_none,
    given_prompts,
    renamed,
)
from llamaherd._r.forms import Part, parts, table_of, value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@boundary
def chat_create(
    context: lh.Context | lh.Model,
    system: str | None,
    turns: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
) -> dict[str, lh.Chat]:
    """Start a conversation, and return it as `python`.

    Args:
        context: Context to run in, or a model, for which a new context is created.
        system: Text of a system message; None without a system message.
        turns: Messages of an earlier conversation with `role`, `content` and optionally
            `reasoning_content` and `interrupted`; empty for a new conversation.
        settings: Options of all questions, as for `chat_ask`.
    """
    given = [{k: v for k, v in turn.items() if v is not None} for turn in turns]
    return {"python": lh.chat(context, system, turns=given, **_settings(settings))}


@boundary
def chat_ask(
    chat: lh.Chat, text: str | None, settings: Mapping[str, Any]
) -> dict[str, lh.Reply]:
    """Submit a question, and return its `reply` at once.

    Args:
        chat: Chat.
        text: Question; None asks the last question again and replaces its answer.
        settings: Options of this question, which override the options of the chat: fields
            of `SamplingParams`, directly or in a mapping `sampling`, and other options of
            `llamaherd.chat`, such as `thinking`.
    """
    given = _settings(settings)
    if text is None:
        return {"reply": chat.retry(stream=True, **given)}
    return {"reply": chat.stream(text, **given)}


@boundary
def chat_read(reply: lh.Reply, n_read: int, timeout_s: float) -> dict[str, Any]:
    """Wait for new pieces of an answer for at most `timeout_s` seconds.

    Args:
        reply: Reply of `chat_ask`.
        n_read: Number of pieces that were read before.
        timeout_s: Maximum time to wait in seconds.

    Returns:
        `texts` of the new pieces; `kinds`, "thinking" or "answer" for each piece; and
        `done`, True after the last piece.
    """
    done = reply.done()  # `done` is read before the pieces, so that no piece is missed
    pieces = reply.read(n_read, timeout_s)
    return {
        "texts": [clean(piece) for piece in pieces],
        "kinds": [piece.kind for piece in pieces],
        "done": done,
    }


@boundary
def chat_cancel(reply: lh.Reply) -> None:
    """Request the end of an answer, which stops within one step; return at once."""
    reply.cancel()


@boundary
def chat_result(reply: lh.Reply) -> dict[str, Any]:
    """Wait for the end of an answer and return its result.

    Returns:
        Fields of `Result`. A cancelled answer has its text in `partial` and the finish
        reason "cancelled"; a failed answer raises an error.
    """
    result = reply.result()
    stats = result.stats
    return {
        "text": clean_or_none(result.text),
        "partial": clean_or_none(result.partial),
        "thinking": clean_or_none(result.thinking),
        "n_thinking_tokens": result.n_thinking_tokens,
        "thinking_complete": result.thinking_complete,
        "finish_reason": result.finish_reason,
        "complete": result.complete,
        "n_prompt_tokens": result.n_prompt_tokens,
        "n_generated_tokens": result.n_generated_tokens,
        "n_computed_tokens": 0 if stats is None else stats.n_prefill_tokens,
        "seed": float(result.seed),
    }


@boundary
def chat_turns(chat: lh.Chat) -> Part:
    """Return `system`, and the `turns` with the system message, see `_turns`."""
    first = [] if chat.system is None else [{"role": "system", "content": chat.system}]
    return parts(system=value(chat.system), turns=_turns([*first, *chat.turns]))


@boundary
def chat_set_system(chat: lh.Chat, text: str | None) -> None:
    """Set the system message for later questions; None removes it."""
    with renamed(system="text"):
        chat.system = text


@boundary
def chat_undo(chat: lh.Chat) -> Part:
    """Remove the last question with its answer, and return both as a table."""
    return _turns(chat.undo())


@boundary
def chat_forget(chat: lh.Chat, n: int) -> Part:
    """Remove the n oldest questions with their answers, and return them as a table."""
    return _turns(chat.forget(n))


@boundary
def chat_fork(chat: lh.Chat, n: int) -> dict[str, list[lh.Chat]]:
    """Return n independent conversations that continue this one, as `pythons`."""
    return {"pythons": chat.fork(n)}


@boundary
def chat_ask_all(
    chat: lh.Chat, texts: Sequence[str | None], settings: Mapping[str, Any]
) -> dict[str, lh.Job[lh.Results]]:
    """Start to answer many questions in one batch, each as a continuation of the chat.

    Args:
        chat: Chat, which is not changed.
        texts: Questions; a missing question (None) fails.
        settings: Options that override the options of the chat, as for `chat_ask`.

    Returns:
        `job`, for `job_wait` and `job_result`.
    """
    return {"job": chat.start_all(given_prompts(texts, chat=True), **_settings(settings))}


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
    kinds = dict.fromkeys(("role", "content", "thinking"), "text")
    return table_of(rows, {**kinds, "interrupted": "flag"})


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    given = given or {}  # an empty list from R arrives as []
    settings: dict[str, Any] = {k: v for k, v in given.items() if k != "sampling"}
    return {**settings, **given.get("sampling", {})}
