"""Shapes of plots as plain lists, which R draws with its graphics."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd._r.boundary import boundary, clean
from llamaherd._r.contents import estimates_of
from llamaherd._r.quotes import spans_label
from llamaherd.core.errors import ArgumentError
from llamaherd.research.pairs.comparison import PairComparison
from llamaherd.research.reports import (
    pair_pictures,
    passage_pictures,
    pictures,
    selection_pictures,
    validation_pictures,
)
from llamaherd.research.reports.plots import OF_VALIDATION
from llamaherd.research.reports.report_data import label_summary
from llamaherd.research.reports.shapes import (
    PHASES,
    Bars,
    Curve,
    Forest,
    Matrix,
    Panels,
    Scatter,
    Timeline,
    Tradeoff,
)
from llamaherd.research.selection.comparison import CodebookComparison

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.research.reports.shapes import Picture, Point

    Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Timing:
    queue_s: float
    first_token_s: float | None
    wall_s: float


@boundary
def plot_picture(kind: str, given: Given) -> dict[str, Any]:
    """Return the shape of a plot.

    Args:
        kind: Key of `_MAKERS`.
        given: Content of the object to plot; see the functions in `_MAKERS`.

    Returns:
        "shape", the name of the dataclass in lower case; "title", "x", "y", "alt"; and
        the fields of the shape, with points as columns and indices from 1.
    """
    return _plain(_MAKERS[kind](given))


def _labels(given: Given) -> Picture:
    """Plot `labels`; `probs` has a list for each of the `names`, or is None."""
    probs = given["probs"]
    summary = label_summary(
        given["labels"],
        given["names"],
        None if probs is None else np.array(probs, dtype=np.float64).T,
        several=given["several"],
    )
    return pictures.labels_picture(summary, len(given["labels"]), given["things"])


def _passages(given: Given) -> Picture:
    """Plot `spans`, the passages of each text as JSON or None; `names` are the labels."""
    labels = [None if each is None else spans_label(each) for each in given["spans"]]
    counts = passage_pictures.passage_counts(labels, given["names"])
    return passage_pictures.passages_picture(counts, len(labels))


def _span_validation(given: Given) -> Picture:
    """Plot the `columns` of a validation of passages, with `level` and `type`."""
    columns = given["columns"]
    rows = [
        dict(zip(columns, values, strict=True))
        for values in zip(*columns.values(), strict=True)
    ]
    make = passage_pictures.OF_SPANS[given["type"]]
    return make({"rows": rows, "level": given["level"]})


def _validation(given: Given) -> Picture:
    """Plot a validation, given as `json`; `type` is the type of plot."""
    try:
        return OF_VALIDATION[given["type"]](json.loads(given["json"]))
    except ArgumentError as error:  # the argument has another name in R
        raise error.moved(argument="type") from None


def _agreement(given: Given) -> Picture:
    """Plot the `columns` of coefficients with the `level` of their intervals."""
    columns = given["columns"]
    rows = [
        dict(zip(columns, values, strict=True))
        for values in zip(*columns.values(), strict=True)
    ]
    return validation_pictures.agreement_picture(rows, given["level"])


def _coverage(given: Given) -> Picture:
    return validation_pictures.coverage_picture(dict(given))


def _robustness(given: Given) -> Picture:
    return pictures.robustness_picture(dict(given))


def _estimates(given: Given) -> Picture:
    return pictures.estimates_picture(estimates_of(given))


def _variants(given: Given) -> Picture:
    return pictures.variants_picture(estimates_of(given))


def _timeline(given: Given) -> Picture:
    """Plot `queue_s`, `first_token_s` and `wall_s` of all prompts, and `n_slots`."""
    columns = (given[name] for name in ("queue_s", "first_token_s", "wall_s"))
    ran = [
        _Timing(queue, None if math.isnan(first) else first, wall)
        for queue, first, wall in zip(*columns, strict=True)
        if not math.isnan(wall)
    ]
    return pictures.timeline_picture(ran, int(given["n_slots"]))


def _time(given: Given) -> Picture:
    counts = {name: int(n) for name, n in given.items() if name.startswith("n_")}
    return pictures.time_picture({**given, **counts})


def _comparison(given: Given) -> Picture:
    """Plot a comparison of codebooks, given as `json`."""
    stored = CodebookComparison.from_json(given["json"])
    return selection_pictures.comparison_picture(stored)


def _pairs(given: Given) -> Picture:
    """Plot strengths of a comparison in pairs, given as `json`."""
    stored = PairComparison.from_json(given["json"])
    return pair_pictures.strengths_picture(stored)


_MAKERS: dict[str, Callable[[Given], Picture]] = {
    "labels": _labels,
    "passages": _passages,
    "span_validation": _span_validation,
    "validation": _validation,
    "coverage": _coverage,
    "agreement": _agreement,
    "estimates": _estimates,
    "variants": _variants,
    "robustness": _robustness,
    "timeline": _timeline,
    "time": _time,
    "comparison": _comparison,
    "pairs": _pairs,
}


def _plain(picture: Picture) -> dict[str, Any]:
    words = {name: clean(getattr(picture.words, name)) for name in _WORDS}
    fields: dict[str, Any]
    if isinstance(picture, Bars):
        fields = {
            "rows": _clean(picture.rows),
            "parts": _clean([name for name, _ in picture.parts]),
            "lengths": [lengths for _, lengths in picture.parts],
            "notes": _clean(picture.notes),
            "legend": picture.legend,
        }
    elif isinstance(picture, Forest):
        fields = {
            "rows": _clean(picture.rows),
            "series": _clean(picture.series),
            **_columns(picture.points),
            "limits": picture.limits,
            "spans": [span or (math.nan, math.nan) for span in picture.spans],
        }
    elif isinstance(picture, Panels):
        fields = {
            "rows": _clean(picture.panels),
            "series": _clean(picture.series),
            **_columns(picture.points),
        }
    elif isinstance(picture, Matrix):
        fields = {
            "rows": _clean(picture.rows),
            "columns": _clean(picture.columns),
            "counts": picture.counts,
            "shares": picture.shares,
            "legend": picture.legend,
        }
    elif isinstance(picture, Scatter):
        fields = {
            "at": picture.x,
            "value": picture.y,
            "size": picture.sizes,
            "lines": [height for height, _ in picture.lines],
            "named": _clean([name for _, name in picture.lines]),
        }
    elif isinstance(picture, Curve):
        fields = _curve(picture)
    elif isinstance(picture, Tradeoff):
        fields = _tradeoff(picture)
    else:
        fields = _phases(picture)
    return {"shape": type(picture).__name__.lower(), **words, **fields}


def _curve(picture: Curve) -> dict[str, Any]:
    (x0, y0), (x1, y1), name = picture.reference
    return {
        "at": picture.x,
        "value": picture.y,
        "low": picture.low,
        "high": picture.high,
        "steps": picture.is_steps,
        "limits": picture.limits,
        "reference": {"x": [x0, x1], "y": [y0, y1]},
        "named": name,
    }


def _tradeoff(picture: Tradeoff) -> dict[str, Any]:
    return {
        "names": _clean(picture.names),
        "at": picture.x,
        "value": picture.y,
        "low": picture.low,
        "high": picture.high,
        "of": [kind + 1 for kind in picture.kinds],
        "series": _clean(picture.series),
        "limits": picture.limits,
    }


def _phases(picture: Timeline) -> dict[str, Any]:
    return {
        "phases": list(PHASES),
        "waited": picture.waited_s,
        "first": picture.first_s,
        "end": picture.end_s,
    }


def _columns(points: Sequence[Point]) -> dict[str, list[Any]]:
    return {
        "row": [point.row + 1 for point in points],
        "of": [point.series + 1 for point in points],
        "value": [point.value for point in points],
        "low": [point.low for point in points],
        "high": [point.high for point in points],
    }


def _clean(names: Sequence[str]) -> list[str]:
    return [clean(name) for name in names]


_WORDS = ("title", "x", "y", "alt")
