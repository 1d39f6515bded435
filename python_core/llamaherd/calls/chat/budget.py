"""Budget for rendering a chat template, in steps and characters.

A template is a program in the model file. The budget counts operations instead of time,
so that all machines refuse the same conversations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.runtime import Context  # noqa: TC002 - decorators read annotations
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from llamaherd.calls.chat.literal_text import (
    LiteralText,
    mark_written,
    unescaped_marks,
    with_marks,
)
from llamaherd.engine.core.request import check_wanted

_STEPS = 100_000
_STEPS_A_MESSAGE = 2_000
_CHARACTERS = 16_000_000
_TIMES_GIVEN = 64  # maximum number of characters of work, per given character
_AN_ELEMENT = 32  # number of characters that are charged for an element of a list
_MOST_BITS = 10_000  # maximum number of bits of an integer
_NUMBERS = re.compile(r"\d+")


class TooMuchError(Exception):
    """The template exceeds its budget."""


class Budget:
    """Remaining budget for one conversation."""

    def __init__(self, n_messages: int, n_given: int) -> None:
        self._steps = self._all_steps = _STEPS + _STEPS_A_MESSAGE * n_messages
        self._left = self._all = _CHARACTERS + _TIMES_GIVEN * n_given

    def spend(self, n: int = 0) -> None:
        """Charge a step that reads or writes n characters or elements."""
        check_wanted()
        self._steps -= 1
        self._left -= n
        if self._steps < 0:
            raise TooMuchError(f"it takes more than {self._all_steps:,} steps")
        if self._left < 0:
            raise TooMuchError(f"it writes more than {self._all:,} characters")

    def spend_on(self, value: object) -> None:
        """Charge a step that reads a value; elements count as often as they occur."""
        self.spend(len(value) if isinstance(value, str) else 0)
        open_: list[object] = [value]
        while open_:
            current = open_.pop()
            if isinstance(current, Mapping):
                inside: list[object] = [*current.keys(), *current.values()]
            elif isinstance(current, (list, tuple, set, frozenset)):
                inside = [*current]
            else:  # vars() finds no attributes of a namespace
                is_namespace = isinstance(current, Namespace)
                inside = (
                    [*current._Namespace__attrs.values()]  # type: ignore[attr-defined]  # noqa: SLF001
                    if is_namespace
                    else []
                )
            self.spend_each(inside)
            open_ += [item for item in inside if not isinstance(item, (str, int))]

    def spend_each(self, values: list[object]) -> None:
        """Charge the number of elements, and the characters of their texts."""
        texts = sum(len(value) for value in values if isinstance(value, str))
        self._left -= texts + _AN_ELEMENT * len(values)
        if self._left < 0:
            self.spend()

    def spend_format(self, text: str, values: object) -> None:
        """Charge the largest output that a format with these values can have."""
        self.spend_on(values)
        if "*" in text or re.search(r"\{[^{}]*\{", text):
            raise TooMuchError("widths of a format that are variables are not counted")
        self.spend(len(text) + sum(int(number[:12]) for number in _NUMBERS.findall(text)))

    def spend_product(self, one: object, other: object) -> None:
        """Charge the size of `one * other`."""
        for value, n in ((one, other), (other, one)):
            if isinstance(value, (str, list, tuple)) and isinstance(n, int):
                self.spend(size(value) * max(0, n))
        check_bits(bits(one) + bits(other))


BUDGET: ContextVar[Budget] = ContextVar("budget")


def size(value: object) -> int:
    """Return the number of characters of a value, or the charge for its elements."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, (list, tuple, dict, set, frozenset, range)):
        return _AN_ELEMENT * len(value)
    return 1


def bits(value: object) -> int:
    """Return the number of bits of an integer."""
    return value.bit_length() if isinstance(value, int) else 0


def check_bits(n: int) -> None:
    """Check the size of an integer."""
    if n > _MOST_BITS:
        raise TooMuchError(f"it computes a number of {n:,} bits")


# Filters that do not read the elements of a value.
_SHALLOW = frozenset(
    [
        *("attr", "count", "d", "default", "first", "items", "last", "length", "list"),
        *("map", "random", "reject", "rejectattr", "reverse", "select", "selectattr"),
    ]
)
# Filters whose arguments determine the size of the output per element.
_WIDE = frozenset(
    [
        *("batch", "center", "filesizeformat", "indent", "pprint", "round", "slice"),
        *("tojson", "truncate", "urlize", "wordwrap", "xmlattr"),
    ]
)


def width(values: list[object]) -> int:
    """Return the largest number among arguments, or the largest length of texts."""
    widths = [1]
    for value in values:
        if isinstance(value, dict):
            widths.append(width([*value.values()]))
        widths.append(abs(value) if isinstance(value, int) else size(value))
    return max(widths)


def as_list(value: object) -> object:
    """Return an iterator as a list; return other values unchanged."""
    is_once = hasattr(value, "__next__")
    return list(value) if is_once else value  # type: ignore[call-overload]


def _spend_result(budget: Budget, name: str, value: Any, arguments: list[Any]) -> None:
    """Charge the output of a filter that may write more than its input."""
    if name in _WIDE or name == "join":
        budget.spend((size(value) + 1) * width(arguments))
    elif name == "format":
        budget.spend_format(str(value), arguments)
    elif name == "replace" and arguments:
        budget.spend(str(value).count(str(arguments[0])) * width(arguments))
    elif name == "sum" and isinstance(value, (list, tuple)):
        sizes = sum(map(size, value))
        budget.spend(sizes * len(value) if sizes > len(value) else 0)


def _injected_argument(function: Callable[..., Any], context: Context) -> tuple[Any, ...]:
    """Return the first argument that Jinja passes to a filter or test, if any."""
    kind = getattr(getattr(function, "jinja_pass_arg", None), "name", "")
    return {
        "context": (context,),
        "eval_context": (context.eval_ctx,),
        "environment": (context.environment,),
    }.get(kind, ())


def counted_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that charges the budget and preserves literal marks."""

    @pass_context
    @wraps(function)
    def filtered(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        budget = BUDGET.get()
        budget.spend(size(value))
        if name not in _SHALLOW:
            value = as_list(value)
            budget.spend_on([value, args, kwargs])
        _spend_result(budget, name, value, [*args, *kwargs.values()])
        text = value.text if isinstance(value, LiteralText) else value
        if name == "tojson":
            text = with_marks(value)
        elif name in ("pprint", "string") and not isinstance(value, str):
            text = mark_written(value)
        result = function(*_injected_argument(function, context), text, *args, **kwargs)
        if isinstance(value, LiteralText):
            result = _parts(value, result)
        budget.spend(size(result))
        return result

    # `wraps` copied the original flag, but this filter accepts the context.
    return pass_context(filtered)


def _parts(value: LiteralText, result: object) -> object:
    """Mark the results of a filter on a message text as parts of this text."""
    if type(result) is str:
        return value if result == value.text else value.part(result)
    if isinstance(result, (list, tuple)):
        return [_parts(value, item) for item in result]
    return result


def counted_test(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a test that charges the budget for its operands."""

    @pass_context
    @wraps(function)
    def tested(context: Context, value: Any, *args: Any) -> Any:
        BUDGET.get().spend_on(args)
        if args:
            BUDGET.get().spend_on(value)
        return function(*_injected_argument(function, context), value, *args)

    return pass_context(tested)


def tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Serialize a value to JSON in the format of transformers."""
    text = json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
    return unescaped_marks(text)


# Filters that `Counting` inserts into a template.


@pass_context
def _spend(context: Context, n: int) -> str:  # noqa: ARG001
    """Charge the budget for n characters of the template's own text."""
    BUDGET.get().spend(n)
    return ""


@pass_context
def _tick(context: Context, value: object) -> object:  # noqa: ARG001
    """Charge the budget for one step."""
    BUDGET.get().spend()
    return value


@pass_context
def _charge_read(context: Context, value: object) -> object:  # noqa: ARG001
    """Charge the budget for a value that is compared."""
    BUDGET.get().spend_on(value)
    return value


@pass_context
def _charge_written(context: Context, value: object) -> object:  # noqa: ARG001
    """Charge the budget for a value that the template writes, and mark its texts."""
    BUDGET.get().spend_on(value)
    return value if type(value) is str else mark_written(value)


@pass_context
def _held(context: Context, value: object) -> object:  # noqa: ARG001
    """Charge the budget for a new value."""
    BUDGET.get().spend(size(value))
    return value


OWN: dict[str, Callable[..., Any]] = {
    "_spend": _spend,
    "_tick": _tick,
    "_read": _charge_read,
    "_shown": _charge_written,
    "_held": _held,
}


class Counting(NodeTransformer):
    """Transformer that inserts counting filters into a parsed template."""

    def visit_Output(self, node: nodes.Output) -> nodes.Output:  # noqa: N802
        """Charge the characters between tags."""
        self.generic_visit(node)
        data = [child for child in node.nodes if isinstance(child, nodes.TemplateData)]
        if data:
            n = sum(len(child.data) for child in data)
            node.nodes.insert(0, _filter_node(nodes.Const(n), "_spend", node))
        return node

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        """Charge each iteration of a loop."""
        self.generic_visit(node)
        start = nodes.Output([_filter_node(nodes.Const(0), "_spend", node)])
        start.lineno = node.lineno
        node.body.insert(0, start)
        if node.test is not None:
            node.test = _filter_node(node.test, "_tick", node)
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802
        """Charge the operands of a comparison."""
        self.generic_visit(node)
        compared: list[Any] = [node, *node.ops]
        for expression in compared:
            if not isinstance(expression.expr, nodes.Const):
                expression.expr = _filter_node(expression.expr, "_read", node)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
        """Charge and mark the operands of `~`."""
        self.generic_visit(node)
        node.nodes = [
            child
            if isinstance(child, nodes.Const)
            else _filter_node(child, "_shown", node)
            for child in node.nodes
        ]
        return _filter_node(node, "_held", node)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        """Charge slices, because they copy values."""
        self.generic_visit(node)
        is_slice = isinstance(node.arg, nodes.Slice)
        return _filter_node(node, "_held", node) if is_slice else node


def _filter_node(node: Any, name: str, near: nodes.Node) -> nodes.Filter:
    filter_node = nodes.Filter(node, name, [], [], None, None)
    node.lineno = node.lineno or near.lineno
    filter_node.lineno = near.lineno
    return filter_node
