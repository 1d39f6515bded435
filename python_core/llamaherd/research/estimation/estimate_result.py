"""Checked settings of an estimate, and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.plurals import part_of
from llamaherd.core.words import setting
from llamaherd.research.coding.source import Source
from llamaherd.research.estimation.estimates import METHODS, Estimates, Method
from llamaherd.research.estimation.fitting import FitSettings, Found
from llamaherd.research.statistics.sampling import TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.estimation.gold_data import Population
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.statistics.sampling import Floats, Ints


Model = Literal["mean", "ols", "logit"]


MODELS: tuple[Model, ...] = ("mean", "ols", "logit")


def settings_of(
    gold: GoldUsed,
    *,
    methods: Sequence[Method],
    level: float,
    target: Target,
    clusters: Ints | None,
    weights: Floats | None = None,
) -> FitSettings:
    """Check the settings of a call, and return them as `FitSettings`.

    Raises:
        ValueError: A setting is invalid, or there are too few codes.
        TypeError: `methods` is not a list.
    """
    if isinstance(methods, str) or not methods:
        raise ArgumentTypeError(
            f"must be a list of {', '.join(METHODS)}", argument="methods"
        )
    for method in methods:
        checks.choice("methods", method, METHODS)
    checks.real("level", level, 1e-6, 1 - 1e-6)
    checks.choice("target", target, TARGETS)
    if clusters is not None and target == "texts":
        raise ArgumentError(
            f"requires {setting('target', 'population')}: only then texts are a sample",
            argument="cluster",
        )
    if clusters is not None and np.ptp(clusters) == 0:
        raise ArgumentError(
            "must have two values at least: all texts have one",
            argument="cluster",
            code="out_of_range",
        )
    if len(gold.rows) < 2:
        raise ArgumentError(
            "has fewer than two codes of the texts that are used", argument="gold"
        )
    return FitSettings(
        gold=gold,
        methods=tuple(dict.fromkeys(methods)),
        level=level,
        target=target,
        clusters=clusters,
        weights=weights,
    )


def result(
    found: Found,
    settings: FitSettings,
    *,
    model: Model,
    formula: str | None,
    n_kept: int,
    texts: Population,
    notes: Sequence[str],
) -> Estimates:
    """Assemble the result with its settings and notes."""
    gold = settings.gold
    n_texts = len(texts)
    notes = [*notes, *gold.notes]
    if n_kept < n_texts:
        why = "they have no label or weight, or a value that is used is missing"
        part = part_of(n_texts - n_kept, n_texts, "text", "is", "are")
        notes.append(f"{part} left out: {why}")
    return Estimates(
        rows=tuple(found.rows),
        model=model,
        formula=formula,
        level=settings.level,
        target=settings.target,
        n_texts=n_kept,
        n_gold=len(gold.rows),
        design=gold.design,
        notes=(*notes, *found.notes),
        covariances=found.covariances,
        alone=found.alone,
        source=Source.of(
            None if texts.text_column is None else texts.texts, texts.labels
        ),
    )


def check_model(formula: object, *, by: object, model: object) -> None:
    """Check that `model` and `by` fit a call with or without a formula."""
    if model is not None:
        checks.choice("model", model, MODELS)
        if (model == "mean") != (formula is None):
            needs = "cannot be used with" if model == "mean" else "needs"
            raise ArgumentError(
                f"{setting('model', model)} {needs} a formula",
                argument="model",
                form="{problem}",
            )
    if formula is not None and by is not None:
        raise ArgumentError(
            "cannot be used with a formula: make it a covariate",
            argument="by",
            code="conflict",
        )
