"""Plots of codings, validations, agreement, estimates and calls."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, cast

from llamaherd.calls.asks.scores import ClassifyResults
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.coding.estimation.estimates import Estimates
from llamaherd.coding.pairs.comparison import PairComparison
from llamaherd.coding.plots import counts, drawing, intervals, planes
from llamaherd.coding.plots.counts import summary_of
from llamaherd.coding.selection.comparison import CodebookComparison
from llamaherd.coding.selection.robustness import Robustness
from llamaherd.coding.statistics.calibration import CoverageCurve
from llamaherd.coding.statistics.ratings import Agreement
from llamaherd.coding.validation.spans import SpanValidation
from llamaherd.coding.validation.validation import Validation
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.results import Results
from llamaherd.engine.core.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from llamaherd.coding.plots.description import Plot

OF_VALIDATION: dict[str, Callable[[dict[str, Any]], Plot]] = {
    "measures": intervals.measures_plot,
    "labels": intervals.scores_plot,
    "confusion": counts.confusion_plot,
    "calibration": planes.calibration_plot,
    "coverage": planes.coverage_plot,
    "numbers": planes.numbers_plot,
}
OF_SPANS: dict[str, Callable[[dict[str, Any]], Plot]] = {
    "measures": intervals.span_measures_plot,
    "labels": intervals.span_labels_plot,
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
            f"must be axes of matplotlib, not {checks.brief(ax)}; pass a kind "
            "of plot as kind=...",
            argument="ax",
        )
    return drawing.draw(plot_of(x, kind), ax)


def plot_of(x: object, kind: str | None = None) -> Plot:
    """Return the description that `plot` draws."""
    if isinstance(x, SpanValidation):
        make = OF_SPANS[checks.choice("kind", kind or "measures", tuple(OF_SPANS))]
        return make({"rows": x.to_dicts(), "level": x.level})
    if isinstance(x, Validation):
        chosen = checks.choice("kind", kind or "measures", tuple(OF_VALIDATION))
        return OF_VALIDATION[chosen](x.to_dict())
    if isinstance(x, ClassifyResults):
        return _of_classes(x, kind)
    if kind is not None:
        raise ArgumentError(
            f"is for a validation, not for {type(x).__name__}", argument="kind"
        )
    for types, make in _MAKERS:
        if isinstance(x, types):
            return make(x)
    if _are_coefficients(x):
        coefficients = cast("list[Agreement]", x)
        return intervals.agreement_plot(list(map(_fields, coefficients)), None)
    raise ArgumentTypeError(
        "must be a Coded, ClassifyResults, Validation, SpanValidation, Estimates, "
        "Robustness, CodebookComparison, PairComparison, Results, Stats, CoverageCurve "
        f"or Agreement, not {checks.brief(x)}",
        argument="x",
    )


def _are_coefficients(x: object) -> bool:
    is_list = isinstance(x, (list, tuple)) and len(x) > 0
    return is_list and all(isinstance(item, Agreement) for item in cast("list[Any]", x))


def _fields(x: Agreement | CoverageCurve) -> dict[str, Any]:
    return {field.name: getattr(x, field.name) for field in dataclasses.fields(x)}


def _of_coded(x: Coded) -> Plot:
    """Show labels, or for type "spans" passages by label."""
    x.check_frame()
    if x.codebook.type != SPANS:
        return counts.labels_plot(summary_of(x), len(x))
    passages = counts.passage_counts(x.labels, list(x.codebook.definitions))
    return counts.passages_plot(passages, len(x))


def _of_classes(x: ClassifyResults, kind: str | None) -> Plot:
    if checks.choice("kind", kind or "labels", ("labels", "time")) == "labels":
        return counts.labels_plot(summary_of(x), len(x), "prompts")
    ran = [request for request in x.requests if request is not None]
    return counts.timeline_plot(ran, x.stats.n_slots)


def _of_results(x: Results) -> Plot:
    ran = [r.stats for samples in x.samples for r in samples if r.stats is not None]
    return counts.timeline_plot(ran, x.stats.n_slots)


def _of_robustness(x: Robustness) -> Plot:
    """Show the estimates of all variants if there is a gold sample, else label shares."""
    judged = x.estimates_dict()
    if judged is not None:
        return intervals.variants_plot(judged)
    return intervals.robustness_plot(x.to_dict())


_MAKERS: tuple[tuple[type, Callable[[Any], Plot]], ...] = (
    (Coded, _of_coded),
    (Estimates, lambda x: intervals.estimates_plot(x.to_dict())),
    (Robustness, _of_robustness),
    (CodebookComparison, intervals.comparison_plot),
    (PairComparison, intervals.strengths_plot),
    (Results, _of_results),
    (Stats, lambda x: counts.time_plot(dataclasses.asdict(x))),
    (
        CoverageCurve,
        lambda x: planes.coverage_plot({"coverage": _fields(x), "level": None}),
    ),
    (Agreement, lambda x: intervals.agreement_plot([_fields(x)], None)),
)
