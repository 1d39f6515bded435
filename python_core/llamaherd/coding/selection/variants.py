"""Variants of a coding, to measure how labels depend on the settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.selection.candidates import CodebookCandidate
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import with_commas
from llamaherd.engine.core.sampling import DEFAULT_SEED
from llamaherd.engine.core.words import call, setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.engine.core.thinking import ThinkingWanted

    Level = tuple[str, dict[str, Any]]  # name, and what it changes

_MAX_ORDERS = 1000
_OWN_ORDER = "own order"


def variants_of(
    codebooks: Mapping[str, Codebook],
    contexts: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
    *,
    orders: int | Sequence[Sequence[str]] = 0,
    seeds: Sequence[int] = (),
    thinking: Sequence[ThinkingWanted] = (),
    seed: int = DEFAULT_SEED,
    crossed: bool = False,
) -> dict[str, CodebookCandidate]:
    """Return the variants to code by name: see `robustness`."""
    first = _checked_codebooks(codebooks)
    settings = dict(settings or {})
    is_drawn = settings.get("method") == "generate" and settings.get("temperature")
    if seeds and not is_drawn:
        raise ArgumentError(
            f"have an effect only with {setting('method', 'generate')} and a "
            "temperature above 0",
            argument="seeds",
        )
    label_orders = _orders(first, orders, checks.integer("seed", seed, 0, 2**32 - 1))
    axes: dict[str, list[Level]] = {
        "codebook": [(name, {"codebook": book}) for name, book in codebooks.items()],
        "order": [
            (str(i), {"order": order}) for i, order in enumerate(label_orders, start=1)
        ],
        "context": [(name, {"context": context}) for name, context in contexts.items()],
        "seed": [(str(seed), {"seed": seed}) for seed in dict.fromkeys(seeds)],
        "thinking": [
            (_thinking_name(budget), {"thinking": budget}) for budget in thinking
        ],
    }
    axes = {what: levels for what, levels in axes.items() if levels}
    if checks.flag("crossed", crossed):
        chosen = list(product(*axes.values()))
    else:
        base = tuple(levels[0] for levels in axes.values())
        chosen = [base] + [
            (*base[:i], level, *base[i + 1 :])
            for i, levels in enumerate(axes.values())
            for level in levels[1:]
        ]
    if len(chosen) < 2:
        raise ArgumentError(
            "there is nothing to compare: give several codebooks or contexts, orders, "
            "seeds or values of thinking",
            argument="codebooks",
            code="missing",
            form="{problem}",
        )
    several = [what for what, levels in axes.items() if len(levels) > 1]
    return dict(
        _variant(dict(zip(axes, levels, strict=True)), several, settings)
        for levels in chosen
    )


def _checked_codebooks(codebooks: Mapping[str, Codebook]) -> Codebook:
    first = next(iter(codebooks.values()))
    if first.kind.is_generated:
        raise ArgumentError(
            f"{call('robustness')} compares labels; a codebook of fields has none",
            argument="codebooks",
            code="conflict",
            form="{problem}",
        )
    for name, book in codebooks.items():
        if set(book.names) != set(first.names) or book.type != first.type:
            raise ArgumentError(
                f"must have the same labels and type; {name!r} is of type "
                f"{book.type!r} with {with_commas(book.names)}; the first is of type "
                f"{first.type!r} with {with_commas(first.names)}",
                argument="codebooks",
            )
    return first


def _orders(
    codebook: Codebook, orders: object, seed: int
) -> list[tuple[str, ...] | None]:
    """Return orders of labels to try; the first, None, is each codebook's own order."""
    names = codebook.names
    if isinstance(orders, Sequence) and not isinstance(orders, str):
        further = []
        for i, order in enumerate(orders):
            if not isinstance(order, (list, tuple)) or sorted(order) != sorted(names):
                raise ArgumentError(
                    f"must have each label once, not {checks.shown(order)}",
                    argument="orders",
                    place=(i,),
                )
            further.append(tuple(order))
    else:
        n = checks.integer("orders", orders, 0, _MAX_ORDERS)
        n = min(n, math.factorial(min(len(names), 10)) - 1)
        generator = np.random.default_rng(seed)
        seen = {names}
        while len(seen) <= n:
            seen.add(tuple(names[i] for i in generator.permutation(len(names))))
        further = sorted(seen - {names})
    if further and codebook.kind.is_ordered:
        raise ArgumentError(
            "cannot be combined with an ordinal scale, whose order has a meaning",
            argument="orders",
            code="conflict",
        )
    return [None, *further]


def _variant(
    levels: Mapping[str, Level], several: Sequence[str], settings: Mapping[str, Any]
) -> tuple[str, CodebookCandidate]:
    """Return a variant with its name, which tells what other variants change."""
    changes = {key: value for _, level in levels.values() for key, value in level.items()}
    book, context = changes.pop("codebook"), changes.pop("context")
    order = changes.pop("order")
    names = [
        f"{what} {levels[what][0]}"
        for what in several
        if what != "order" or order is not None
    ]
    if order is not None:
        book = replace(book, labels={name: book.definitions[name] for name in order})
    return ", ".join(names) or _OWN_ORDER, CodebookCandidate(
        codebook=book, context=context, settings={**settings, **changes}
    )


def _thinking_name(thinking: ThinkingWanted) -> str:
    return str(thinking.budget) if thinking else "off"
