"""Plots of numbers with intervals, in rows: accuracy, agreement, estimates, strengths."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from llamaherd.coding.estimation.estimates import group_name
from llamaherd.coding.plots.description import cut, interval, number, short
from llamaherd.coding.plots.rows import Value, panels_plot, rows_plot
from llamaherd.coding.selection.measures import LABEL_MEASURES as PAIRED
from llamaherd.coding.selection.measures import TITLES
from llamaherd.coding.statistics.accuracy import TITLES as ACCURACIES
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, percents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.pairs.comparison import PairComparison
    from llamaherd.coding.plots.description import Fields, Plot, Range
    from llamaherd.coding.selection.comparison import CodebookComparison

METHODS = {
    "dsl": "corrected (DSL)",
    "ppi": "corrected (PPI++)",
    "gold": "human codes only",
    "naive": "labels, uncorrected",
}
_SCORES = {"precision": "precision", "recall": "recall", "f1": "F1"}
_SPAN_MEASURES = {
    "exact precision": "exact precision",
    "exact recall": "exact recall",
    "exact f1": "exact F1",
    "overlap precision": "overlap precision",
    "overlap recall": "overlap recall",
    "overlap f1": "overlap F1",
    "unitizing alpha": "unitizing alpha",
}
_OF_SPAN_LABELS = ("exact f1", "overlap f1", "unitizing alpha")
_TIED = ("may be the best", "worse than the best")
_MOST_STRENGTHS = 50
_LONGEST = 60  # characters of a question or formula in a title


def estimates_plot(fields: Fields) -> Plot:
    """Show estimates by all methods, side by side; `fields` is their `to_dict`.

    Each coefficient of a regression has its own panel, because units differ.
    """
    methods = [
        name for name in METHODS if any(r["method"] == name for r in fields["rows"])
    ]
    return _side_by_side(fields, "method", {name: METHODS[name] for name in methods})


def variants_plot(fields: Fields) -> Plot:
    """Show estimates under several variants; `fields` is an `estimates_dict`."""
    names = list(dict.fromkeys(row["variant"] for row in fields["rows"]))
    return _side_by_side(fields, "variant", dict(zip(names, short(names), strict=True)))


def _side_by_side(fields: Fields, by: str, titles: Mapping[str, str]) -> Plot:
    """Show estimates side by side; `by` names the column in which they differ."""
    place = {name: i for i, name in enumerate(titles)}
    keys = list(dict.fromkeys(map(_key, fields["rows"])))
    outcomes = {row["outcome"] for row in fields["rows"]}
    terms = {row["term"] for row in fields["rows"]}
    columns = fields.get("grouped_by") or ()
    rows = [_row_name(key, len(outcomes), len(terms), columns) for key in keys]
    series = list(titles.values())
    at = {key: i for i, key in enumerate(keys)}
    is_fit = bool(fields["formula"])  # panels of coefficients, rows of series
    values = [
        Value(
            row=place[row[by]] if is_fit else at[_key(row)],
            series=place[row[by]],
            value=number(row["estimate"]),
            low=number(row["low"]),
            high=number(row["high"]),
            panel=at[_key(row)] if is_fit else 0,
        )
        for row in fields["rows"]
    ]
    title = _estimates_title(fields, len(titles) if by == "variant" else None)
    kinds = [list(METHODS).index(name) for name in titles if by == "method"]
    x = (
        f"{_unit(fields) or ' or '.join(sorted(terms))}"
        f"{' by DSL' if by == 'variant' else ''}, with {interval(fields['level'])}"
    )
    if not is_fit:
        is_share = terms <= {"share"}
        return rows_plot(title, x, rows, series, values, kinds=kinds, is_share=is_share)
    return panels_plot(
        title,
        x,
        rows,
        series,
        series=series,
        values=values,
        from_zero=[None],
        kinds=kinds,
    )


def _estimates_title(fields: Fields, n_variants: int | None) -> str:
    what = cut(fields["formula"] or "Estimates", _LONGEST)
    variants = "" if n_variants is None else f" in {count_of(n_variants, 'variant')}"
    texts = count_of(fields["n_texts"], "text")
    return f"{what}{variants}: {texts}, {fields['n_gold']:,} coded"


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["outcome"], row["term"], row["group"]


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
    key: tuple[str, str, str], n_outcomes: int, n_terms: int, columns: Sequence[str]
) -> str:
    """Return the name of a row: the parts in which the rows differ."""
    outcome, term, group = key
    group = group_name(group, columns)
    parts = [
        outcome if n_outcomes > 1 or (n_terms == 1 and not group) else "",
        term if n_terms > 1 else "",
        group,
    ]
    return ", ".join(part for part in parts if part) or term


def robustness_plot(fields: Fields) -> Plot:
    """Show shares of labels under each variant; `fields` is its `to_dict`."""
    variants, names = fields["variants"], list(fields["names"])
    values = [
        Value(row, series, number(share))
        for series, shares in enumerate(fields["shares"])
        for row, share in enumerate(shares)
    ]
    first, *others = short(variants)
    flips = [number(each) for each in fields["flips"]]
    series = [first] + [
        f"{name} ({percents(flip, 0)} of labels change)"
        for name, flip in zip(others, flips[1:], strict=True)
    ]
    spans: list[Range | None] = []
    for row in range(len(names)):
        known = [v.value for v in values if v.row == row and not math.isnan(v.value)]
        spans.append((min(known), max(known)) if known else None)
    title = f"Shares of labels in {count_of(len(variants), 'variant')}, "
    title += count_of(fields["n_texts"], "text")
    return rows_plot(title, "share of texts", names, series, values, spans=spans)


def measures_plot(fields: Fields) -> Plot:
    """Show accuracy and agreement; `fields` is the `to_dict` of a validation."""
    measured = fields["accuracy"]
    rows: list[str] = []
    values: list[Value] = []
    series = ["model and people"]
    for name, title in ACCURACIES.items():
        values.append(Value.of(measured[name], len(rows), 0))
        rows.append(title)
    between = {each["name"]: each for each in fields["coder_agreement"] or []}
    if between:
        series.append("between people")
    for each in fields["model_agreement"]:
        values.append(Value.of(each, len(rows), 0))
        if each["name"] in between:
            values.append(Value.of(between[each["name"]], len(rows), 1))
        rows.append(COEFFICIENTS[each["name"]].title)
    # The baseline applies only to accuracy, the first row.
    base = Value.of(measured["majority_accuracy"], 0, len(series))
    if not math.isnan(base.value):
        series.append(f"always '{cut(str(measured['majority_label']), 40)}'")
        values.append(base)
    title = _measures_title(fields["n_gold"], measured["accuracy"]["n"])
    x = f"value, with {interval(fields['level'])}"
    return rows_plot(title, x, rows, series, values)


def _measures_title(n_gold: int, n_used: int) -> str:
    """Return a title with the numbers of coded texts and of texts used for accuracy."""
    n = count_of(n_gold, "text")
    if n_used == n_gold:
        return f"Labels compared with human codes, {n}"
    return f"Labels compared with human codes ({n}; accuracy: {n_used:,})"


def scores_plot(fields: Fields) -> Plot:
    """Show precision, recall and F1 of each label."""
    scores = fields["accuracy"]["per_label"]
    values = [
        Value.of(each[name], row, series)
        for row, each in enumerate(scores)
        for series, name in enumerate(_SCORES)
    ]
    return rows_plot(
        "Quality of each label (number of texts with this human code)",
        f"share, with {interval(fields['level'])}",
        [f"{each['label']} ({each['n_gold']:,})" for each in scores],
        list(_SCORES.values()),
        values,
    )


def agreement_plot(found: Sequence[Mapping[str, Any]], level: float | None) -> Plot:
    """Show coefficients of agreement with their intervals."""
    # agreement() in R also has kappas with other weights.
    rows = [
        COEFFICIENTS[each["name"]].title
        if each["name"] in COEFFICIENTS
        else str(each["name"])
        for each in found
    ]
    n_coders = max((int(each["n_coders"]) for each in found), default=0)
    n_units = max((int(each["n_units"]) for each in found), default=0)
    return rows_plot(
        f"Agreement of {count_of(n_coders, 'coder')} on {count_of(n_units, 'unit')}",
        f"value, with {interval(level)}",
        rows,
        ["agreement"],
        [Value.of(each, i, 0) for i, each in enumerate(found)],
    )


def span_measures_plot(fields: Fields) -> Plot:
    """Show precision, recall, F1 and alpha of all labels together, by pair of coders."""
    found = [row for row in fields["rows"] if not row["label"]]
    there = {row["measure"] for row in found}
    measures = [name for name in _SPAN_MEASURES if name in there]
    parts = list(dict.fromkeys(row["part"] for row in found))
    values = [
        Value.of(row, measures.index(row["measure"]), parts.index(row["part"]))
        for row in found
    ]
    rows = [_SPAN_MEASURES[name] for name in measures]
    return rows_plot(*_span_words(fields), rows, parts, values)


def span_labels_plot(fields: Fields) -> Plot:
    """Show F1 and alpha of each label, between the model and people."""
    found = [
        row
        for row in fields["rows"]
        if row["label"] and row["part"].startswith("model and ")
    ]
    if not found:
        raise ArgumentError(
            "cannot be 'labels': all passages have the same label",
            argument="kind",
            code="single_label",
        )
    names = list(dict.fromkeys(row["label"] for row in found))
    keys = list(dict.fromkeys((row["measure"], row["part"]) for row in found))
    keys.sort(key=lambda key: _OF_SPAN_LABELS.index(key[0]))
    several = len(keys) > len(_OF_SPAN_LABELS)  # several people: each pair has its own F1
    series = [
        f"{_SPAN_MEASURES[measure]}, {part}" if several else _SPAN_MEASURES[measure]
        for measure, part in keys
    ]
    values = [
        Value.of(
            row, names.index(row["label"]), keys.index((row["measure"], row["part"]))
        )
        for row in found
    ]
    return rows_plot(*_span_words(fields), names, series, values)


def _span_words(fields: Fields) -> tuple[str, str]:
    """Return the title and the label of the axis."""
    n = max((int(row["n"]) for row in fields["rows"]), default=0)
    title = f"Passages of the model and of people, {count_of(n, 'text')}"
    return title, f"value, with {interval(fields['level'])}"


def strengths_plot(x: PairComparison) -> Plot:
    """Show strengths with intervals, the strongest first; long lists show both ends."""
    ordered = sorted(
        (each for each in x.strengths if each.rank is not None),
        key=lambda each: -each.strength,
    )
    if not ordered:
        raise ArgumentError(
            "has no text with a strength", argument="x", code="nothing_to_plot"
        )
    shown, part = ordered, ""
    if len(ordered) > _MOST_STRENGTHS:
        half = _MOST_STRENGTHS // 2
        shown = ordered[:half] + ordered[-half:]
        part = f", the {half} strongest and weakest"
    return rows_plot(
        f"{cut(x.question, _LONGEST)}: {count_of(len(x.strengths), 'text')}{part}",
        f"strength (log-odds), with {interval(x.level)}",
        short([each.name for each in shown]),
        ["texts"],
        [Value(i, 0, each.strength, each.low, each.high) for i, each in enumerate(shown)],
        is_share=False,
    )


def comparison_plot(x: CodebookComparison) -> Plot:
    """Show agreement and seconds per text of each candidate, in two panels.

    Without known seconds there is one plot of agreement.
    """
    rows = [i for i, each in enumerate(x.candidates) if not math.isnan(each.value.value)]
    all_names = short(list(x.names))
    names = [all_names[i] for i in rows]
    is_tied = [x.is_tied(i) for i in rows]
    series = [name for i, name in enumerate(_TIED) if (i == 0) in is_tied]
    kinds = [series.index(_TIED[0] if tied else _TIED[1]) for tied in is_tied]
    found = [x.candidates[i] for i in rows]
    values = [
        Value(row, kind, each.value.value, each.value.low, each.value.high)
        for row, (each, kind) in enumerate(zip(found, kinds, strict=True))
    ]
    measure = TITLES[x.measure] + (" (smaller is better)" if x.is_error else "")
    title = f"{count_of(len(all_names), 'candidate')} on the same texts"
    of = f"on {count_of(x.n, 'text')}, with {interval(x.level)}"
    if all(math.isnan(each.seconds) for each in found):
        is_share = x.measure in PAIRED and x.measure != "kappa"
        return rows_plot(
            title, f"{measure} {of}", names, series, values, is_share=is_share
        )
    seconds = [
        Value(row, kind, each.seconds, panel=1)
        for row, (each, kind) in enumerate(zip(found, kinds, strict=True))
    ]
    return panels_plot(
        title,
        f"{TITLES[x.measure]} {of}",
        [measure, "seconds per text"],
        names,
        series=series,
        values=[*values, *seconds],
        from_zero=[1],
        n_columns=2,
    )
