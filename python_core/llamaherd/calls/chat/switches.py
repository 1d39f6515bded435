"""Variables of a chat template that turn thinking on or off, found by trial rendering."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import jinja2
from jinja2 import meta, nodes

from llamaherd.calls.chat.templating import Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Value: TypeAlias = "bool | int | str"

_NAMES = re.compile(r"think|reason")
_MOST = 100  # renderings of a template
# Values that mean little thinking, the least first, and values that mean much thinking.
_OFF: tuple[Value, ...] = (
    *(False, 0, "none", "no_think", "no_thinking", "disabled", "off", "false"),
    *("chat", "minimal", "low"),
)
_ON: tuple[Value, ...] = (True, "enabled", "on", "true", "high", "medium", "low")


@dataclass(frozen=True, slots=True)
class Switch:
    """A variable with a value, and the prompt that the template renders with it.

    Attributes:
        name: Name of the variable.
        value: Its value.
        prompt: Rendered prompt.
    """

    name: str
    value: Value
    prompt: str

    @property
    def variables(self) -> dict[str, object]:
        """Dict of the variable, to be passed to the template."""
        return {self.name: self.value}


class Switches:
    """Variables of a template that may be switches of thinking.

    Args:
        source: Template in Jinja.
        render: Function that renders a question with variables; it returns None if the
            template refuses them.
    """

    def __init__(
        self, source: str, render: Callable[[dict[str, object]], str | None]
    ) -> None:
        self.all: list[Switch] = []
        for i, (name, value) in enumerate(_candidates(source)):
            prompt = render({name: value}) if i < _MOST else None
            if prompt is not None:
                self.all.append(Switch(name, value, prompt))

    def off(self) -> list[Switch]:
        """Return the switches that may turn thinking off, the most likely first."""
        return self._ordered(_OFF)

    def on(self) -> list[Switch]:
        """Return the switches that may turn thinking on, the most likely first."""
        return self._ordered(_ON)

    def without(self, name: str) -> str | None:
        """Return the prompt with a variable set to False; None if it was refused."""
        found = [s.prompt for s in self.all if s.name == name and s.value is False]
        return found[0] if found else None

    def _ordered(self, values: tuple[Value, ...]) -> list[Switch]:
        order = [_key(value) for value in values]
        found = [each for each in self.all if _key(each.value) in order]
        return sorted(found, key=lambda each: order.index(_key(each.value)))


def _key(value: Value) -> tuple[type, Value]:
    return type(value), value


def _candidates(source: str) -> Iterator[tuple[str, Value]]:
    """Yield the variables and values that the text of the template suggests."""
    try:
        tree = Sandbox().parse(source)
    except jinja2.TemplateError:
        return
    compared = [
        ({name.name for name in each.find_all(nodes.Name)}, _constants(each))
        for each in tree.find_all(nodes.Compare)
    ]
    given = sorted(filter(_NAMES.search, meta.find_undeclared_variables(tree)))
    values: dict[str, dict[str, None]] = {name: {} for name in given}
    for names, constants in compared:
        for name in names & values.keys():
            values[name] |= dict.fromkeys(constants)
    for name, found in values.items():
        if "budget" in name:
            yield name, 0
            continue
        yield from ((name, value) for value in (False, True))
        yield from ((name, value) for value in found)


def _constants(node: nodes.Node) -> list[str]:
    found = [each.value for each in node.find_all(nodes.Const)]
    return [each for each in found if isinstance(each, str)]
