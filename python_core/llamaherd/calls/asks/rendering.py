"""Rendering of prompts in the form that the model reads, and plans of their thoughts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from llamaherd.calls.asks.options import PromptOptions, check_no_chat
from llamaherd.calls.chat.chat import chat_prompts, chat_renderer
from llamaherd.calls.chat.conversations import ChatPrompt, Refused
from llamaherd.calls.chat.thinking_format import ThinkingFormat, format_of
from llamaherd.calls.structured.prompt import schema_prompt
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import ArgumentError, ChatTemplateError, ThinkingWarning
from llamaherd.engine.core.request import ThoughtStage
from llamaherd.engine.core.thinking import Thinking, ThinkingWanted
from llamaherd.engine.core.words import name_of, setting, words
from llamaherd.engine.model.tokens import detokenize
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from llamaherd.engine.model.model import Model

_N_TAIL = 32  # number of last tokens in which an opening marker is searched
_noticed: WeakSet[Model] = WeakSet()  # models for which the warning was already issued


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt as the model reads it: text, token ids, or the reason why it fails."""

    prompt: object
    thought: ThoughtStage | None = None

    @property
    def text(self) -> str:
        """Prompt as text; ChatTemplateError if the template refuses it."""
        if isinstance(self.prompt, Refused):
            raise ChatTemplateError(self.prompt.reason)
        return str(self.prompt)


def rendered_prompts(
    model: Model,
    prompts: Sequence[object],
    options: PromptOptions,
    *,
    is_constrained: bool | Sequence[bool],
    is_silent: bool = False,
) -> list[Rendered]:
    """Render prompts, all or each `is_constrained`, and plan the thoughts after them."""
    flags = is_constrained
    if isinstance(flags, bool):
        flags = [flags] * len(prompts)
    if not options.chat:
        check_no_chat(options)
        return _raw(model, prompts, flags)
    by_flag: dict[bool, list[Rendered]] = {
        flag: _chats(model, prompts, options, is_constrained=flag, is_silent=is_silent)
        for flag in sorted(set(flags)) or [False]
    }
    return [by_flag[flag][i] for i, flag in enumerate(flags)]


def _chats(
    model: Model,
    prompts: Sequence[object],
    options: PromptOptions,
    *,
    is_constrained: bool,
    is_silent: bool = False,
) -> list[Rendered]:
    plan = plan_thinking(
        model,
        options.thinking,  # type: ignore[arg-type] # it was checked
        constrained=is_constrained,
        template=options.template,
        variables=options.variables,
    )
    rendered = chat_prompts(
        model,
        prompts,
        options.system,
        template=options.template,
        variables=options.variables if plan is None else plan.variables,
        prefix=options.prefix,
        merge_system=options.merge_system,
    )
    if plan is None:
        return [Rendered(prompt) for prompt in rendered]
    if plan.notice and not is_silent and model not in _noticed:
        _noticed.add(model)
        warn_caller(plan.notice, ThinkingWarning)
    return [
        Rendered(prompt) if isinstance(prompt, Refused) else Rendered(*plan.apply(prompt))
        for prompt in rendered
    ]


def notice_thinking(model: Model, options: PromptOptions) -> None:
    """Warn on the caller's thread if the call renders its prompts on another thread."""
    if options.chat:
        _chats(model, [], options, is_constrained=True)


def _raw(
    model: Model, prompts: Sequence[object], is_constrained: Sequence[bool]
) -> list[Rendered]:
    """Return prompts unchanged; a prompt that ends inside a thought fails."""
    thinking_format = None
    if any(is_constrained):
        with suppress(ChatTemplateError):  # no template, and no thoughts
            thinking_format = format_of(chat_renderer(model))
    if thinking_format is None:
        return [Rendered(prompt) for prompt in prompts]
    opening = checks.quoted(thinking_format.opening)
    problem = Refused(
        f"the prompt ends in {opening}, which opens a thought, so "
        f"the constraint would apply inside the thought. Use {words().chat}: "
        f"{setting('thinking', False)} then closes the thought, and "
        f"{setting('thinking', 256)} lets the model think before the answer"
    )
    return [
        Rendered(problem if flag and _is_open(model, thinking_format, prompt) else prompt)
        for prompt, flag in zip(prompts, is_constrained, strict=True)
    ]


def _is_open(model: Model, thinking_format: ThinkingFormat, prompt: object) -> bool:
    text = prompt
    if not isinstance(prompt, str):
        try:
            tail = list(prompt)[-_N_TAIL:]  # type: ignore[call-overload] # it is checked later
            text = detokenize(model, tail, unparse_special=True)
        except (TypeError, ValueError):  # invalid token ids are reported elsewhere
            return False
    return isinstance(text, str) and thinking_format.state(text) == "open"


_BEFORE = "\x02"  # no token contains this text and also other text


@dataclass(frozen=True)
class ThinkingPlan:
    """Plan of the thoughts of a call.

    `thinking` is None to close thoughts. `is_asked` is False if the model decides whether
    it thinks; `variables` include a switch.
    """

    model: Model
    format: ThinkingFormat
    thinking: Thinking | None
    variables: Mapping[str, object]
    is_asked: bool = True
    notice: str = ""
    _cache: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False)

    def apply(self, prompt: str, prefix: str = "") -> tuple[str, ThoughtStage | None]:
        """Close, open or continue the thought of a prompt; `prefix` follows the start."""
        text, start = str(prompt), ""
        if isinstance(prompt, ChatPrompt):
            text, start = prompt.question, prompt.prefill
        if prefix:
            with self.model.using() as handle:
                start += vocabulary.mark_literals(handle, prefix)
        state = self.format.state(text)
        if self.thinking is None or (state == "closed" and not self.is_asked):
            return self.format.close(text) + start, None
        if self.is_asked:
            return self.format.open(text), self._stage(self.thinking, start, is_open=True)
        # A thought that is a separate turn begins with the tokens that start a turn.
        is_open = state == "open" or self.format.is_turn
        return text, self._stage(self.thinking, start, is_open=is_open)

    def _stage(self, thinking: Thinking, prefix: str, *, is_open: bool) -> ThoughtStage:
        thinking_format = self.format
        is_spaced = thinking_format.lead.isspace() and thinking.message[-1:].isspace()
        lead = "" if is_spaced else thinking_format.lead
        after = thinking_format.after + prefix
        end = self._tokens(thinking_format.end)
        both = self._tokens(thinking_format.end + after)
        with self.model.using() as handle:
            message = vocabulary.mark_literals(handle, thinking.message)
        return ThoughtStage(
            budget=thinking.budget,
            is_open=is_open,
            start=self._tokens(thinking_format.opening),
            end=end,
            after=both[len(end) :] if both[: len(end)] == end else self._tokens(after),
            closing=self._tokens(message + lead + thinking_format.end + after),
        )

    def _tokens(self, text: str) -> tuple[int, ...]:
        if text not in self._cache:
            self._cache[text] = _tokens_inside(self.model, text)
        return self._cache[text]


def plan_thinking(
    model: Model,
    thinking: ThinkingWanted,
    *,
    constrained: bool,
    template: str | None = None,
    variables: Mapping[str, object] | None = None,
) -> ThinkingPlan | None:
    """Plan the thoughts of a call; None if no thought is opened or closed."""
    values = dict(variables or {})
    thinking_format = format_of(chat_renderer(model, template=template, variables=values))
    if isinstance(thinking, Thinking):
        thinking_format = _requested_format(thinking_format, thinking)
        switched = {**(thinking_format.on or {}), **values}
        return ThinkingPlan(model, thinking_format, thinking, switched)
    if thinking_format is None:
        return None
    is_default = thinking_format.is_by_default
    if thinking is None and not constrained:
        if not is_default or not thinking_format.end:
            return None
        return ThinkingPlan(model, thinking_format, Thinking(), values, is_asked=False)
    if not thinking_format.end:
        raise ArgumentError(
            "cannot be turned off: the prompt ends in "
            f"{checks.quoted(thinking_format.opening)}, and llamaherd does not know how "
            f"such a thought ends: use {words().markers}",
            argument="thinking",
        )
    notice = _notice() if thinking is None and is_default else ""
    switched = {**(thinking_format.off or {}), **values}
    return ThinkingPlan(
        model, thinking_format, None, switched, is_asked=False, notice=notice
    )


def _requested_format(
    thinking_format: ThinkingFormat | None, thinking: Thinking
) -> ThinkingFormat:
    """Return the format of a requested thought, in which the caller's markers prevail."""
    start = thinking.start or (thinking_format.start if thinking_format else "")
    end = thinking.end or (thinking_format.end if thinking_format else "")
    if not start or not end:
        raise ArgumentError(
            "has no effect: the chat template has no markers of thoughts (use "
            f"{words().markers} if the model knows some)",
            argument="thinking",
        )
    if thinking_format is None:
        return ThinkingFormat(start, end)
    if (start, end) == (thinking_format.start, thinking_format.end):
        return thinking_format
    return replace(thinking_format, start=start, end=end, lead="", is_turn=False)


def _tokens_inside(model: Model, text: str) -> tuple[int, ...]:
    """Tokenize a text that follows other text, including special tokens in it."""
    n_before = int(bool(model.info.add_bos))
    with model.using() as handle:

        def tokens(text: str) -> list[int]:
            ids = vocabulary.tokenize_prompt(handle, text, 1).tolist()
            return ids[n_before : len(ids) - int(bool(model.info.add_eos))]

        alone = vocabulary.tokenize(handle, "a", add_special=False, parse_special=False)
        if not text or alone == vocabulary.tokenize_inside(handle, "a"):
            return tuple(tokens(text))
        # The tokenizer puts a space before a text.
        head, both = tokens(_BEFORE), tokens(_BEFORE + text)
    is_apart = both[: len(head)] == head
    return tuple(both[len(head) :] if is_apart else tokens(text))


def _notice() -> str:
    """Return the warning that thinking is off for a model that thinks by default."""
    return (
        "by its chat template the model thinks before it answers; thinking is off here, "
        "as labels and constraints apply to the answer: "
        f"{setting('thinking', 256)} lets it think first, for at most 256 tokens"
    )


# ---- schemas and quotes in prompts

_PLAIN = {"type", "additionalProperties", "$schema"}  # keywords that describe no field


def with_schemas(prompts: Sequence[object], schemas: Sequence[object]) -> list[object]:
    """Describe the schema of each answer before the text of the last user message."""
    return [
        _with_text(prompt, _schema_description(schema))
        if isinstance(schema, str)
        else prompt
        for prompt, schema in zip(prompts, schemas, strict=True)
    ]


@lru_cache(maxsize=256)
def _schema_description(schema: str) -> str:
    """Return the description; "" for a schema without any field, such as any object."""
    root = json.loads(schema)
    is_plain = not isinstance(root, dict) or set(root) <= _PLAIN
    return "" if is_plain else schema_prompt(root)


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


def quotable_text(prompt: Any, i: int) -> str:  # it is checked later
    """Return the text of a prompt, or of the user's last message; fail without a text."""
    if isinstance(prompt, str):
        return prompt
    messages = prompt if isinstance(prompt, Sequence) else ()
    if not messages or isinstance(messages[0], Mapping):
        turns = [turn for turn in messages if turn.get("role") == "user"]
        return _text_of(turns[-1].get("content")) if turns else ""  # which fails alone
    raise ArgumentError(
        f"has no text to quote from: give its text in {name_of('quote_from')}",
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
