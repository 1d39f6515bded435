"""Rendering of prompts in the form that the model reads, with stages of thoughts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakSet

from llamaherd.calls.asks.options import check_no_chat
from llamaherd.calls.chat.chat import chat_prompts, chat_renderer
from llamaherd.calls.chat.conversations import Refused
from llamaherd.calls.chat.thinking import plan_thinking
from llamaherd.calls.chat.thinking_format import format_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import ChatTemplateError, ThinkingWarning
from llamaherd.engine.core.words import setting, words
from llamaherd.engine.model.tokens import detokenize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.asks.options import PromptOptions
    from llamaherd.calls.chat.thinking_format import ThinkingFormat
    from llamaherd.engine.core.request import ThoughtStage
    from llamaherd.engine.model.model import Model

_N_TAIL = 32  # number of last tokens in which an opening marker is searched
_noticed: WeakSet[Model] = WeakSet()  # models for which the warning was already issued


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt as the model reads it: text, token ids, or the reason why it fails."""

    prompt: object
    thought: ThoughtStage | None = None


def rendered_prompts(
    model: Model,
    prompts: Sequence[object],
    options: PromptOptions,
    is_constrained: Sequence[bool],
    *,
    is_silent: bool = False,
) -> list[Rendered]:
    """Render prompts as text and determine the stages of their thoughts."""
    if not options.chat:
        check_no_chat(options)
        return _raw(model, prompts, is_constrained)
    by_flag: dict[bool, list[Rendered]] = {
        flag: _chats(model, prompts, options, is_constrained=flag, is_silent=is_silent)
        for flag in sorted(set(is_constrained)) or [False]
    }
    return [by_flag[flag][i] for i, flag in enumerate(is_constrained)]


def rendered(
    model: Model, prompts: object, options: PromptOptions, *, is_scored: bool = False
) -> list[object]:
    """Return the rendered prompts of `rendered_prompts` without their thoughts."""
    items = checks.prompt_list(prompts)
    texts = rendered_prompts(model, items, options, [is_scored] * len(items))
    return [one.prompt for one in texts]


def rendered_text(
    model: Model, prompts: object, options: PromptOptions, *, is_scored: bool = False
) -> str:
    """Return the first prompt of `rendered` as text."""
    prompt = rendered(model, prompts, options, is_scored=is_scored)[0]
    if isinstance(prompt, Refused):
        raise ChatTemplateError(prompt.reason)
    return str(prompt)


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
