"""Planning of a call's thoughts, from the chat template and the argument `thinking`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from llamaherd.calls.chat.chat import chat_renderer
from llamaherd.calls.chat.conversations import ChatPrompt
from llamaherd.calls.chat.thinking_format import ThinkingFormat, format_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.request import ThoughtStage
from llamaherd.engine.core.thinking import DEFAULT_BUDGET, DEFAULT_MESSAGE, Thinking
from llamaherd.engine.core.words import setting, words
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.engine.core.thinking import ThinkingWanted
    from llamaherd.engine.model.model import Model

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
