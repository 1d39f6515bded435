"""Rendering of conversations, with starts of answers, refusals and earlier thoughts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self, TypeAlias

from llamaherd.calls.chat.messages import (
    check_texts,
    has_neighbours,
    merged_system,
    split_prefill,
    with_arguments_as_text,
    with_thought,
)
from llamaherd.calls.chat.thinking_format import format_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    ChatTemplateError,
    Failure,
)
from llamaherd.engine.core.plain import is_missing, plain
from llamaherd.engine.core.words import name_of
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from llamaherd.calls.chat.renderer import Renderer
    from llamaherd.engine.model.model import Model

Messages: TypeAlias = list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class Refused:
    """A prompt that fails before it is tokenized."""

    reason: str
    code: str = "chat_template"

    @property
    def failure(self) -> Failure:
        """Return the reason with its code."""
        return Failure(self.reason, self.code)


def prompts_or_refusals(
    prompts: object, name: str = "prompts", hint: str | None = None
) -> list[object]:
    """Return the elements of a list of prompts; a `Refused` for each that must fail."""
    noun = f"the {name.removesuffix('s')}"
    return [
        refusal_of(item, noun) or item for item in checks.prompt_list(prompts, name, hint)
    ]


def refusal_of(prompt: object, noun: str) -> Refused | None:
    """Return the refusal of a prompt that is missing or has half of a surrogate pair."""
    if is_missing(prompt):
        return Refused(f"{noun} is missing", "missing")
    is_talk = isinstance(prompt, (list, tuple)) and isinstance(
        next(iter(prompt), 0), Mapping
    )
    if is_talk or isinstance(prompt, str):
        with suppress(ArgumentTypeError, RecursionError):  # reported by a later check
            try:
                check_texts(noun, prompt)
            except ArgumentError as error:
                return Refused(str(error), "not_tokenized")
    return None


def single(prompt: object) -> list[object]:
    """Return a list of a single prompt, which must not be missing."""
    prompt = plain(prompt)
    if is_missing(prompt):
        raise ArgumentTypeError(
            f"must be text or a sequence of token ids, not {checks.brief(prompt)}",
            argument="prompt",
        )
    return [prompt]


class ChatPrompt(str):
    """A rendered conversation with the start of its answer."""

    __slots__ = ("prefill", "question")
    question: str
    prefill: str

    def __new__(cls, question: str, prefill: str = "") -> Self:
        """Create a prompt from its two parts."""
        self = super().__new__(cls, question + prefill)
        self.question, self.prefill = question, prefill
        return self

    def __reduce__(self) -> tuple[type[ChatPrompt], tuple[str, str]]:
        return ChatPrompt, (self.question, self.prefill)


def prompt_or_refused(
    model: Model, renderer: Renderer, talk: Messages, prefix: str, *, merges: bool
) -> ChatPrompt | Refused:
    """Render a conversation; return a `Refused` if the template refuses it."""
    messages, prefill = split_prefill(talk)
    with model.using() as handle:
        start = vocabulary.mark_literals(handle, prefill + prefix)
    try:
        return ChatPrompt(render_conversation(model, renderer, messages), start)
    except ChatTemplateError as error:
        merged = merged_system(messages)
        if merged is not None and not _is_refused(model, renderer, merged):
            if merges:
                return ChatPrompt(render_conversation(model, renderer, merged), start)
            return Refused(
                f"{error}: the template takes no system message. Use "
                f"{name_of('merge_system')} to put its text into the first message of "
                "the user"
            )
        if has_neighbours(messages):
            return Refused(
                f"{error}: two messages of the same role follow each other. Join them "
                "into one"
            )
        return Refused(str(error))


def _is_refused(model: Model, renderer: Renderer, messages: Messages) -> bool:
    try:
        render_conversation(model, renderer, messages)
    except ChatTemplateError:
        return True
    return False


def render_conversation(
    model: Model,
    renderer: Renderer,
    messages: Messages,
    *,
    add_generation_prompt: bool = True,
) -> str:
    """Render a conversation; write earlier thoughts if the template supports thoughts."""
    ways: list[Callable[[dict[str, object]], dict[str, object]]] = [
        lambda message: message,
        # The text of an earlier answer may contain its thought with markers.
        partial(_split, renderer),
        with_arguments_as_text,
    ]
    refused: list[tuple[Messages, ChatTemplateError]] = []
    with model.using():
        for way in ways:
            conversations = [
                _with_parts(renderer, way(conversation)) for conversation in messages
            ]
            if any(conversations == tried for tried, _ in refused):
                continue
            try:
                return renderer.render(
                    conversations, add_generation_prompt=add_generation_prompt
                )
            except ChatTemplateError as error:
                refused.append((conversations, error))
    raise refused[0][1]


def _with_parts(renderer: Renderer, message: dict[str, object]) -> dict[str, object]:
    """Return a message with its thought as a part, if the template expects parts."""
    thought = message.get("thinking")
    if not thought or message["role"] != "assistant":
        return message
    thinking_format = format_of(renderer)
    if thinking_format is None or not thinking_format.is_in_parts:
        return message
    parts = [
        {"type": "thinking", "thinking": thought},
        {"type": "text", "text": message["content"]},
    ]
    return {**message, "content": parts}


def _split(renderer: Renderer, message: dict[str, object]) -> dict[str, object]:
    """Return a message of the assistant with its thought separated from the text."""
    if message["role"] != "assistant" or message.get("thinking"):
        return message
    thinking_format = format_of(renderer)
    parts = (
        thinking_format.split(str(message["content"]))
        if thinking_format is not None
        else None
    )
    if parts is None:
        return message
    return with_thought({**message, "content": parts[1]}, parts[0])
