"""Rendering of prompts in the form that the model reads, and plans of their thoughts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from weakref import WeakSet

from llamaherd.calls.asks.options import check_no_chat
from llamaherd.calls.chat.chat import chat_prompts, chat_renderer
from llamaherd.calls.chat.conversations import ChatPrompt, Refused
from llamaherd.calls.chat.thinking_format import ThinkingFormat, format_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import ArgumentError, ChatTemplateError, ThinkingWarning
from llamaherd.engine.core.request import ThoughtStage
from llamaherd.engine.core.thinking import DEFAULT_BUDGET, DEFAULT_MESSAGE, Thinking
from llamaherd.engine.core.words import setting, words
from llamaherd.engine.model.tokens import detokenize
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.calls.asks.options import PromptOptions
    from llamaherd.engine.core.thinking import ThinkingWanted
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


_BEFORE = "\x02"  # no token contains this text and also other text


@dataclass(frozen=True)
class ThinkingPlan:
    """Plan of the thoughts of a call; `message` ends a thought whose budget is spent.

    `is_asked` is False if the model decides; `variables` include a switch.
    """

    model: Model
    format: ThinkingFormat
    budget: int | None
    message: str
    is_asked: bool
    variables: Mapping[str, object]
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
        if self.budget is None or (state == "closed" and not self.is_asked):
            return self.format.close(text) + start, None
        if self.is_asked:
            return self.format.open(text), self._stage(start, is_open=True)
        # A thought that is a separate turn begins with the tokens that start a turn.
        is_open = state == "open" or self.format.is_turn
        return text, self._stage(start, is_open=is_open)

    def _stage(self, prefix: str, *, is_open: bool) -> ThoughtStage:
        thinking_format = self.format
        is_spaced = thinking_format.lead.isspace() and self.message[-1:].isspace()
        lead = "" if is_spaced else thinking_format.lead
        after = thinking_format.after + prefix
        end = self._tokens(thinking_format.end)
        both = self._tokens(thinking_format.end + after)
        with self.model.using() as handle:
            message = vocabulary.mark_literals(handle, self.message)
        return ThoughtStage(
            budget=self.budget or 0,
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
    template_variables = dict(variables or {})
    thinking_format = format_of(
        chat_renderer(model, template=template, variables=template_variables)
    )
    if isinstance(thinking, Thinking):
        thinking_format = _asked(thinking_format, thinking)
        both = {**(thinking_format.on or {}), **template_variables}
        message = thinking.message
        return ThinkingPlan(model, thinking_format, thinking.budget, message, True, both)
    if thinking_format is None:
        return None
    is_free = thinking is None and not constrained
    if is_free and (not thinking_format.is_by_default or not thinking_format.end):
        return None
    if not thinking_format.end:
        raise ArgumentError(
            "cannot be turned off: the prompt ends in "
            f"{checks.quoted(thinking_format.opening)}, and llamaherd does not know how "
            f"such a thought ends: use {words().markers}",
            argument="thinking",
        )
    if is_free:
        return ThinkingPlan(
            model,
            thinking_format,
            DEFAULT_BUDGET,
            DEFAULT_MESSAGE,
            is_asked=False,
            variables=template_variables,
        )
    notice = _notice() if thinking is None and thinking_format.is_by_default else ""
    both = {**(thinking_format.off or {}), **template_variables}
    return ThinkingPlan(
        model, thinking_format, None, "", is_asked=False, variables=both, notice=notice
    )


def _asked(thinking_format: ThinkingFormat | None, wanted: Thinking) -> ThinkingFormat:
    """Return the format of a requested thought, in which the caller's markers prevail."""
    start = wanted.start or (thinking_format.start if thinking_format else "")
    end = wanted.end or (thinking_format.end if thinking_format else "")
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
