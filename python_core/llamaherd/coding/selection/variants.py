"""Variants of a coding, to measure how labels depend on the settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import argument_of
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import with_commas
from llamaherd.engine.core.sampling import DEFAULT_SEED
from llamaherd.engine.core.words import call, setting

if TYPE_CHECKING:
    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.engine.core.thinking import ThinkingWanted

_MAX_ORDERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Variant of a coding."""

    name: str
    codebook: Codebook
    context: int = 0
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def variants_of(
    codebooks: Mapping[str, Codebook],
    contexts: Sequence[str],
    *,
    orders: int | Sequence[Sequence[str]] = 0,
    seeds: Sequence[int] = (),
    thinking: Sequence[ThinkingWanted] = (),
    seed: int = DEFAULT_SEED,
    crossed: bool = False,
    is_drawn: bool = False,
) -> list[Variant]:
    """Return the variants to code: see `robustness`."""
    first = _checked_codebooks(codebooks)
    if seeds and not is_drawn:
        raise ArgumentError(
            f"have an effect only with {setting('method', 'generate')} and a "
            "temperature above 0",
            argument="seeds",
        )
    every = _orders(first, orders, checks.integer("seed", seed, 0, 2**32 - 1))
    axes: list[list[tuple[str, str, Any]]] = [
        [("codebook", name, book) for name, book in codebooks.items()],
        [("order", str(i + 1), order) for i, order in enumerate(every)],
        [("context", name, i) for i, name in enumerate(contexts)],
        [("seed", str(each), each) for each in seeds] or [("seed", "", None)],
        [("thinking", _shown(each), {"thinking": each}) for each in thinking]
        or [("thinking", "", {})],
    ]
    if checks.flag("crossed", crossed):
        chosen = list(product(*axes))
    else:
        base = tuple(axis[0] for axis in axes)
        chosen = [base] + [
            (*base[:a], level, *base[a + 1 :])
            for a, axis in enumerate(axes)
            for level in axis[1:]
        ]
    if len(chosen) < 2:
        raise ArgumentError(
            "there is nothing to compare: give several codebooks or contexts, orders, "
            "seeds or values of thinking",
            argument="codebooks",
            code="missing",
            form="{problem}",
        )
    several = {axis[0][0] for axis in axes if len(axis) > 1}
    return [_variant(levels, several) for levels in chosen]


def _checked_codebooks(codebooks: Mapping[str, Codebook]) -> Codebook:
    first = next(iter(codebooks.values()))
    if first.kind.is_generated:
        raise ArgumentError(
            f"{call('robustness')} compares labels; a codebook of fields has none",
            argument="codebooks",
            code="conflict",
            form="{problem}",
        )
    for name, each in codebooks.items():
        if set(each.names) != set(first.names) or each.type != first.type:
            raise ArgumentError(
                f"must have the same labels and type; {name!r} is of type "
                f"{each.type!r} with {with_commas(each.names)}; the first is of type "
                f"{first.type!r} with {with_commas(first.names)}",
                argument="codebooks",
            )
    return first


def _orders(
    codebook: Codebook, orders: object, seed: int
) -> list[tuple[str, ...] | None]:
    """Return orders of labels to try; the first, None, is each codebook's own order."""
    own = codebook.names
    if isinstance(orders, Sequence) and not isinstance(orders, str):
        made = []
        for i, order in enumerate(orders):
            if not isinstance(order, (list, tuple)) or sorted(order) != sorted(own):
                raise ArgumentError(
                    f"must have each label once, not {checks.shown(order)}",
                    argument="orders",
                    place=(i,),
                )
            made.append(tuple(order))
    else:
        n = checks.integer("orders", orders, 0, _MAX_ORDERS)
        n = min(n, math.factorial(min(len(own), 10)) - 1)
        generator = np.random.default_rng(seed)
        seen = {own}
        while len(seen) <= n:
            seen.add(tuple(own[i] for i in generator.permutation(len(own))))
        made = sorted(seen - {own})
    if made and codebook.kind.is_ordered:
        raise ArgumentError(
            "cannot be combined with an ordinal scale, whose order has a meaning",
            argument="orders",
            code="conflict",
        )
    return [None, *made]


def _variant(levels: Sequence[tuple[str, str, Any]], several: set[str]) -> Variant:
    (_, _, book), (_, _, order), (_, _, context), (_, _, seed), (_, _, more) = levels
    changes = [
        f"{what} {name}"
        for what, name, level in levels
        if what in several and not (what == "order" and level is None)
    ]
    if order is not None:
        book = replace(book, labels={name: book.definitions[name] for name in order})
    return Variant(
        name=", ".join(changes) or "own order",
        codebook=book,
        context=context,
        seed=seed,
        settings=more,
    )


def _shown(thinking: ThinkingWanted) -> str:
    return str(thinking.budget) if thinking else "off"


def named(argument: str, given: Any, kind: type) -> dict[str, Any]:  # noqa: ANN401
    """Return variants by name; variants in a list are numbered from 1."""
    if isinstance(given, Mapping):
        named = {str(name): each for name, each in given.items()}
    elif isinstance(given, (list, tuple)):
        named = {str(i + 1): each for i, each in enumerate(given)}
    else:
        named = {"1": given}
    if not named:
        raise ArgumentError("must not be empty", argument=argument, code="empty")
    for name, each in named.items():
        checks.instance(argument_of(argument).at(name), each, kind, f"a {kind.__name__}")
    return named
