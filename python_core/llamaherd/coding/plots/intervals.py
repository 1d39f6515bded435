"""Plots of numbers with intervals, in rows: accuracy, agreement, estimates, strengths."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llamaherd.coding.estimation.estimates import group_name
from llamaherd.coding.plots.description import Fields, Plot, interval, number
from llamaherd.coding.plots.rows import Value, distinct, panels_plot, rows_plot
from llamaherd.coding.selection.measures import LABEL_MEASURES as PAIRED
from llamaherd.coding.selection.measures import TITLES
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.coding.validation.page import MODEL, PEOPLE, measures_of
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, percents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.pairs.comparison import PairComparison
    from llamaherd.coding.selection.comparison import CodebookComparison

METHODS = {
    "dsl": "corrected (DSL)",
    "ppi": "corrected (PPI++)",
    "gold": "human codes only",
    "naive": "labels, uncorrected",
}
_SCORES = {"precision": "precision", "recall": "recall", "f1": "F1"}
_OF_SPAN_LABELS = ("exact f1", "overlap f1", "unitizing alpha")
_BEST, _WORSE = "may be the best", "worse than the best"
_MOST_STRENGTHS = 50
_LONGEST = 60  # characters of a question or formula in a title


def estimates_plot(fields: Fields) -> Plot:
    """Show estimates by all methods, side by side; `fields` is their `to_dict`.

    Each coefficient of a regression has its own panel, because units differ.
    """
    return _side_by_side(fields, [METHODS[row["method"]] for row in fields["rows"]])


def variants_plot(fields: Fields) -> Plot:
    """Show estimates under several variants; `fields` is an `estimates_dict`."""
    names = distinct(row["variant"] for row in fields["rows"])
    series = [str(row["variant"]) for row in fields["rows"]]
    return _side_by_side(fields, series, n_variants=len(names))


def _side_by_side(
    fields: Fields, series: Sequence[str], n_variants: int | None = None
) -> Plot:
    """Show estimates side by side; each has the name of its method or variant."""
    outcomes = {row["outcome"] for row in fields["rows"]}
    terms = {row["term"] for row in fields["rows"]}
    columns = fields.get("grouped_by") or ()
    is_fit = bool(fields["formula"])  # panels of coefficients, rows of series
    values = []
    for row, name in zip(fields["rows"], series, strict=True):
        estimate = _row_name(row, len(outcomes), len(terms), columns)
        value, low, high = (number(row[key]) for key in ("estimate", "low", "high"))
        names = (name, name, estimate) if is_fit else (estimate, name, "")
        values.append(Value(*names, value, low, high))
    title = _estimates_title(fields, n_variants)
    x = (
        f"{_unit(fields) or ' or '.join(sorted(terms))}"
        f"{'' if n_variants is None else ' by DSL'}, with {interval(fields['level'])}"
    )
    kinds = list(METHODS.values()) if n_variants is None else ()
    if is_fit:
        return panels_plot(title, x, values, from_zero=[None], kinds=kinds)
    return rows_plot(title, x, values, kinds=kinds, is_share=terms <= {"share"})


def _estimates_title(fields: Fields, n_variants: int | None) -> str:
    what = _shorten(fields["formula"] or "Estimates", _LONGEST)
    variants = "" if n_variants is None else f" in {count_of(n_variants, 'variant')}"
    texts = count_of(fields["n_texts"], "text")
    return f"{what}{variants}: {texts}, {fields['n_gold']:,} coded"


def _shorten(text: str, width: int) -> str:
    """Shorten a text to `width` characters, with "..." for the omitted part."""
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."


def _unit(fields: Fields) -> str:
    """Return the unit of a regression's coefficients; "" for other estimates."""
    if not fields["formula"]:
        return ""
    return "coefficient (log odds)" if fields["model"] == "logit" else "coefficient"


def estimate_name(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Return an estimate's name: outcome, term, and group with its columns' names."""
    parts = (row["outcome"], row["term"], group_name(row["group"], columns))
    return ", ".join(part for part in parts if part)


def _row_name(
    row: Mapping[str, Any], n_outcomes: int, n_terms: int, columns: Sequence[str]
) -> str:
    """Return the name of a row: the parts in which the rows differ."""
    group = group_name(row["group"], columns)
    has_outcome = n_outcomes > 1 or (n_terms == 1 and not group)
    parts = [
        row["outcome"] if has_outcome else "",
        row["term"] if n_terms > 1 else "",
        group,
    ]
    return ", ".join(part for part in parts if part) or str(row["term"])


def robustness_plot(fields: Fields) -> Plot:
    """Show shares of labels under each variant; `fields` is its `to_dict`."""
    first, *others = fields["variants"]
    flips = [number(flip) for flip in fields["flips"]]
    series = [first] + [
        f"{name} ({percents(flip, 0)} of labels change)"
        for name, flip in zip(others, flips[1:], strict=True)
    ]
    values = [
        Value(str(row), name, "", number(share))
        for name, shares in zip(series, fields["shares"], strict=True)
        for row, share in zip(fields["names"], shares, strict=True)
    ]
    title = f"Shares of labels in {count_of(len(series), 'variant')}, "
    title += count_of(fields["n_texts"], "text")
    return rows_plot(title, "share of texts", values, has_ranges=True)


def measures_plot(fields: Fields) -> Plot:
    """Show accuracy and agreement; `fields` is the `to_dict` of a validation."""
    values: list[Value] = []
    baseline: list[Value] = []  # applies only to accuracy, the first row
    for part, _, label, title, measure in measures_of(fields):
        if part == "baseline" and label and measure["value"] is not None:
            majority = f"always '{_shorten(label, 40)}'"
            baseline.append(Value.of(measure, values[0].row, majority))
        elif title and part in ("accuracy", MODEL, PEOPLE):
            values.append(Value.of(measure, title, PEOPLE if part == PEOPLE else MODEL))
    values += baseline
    title = _measures_title(fields["n_gold"], fields["accuracy"]["accuracy"]["n"])
    return rows_plot(title, f"value, with {interval(fields['level'])}", values)


def _measures_title(n_gold: int, n_used: int) -> str:
    """Return a title with the numbers of coded texts and of texts used for accuracy."""
    n = count_of(n_gold, "text")
    if n_used == n_gold:
        return f"Labels compared with human codes, {n}"
    return f"Labels compared with human codes ({n}; accuracy: {n_used:,})"


def scores_plot(fields: Fields) -> Plot:
    """Show precision, recall and F1 of each label."""
    return rows_plot(
        "Quality of each label (number of texts with this human code)",
        f"share, with {interval(fields['level'])}",
        [
            Value.of(scores[name], f"{scores['label']} ({scores['n_gold']:,})", title)
            for scores in fields["accuracy"]["per_label"]
            for name, title in _SCORES.items()
        ],
    )


def agreement_plot(
    coefficients: Sequence[Mapping[str, Any]], level: float | None
) -> Plot:
    """Show coefficients of agreement with their intervals."""
    n_coders = max(
        (int(coefficient["n_coders"]) for coefficient in coefficients), default=0
    )
    n_units = max(
        (int(coefficient["n_units"]) for coefficient in coefficients), default=0
    )
    # agreement() in R also has kappas with other weights.
    titles = {name: coefficient.title for name, coefficient in COEFFICIENTS.items()}
    return rows_plot(
        f"Agreement of {count_of(n_coders, 'coder')} on {count_of(n_units, 'unit')}",
        f"value, with {interval(level)}",
        [
            Value.of(
                coefficient,
                titles.get(coefficient["name"], str(coefficient["name"])),
                "agreement",
            )
            for coefficient in coefficients
        ],
    )


def span_measures_plot(fields: Fields) -> Plot:
    """Show precision, recall, F1 and alpha of all labels together, by pair of coders."""
    values = [
        Value.of(row, _span_measure(row), row["part"])
        for row in fields["rows"]
        if not row["label"]
    ]
    return rows_plot(*_span_words(fields), values)


def span_labels_plot(fields: Fields) -> Plot:
    """Show F1 and alpha of each label, between the model and people."""
    rows = [
        row
        for row in fields["rows"]
        if row["label"] and row["part"].startswith("model and ")
    ]
    if not rows:
        raise ArgumentError(
            "cannot be 'labels': all passages have the same label",
            argument="kind",
            code="single_label",
        )
    rows.sort(key=lambda row: _OF_SPAN_LABELS.index(row["measure"]))
    # Several people: each pair has its own F1.
    several = len({(row["measure"], row["part"]) for row in rows}) > len(_OF_SPAN_LABELS)
    values = [
        Value.of(
            row,
            row["label"],
            f"{_span_measure(row)}, {row['part']}" if several else _span_measure(row),
        )
        for row in rows
    ]
    return rows_plot(*_span_words(fields), values)


def _span_measure(row: Mapping[str, Any]) -> str:
    return str(row["measure"]).replace("f1", "F1")


def _span_words(fields: Fields) -> tuple[str, str]:
    """Return the title and the label of the axis."""
    n = max((int(row["n"]) for row in fields["rows"]), default=0)
    title = f"Passages of the model and of people, {count_of(n, 'text')}"
    return title, f"value, with {interval(fields['level'])}"


def strengths_plot(x: PairComparison) -> Plot:
    """Show strengths with intervals, the strongest first; long lists show both ends."""
    ordered = sorted(
        (text for text in x.strengths if text.rank is not None),
        key=lambda text: -text.strength,
    )
    if not ordered:
        raise ArgumentError(
            "has no text with a strength", argument="x", code="nothing_to_plot"
        )
    texts, part = ordered, ""
    if len(ordered) > _MOST_STRENGTHS:
        half = _MOST_STRENGTHS // 2
        texts = ordered[:half] + ordered[-half:]
        part = f", the {half} strongest and weakest"
    return rows_plot(
        f"{_shorten(x.question, _LONGEST)}: {count_of(len(x.strengths), 'text')}{part}",
        f"strength (log-odds), with {interval(x.level)}",
        [
            Value(text.name, "texts", "", text.strength, text.low, text.high)
            for text in texts
        ],
        is_share=False,
    )


def comparison_plot(x: CodebookComparison) -> Plot:
    """Show agreement and seconds per text of each candidate, in two panels.

    Without known seconds there is one plot of agreement.
    """
    measure = TITLES[x.measure] + (" (smaller is better)" if x.is_error else "")
    title = f"{count_of(len(x.names), 'candidate')} on the same texts"
    of = f"on {count_of(x.n, 'text')}, with {interval(x.level)}"
    values, seconds = [], []
    for i, (name, candidate) in enumerate(zip(x.names, x.candidates, strict=True)):
        series, value = _BEST if x.is_tied(i) else _WORSE, candidate.value
        if not math.isnan(value.value):
            values.append(
                Value(name, series, measure, value.value, value.low, value.high)
            )
            seconds.append(Value(name, series, "seconds per text", candidate.seconds))
    if all(math.isnan(value.value) for value in seconds):
        is_share = x.measure in PAIRED and x.measure != "kappa"
        values = [replace(value, panel="") for value in values]
        return rows_plot(title, f"{measure} {of}", values, is_share=is_share)
    return panels_plot(
        title,
        f"{TITLES[x.measure]} {of}",
        [*values, *seconds],
        from_zero=[1],
        n_columns=2,
    )
