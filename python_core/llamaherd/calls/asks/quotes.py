"""Texts from which answers quote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llamaherd.calls.structured.quoting import text_has_quotes
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from llamaherd.engine.core.sampling import SamplingParams


def with_sources(
    params: Sequence[SamplingParams], prompts: Sequence[object]
) -> Sequence[SamplingParams]:
    """Return the settings of prompts; if a schema has quotes, add the text to quote from.

    Args:
        params: Settings of each prompt.
        prompts: Texts, token ids or messages.

    Raises:
        ValueError: A prompt consists of token ids, so that there is no text to quote
            from; or `quote_from` is set, but no schema contains a quote.
    """
    wanted = [
        isinstance(own.schema, str) and text_has_quotes(own.schema) for own in params
    ]
    if not any(wanted) and any(own.quote_from is not None for own in params):
        raise ArgumentError(
            "needs a schema with a quote",
            argument="quote_from",
            code="conflict",
        )
    if not any(wanted):
        return params
    return [
        replace(own, quote_from=_words_of(prompt, i))
        if is_wanted and own.quote_from is None
        else own
        for i, (own, prompt, is_wanted) in enumerate(
            zip(params, prompts, wanted, strict=True)
        )
    ]


def _words_of(prompt: Any, i: int) -> str:  # noqa: ANN401 - it is checked later
    """Return the text of a prompt, or of the user's last message.

    A prompt without a text fails, because there is nothing to quote; other prompts
    continue.
    """
    if isinstance(prompt, str):
        return prompt
    messages = prompt if isinstance(prompt, Sequence) else ()
    if not messages or isinstance(messages[0], Mapping):
        said = [each for each in messages if each.get("role") == "user"]
        return _text_of(said[-1].get("content")) if said else ""  # which fails alone
    raise ArgumentError(
        "has no text to quote from: give its text in quote_from",
        argument="prompts",
        place=(i,),
        code="missing",
    )


def _text_of(content: object) -> str:
    """Return the text of a message, whose content may be a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))
