"""Descriptions of JSON Schemas in the messages of chats."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from llamaherd.calls.structured.prompt import schema_prompt

_PLAIN = {"type", "additionalProperties", "$schema"}  # keywords that describe no field


def with_schemas(prompts: Sequence[object], schemas: Sequence[object]) -> list[object]:
    """Return prompts of a chat that describe the schemas of their answers.

    The description precedes the text of the last message of the user: there every
    template renders it, and equal descriptions are computed once for all prompts.

    Args:
        prompts: Texts or lists of messages; other prompts stay unchanged.
        schemas: JSON text of the schema of each prompt; None without a schema.
    """
    known: dict[str, str] = {}
    made = []
    for prompt, schema in zip(prompts, schemas, strict=True):
        if not isinstance(schema, str):
            made.append(prompt)
            continue
        if schema not in known:
            known[schema] = _described(schema)
        made.append(_with_text(prompt, known[schema]))
    return made


def _described(schema: str) -> str:
    """Return the description; "" for a schema without any field, such as any object."""
    read = json.loads(schema)
    return (
        "" if not isinstance(read, dict) or set(read) <= _PLAIN else schema_prompt(read)
    )


def _with_text(prompt: object, text: str) -> object:
    if not text:
        return prompt
    if isinstance(prompt, str):
        return prompt if text in prompt else f"{text}\n\n{prompt}"
    if not isinstance(prompt, Sequence) or not all(
        isinstance(message, Mapping) for message in prompt
    ):
        return prompt
    contents = [message.get("content") for message in prompt]
    if any(isinstance(content, str) and text in content for content in contents):
        return prompt
    at = [i for i, message in enumerate(prompt) if message.get("role") == "user"]
    if not at or not isinstance(contents[at[-1]], str):
        return prompt
    messages = list(prompt)
    messages[at[-1]] = {**messages[at[-1]], "content": f"{text}\n\n{contents[at[-1]]}"}
    return messages
