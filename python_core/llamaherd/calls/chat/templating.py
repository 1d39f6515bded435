"""Chat templates in Jinja: sandbox with a budget, and variables that switch thinking."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

import jinja2
import jinja2.ext
from jinja2 import meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from llamaherd.calls.chat.budget import (
    BUDGET,
    OWN,
    Budget,
    Counting,
    as_list,
    bits,
    check_bits,
    counted_filter,
    counted_test,
    size,
    tojson,
    width,
)
from llamaherd.calls.chat.literal_text import LiteralList, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jinja2.runtime import Context


_K = TypeVar("_K")
_V = TypeVar("_V")
_MOST_TEMPLATES = 64  # maximum number of templates


class TemplateCache(Generic[_K, _V]):
    """Values found for the latest templates, for several threads."""

    def __init__(self) -> None:
        self._found: dict[_K, _V] = {}
        self._lock = Lock()

    def get(self, key: _K, find: Callable[[], _V]) -> _V:
        """Return the value of a key; `find` computes it, outside the lock, if missing."""
        with self._lock:
            if key in self._found:
                return self._found[key]
        value = find()
        with self._lock:
            while len(self._found) >= _MOST_TEMPLATES:
                self._found.pop(next(iter(self._found)))
            return self._found.setdefault(key, value)


_WIDE_METHODS = frozenset(
    ["center", "expandtabs", "ljust", "rjust", "translate", "zfill"]
)
# Methods that change a list of the template itself; llama.cpp allows them, too.
_LIST_METHODS = frozenset(["append", "extend", "insert", "pop"])


@contextmanager
def counted(budget: Budget) -> Iterator[None]:
    """Charge templates rendered in the block to a budget."""
    token = BUDGET.set(budget)
    try:
        yield
    finally:
        BUDGET.reset(token)


class _Generation(jinja2.ext.Extension):
    """Jinja extension that ignores {% generation %}, a tag of transformers."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 has it

    def parse(self, parser: jinja2.parser.Parser) -> list[nodes.Node]:
        """Return the statements between the tags."""
        parser.stream.skip(1)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja environment with the settings of transformers, and a budget."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, jinja2.ext.loopcontrols],
            finalize=OWN["_shown"],
            optimized=False,  # disables constant folding during compilation
        )
        del self.globals["lipsum"]
        self.filters["tojson"] = tojson
        self.filters = {
            name: counted_filter(name, function)
            for name, function in self.filters.items()
        }
        self.tests = {
            name: counted_test(cast("Any", function))
            for name, function in self.tests.items()
        }
        self.filters |= OWN

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ANN401
        """Return whether a template may use an attribute."""
        is_own = isinstance(obj, list) and not isinstance(obj, LiteralList)
        if is_own and attr in _LIST_METHODS:
            return True
        return super().is_safe_attribute(obj, attr, value)

    def _parse(
        self, source: str, name: str | None, filename: str | None
    ) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        Counting().visit(tree)
        tree.set_environment(self)
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        """Subtract the cost of an operator from the budget, then apply it."""
        budget = BUDGET.get()
        if operator == "*":
            budget.spend_product(left, right)
        elif operator == "**":
            check_bits(bits(left) * (right if isinstance(right, int) else 1))
        elif operator == "%" and isinstance(left, str):
            budget.spend_format(left, right)
            right = tuple(map(written, right)) if isinstance(right, tuple) else right
        else:
            budget.spend(size(left) + size(right))
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, N805, PYI063 - as jinja2 has it
        """Subtract the cost of a call from the budget, then make the call."""
        budget = BUDGET.get()
        method = getattr(__obj, "__wrapped__", __obj)
        owner = getattr(method, "__self__", None)
        name = getattr(method, "__name__", "")
        budget.spend(size(owner))
        if isinstance(owner, str) and name in ("format", "format_map"):
            budget.spend_format(owner, [args, kwargs])
        elif isinstance(owner, (str, list, tuple, dict)) and name != "get":
            args = tuple(as_list(arg) for arg in args)
            budget.spend_on([args, kwargs])
            if isinstance(owner, (list, tuple)):
                budget.spend_on(owner)
                budget.spend(sum(map(size, args)))
            if name == "join":
                budget.spend(len(owner) * size(args[0]) if args else 0)
            elif isinstance(owner, str) and name == "replace" and len(args) > 1:
                budget.spend(owner.count(args[0]) * size(args[1]))
            elif name in _WIDE_METHODS:
                budget.spend((len(owner) + 1) * width([*args, *kwargs.values()]))
        result = super().call(__context, __obj, *args, **kwargs)
        budget.spend(size(result))
        return result


Value: TypeAlias = "bool | int | str"

_NAMES = re.compile(r"think|reason")
_MOST_RENDERINGS = 100  # renderings of a template
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
        render: Function that renders a question with variables; it returns None if the
            template refuses them.
    """

    def __init__(
        self, source: str, render: Callable[[dict[str, object]], str | None]
    ) -> None:
        self.all: list[Switch] = []
        for i, (name, value) in enumerate(_candidates(source)):
            prompt = render({name: value}) if i < _MOST_RENDERINGS else None
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
        prompts = [s.prompt for s in self.all if s.name == name and s.value is False]
        return prompts[0] if prompts else None

    def _ordered(self, values: tuple[Value, ...]) -> list[Switch]:
        order = [_key(value) for value in values]
        switches = [switch for switch in self.all if _key(switch.value) in order]
        return sorted(switches, key=lambda switch: order.index(_key(switch.value)))


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
