"""Format of thoughts in a chat template, found by trial renderings."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import jinja2
from jinja2 import meta, nodes

from llamaherd.calls.chat.messages import with_thought
from llamaherd.calls.chat.renderer import Renderer, Sandbox
from llamaherd.engine.core.errors import ChatTemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


State: TypeAlias = Literal["open", "closed", "bare"]

_QUESTION, _ANSWER, _THOUGHT = "Qq7Qq", "Aa7Aa", "Tt7Tt"
_ASKED: dict[str, object] = {"role": "user", "content": _QUESTION}
_ANSWERED: dict[str, object] = {"role": "assistant", "content": _ANSWER}

# Markers of templates that do not write the thoughts of messages: some templates remove
# a thought from the conversation, others describe in words how to think. The first pair
# of markers that the template mentions is used. A third text, if given, begins the
# answer.
_KNOWN: tuple[tuple[str, str, str | None], ...] = (
    ("<|open|>think<|sep|>", "<|close|>think<|sep|><|open|>response<|sep|>", ""),
    ("<|channel>thought\n", "<channel|>", ""),
    ("<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>", ""),
    ("[THINK]", "[/THINK]", ""),
    ("<think>", "</think>", None),
)
_AFTER = "\n\n"  # text that most models generate after an end marker of a thought
_HINT = re.compile(r"think|reason|thought|channel|inner_prefix", re.IGNORECASE)
_TAG = re.compile(r"<([^<>/|\s]+)>\s*\Z")
_OPENING = re.compile(
    r"[<\[][^<>\[\]/]*(?:think|reason|thought)[^<>\[\]/]*[>\]]\s*\Z", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ThinkingFormat:
    """Markers of thoughts in a chat template, and switches of the template.

    Attributes:
        start: Text that opens a thought, with the white space after it.
        end: Text that closes a thought; "" if unknown.
        lead: Text between a thought and `end`: white space. For a thought that is a
            separate turn, the end of this turn and the start of the next turn.
        after: Text between `end` and the answer: white space, or a separate marker.
        is_turn: Whether a thought is a separate turn.
        is_by_default: Whether, without a switch, the model thinks or decides itself
            whether to think.
        off: Variables that turn thinking off; `on` those that turn it on.
        is_in_parts: Whether the template reads thoughts as parts of a content.
        closed: Other ends of prompts after which the model does not think.
    """

    start: str
    end: str
    lead: str = ""
    after: str = _AFTER
    is_turn: bool = False
    is_by_default: bool = True
    off: Mapping[str, object] | None = None
    on: Mapping[str, object] | None = None
    is_in_parts: bool = False
    closed: tuple[str, ...] = ()

    @property
    def opening(self) -> str:
        """Opening marker without white space."""
        return self.start.strip()

    @property
    def closing(self) -> str:
        """Text from the end of a thought to the answer."""
        return self.lead + self.end + self.after

    def state(self, prompt: str) -> State:
        """Return whether a prompt ends inside a thought, after a thought, or neither."""
        tail = prompt.rstrip()
        ends = (self.end, *self.closed)
        if any(end and tail.endswith(end.rstrip()) for end in ends):
            return "closed"
        return "open" if tail.endswith(self.opening) else "bare"

    def close(self, prompt: str) -> str:
        """Return the prompt with its thought closed, so that the answer comes next."""
        state = self.state(prompt)
        if state == "open":
            return prompt + self.closing
        if state == "bare":
            if not self.is_by_default:
                return prompt
            empty = "" if self.is_turn else self.start + self.lead
            return prompt + empty + self.end + self.after
        begin = self.end if self.is_turn else self.after
        missing = begin.strip() and not prompt.rstrip().endswith(begin.strip())
        return prompt + begin if missing else prompt

    def open(self, prompt: str) -> str:
        """Return the prompt with a thought opened, so that it ends inside the thought."""
        state = self.state(prompt)
        if state == "open":
            return prompt
        if state == "closed":
            prompt = prompt.rstrip()
            ends = [marker.rstrip() for marker in (self.end, *self.closed)]
            prompt = prompt.removesuffix(next(filter(prompt.endswith, ends)))
            if prompt.rstrip().endswith(self.opening):
                prompt = prompt.rstrip().removesuffix(self.opening)
        return prompt + self.start

    def split(self, text: str) -> tuple[str, str] | None:
        """Split a text into thought and answer; None without the marker between them."""
        thought, marker, answer = text.partition(self.end.strip())
        if not marker:
            return None
        if self.is_turn:
            thought = thought.rstrip().removesuffix(self.lead.strip())
        return thought.strip().removeprefix(self.opening).strip(), answer.strip()


def format_of(renderer: Renderer) -> ThinkingFormat | None:
    """Return the format of thoughts; None without thoughts or if a question fails."""
    return _format_of(renderer.probe({}))


@lru_cache(maxsize=64)
def _format_of(renderer: Renderer) -> ThinkingFormat | None:
    source, probe = renderer.source, _Probe(renderer)
    prompt = probe.prompt({}) if _HINT.search(source) else None
    if prompt is None:
        return None
    switches = _switches(source, probe)
    thinking_format = _from_answer(probe, prompt)
    if thinking_format is None:
        known = [pair for pair in _KNOWN if pair[0].strip() in source]
        if not known:
            return _of_unknown(prompt)
        samples = [
            prompt,
            *(switch.prompt for switch in switches),
            probe.answered({}),
        ]
        thinking_format = _of_pair(*known[0], samples)
    return _with_switches(thinking_format, prompt, switches)


class _Probe:
    """Renderer of short conversations; returns None if the template refuses them."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def prompt(self, variables: Mapping[str, object]) -> str | None:
        return self._try([_ASKED], variables, is_prompt=True)

    def header(self, prompt: str) -> str:
        """Return the text at the end of a prompt that starts an answer."""
        without = self._try([_ASKED], {}, is_prompt=False)
        is_start = without is not None and prompt.startswith(without)
        return prompt[len(without or "") :] if is_start else ""

    def answered(self, fields: Mapping[str, object]) -> str:
        message = {**_ANSWERED, **fields}
        return self._try([_ASKED, message], {}, is_prompt=False) or ""

    def _try(
        self,
        messages: Sequence[Mapping[str, object]],
        variables: Mapping[str, object],
        *,
        is_prompt: bool,
    ) -> str | None:
        try:
            renderer = self._renderer.probe(variables)
            return renderer.render(messages, add_generation_prompt=is_prompt)
        except ChatTemplateError:
            return None


def _from_answer(probe: _Probe, prompt: str) -> ThinkingFormat | None:
    """Find the markers that the template writes around the thought of an answer."""
    parts = [
        {"type": "thinking", "thinking": _THOUGHT},
        {"type": "text", "text": _ANSWER},
    ]
    for fields in (with_thought({}, _THOUGHT), {"content": parts}):
        before, thought, behind = probe.answered(fields).partition(_THOUGHT)
        between, follows, _ = behind.partition(_ANSWER)
        # This check excludes templates that write the list of parts as JSON.
        if thought and follows and between.strip() and "type" not in between:
            thinking_format = _of_texts(before, between, prompt, probe.header(prompt))
            return replace(thinking_format, is_in_parts="content" in fields)
    return None


def _of_texts(before: str, between: str, prompt: str, header: str) -> ThinkingFormat:
    """Return the format with these texts before and after a thought."""
    end = between.strip()
    lead, after = between.split(end)
    for _, close, _ in _KNOWN:
        if end.startswith(close):  # a marker that begins the answer follows
            end, after = close, end.removeprefix(close) + after
    opening = _opposite(end)
    if opening and before.rstrip().endswith(opening):
        space = before[len(before.rstrip()) :]
        return ThinkingFormat(opening + space, end, lead, after)
    common = os.path.commonprefix([prompt, before])  # noqa: RUF071 - of texts, not of paths
    start = before[len(common) :] or prompt[len(common) :]
    cut = between.rfind(header) + len(header) if header.strip() else 0
    if header in between and between[cut:].strip():
        lead, end = between[:cut], between[cut:]
        # The template left the thought out.
        closed = (start.strip() + lead,)
        return ThinkingFormat(start, end, lead, "", is_turn=True, closed=closed)
    return ThinkingFormat(start, end, lead, after)


def _opposite(end: str) -> str:
    """Return the opening marker for a closing marker; "" if it cannot be derived."""
    for start, close, _ in _KNOWN:
        if close == end:
            return start.strip()
    match = re.fullmatch(r"([<\[])/([^<>\[\]]+[>\]])", end)
    return match[1] + match[2] if match else ""


def _of_pair(
    start: str, end: str, begin: str | None, samples: list[str]
) -> ThinkingFormat:
    """Return the format of known markers, with white space as in `samples`."""
    opening = start.strip()
    space, inside, after = start[len(start.rstrip()) :], None, ""
    for text in samples:
        opened = re.search(re.escape(opening) + r"(\s*)\Z", text)
        closed = re.search(
            rf"{re.escape(opening)}(\s*){re.escape(end)}(\s*)(?:{_ANSWER}|\Z)", text
        )
        space = opened[1] if opened else space
        inside = closed[1] if closed else inside
        after = closed[2] if closed else after
    match = re.search(rf"{re.escape(end)}(\s*){_ANSWER}", samples[-1])
    if inside is None:
        lead = space
    else:
        space = space or inside[: len(inside) // 2]
        lead = inside.removeprefix(space)
    if begin is None:
        begin = match[1] if match else after or _AFTER
    return ThinkingFormat(opening + space, end, lead, begin)


def _of_unknown(prompt: str) -> ThinkingFormat | None:
    """Return the format for a prompt whose end looks like an opening marker."""
    match = _OPENING.search(prompt)
    if match is None:
        return None
    tag = _TAG.search(prompt)
    return ThinkingFormat(match[0], f"</{tag[1]}>" if tag else "")


def _with_switches(
    thinking_format: ThinkingFormat, prompt: str, switches: list[Switch]
) -> ThinkingFormat:
    """Add the variables that turn thinking on and off."""
    default = thinking_format.state(prompt)
    offs, ons = _order_switches(switches, _OFF), _order_switches(switches, _ON)
    off = _first(offs, lambda s: thinking_format.state(s.prompt) == "closed")
    if off is None and default == "open":  # the template leaves the thought out
        off = _first(offs, lambda s: thinking_format.state(s.prompt) == "bare")
        if off is not None:
            thinking_format = replace(
                thinking_format, closed=(*thinking_format.closed, _last_tag(off.prompt))
            )
    on = _first(ons, lambda s: thinking_format.state(s.prompt) == "open")
    if on is None and (off is None or default == "closed"):
        on = _first(ons, lambda s: s.prompt != prompt)
    is_switched_on = on is not None and any(
        s.name == on.name and s.value is False and s.prompt == prompt for s in switches
    )
    is_off = default == "closed" or (default == "bare" and is_switched_on)
    return replace(
        thinking_format,
        is_by_default=not is_off,
        off={} if is_off else None if off is None else off.variables,
        on=None if on is None or default == "open" else on.variables,
    )


def _first(switches: list[Switch], test: Callable[[Switch], bool]) -> Switch | None:
    return next(filter(test, switches), None)


def _last_tag(prompt: str) -> str:
    """Return the end of a prompt, from the second to last special token on."""
    cuts = [match.start() for match in re.finditer(r"[<\[]", prompt)]
    return prompt[cuts[-2] :] if len(cuts) > 1 else prompt


Value: TypeAlias = "bool | int | str"

_NAMES = re.compile(r"think|reason")
_MOST_RENDERINGS = 100  # renderings of a template
# Values that mean little thinking, the least first, and values that mean much thinking.
_OFF: tuple[Value, ...] = (
    *(False, 0, "none", "no_think", "no_thinking", "disabled", "off", "false"),
    *("chat", "minimal", "low"),
)
_ON: tuple[Value, ...] = (True, "enabled", "on", "true", "high", "medium", "low")


class Switch(NamedTuple):
    """A variable with a value, and the prompt that the template renders with it."""

    name: str
    value: Value
    prompt: str

    @property
    def variables(self) -> dict[str, object]:
        """Dict of the variable, to be passed to the template."""
        return {self.name: self.value}


def _switches(source: str, probe: _Probe) -> list[Switch]:
    """Return the variables and values that may switch thinking, with their prompts."""
    candidates = islice(_candidates(source), _MOST_RENDERINGS)
    prompts = [(name, value, probe.prompt({name: value})) for name, value in candidates]
    return [
        Switch(name, value, prompt)
        for name, value, prompt in prompts
        if prompt is not None
    ]


def _order_switches(switches: list[Switch], values: tuple[Value, ...]) -> list[Switch]:
    """Return the switches with one of these values, the most likely first."""
    order = [_key(value) for value in values]
    known = [switch for switch in switches if _key(switch.value) in order]
    return sorted(known, key=lambda switch: order.index(_key(switch.value)))


def _key(value: Value) -> tuple[type, Value]:
    return type(value), value


def _candidates(source: str) -> Iterator[tuple[str, Value]]:
    """Yield the variables and values that the text of the template suggests."""
    try:
        tree = Sandbox().parse(source)
    except jinja2.TemplateError:
        return
    compared = [
        ({name.name for name in comparison.find_all(nodes.Name)}, _constants(comparison))
        for comparison in tree.find_all(nodes.Compare)
    ]
    variables = sorted(filter(_NAMES.search, meta.find_undeclared_variables(tree)))
    values: dict[str, dict[str, None]] = {name: {} for name in variables}
    for names, constants in compared:
        for name in names & values.keys():
            values[name] |= dict.fromkeys(constants)
    for name, texts in values.items():
        if "budget" in name:
            yield name, 0
            continue
        yield from ((name, value) for value in (False, True))
        yield from ((name, value) for value in texts)


def _constants(node: nodes.Node) -> list[str]:
    constants = [constant.value for constant in node.find_all(nodes.Const)]
    return [value for value in constants if isinstance(value, str)]
