"""The ways in which the same texts are coded to see how far labels depend on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.sampling import DEFAULT_SEED

if TYPE_CHECKING:
    from llamaherd.research.coding.codebook import Codebook

_MAX_ORDERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to code the texts.

    Attributes:
        name: What differs from the first, such as "order 2".
        codebook: By which.
        context: Place of its context among those given.
        seed: Of draws; None: nothing is drawn.
    """

    name: str
    codebook: Codebook
    context: int = 0
    seed: int | None = None


def variants_of(
    codebooks: Mapping[str, Codebook],
    contexts: Sequence[str],
    *,
    orders: int | Sequence[Sequence[str]] = 0,
    seeds: Sequence[int] = (),
    seed: int = DEFAULT_SEED,
    crossed: bool = False,
    is_drawn: bool = False,
) -> list[Variant]:
    """The ways to code texts: see `robustness`.

    Args:
        codebooks: By name.
        contexts: Names.
        orders: See there.
        seeds: See there.
        seed: See there.
        crossed: See there.
        is_drawn: Whether anything is drawn, so that seeds make a difference.

    Raises:
        ValueError: See there.
    """
    first = _checked_codebooks(codebooks)
    if seeds and not is_drawn:
        raise ValueError(
            "seeds make a difference only with method='generate' and a temperature "
            "above 0"
        )
    every = _orders(first, orders, checks.integer("seed", seed, 0, 2**32 - 1))
    axes: list[list[tuple[str, str, Any]]] = [
        [("codebook", name, book) for name, book in codebooks.items()],
        [("order", str(i + 1), order) for i, order in enumerate(every)],
        [("context", name, i) for i, name in enumerate(contexts)],
        [("seed", str(each), each) for each in seeds] or [("seed", "", None)],
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
        raise ValueError(
            "there is nothing to compare: give several codebooks or contexts, orders or "
            "seeds"
        )
    several = {axis[0][0] for axis in axes if len(axis) > 1}
    return [_variant(levels, several) for levels in chosen]


def _checked_codebooks(codebooks: Mapping[str, Codebook]) -> Codebook:
    first = next(iter(codebooks.values()))
    if first.type == "fields":
        raise ValueError("robustness() compares labels; a codebook of fields has none")
    for name, each in codebooks.items():
        if set(each.names) != set(first.names) or each.type != first.type:
            raise ValueError(
                f"codebooks must have the same labels and type; {name!r} is of type "
                f"{each.type!r} with {list(each.names)}, the first of {first.type!r} "
                f"with {list(first.names)}"
            )
    return first


def _orders(
    codebook: Codebook, orders: object, seed: int
) -> list[tuple[str, ...] | None]:
    """Orders to try; the first, None, is each codebook's own."""
    own = codebook.names
    if isinstance(orders, Sequence) and not isinstance(orders, str):
        made = []
        for i, order in enumerate(orders):
            if not isinstance(order, (list, tuple)) or sorted(order) != sorted(own):
                raise ValueError(
                    f"orders[{i}] must have each label once, not {checks.shown(order)}"
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
    if made and codebook.type == "ordinal":
        raise ValueError(
            "orders do not go with an ordinal scale, whose order has a meaning"
        )
    return [None, *made]


def _variant(levels: Sequence[tuple[str, str, Any]], several: set[str]) -> Variant:
    (_, _, book), (_, _, order), (_, _, context), (_, _, seed) = levels
    told = [
        f"{what} {name}"
        for what, name, level in levels
        if what in several and not (what == "order" and level is None)
    ]
    if order is not None:
        book = replace(book, labels={name: book.definitions[name] for name in order})
    return Variant(
        name=", ".join(told) or "own order", codebook=book, context=context, seed=seed
    )


def named(argument: str, given: Any, kind: type) -> dict[str, Any]:  # noqa: ANN401
    """What was given as one, a list or a mapping, by name: their numbers from 1.

    Args:
        argument: What messages call it.
        given: It is.
        kind: Of each.

    Raises:
        TypeError: One is of another kind.
        ValueError: There is none.
    """
    if isinstance(given, Mapping):
        named = {str(name): each for name, each in given.items()}
    elif isinstance(given, (list, tuple)):
        named = {str(i + 1): each for i, each in enumerate(given)}
    else:
        named = {"1": given}
    if not named:
        raise ValueError(f"{argument} must not be empty")
    for name, each in named.items():
        if not isinstance(each, kind):
            raise TypeError(
                f"{argument}[{name!r}] must be a {kind.__name__}, not "
                f"{checks.shown(each)}"
            )
    return named
