"""Plots of what coding, validating and estimating found."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.core.results import Results
from llamaherd.core.scores import ClassifyResults
from llamaherd.core.stats import Stats
from llamaherd.research.coding.coded import Coded
from llamaherd.research.estimation.estimates import Estimates
from llamaherd.research.estimation.robustness import Robustness
from llamaherd.research.reports import drawing, pictures
from llamaherd.research.reports.report_data import (
    estimates_dict,
    robustness_dict,
    summary_of,
    variants_dict,
)
from llamaherd.research.validation.validation import Validation

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from llamaherd.research.reports.shapes import Picture

OF_VALIDATION: dict[str, Callable[[dict[str, Any]], Picture]] = {
    "measures": pictures.measures_picture,
    "labels": pictures.scores_picture,
    "confusion": pictures.confusion_picture,
    "calibration": pictures.calibration_picture,
    "coverage": pictures.coverage_picture,
}


def plot(x: object, ax: Axes | None = None, *, kind: str | None = None) -> Axes:
    """Plots labels, a validation, estimates, robustness, or what a call did.

    Args:
        x: What `annotate`, `classify_parallel`, `validate`, `estimate`, `robustness` or
            `generate_parallel` returned, or its `stats`.
        ax: Where to draw; None: in a new figure of pyplot, 6.5 inches wide with 300 dots
            an inch.
        kind: Of what `classify_parallel` returned: "labels", or "time" (when each prompt
            waited and was read). Of a validation: "measures" (accuracy, agreement),
            "labels" (precision, recall and F1 of each), "confusion", "calibration" (a
            reliability diagram) or "coverage" (accuracy of the surest labels). None: the
            first. Everything else has one plot.

    Returns:
        The axes; `ax.figure.savefig("plot.png")` writes them.

    Raises:
        TypeError: There is no plot of such a thing.
        ValueError: It has no such plot, or nothing to show.
        ImportError: matplotlib is not installed.
    """
    return drawing.draw(picture_of(x, kind), ax)


def picture_of(x: object, kind: str | None = None) -> Picture:
    """What `plot` draws.

    Raises:
        TypeError: There is no plot of such a thing.
        ValueError: It has no such plot, or nothing to show.
    """
    if isinstance(x, (Validation, ClassifyResults)):
        return _of_kind(x, kind)
    if kind is not None:
        raise ValueError(f"kind is for a validation, not for {type(x).__name__}")
    if isinstance(x, Coded):
        return pictures.labels_picture(summary_of(x), len(x))
    if isinstance(x, Estimates):
        return pictures.estimates_picture(estimates_dict(x))
    if isinstance(x, Robustness):
        return _of_robustness(x)
    if isinstance(x, Results):
        ran = [r.stats for samples in x.samples for r in samples if r.stats is not None]
        return pictures.timeline_picture(ran, x.stats.n_slots)
    if isinstance(x, Stats):
        return pictures.time_picture(dataclasses.asdict(x))
    raise TypeError(
        "x must be a Coded, ClassifyResults, Validation, Estimates, Robustness, Results "
        f"or Stats, not {checks.shown(x)}"
    )


def _of_robustness(x: Robustness) -> Picture:
    """Shares of labels; estimates, where there was a gold sample."""
    judged = variants_dict(x)
    if judged is not None:
        return pictures.variants_picture(judged)
    return pictures.robustness_picture(robustness_dict(x))


def _of_kind(x: Validation | ClassifyResults, kind: str | None) -> Picture:
    """Of what has several plots; None: the first."""
    if isinstance(x, Validation):
        chosen = checks.choice("kind", kind or "measures", tuple(OF_VALIDATION))
        return OF_VALIDATION[chosen](x.to_dict())
    if checks.choice("kind", kind or "labels", ("labels", "time")) == "labels":
        return pictures.labels_picture(summary_of(x), len(x), "prompts")
    ran = [each for each in x.requests if each is not None]
    return pictures.timeline_picture(ran, x.stats.n_slots)
