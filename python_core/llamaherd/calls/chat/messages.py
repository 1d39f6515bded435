"""Checks and conversions of the messages of a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Name, argument_of
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.request import check_wanted

# Fields of a message that can contain the thought of an answer. A template reads one of
# these fields.
THOUGHT_FIELDS = ("reasoning_content", "thinking", "reasoning")


def checked_messages(name: Name, messages: object) -> list[dict[str, object]]:
    """Check messages; each content becomes a text, thoughts fill `THOUGHT_FIELDS`."""
    if isinstance(messages, (str, Mapping)) or not isinstance(messages, Sequence):
        raise ArgumentTypeError(
            f"must be a list of messages, not {checks.brief(messages)}", argument=name
        )
    if not messages:
        raise ArgumentError("must not be empty", argument=name, code="empty")
    return [
        _check_message(argument_of(name).at(i), message)
        for i, message in enumerate(messages)
    ]


def user_messages(name: Name, prompt: object) -> list[dict[str, object]]:
    """Return the conversation of a prompt: the text of a user, or a list of messages."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": checks.text(name, prompt)}]
    return checked_messages(name, prompt)


def split_prefill(
    messages: list[dict[str, object]],
) -> tuple[list[dict[str, object]], str]:
    """Remove a last message of the assistant, and return its text, which goes on."""
    last = messages[-1]
    if last["role"] != "assistant" or last.get("tool_calls") or len(messages) == 1:
        return messages, ""
    return messages[:-1], str(last["content"])


def merged_system(messages: list[dict[str, object]]) -> list[dict[str, object]] | None:
    """Put system texts into the user's first message; None without either."""
    n = 0
    while n < len(messages) and messages[n]["role"] in ("system", "developer"):
        n += 1
    if n == 0 or n == len(messages) or messages[n]["role"] != "user":
        return None
    texts = [str(message["content"]) for message in messages[: n + 1]]
    text = "\n\n".join(text for text in texts if text)
    return [{**messages[n], "content": text}, *messages[n + 1 :]]


def has_neighbours(messages: list[dict[str, object]]) -> bool:
    """Return whether two consecutive messages have the same role."""
    roles = [message["role"] for message in messages]
    return any(
        role == after and role in ("user", "assistant") for role, after in pairwise(roles)
    )


def with_thought(message: dict[str, object], thought: str) -> dict[str, object]:
    """Return a message with a thought in each field that templates read."""
    return {**message, **dict.fromkeys(THOUGHT_FIELDS, thought)}


def with_arguments_as_text(message: dict[str, object]) -> dict[str, object]:
    """Return a message in which the arguments of tool calls are JSON text."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": _each_call(calls, _as_text)}


def _each_call(calls: object, change: Callable[[object], object]) -> object:
    """Change the arguments of each call; other values stay for the template."""
    if not isinstance(calls, (list, tuple)):
        return calls
    changed = []
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            new_function = {**function, "arguments": change(function.get("arguments"))}
            changed.append({**call, "function": new_function})
        else:
            changed.append(call)
    return changed


def _as_object(arguments: object) -> object:
    """Parse arguments that are JSON text; none, or an empty text, are {}."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}
    if not isinstance(arguments, str):
        return arguments
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def _as_text(arguments: object) -> object:
    if isinstance(arguments, str):
        return arguments
    return json.dumps(arguments, ensure_ascii=False)


def _check_message(name: Name, value: object) -> dict[str, Any]:
    check_wanted()
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(
            f"must be a mapping, not {checks.brief(value)}", argument=name
        )
    where = argument_of(name)
    # A message that calls tools may have no text.
    checked: dict[str, Any] = checks.tree(name, value)
    if checked.get("tool_calls") and checked.get("content") is None:
        checked["content"] = ""
    for key in ("role", "content"):
        if key not in checked:
            raise ArgumentError(
                f"has no {checks.quoted(key)}: {checks.brief(value)}",
                argument=name,
                code="missing",
            )
    checked["role"] = checks.text(where.at("role"), checked["role"])
    checked["content"] = _text_of(where.at("content"), checked["content"])
    if checked.get("tool_calls"):
        checked["tool_calls"] = _each_call(checked["tool_calls"], _as_object)
    thoughts = [key for key in THOUGHT_FIELDS if checked.get(key) is not None]
    if thoughts:
        thought = checks.text(where.at(thoughts[0]), checked[thoughts[0]])
        checked = with_thought(checked, thought)
    others = checked.keys() - {"role", "content", *THOUGHT_FIELDS}
    check_texts(where, {key: checked[key] for key in checked if key in others})
    return checked


def check_texts(name: Name, value: object) -> None:
    """Check that UTF-8 can encode the texts in a value, for its part in a prompt."""
    if isinstance(value, str):
        checks.text(name, value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            check_texts(name, key)
            check_texts(argument_of(name).at(str(key)), part)
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            check_texts(argument_of(name).at(i), part)


def _text_of(name: Name, content: object) -> str:
    """Return the text of a content, which may be a list of parts as in OpenAI's API."""
    if isinstance(content, str) or not isinstance(content, Sequence):
        return checks.text(name, content)
    texts = []
    for i, part in enumerate(content):
        place = argument_of(name).at(i)
        if not isinstance(part, Mapping):
            raise ArgumentTypeError(
                f"must be a mapping, not {checks.brief(part)}", argument=place
            )
        if part.get("type") != "text":
            raise ArgumentError(
                f"must be a part with the type {checks.quoted('text')}, not "
                f"{checks.brief(part.get('type'))}",
                argument=place,
            )
        texts.append(checks.text(place.at("text"), part.get("text")))
    return "".join(texts)
