"""What plots show: which numbers go where, in which words.

Everything here comes from what a report holds as JSON, so that a plot can be drawn from a
report as well as from an object. Nothing here draws.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from llamaherd.research.estimation.estimates import group_name
from llamaherd.research.reports.report_data import BANDS
from llamaherd.research.reports.shapes import (
    Bars,
    Curve,
    Forest,
    Matrix,
    Panels,
    Point,
    Timeline,
    Words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Told = dict[str, Any]

MEASURES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
}
COEFFICIENTS = {
    "percent": "agreement, share alike",
    "kappa": "Cohen's kappa",
    "weighted kappa": "quadratic kappa",
    "alpha": "Krippendorff's alpha",
    "ac1": "Gwet's AC1",
}
METHODS = {
    "dsl": "corrected (DSL)",
    "ppi": "corrected (PPI++)",
    "gold": "codes of people alone",
    "naive": "labels as if right",
}
_SCORES = {"precision": "precision", "recall": "recall", "f1": "F1"}


def labels_picture(
    summary: Sequence[Mapping[str, Any]], n: int, things: str = "texts"
) -> Bars:
    """How many texts have each label, and how sure the model is of them.

    Args:
        summary: As `summary_of` gives it.
        n: Texts in all.
        things: What they are called.

    Raises:
        ValueError: There are no labels to count.
    """
    if not summary:
        raise ValueError("there are no labels to count: the codebook has fields")
    by_prob = summary[0]["bands"] is not None
    if by_prob:
        names = [_band(i) for i in range(len(BANDS))]
        parts = [
            (name, [float(each["bands"][i]) for each in summary])
            for i, name in enumerate(names)
        ]
    else:
        parts = [(things, [float(each["n"]) for each in summary])]
    return Bars(
        words=Words(
            title=f"Labels of {n:,} {things}",
            x=f"number of {things}",
            alt="; ".join(f"{each['label']}: {each['n']} {things}" for each in summary),
        ),
        rows=[str(each["label"]) for each in summary],
        parts=parts,
        notes=[
            f"{each['n']:,}"
            + ("" if each["share"] is None else f" ({each['share']:.0%})")
            for each in summary
        ],
        legend="probability of the label" if by_prob else None,
    )


def measures_picture(told: Told) -> Forest:
    """Accuracy and agreement of a validation, as in its `to_dict`."""
    measured = told["accuracy"]
    rows: list[str] = []
    points: list[Point] = []
    series = ["model and people"]
    for name, title in MEASURES.items():
        points.append(_point(measured[name], len(rows), 0))
        rows.append(title)
    between = {each["name"]: each for each in told["coder_agreement"] or []}
    if between:
        series.append("between people")
    for each in told["model_agreement"]:
        points.append(_point(each, len(rows), 0))
        if each["name"] in between:
            points.append(_point(between[each["name"]], len(rows), 1))
        rows.append(COEFFICIENTS[each["name"]])
    # What it takes no model for: of accuracy alone, whose row is the first.
    base = _point(measured["majority_accuracy"], 0, len(series))
    if not math.isnan(base.value):
        series.append(f"always '{measured['majority_label']}'")
        points.append(base)
    return Forest(
        words=Words(
            title=_measures_title(told["n_gold"], measured["accuracy"]["n"]),
            x=f"value, with {told['level']:.0%} interval",
            alt=_alt(rows, points),
        ),
        rows=rows,
        series=series,
        points=points,
        is_share=True,
    )


def _measures_title(n_gold: int, n_used: int) -> str:
    """Texts on which people are divided do not count for accuracy."""
    if n_used == n_gold:
        return f"Labels against the codes of people, {n_gold:,} texts"
    return f"Labels against codes of people ({n_gold:,} texts; accuracy: {n_used:,})"


def scores_picture(told: Told) -> Forest:
    """Precision, recall and F1 of each label."""
    scores = told["accuracy"]["per_label"]
    points = [
        _point(each[name], i, j)
        for i, each in enumerate(scores)
        for j, name in enumerate(_SCORES)
    ]
    rows = [f"{each['label']} ({each['n_gold']:,})" for each in scores]
    return Forest(
        words=Words(
            title="How good each label is (texts that people gave it)",
            x=f"share, with {told['level']:.0%} interval",
            alt=_alt(rows, points),
        ),
        rows=rows,
        series=list(_SCORES.values()),
        points=points,
        is_share=True,
    )


def confusion_picture(told: Told) -> Matrix:
    """Which labels are mistaken for which.

    Raises:
        ValueError: Texts may have several labels.
    """
    if told.get("several"):
        raise ValueError("texts with several labels have no confusion matrix")
    measured = told["accuracy"]
    names = [str(label) for label in measured["labels"]]
    counts = [[int(count) for count in row] for row in measured["confusion"]]
    right = sum(counts[i][i] for i in range(len(counts)))
    return Matrix(
        words=Words(
            title="Texts by label and code",
            x="code of people",
            y="label of the model",
            alt=f"{right:,} of {sum(map(sum, counts)):,} texts on the diagonal",
        ),
        legend="share of the texts with this label",
        rows=names,
        columns=names,
        counts=counts,
    )


def calibration_picture(told: Told) -> Curve:
    """A reliability diagram.

    Raises:
        ValueError: It is not known how sure the model is.
    """
    found = _known(told, "calibration")
    bins = found["bins"]
    return Curve(
        words=Words(
            title=f"Calibration (error {found['ece']:.3f}, {found['n']:,} texts)",
            x="mean probability of the label",
            y=f"share that is right, with {told['level']:.0%} interval",
            alt="; ".join(
                f"{each['confidence']:.2f}: {each['accuracy']['value']:.2f}"
                for each in bins
            ),
        ),
        x=[_number(each["confidence"]) for each in bins],
        y=[_number(each["accuracy"]["value"]) for each in bins],
        low=[_number(each["accuracy"]["low"]) for each in bins],
        high=[_number(each["accuracy"]["high"]) for each in bins],
        is_steps=False,
        reference=((0.0, 0.0), (1.0, 1.0), "as often right as it says"),
    )


def coverage_picture(told: Told) -> Curve:
    """Accuracy of what the model is most sure of.

    Raises:
        ValueError: It is not known how sure the model is.
    """
    found = _known(told, "coverage")
    all_of_them = _number(found["accuracy"][-1])
    return Curve(
        words=Words(
            title=f"Accuracy of the surest labels, {found['n']:,} texts",
            x="share of texts that the model labels, the surest first",
            y=f"share of these that is right, with {told['level']:.0%} interval",
            alt=f"all texts: {all_of_them:.2f}",
        ),
        **{
            to: [_number(value) for value in found[name]]
            for to, name in (
                ("x", "coverage"),
                ("y", "accuracy"),
                ("low", "low"),
                ("high", "high"),
            )
        },
        is_steps=True,
        reference=((0.0, all_of_them), (1.0, all_of_them), "accuracy of all texts"),
    )


def estimates_picture(told: Told) -> Forest | Panels:
    """Estimates by all methods, side by side, as in `estimates_dict`.

    Of a regression a panel for each coefficient: these have different units.
    """
    methods = [name for name in METHODS if any(r["method"] == name for r in told["rows"])]
    return _side_by_side(told, "method", {name: METHODS[name] for name in methods})


def variants_picture(told: Told) -> Forest | Panels:
    """The same estimates under several variants, as in `variants_dict`."""
    names = dict.fromkeys(row["variant"] for row in told["rows"])
    short = {name: textwrap.shorten(name, 50, placeholder=" ...") for name in names}
    return _side_by_side(told, "variant", short)


def _side_by_side(told: Told, by: str, titles: Mapping[str, str]) -> Forest | Panels:
    """Estimates that differ in one thing, with its titles."""
    places = list(titles)
    keys = list(dict.fromkeys(map(_key, told["rows"])))
    outcomes = {row["outcome"] for row in told["rows"]}
    terms = {row["term"] for row in told["rows"]}
    points = [
        Point(
            row=keys.index(_key(row)),
            series=places.index(row[by]),
            value=_number(row["estimate"]),
            low=_number(row["low"]),
            high=_number(row["high"]),
        )
        for row in told["rows"]
    ]
    what = _unit(told) or " or ".join(sorted(terms))
    if by == "variant":
        what += " by DSL"
    title = textwrap.shorten(told["formula"] or "Estimates", 60, placeholder=" ...")
    columns = told.get("grouped_by") or ()
    rows = [_row_name(key, len(outcomes), len(terms), columns) for key in keys]
    words = Words(
        title=f"{title}: {told['n_texts']:,} texts, {told['n_gold']:,} coded",
        x=f"{what}, with {told['level']:.0%} interval",
        alt=_alt(rows, points),
    )
    series = list(titles.values())
    if told["formula"]:
        return Panels(words=words, panels=rows, series=series, points=points)
    return Forest(
        words=words,
        rows=rows,
        series=series,
        points=points,
        is_share=terms <= {"share"},
    )


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["outcome"], row["term"], row["group"]


def _unit(told: Told) -> str:
    """The unit of a regression's coefficients; "" without one."""
    if not told["formula"]:
        return ""
    return "coefficient (log odds)" if told["model"] == "logit" else "coefficient"


def estimate_name(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """All that an estimate is of; groups with the names of their columns."""
    parts = (row["outcome"], row["term"], group_name(row["group"], columns))
    return ", ".join(part for part in parts if part)


def _row_name(
    key: tuple[str, str, str], n_outcomes: int, n_terms: int, columns: Sequence[str]
) -> str:
    """What tells a row from the others."""
    outcome, term, group = key
    group = group_name(group, columns)
    parts = [
        outcome if n_outcomes > 1 or (n_terms == 1 and not group) else "",
        term if n_terms > 1 else "",
        group,
    ]
    return ", ".join(part for part in parts if part) or term


def robustness_picture(told: Told) -> Forest:
    """Shares of labels under each variant, as in `robustness_dict`."""
    variants, names = told["variants"], told["names"]
    points = [
        Point(row=j, series=i, value=_number(share), low=math.nan, high=math.nan)
        for i, shares in enumerate(told["shares"])
        for j, share in enumerate(shares)
    ]
    flips = [_number(each) for each in told["flips"]]
    spans = [_range([p.value for p in points if p.row == j]) for j in range(len(names))]
    series = [variants[0]] + [
        f"{textwrap.shorten(name, 50, placeholder=' ...')} ({flip:.0%} of labels change)"
        for name, flip in zip(variants[1:], flips[1:], strict=True)
    ]
    return Forest(
        words=Words(
            title=f"Shares of labels in {len(variants)} variants, "
            f"{told['n_texts']:,} texts",
            x="share of texts",
            alt=_alt(names, points),
        ),
        rows=list(names),
        series=series,
        points=points,
        is_share=True,
        spans=spans,
    )


def timeline_picture(requests: Sequence[Any], n_slots: int) -> Timeline:
    """When prompts waited, were read and answered.

    Args:
        requests: `RequestStats` of those that ran.
        n_slots: Prompts that could run at once.

    Raises:
        ValueError: None ran.
    """
    if not requests:
        raise ValueError("no prompt ran: all were copied, in the journal, or failed")
    ordered = sorted(requests, key=lambda each: (each.queue_s, each.wall_s))
    waited = [min(each.queue_s, each.wall_s) for each in ordered]
    first = [
        each.wall_s if each.first_token_s is None else max(each.first_token_s, start)
        for each, start in zip(ordered, waited, strict=True)
    ]
    end = [max(each.wall_s, begun) for each, begun in zip(ordered, first, strict=True)]
    return Timeline(
        words=Words(
            title=f"{len(ordered):,} prompts in {n_slots} slots",
            x="seconds since the call began",
            y="prompts, in the order in which they began",
            alt=f"from 0 to {max(end):.1f} s",
        ),
        waited_s=waited,
        first_s=first,
        end_s=end,
    )


def time_picture(told: Told) -> Bars:
    """What the time of a call went to, as in `Stats`."""
    wall, read, wrote = told["wall_s"], told["prefill_s"], told["decode_s"]
    rest = max(0.0, wall - read - wrote)
    return Bars(
        words=Words(
            title=f"{told['n_prompts']:,} prompts in {wall:.1f} s",
            x="seconds",
            alt=f"prompts {read:.1f} s, answers {wrote:.1f} s, else {rest:.1f} s",
        ),
        rows=["prompt tokens", "answer tokens", "everything else"],
        parts=[("seconds", [read, wrote, rest])],
        notes=[
            f"{told['n_prefill_tokens']:,} at {told['prefill_tokens_per_s']:,.0f}/s",
            f"{told['n_decode_tokens']:,} at {told['decode_tokens_per_s']:,.0f}/s",
            "",
        ],
        legend=None,
    )


def _band(i: int) -> str:
    if i == 0:
        return f"{BANDS[0]} to 1"
    return f"{BANDS[i]} to {BANDS[i - 1]}" if BANDS[i] else f"below {BANDS[i - 1]}"


def _point(found: Mapping[str, Any], row: int, series: int) -> Point:
    value, low, high = (_number(found[name]) for name in ("value", "low", "high"))
    return Point(row=row, series=series, value=value, low=low, high=high)


def _number(value: Any) -> float:  # noqa: ANN401 - JSON
    return math.nan if value is None else float(value)


def _known(told: Told, name: str) -> Told:
    found: Told | None = told[name]
    if found is None:
        raise ValueError(f"no {name} to plot: it is not known how sure the model is")
    return found


def _range(values: Sequence[float]) -> tuple[float, float] | None:
    known = [value for value in values if not math.isnan(value)]
    return (min(known), max(known)) if known else None


def _alt(rows: Sequence[str], points: Sequence[Point]) -> str:
    return "; ".join(
        f"{rows[p.row]}: {p.value:.2f}" for p in points[:40] if not math.isnan(p.value)
    )
