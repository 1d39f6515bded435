"""Plots of codings, validations, agreement, estimates and calls."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, cast

from llamaherd.asks.scores import ClassifyResults
from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.results import Results
from llamaherd.core.stats import Stats
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.span_type import SPANS
from llamaherd.research.estimation.estimates import Estimates
from llamaherd.research.estimation.robustness_result import Robustness
from llamaherd.research.pairs.comparison import PairComparison
from llamaherd.research.reports import (
    drawing,
    pair_pictures,
    passage_pictures,
    pictures,
    selection_pictures,
    validation_pictures,
)
from llamaherd.research.reports.report_data import (
    estimates_dict,
    robustness_dict,
    summary_of,
    variants_dict,
)
from llamaherd.research.selection.comparison import CodebookComparison
from llamaherd.research.statistics.agreement import Agreement
from llamaherd.research.statistics.coverage import CoverageCurve
from llamaherd.research.validation.spans import SpanValidation
from llamaherd.research.validation.validation import Validation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from llamaherd.research.reports.shapes import Picture

OF_VALIDATION: dict[str, Callable[[dict[str, Any]], Picture]] = {
    "measures": validation_pictures.measures_picture,
    "labels": validation_pictures.scores_picture,
    "confusion": validation_pictures.confusion_picture,
    "calibration": validation_pictures.calibration_picture,
    "coverage": validation_pictures.coverage_picture,
    "numbers": validation_pictures.numbers_picture,
}


def plot(x: object, ax: Axes | None = None, *, kind: str | None = None) -> Axes:
    """Plot coded labels, a validation, agreement, estimates, robustness, or a call.

    Args:
        x: Return value of `annotate`, `classify_parallel`, `validate`, `validate_spans`,
            `estimate`, `robustness`, `compare_codebooks`, `compare_pairs` or
            `generate_parallel`; the `stats` of a call; the `coverage` of a validation;
            or a coefficient such as the result of `cohen_kappa`, or a list of them.
        ax: Axes to draw on; None for a new pyplot figure, 6.5 inches wide with 300 dots
            per inch.
        kind: Kind of plot. For a return value of `classify_parallel`: "labels", or "time"
            (waiting and reading time of each prompt). For a validation: "measures"
            (accuracy and agreement), "labels" (precision, recall and F1 of each label),
            "confusion", "calibration" (a reliability diagram), "coverage" (accuracy of
            the most confident labels) or "numbers" (a Bland-Altman plot of labels that
            are numbers). For a validation of passages: "measures" (all labels together)
            or "labels" (F1 and alpha of each label). None selects the first kind. All
            other objects have a single kind.

    Returns:
        The axes; `ax.figure.savefig("plot.png")` writes them.

    Raises:
        TypeError: Objects of this type have no plot.
        ValueError: The object has no such plot, or nothing to show.
        ImportError: matplotlib is not installed.
    """
    if ax is not None and not hasattr(ax, "figure"):
        raise ArgumentTypeError(
            f"must be axes of matplotlib, not {checks.shown(ax)}; pass a kind "
            "of plot as kind=...",
            argument="ax",
        )
    return drawing.draw(picture_of(x, kind), ax)


def picture_of(x: object, kind: str | None = None) -> Picture:
    """Return the shape that `plot` draws.

    Raises:
        TypeError: Objects of this type have no plot.
        ValueError: The object has no such plot, or nothing to show.
    """
    if isinstance(x, (Validation, ClassifyResults, SpanValidation)):
        return _of_kind(x, kind)
    if kind is not None:
        raise ArgumentError(
            f"is for a validation, not for {type(x).__name__}", argument="kind"
        )
    for types, make in _SHAPES:
        if isinstance(x, types):
            return make(x)
    if _are_coefficients(x):
        return _of_coefficients(cast("list[Agreement]", x))
    raise ArgumentTypeError(
        "must be a Coded, ClassifyResults, Validation, SpanValidation, Estimates, "
        "Robustness, CodebookComparison, PairComparison, Results, Stats, CoverageCurve "
        f"or Agreement, not {checks.shown(x)}",
        argument="x",
    )


def _of_coefficients(found: Sequence[Agreement]) -> Picture:
    return validation_pictures.agreement_picture(list(map(_fields, found)), None)


def _are_coefficients(x: object) -> bool:
    is_list = isinstance(x, (list, tuple)) and len(x) > 0
    return is_list and all(isinstance(each, Agreement) for each in cast("list[Any]", x))


def _fields(x: Agreement | CoverageCurve) -> dict[str, Any]:
    return {field.name: getattr(x, field.name) for field in dataclasses.fields(x)}


def _of_coded(x: Coded) -> Picture:
    x.check_frame()
    """Show labels, or for type "spans" passages by label."""
    if x.codebook.type != SPANS:
        return pictures.labels_picture(summary_of(x), len(x))
    counts = passage_pictures.passage_counts(x.labels, list(x.codebook.definitions))
    return passage_pictures.passages_picture(counts, len(x))


def _of_results(x: Results) -> Picture:
    ran = [r.stats for samples in x.samples for r in samples if r.stats is not None]
    return pictures.timeline_picture(ran, x.stats.n_slots)


def _of_robustness(x: Robustness) -> Picture:
    """Show the estimates of all variants if there is a gold sample, else label shares."""
    judged = variants_dict(x)
    if judged is not None:
        return pictures.variants_picture(judged)
    return pictures.robustness_picture(robustness_dict(x))


def _of_kind(
    x: Validation | ClassifyResults | SpanValidation, kind: str | None
) -> Picture:
    """Return one of the plots of an object that has several; None selects the first."""
    if isinstance(x, SpanValidation):
        makers = passage_pictures.OF_SPANS
        make = makers[checks.choice("kind", kind or "measures", tuple(makers))]
        return make({"rows": x.to_dicts(), "level": x.level})
    if isinstance(x, Validation):
        chosen = checks.choice("kind", kind or "measures", tuple(OF_VALIDATION))
        return OF_VALIDATION[chosen](x.to_dict())
    if checks.choice("kind", kind or "labels", ("labels", "time")) == "labels":
        return pictures.labels_picture(summary_of(x), len(x), "prompts")
    ran = [each for each in x.requests if each is not None]
    return pictures.timeline_picture(ran, x.stats.n_slots)


_SHAPES: tuple[tuple[type, Callable[[Any], Picture]], ...] = (
    (Coded, _of_coded),
    (Estimates, lambda x: pictures.estimates_picture(estimates_dict(x))),
    (Robustness, _of_robustness),
    (CodebookComparison, selection_pictures.comparison_picture),
    (PairComparison, pair_pictures.strengths_picture),
    (Results, _of_results),
    (Stats, lambda x: pictures.time_picture(dataclasses.asdict(x))),
    (
        CoverageCurve,
        lambda x: validation_pictures.coverage_picture(
            {"coverage": _fields(x), "level": None}
        ),
    ),
    (Agreement, lambda x: _of_coefficients([x])),
)
