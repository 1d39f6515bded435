"""Chat templates in Jinja, run in a sandbox that counts what they do."""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import jinja2
import jinja2.ext
from jinja2 import nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from llamaherd.model.budget import BUDGET, Budget, bits, check_bits, size
from llamaherd.model.said import Said, shown, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Filters that do not look into what is in a value.
_SHALLOW = frozenset(
    "attr count d default first items last length list map random reject rejectattr "
    "reverse select selectattr".split()
)
# Filters whose arguments say how much is written for each element.
_WIDE = frozenset(
    "batch center filesizeformat indent pprint round slice tojson truncate urlize "
    "wordwrap xmlattr".split()
)
_WIDE_METHODS = frozenset("center expandtabs ljust rjust translate zfill".split())


@contextmanager
def counted(budget: Budget) -> Iterator[None]:
    """What is rendered inside takes from a budget."""
    token = BUDGET.set(budget)
    try:
        yield
    finally:
        BUDGET.reset(token)


class _Generation(jinja2.ext.Extension):
    """Passes over {% generation %}, with which transformers marks what is trained on."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 has it

    def parse(self, parser: jinja2.parser.Parser) -> list[nodes.Node]:
        """The statements inside."""
        parser.stream.skip(1)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja as transformers sets it up for chat templates, with a budget."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, jinja2.ext.loopcontrols],
            finalize=_shown,
            optimized=False,  # nothing is computed while a template is compiled
        )
        del self.globals["lipsum"]
        self.filters["tojson"] = _tojson
        self.filters = {
            name: _counted_filter(name, each) for name, each in self.filters.items()
        }
        self.tests = {name: _counted_test(each) for name, each in self.tests.items()}
        self.filters |= {
            "_spend": _spend, "_tick": _tick, "_read": _read, "_shown": _shown,
            "_held": _held,
        }

    def _parse(
        self, source: str, name: str | None, filename: str | None
    ) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        _Counting().visit(tree)
        tree.set_environment(self)
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        """Counts before it computes."""
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

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, N805
        """Counts before it calls."""
        budget = BUDGET.get()
        method = getattr(__obj, "__wrapped__", __obj)
        owner = getattr(method, "__self__", None)
        name = getattr(method, "__name__", "")
        budget.spend(size(owner))
        if isinstance(owner, str) and name in ("format", "format_map"):
            budget.spend_format(owner, [args, kwargs])
        elif isinstance(owner, (str, list, tuple, dict)) and name != "get":
            args = tuple(_listed(arg) for arg in args)
            budget.spend_on([args, kwargs])
            if isinstance(owner, (list, tuple)):
                budget.spend_on(owner)
            if name == "join":
                budget.spend(len(owner) * size(args[0]) if args else 0)
            elif name == "replace" and len(args) > 1:
                budget.spend(owner.count(args[0]) * size(args[1]))
            elif name in _WIDE_METHODS:
                budget.spend((len(owner) + 1) * _width([*args, *kwargs.values()]))
        found = super().call(__context, __obj, *args, **kwargs)
        budget.spend(size(found))
        return found


def _width(values: list[object]) -> int:
    """The largest number that arguments give, as one or as a text's length."""
    widths = [1]
    for value in values:
        if isinstance(value, dict):
            widths.append(_width([*value.values()]))
        widths.append(abs(value) if isinstance(value, int) else size(value))
    return max(widths)


def _listed(value: object) -> object:
    """What can be read once only as a list."""
    is_once = hasattr(value, "__next__")
    return list(value) if is_once else value  # type: ignore[call-overload]


def _counted_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    first = getattr(getattr(function, "jinja_pass_arg", None), "name", "")

    @pass_context
    @wraps(function)
    def filtered(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        budget = BUDGET.get()
        budget.spend(size(value))
        if name not in _SHALLOW:
            value = _listed(value)
            budget.spend_on([value, args, kwargs])
        given = [*args, *kwargs.values()]
        if name in _WIDE:
            budget.spend((size(value) + 1) * _width(given))
        elif name == "format":
            budget.spend_format(str(value), given)
        elif name == "join":
            budget.spend((size(value) + 1) * _width(given))
        elif name == "replace" and given:
            budget.spend(str(value).count(str(given[0])) * _width(given))
        elif name == "sum":
            sizes = sum(map(size, value)) if hasattr(value, "__iter__") else 0
            budget.spend(sizes * size(value) if sizes > size(value) else 0)
        own = {
            "context": (context,),
            "eval_context": (context.eval_ctx,),
            "environment": (context.environment,),
        }.get(first, ())
        text = value.text if isinstance(value, Said) else value
        if name == "tojson":
            text = shown(value)
        elif name in ("pprint", "string") and not isinstance(value, str):
            text = written(value)
        found = function(*own, text, *args, **kwargs)
        if isinstance(value, Said):
            found = _parts(value, found)
        budget.spend(size(found))
        return found

    # Its own flag was copied; this one takes the context.
    return pass_context(filtered)


def _parts(value: Said, found: object) -> object:
    """What a filter made of a text of somebody, as parts of it."""
    if type(found) is str:
        return value if found == value.text else value.part(found)
    if isinstance(found, (list, tuple)):
        return [_parts(value, each) for each in found]
    return found


def _counted_test(function: Callable[..., Any]) -> Callable[..., Any]:
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


def _tojson(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - as templates call it
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """JSON as transformers writes it."""
    text = json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
    return text.replace("\\ufdd0", "\ufdd0").replace("\\ufdd1", "\ufdd1")


# Filters that `_Counting` puts into a template.


@pass_context
def _spend(context: Context, n: int) -> str:  # noqa: ARG001
    """Counts n characters of the template's own text."""
    BUDGET.get().spend(n)
    return ""


@pass_context
def _tick(context: Context, value: object) -> object:  # noqa: ARG001
    """Counts a step."""
    BUDGET.get().spend()
    return value


@pass_context
def _read(context: Context, value: object) -> object:  # noqa: ARG001
    """Counts a value that is compared."""
    BUDGET.get().spend_on(value)
    return value


@pass_context
def _shown(context: Context, value: object) -> object:  # noqa: ARG001
    """Counts a value that is written, and marks its texts."""
    return _finalized(value)


@pass_context
def _held(context: Context, value: object) -> object:  # noqa: ARG001
    """Counts a value that was made."""
    BUDGET.get().spend(size(value))
    return value


def _finalized(value: object) -> object:
    BUDGET.get().spend_on(value)
    return value if type(value) is str else written(value)


class _Counting(NodeTransformer):
    """Puts counting filters into a parsed template."""

    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        self.generic_visit(node)
        data = [each for each in node.nodes if isinstance(each, nodes.TemplateData)]
        if data:
            n = sum(len(each.data) for each in data)
            node.nodes.insert(0, _filtered(nodes.Const(n), "_spend", node))
        return node

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        start = nodes.Output([_filtered(nodes.Const(0), "_spend", node)])
        node.body.insert(0, start.set_lineno(node.lineno))
        if node.test is not None:
            node.test = _filtered(node.test, "_tick", node)
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:
        self.generic_visit(node)
        for each in (node, *node.ops):
            if not isinstance(each.expr, nodes.Const):
                each.expr = _filtered(each.expr, "_read", node)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        node.nodes = [
            each if isinstance(each, nodes.Const) else _filtered(each, "_shown", node)
            for each in node.nodes
        ]
        return _filtered(node, "_held", node)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        is_slice = isinstance(node.arg, nodes.Slice)
        return _filtered(node, "_held", node) if is_slice else node


def _filtered(node: nodes.Expr, name: str, near: nodes.Node) -> nodes.Filter:
    made = nodes.Filter(node, name, [], [], None, None)
    node.lineno = node.lineno or near.lineno
    return made.set_lineno(near.lineno)
