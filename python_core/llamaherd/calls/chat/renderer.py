"""Rendering of messages with a chat template, without a model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from llamaherd.calls.chat.budget import Budget
from llamaherd.calls.chat.literal_text import as_literal
from llamaherd.calls.chat.messages import check_texts
from llamaherd.calls.chat.templating import Sandbox, counted
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ChatTemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import jinja2

Message = Mapping[str, object]

_OWN = (
    *("messages", "add_generation_prompt", "raise_exception"),
    *("bos_token", "eos_token", "strftime_now"),
)
_ABSENT = ("functions", "function_call", "tools", "tool_choice")
_SOME_DAY = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - a day, no moment
_MOST_CHARACTERS = 1_000_000  # maximum size of a template


class Renderer:
    """A chat template with its variables.

    Args:
        tools: Tools that the model may call. Their texts are marked as literal, too.
    """

    def __init__(
        self,
        source: str,
        variables: Mapping[str, object],
        *,
        bos: str,
        eos: str,
        day: dt.datetime,
        mark: Callable[[str], str],
        tools: object = None,
    ) -> None:
        check_variables(variables)
        check_texts("variables", variables)
        check_texts("tools", tools)
        self.source = source
        self.variables = dict(variables)
        self.bos, self.eos = bos, eos
        self._template = _compiled(source)
        self._mark = mark
        self._names: dict[str, object] = {
            **dict.fromkeys(_ABSENT),
            **variables,
            "bos_token": bos,
            "eos_token": eos,
            "strftime_now": day.strftime,
            "raise_exception": _raise,
        }
        tools = variables.get("tools") if tools is None else tools
        self._names["tools"] = as_literal(tools, mark)
        self._n_tools = _length(tools)

    def probe(self, variables: Mapping[str, object]) -> Renderer:
        """Return a renderer with more variables, for trials on a fixed day."""
        return Renderer(
            self.source,
            {**self.variables, **variables},
            bos=self.bos,
            eos=self.eos,
            day=_SOME_DAY,
            mark=_unmarked,
        )

    def render(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True
    ) -> str:
        """Render a conversation."""
        literal_messages = as_literal([dict(message) for message in messages], self._mark)
        names = {
            **self._names,
            "messages": literal_messages,
            "add_generation_prompt": add_generation_prompt,
        }
        n_given = self._n_tools + _length(list(messages))
        try:
            return self._rendered(names, n_given)
        except Exception as error:  # a template is a program and may raise any exception
            absent = [name for name in _ABSENT if names[name] is None]
            # Some templates loop over tools without a check that tools are given.
            without = {name: names[name] for name in names if name not in absent}
            with suppress(Exception):
                return self._rendered(without, n_given)
            why = str(error) or type(error).__name__
            raise ChatTemplateError(f"the chat template failed: {why}") from error

    def _rendered(self, names: dict[str, object], n_given: int) -> str:
        n_messages = len(cast("list[object]", names["messages"]))
        with counted(Budget(n_messages, n_given)):
            return self._template.render(names)


def check_variables(variables: Mapping[str, object]) -> None:
    """Check that no variable replaces a variable that llamaherd sets."""
    for name in _OWN:
        if name in variables:
            raise ArgumentError(
                f"must not hold {checks.quoted(name)}: llamaherd sets it",
                argument="variables",
                code="conflict",
            )


def check_size(source: str) -> str:
    """Check the size of a template and return the template."""
    if len(source) > _MOST_CHARACTERS:
        raise ChatTemplateError(
            f"template has {len(source):,} characters, more than {_MOST_CHARACTERS:,}"
        )
    return source


def _length(value: object) -> int:
    """Return the number of characters of all texts in a value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(_length(key) + _length(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return sum(map(_length, value))
    return 0


def _unmarked(text: str) -> str:
    return text


def _raise(message: object) -> None:
    raise ValueError(message)


@lru_cache(maxsize=16)
def _compiled(source: str) -> jinja2.Template:
    """Compile a template. A cached result saves the time of hundreds of renderings."""
    try:
        return Sandbox().from_string(source)
    except Exception as error:  # jinja2 documents no common base class of its errors
        raise ChatTemplateError(f"template cannot be parsed: {error}") from error
