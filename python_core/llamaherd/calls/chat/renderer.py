"""Chat templates in Jinja: a sandbox with a budget, and rendering without a model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import jinja2
import jinja2.ext
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
from llamaherd.calls.chat.literal_text import LiteralList, as_literal, mark_written
from llamaherd.calls.chat.messages import check_texts
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ChatTemplateError

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.runtime import Context


_WIDE_METHODS = frozenset(
    ["center", "expandtabs", "ljust", "rjust", "translate", "zfill"]
)
# Methods that change a list of the template itself; llama.cpp allows them, too.
_LIST_METHODS = frozenset(["append", "extend", "insert", "pop"])


@contextmanager
def charging(budget: Budget) -> Iterator[None]:
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

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
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

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Subtract the cost of an operator from the budget, then apply it."""
        budget = BUDGET.get()
        if operator == "*":
            budget.spend_product(left, right)
        elif operator == "**":
            check_bits(bits(left) * (right if isinstance(right, int) else 1))
        elif operator == "%" and isinstance(left, str):
            budget.spend_format(left, right)
            right = tuple(map(mark_written, right)) if isinstance(right, tuple) else right
        else:
            budget.spend(size(left) + size(right))
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805, PYI063 - as jinja2 has it
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


Message = Mapping[str, object]

_OWN = (
    *("messages", "add_generation_prompt", "raise_exception"),
    *("bos_token", "eos_token", "strftime_now"),
)
_ABSENT = ("functions", "function_call", "tools", "tool_choice")
_SOME_DAY = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - a day, no moment
_MOST_CHARACTERS = 1_000_000  # maximum size of a template


class Renderer:
    """A chat template with its variables; texts of `tools` are marked as literal, too."""

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
        self._template = _compile_template(source)
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

    @property
    def _key(self) -> tuple[str, str, str]:
        return self.source, repr(sorted(self.variables.items())), self.bos

    def __eq__(self, other: object) -> bool:
        """Compare templates, for caches of what is found by trials."""
        return isinstance(other, Renderer) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def probe(self, variables: Mapping[str, object]) -> Renderer:
        """Return a renderer with more variables, for trials on a fixed day."""
        return Renderer(
            self.source,
            {**self.variables, **variables},
            bos=self.bos,
            eos=self.eos,
            day=_SOME_DAY,
            mark=str,
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
            return self._render_with(names, n_given)
        except Exception as error:  # a template is a program and may raise any exception
            absent = [name for name in _ABSENT if names[name] is None]
            # Some templates loop over tools without a check that tools are given.
            without = {name: names[name] for name in names if name not in absent}
            with suppress(Exception):
                return self._render_with(without, n_given)
            why = str(error) or type(error).__name__
            raise ChatTemplateError(f"the chat template failed: {why}") from error

    def _render_with(self, names: dict[str, object], n_given: int) -> str:
        n_messages = len(cast("list[object]", names["messages"]))
        with charging(Budget(n_messages, n_given)):
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


def _raise(message: object) -> None:
    raise ValueError(message)


@lru_cache(maxsize=16)
def _compile_template(source: str) -> jinja2.Template:
    """Compile a template. A cached result saves the time of hundreds of renderings."""
    try:
        return Sandbox().from_string(source)
    except Exception as error:  # jinja2 documents no common base class of its errors
        raise ChatTemplateError(f"template cannot be parsed: {error}") from error
