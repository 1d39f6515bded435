"""Descriptions of plots as plain lists, which R draws with ggplot2."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd._r.arguments import rows_of
from llamaherd._r.boundary import clean_data
from llamaherd._r.coding import spans_label
from llamaherd.coding.pairs.comparison import PairComparison
from llamaherd.coding.plots import counts, fitting, intervals, planes
from llamaherd.coding.plots.counts import label_summary
from llamaherd.coding.plots.plot import OF_SPANS, OF_VALIDATION
from llamaherd.coding.selection.comparison import CodebookComparison
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.stats import RequestStats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llamaherd.coding.plots.description import Plot

    Content = Mapping[str, Any]


def plot_description(
    kind: str, given: Content, width: float, height: float
) -> dict[str, Any]:
    """Return the description of a plot, with texts that fit a size in inches."""
    plot = fitting.describe_plot(_MAKERS[kind](given), width, height)
    description: dict[str, Any] = clean_data(plot)
    return description


def _labels(content: Content) -> Plot:
    """Plot `labels`; `probs` has a list for each of the `names`, or is None."""
    probs = content["probs"]
    summary = label_summary(
        content["labels"],
        content["names"],
        None if probs is None else np.array(probs, dtype=np.float64).T,
        several=content["several"],
    )
    return counts.labels_plot(summary, len(content["labels"]), content["things"])


def _passages(content: Content) -> Plot:
    """Plot `spans`, the passages of each text as JSON or None; `names` are the labels."""
    labels = [None if spans is None else spans_label(spans) for spans in content["spans"]]
    passages = counts.passage_counts(labels, content["names"])
    return counts.passages_plot(passages, len(labels))


def _span_validation(content: Content) -> Plot:
    """Plot the `columns` of a validation of passages, with `level` and `type`."""
    make = OF_SPANS[checks.choice("type", content["type"], tuple(OF_SPANS)) or ""]
    rows = [{**row, "label": row["label"] or ""} for row in rows_of(content["columns"])]
    return make({"rows": rows, "level": content["level"]})


def _validation(content: Content) -> Plot:
    """Plot a validation, given as `json`; `type` is the type of plot."""
    kind = checks.choice("type", content["type"], tuple(OF_VALIDATION)) or ""
    try:
        return OF_VALIDATION[kind](json.loads(content["json"]))
    except ArgumentError as error:  # the argument has another name in R
        raise error.moved(argument="type") from None


def _agreement(content: Content) -> Plot:
    """Plot the `columns` of coefficients with the `level` of their intervals."""
    rows = [{**row, "name": row["coefficient"]} for row in rows_of(content["columns"])]
    return intervals.agreement_plot(rows, content["level"])


def _coverage(content: Content) -> Plot:
    """Plot the `columns` of a curve of `n` texts with the `level` of their intervals."""
    curve = {**content["columns"], "n": content["n"]}
    return planes.coverage_plot({"coverage": curve, "level": content["level"]})


def _robustness(content: Content) -> Plot:
    """Plot labels in variants, given as `json`, or estimates as `estimates_json`."""
    if "estimates_json" in content:
        return intervals.variants_plot(json.loads(content["estimates_json"]))
    return intervals.robustness_plot(json.loads(content["json"]))


def _timeline(content: Content) -> Plot:
    """Plot `queue_s`, `first_token_s` and `wall_s` of all prompts, and `n_slots`."""
    columns = (content[name] for name in ("queue_s", "first_token_s", "wall_s"))
    ran = [
        RequestStats(
            queue_s=queue,
            first_token_s=None if math.isnan(first) else first,
            wall_s=wall,
        )
        for queue, first, wall in zip(*columns, strict=True)
        if not math.isnan(wall)
    ]
    return counts.timeline_plot(ran, int(content["n_slots"]))


def _time(content: Content) -> Plot:
    whole = {name: int(n) for name, n in content.items() if name.startswith("n_")}
    return counts.time_plot({**content, **whole})


_MAKERS: dict[str, Callable[[Content], Plot]] = {
    "labels": _labels,
    "passages": _passages,
    "span_validation": _span_validation,
    "validation": _validation,
    "coverage": _coverage,
    "agreement": _agreement,
    "estimates": lambda content: intervals.estimates_plot(json.loads(content["json"])),
    "robustness": _robustness,
    "timeline": _timeline,
    "time": _time,
    "codebooks": lambda content: intervals.comparison_plot(
        CodebookComparison.from_json(content["json"])
    ),
    "pairs": lambda content: intervals.strengths_plot(
        PairComparison.from_json(content["json"])
    ),
}
