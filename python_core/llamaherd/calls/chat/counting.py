"""Filters and tests of chat templates that charge a budget before they run."""

from __future__ import annotations

import json
from functools import wraps
from typing import TYPE_CHECKING, Any

from jinja2 import nodes, pass_context
from jinja2.runtime import Context  # noqa: TC002 - decorators read annotations
from jinja2.visitor import NodeTransformer

from llamaherd.calls.chat.budget import BUDGET, Budget, size
from llamaherd.calls.chat.literal_text import (
    LiteralText,
    unescaped_marks,
    with_marks,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# Filters that do not read the elements of a value.
_SHALLOW = frozenset(
    [
        "attr",
        "count",
        "d",
        "default",
        "first",
        "items",
        "last",
        "length",
        "list",
        "map",
        "random",
        "reject",
        "rejectattr",
        "reverse",
        "select",
        "selectattr",
    ]
)
# Filters whose arguments determine the size of the output per element.
_WIDE = frozenset(
    [
        "batch",
        "center",
        "filesizeformat",
        "indent",
        "pprint",
        "round",
        "slice",
        "tojson",
        "truncate",
        "urlize",
        "wordwrap",
        "xmlattr",
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


def listed(value: object) -> object:
    """Return an iterator as a list; return other values unchanged."""
    is_once = hasattr(value, "__next__")
    return list(value) if is_once else value  # type: ignore[call-overload]


def _spend_result(budget: Budget, name: str, value: Any, given: list[Any]) -> None:  # noqa: ANN401
    """Charge the output of a filter that may write more than its input."""
    if name in _WIDE or name == "join":
        budget.spend((size(value) + 1) * width(given))
    elif name == "format":
        budget.spend_format(str(value), given)
    elif name == "replace" and given:
        budget.spend(str(value).count(str(given[0])) * width(given))
    elif name == "sum" and isinstance(value, (list, tuple)):
        sizes = sum(map(size, value))
        budget.spend(sizes * len(value) if sizes > len(value) else 0)


def counted_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that charges the budget and preserves literal marks."""
    first = getattr(getattr(function, "jinja_pass_arg", None), "name", "")

    @pass_context
    @wraps(function)
    def filtered(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        budget = BUDGET.get()
        budget.spend(size(value))
        if name not in _SHALLOW:
            value = listed(value)
            budget.spend_on([value, args, kwargs])
        _spend_result(budget, name, value, [*args, *kwargs.values()])
        own = {
            "context": (context,),
            "eval_context": (context.eval_ctx,),
            "environment": (context.environment,),
        }.get(first, ())
        text = value.text if isinstance(value, LiteralText) else value
        if name == "tojson":
            text = with_marks(value)
        elif name in ("pprint", "string") and not isinstance(value, str):
            text = written(value)
        found = function(*own, text, *args, **kwargs)
        if isinstance(value, LiteralText):
            found = _parts(value, found)
        budget.spend(size(found))
        return found

    # `wraps` copied the original flag, but this filter accepts the context.
    return pass_context(filtered)


def _parts(value: LiteralText, found: object) -> object:
    """Mark the results of a filter on a message text as parts of this text."""
    if type(found) is str:
        return value if found == value.text else value.part(found)
    if isinstance(found, (list, tuple)):
        return [_parts(value, each) for each in found]
    return found


def counted_test(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a test that charges the budget for its operands."""
    first = getattr(getattr(function, "jinja_pass_arg", None), "name", "")

    @pass_context
    @wraps(function)
    def tested(context: Context, value: Any, *args: Any) -> Any:  # noqa: ANN401
        BUDGET.get().spend_on(args)
        if args:
            BUDGET.get().spend_on(value)
        own = (context.environment,) if first == "environment" else ()
        return function(*own, value, *args)

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
def _read(context: Context, value: object) -> object:  # noqa: ARG001
    """Charge the budget for a value that is compared."""
    BUDGET.get().spend_on(value)
    return value


@pass_context
def _shown(context: Context, value: object) -> object:  # noqa: ARG001
    """Charge the budget for a value that the template writes, and mark its texts."""
    return _finalized(value)


@pass_context
def _held(context: Context, value: object) -> object:  # noqa: ARG001
    """Charge the budget for a new value."""
    BUDGET.get().spend(size(value))
    return value


def _finalized(value: object) -> object:
    BUDGET.get().spend_on(value)
    return value if type(value) is str else written(value)


OWN: dict[str, Callable[..., Any]] = {
    "_spend": _spend,
    "_tick": _tick,
    "_read": _read,
    "_shown": _shown,
    "_held": _held,
}


class Counting(NodeTransformer):
    """Transformer that inserts counting filters into a parsed template."""

    def visit_Output(self, node: nodes.Output) -> nodes.Output:  # noqa: N802
        """Charge the characters between tags."""
        self.generic_visit(node)
        data = [each for each in node.nodes if isinstance(each, nodes.TemplateData)]
        if data:
            n = sum(len(each.data) for each in data)
            node.nodes.insert(0, _filtered(nodes.Const(n), "_spend", node))
        return node

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        """Charge each iteration of a loop."""
        self.generic_visit(node)
        start = nodes.Output([_filtered(nodes.Const(0), "_spend", node)])
        start.lineno = node.lineno
        node.body.insert(0, start)
        if node.test is not None:
            node.test = _filtered(node.test, "_tick", node)
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802
        """Charge the operands of a comparison."""
        self.generic_visit(node)
        compared: list[Any] = [node, *node.ops]
        for each in compared:
            if not isinstance(each.expr, nodes.Const):
                each.expr = _filtered(each.expr, "_read", node)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
        """Charge and mark the operands of `~`."""
        self.generic_visit(node)
        node.nodes = [
            each if isinstance(each, nodes.Const) else _filtered(each, "_shown", node)
            for each in node.nodes
        ]
        return _filtered(node, "_held", node)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        """Charge slices, because they copy values."""
        self.generic_visit(node)
        is_slice = isinstance(node.arg, nodes.Slice)
        return _filtered(node, "_held", node) if is_slice else node


def _filtered(node: Any, name: str, near: nodes.Node) -> nodes.Filter:  # noqa: ANN401
    made = nodes.Filter(node, name, [], [], None, None)
    node.lineno = node.lineno or near.lineno
    made.lineno = near.lineno
    return made
