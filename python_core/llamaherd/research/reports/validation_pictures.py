"""Shapes of the plots of validations and of agreement; see `pictures`."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from llamaherd.core.decimals import decimals
from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of
from llamaherd.research.reports.picture_parts import (
    Fields,
    cut,
    forest,
    interval,
    known,
    number,
    point,
)
from llamaherd.research.reports.shapes import Curve, Matrix, Scatter, Words
from llamaherd.research.statistics.coefficients import COEFFICIENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.reports.shapes import Forest, Point

MEASURES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
}
_SCORES = {"precision": "precision", "recall": "recall", "f1": "F1"}


def measures_picture(fields: Fields) -> Forest:
    """Show accuracy and agreement; `fields` is the `to_dict` of a validation."""
    measured = fields["accuracy"]
    rows: list[str] = []
    points: list[Point] = []
    series = ["model and people"]
    for name, title in MEASURES.items():
        points.append(point(measured[name], len(rows), 0))
        rows.append(title)
    between = {each["name"]: each for each in fields["coder_agreement"] or []}
    if between:
        series.append("between people")
    for each in fields["model_agreement"]:
        points.append(point(each, len(rows), 0))
        if each["name"] in between:
            points.append(point(between[each["name"]], len(rows), 1))
        rows.append(COEFFICIENTS[each["name"]].title)
    # The baseline applies only to accuracy, the first row.
    base = point(measured["majority_accuracy"], 0, len(series))
    if not math.isnan(base.value):
        series.append(f"always '{cut(str(measured['majority_label']), 40)}'")
        points.append(base)
    return forest(
        _measures_title(fields["n_gold"], measured["accuracy"]["n"]),
        fields["level"],
        rows,
        series,
        points,
    )


def _measures_title(n_gold: int, n_used: int) -> str:
    """Return a title with the numbers of coded texts and of texts used for accuracy."""
    if n_used == n_gold:
        return f"Labels compared with human codes, {count_of(n_gold, 'text')}"
    n = count_of(n_gold, "text")
    return f"Labels compared with human codes ({n}; accuracy: {n_used:,})"


def numbers_picture(fields: Fields) -> Scatter:
    """Plot differences of model and people against their mean (Bland-Altman plot).

    Raises:
        ValueError: The labels are not numbers of an ordered scale.
    """
    found = fields.get("numbers")
    if found is None or not found["points"]:
        raise ArgumentError(
            "cannot be 'numbers': the labels are not numbers of an ordered scale",
            argument="kind",
            code="no_numbers",
        )
    counts = Counter((float(x), float(y)) for x, y in found["points"])
    low, high = map(number, found["limits"])
    bias = number(found["bias"]["value"])
    lines = [
        (bias, f"mean difference {decimals(bias)}"),
        (low, f"bias - 1.96 SD: {decimals(low)}"),
        (high, f"bias + 1.96 SD: {decimals(high)}"),
    ]
    return Scatter(
        words=Words(
            title=f"Numbers by the model and by people, {count_of(found['n'], 'text')}",
            x="mean of model and people",
            y="model minus people",
            alt="; ".join(name for _, name in lines),
        ),
        x=[x for x, _ in counts],
        y=[y for _, y in counts],
        n=list(counts.values()),
        lines=[line for line in lines if not math.isnan(line[0])],
    )


def scores_picture(fields: Fields) -> Forest:
    """Show precision, recall and F1 of each label."""
    scores = fields["accuracy"]["per_label"]
    points = [
        point(each[name], i, j)
        for i, each in enumerate(scores)
        for j, name in enumerate(_SCORES)
    ]
    rows = [f"{each['label']} ({each['n_gold']:,})" for each in scores]
    return forest(
        "Quality of each label (number of texts with this human code)",
        fields["level"],
        rows,
        list(_SCORES.values()),
        points,
        quantity="share",
    )


def confusion_picture(fields: Fields) -> Matrix:
    """Show the confusion matrix of labels and codes.

    Raises:
        ValueError: Texts may have several labels.
    """
    if fields.get("several"):
        raise ArgumentError(
            "cannot be 'confusion': texts with several labels have no confusion matrix",
            argument="kind",
            code="several_labels",
        )
    measured = fields["accuracy"]
    names = [str(label) for label in measured["labels"]]
    counts = [[int(count) for count in row] for row in measured["confusion"]]
    right = sum(counts[i][i] for i in range(len(counts)))
    return Matrix(
        words=Words(
            title="Texts by label and code",
            x="code of people",
            y="label of the model",
            alt=f"{right:,} of {count_of(sum(map(sum, counts)), 'text')} on the diagonal",
        ),
        legend="share of the texts with this label",
        rows=names,
        columns=names,
        counts=counts,
    )


def calibration_picture(fields: Fields) -> Curve:
    """Show a reliability diagram.

    Raises:
        ValueError: The validation has no probabilities.
    """
    found = known(fields, "calibration")
    bins = found["bins"]
    return Curve(
        words=Words(
            title=f"Calibration (error {decimals(found['ece'])}, "
            f"{count_of(found['n'], 'text')})",
            x="mean probability of the label",
            y=f"share that is right, with {interval(fields['level'])}",
            alt="; ".join(
                f"{decimals(each['confidence'])}: {decimals(each['accuracy']['value'])}"
                for each in bins
            ),
        ),
        x=[number(each["confidence"]) for each in bins],
        y=[number(each["accuracy"]["value"]) for each in bins],
        low=[number(each["accuracy"]["low"]) for each in bins],
        high=[number(each["accuracy"]["high"]) for each in bins],
        is_steps=False,
        reference=((0.0, 0.0), (1.0, 1.0), "perfect calibration"),
    )


def coverage_picture(fields: Fields) -> Curve:
    """Show the accuracy of the most confident labels, against their share.

    Args:
        fields: "coverage", the fields of a `CoverageCurve`, and "level".

    Raises:
        ValueError: Probabilities or coded texts are missing.
    """
    found = known(fields, "coverage")
    if not len(found["accuracy"]):
        raise ArgumentError(
            "has no coded texts to plot", argument="x", code="nothing_to_plot"
        )
    all_of_them = number(found["accuracy"][-1])
    columns = {
        to: [number(value) for value in found[name]]
        for to, name in (("x", "coverage"), ("y", "accuracy"))
    }
    ends = {name: [number(value) for value in found[name]] for name in ("low", "high")}
    return Curve(
        words=Words(
            title="Accuracy of the most confident labels, "
            f"{count_of(found['n'], 'text')}",
            x="share of texts that the model labels, most confident first",
            y=f"share of these labels that is right, with {interval(fields['level'])}",
            alt=f"all texts: {decimals(all_of_them)}",
        ),
        **columns,
        **ends,
        is_steps=True,
        reference=((0.0, all_of_them), (1.0, all_of_them), "accuracy of all texts"),
    )


def agreement_picture(found: Sequence[Mapping[str, Any]], level: float | None) -> Forest:
    """Show coefficients of agreement with their intervals.

    Args:
        found: Fields of each `Agreement`.
        level: Confidence level; None if unknown.
    """
    points = [point(each, i, 0) for i, each in enumerate(found)]
    # agreement() in R also has kappas with other weights.
    rows = [
        COEFFICIENTS[coefficient["name"]].title
        if coefficient["name"] in COEFFICIENTS
        else str(coefficient["name"])
        for coefficient in found
    ]
    n_coders = max((int(each["n_coders"]) for each in found), default=0)
    n_units = max((int(each["n_units"]) for each in found), default=0)
    return forest(
        f"Agreement of {count_of(n_coders, 'coder')} on {count_of(n_units, 'unit')}",
        level,
        rows,
        ["agreement"],
        points,
    )
