"""Chat templates in Jinja, run in a sandbox with a budget."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from llamaherd.calls.chat.budget import BUDGET, Budget, bits, check_bits, size
from llamaherd.calls.chat.counting import (
    OWN,
    Counting,
    counted_filter,
    counted_test,
    listed,
    tojson,
    width,
)
from llamaherd.calls.chat.literal_text import LiteralList, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jinja2.runtime import Context

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
            name: counted_filter(name, each) for name, each in self.filters.items()
        }
        self.tests = {
            name: counted_test(cast("Any", each)) for name, each in self.tests.items()
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
            args = tuple(listed(arg) for arg in args)
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
        found = super().call(__context, __obj, *args, **kwargs)
        budget.spend(size(found))
        return found
