"""Shapes of all plots: their numbers and words.

Arguments are the JSON data of a report, so that plots can be made from reports and from
objects. This module computes shapes and draws nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from llamaherd.core.decimals import percents
from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of
from llamaherd.research.estimation.estimates import group_name
from llamaherd.research.reports.picture_parts import (
    Fields,
    alt,
    cut,
    interval,
    number,
    short,
    value_range,
)
from llamaherd.research.reports.report_data import BANDS
from llamaherd.research.reports.shapes import (
    Bars,
    Forest,
    Panels,
    Point,
    Timeline,
    Words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METHODS = {
    "dsl": "corrected (DSL)",
    "ppi": "corrected (PPI++)",
    "gold": "human codes only",
    "naive": "labels, uncorrected",
}


def labels_picture(
    summary: Sequence[Mapping[str, Any]], n: int, things: str = "texts"
) -> Bars:
    """Show the number of texts with each label, shaded by the label's probability.

    Args:
        summary: Return value of `summary_of`.
        n: Number of all texts.
        things: Plural noun for the units, for the title.

    Raises:
        ValueError: There are no labels to count.
    """
    if not summary:
        raise ArgumentError(
            "has no labels to count: its codebook has fields",
            argument="x",
            code="no_labels",
        )
    by_prob = summary[0]["bands"] is not None
    n_labelled = summary[0]["n_labelled"]
    of = count_of(n, things.removesuffix("s"))
    if n_labelled != n:
        of = f"{n_labelled:,} of {of}"
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
            title=f"Labels of {of}",
            x=f"number of {things}",
            alt="; ".join(f"{each['label']}: {each['n']} {things}" for each in summary),
        ),
        rows=[str(each["label"]) for each in summary],
        parts=parts,
        notes=[
            f"{each['n']:,}"
            + ("" if each["share"] is None else f" ({percents(each['share'], 0)})")
            for each in summary
        ],
        legend="probability of the label" if by_prob else None,
    )


def estimates_picture(fields: Fields) -> Forest | Panels:
    """Show estimates by all methods, side by side; `fields` is an `estimates_dict`.

    Each coefficient of a regression has its own panel, because units differ.
    """
    methods = [
        name for name in METHODS if any(r["method"] == name for r in fields["rows"])
    ]
    return _side_by_side(fields, "method", {name: METHODS[name] for name in methods})


def variants_picture(fields: Fields) -> Forest | Panels:
    """Show estimates under several variants; `fields` is a `variants_dict`."""
    names = list(dict.fromkeys(row["variant"] for row in fields["rows"]))
    return _side_by_side(fields, "variant", dict(zip(names, short(names), strict=True)))


def _side_by_side(fields: Fields, by: str, titles: Mapping[str, str]) -> Forest | Panels:
    """Show estimates side by side; `by` names the column in which they differ."""
    series_names = list(titles)
    keys = list(dict.fromkeys(map(_key, fields["rows"])))
    outcomes = {row["outcome"] for row in fields["rows"]}
    terms = {row["term"] for row in fields["rows"]}
    points = [
        Point(
            row=keys.index(_key(row)),
            series=series_names.index(row[by]),
            value=number(row["estimate"]),
            low=number(row["low"]),
            high=number(row["high"]),
        )
        for row in fields["rows"]
    ]
    columns = fields.get("grouped_by") or ()
    rows = [_row_name(key, len(outcomes), len(terms), columns) for key in keys]
    words = Words(
        title=_estimates_title(fields, len(titles) if by == "variant" else None),
        x=f"{_unit(fields) or ' or '.join(sorted(terms))}"
        f"{' by DSL' if by == 'variant' else ''}, with {interval(fields['level'])}",
        alt=alt(rows, points),
    )
    series = list(titles.values())
    if fields["formula"]:
        return Panels(words=words, panels=rows, series=series, points=points)
    return Forest(
        words=words,
        rows=rows,
        series=series,
        points=points,
        is_share=terms <= {"share"},
    )


def _estimates_title(fields: Fields, n_variants: int | None) -> str:
    what = cut(fields["formula"] or "Estimates", 60)
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


def robustness_picture(fields: Fields) -> Forest:
    """Show shares of labels under each variant; `fields` is a `robustness_dict`."""
    variants, names = fields["variants"], fields["names"]
    points = [
        Point(row=j, series=i, value=number(share), low=math.nan, high=math.nan)
        for i, shares in enumerate(fields["shares"])
        for j, share in enumerate(shares)
    ]
    flips = [number(each) for each in fields["flips"]]
    spans = [
        value_range([p.value for p in points if p.row == j]) for j in range(len(names))
    ]
    first, *others = short(variants)
    series = [first] + [
        f"{name} ({percents(flip, 0)} of labels change)"
        for name, flip in zip(others, flips[1:], strict=True)
    ]
    return Forest(
        words=Words(
            title=f"Shares of labels in {count_of(len(variants), 'variant')}, "
            f"{count_of(fields['n_texts'], 'text')}",
            x="share of texts",
            alt=alt(names, points),
        ),
        rows=list(names),
        series=series,
        points=points,
        is_share=True,
        spans=spans,
    )


def timeline_picture(requests: Sequence[Any], n_slots: int) -> Timeline:
    """Show when each prompt waited, was read and was answered.

    Args:
        requests: `RequestStats` of the prompts that ran.
        n_slots: Number of prompts that can run at once.

    Raises:
        ValueError: No prompt ran.
    """
    if not requests:
        raise ArgumentError(
            "has no prompt that ran: all were copied, read from the journal, or failed",
            argument="x",
            code="nothing_to_plot",
        )
    ordered = sorted(requests, key=lambda each: (each.queue_s, each.wall_s))
    waited = [min(each.queue_s, each.wall_s) for each in ordered]
    first = [
        each.wall_s if each.first_token_s is None else max(each.first_token_s, start)
        for each, start in zip(ordered, waited, strict=True)
    ]
    end = [max(each.wall_s, begun) for each, begun in zip(ordered, first, strict=True)]
    return Timeline(
        words=Words(
            title=f"{count_of(len(ordered), 'prompt')} in {count_of(n_slots, 'slot')}",
            x="seconds since the call began",
            y="prompts, in the order in which they began",
            alt=f"from 0 to {max(end):.1f} s",
        ),
        waited_s=waited,
        first_s=first,
        end_s=end,
    )


def time_picture(fields: Fields) -> Bars:
    """Show the seconds of a call for prompts and answers; `fields` is a `Stats`."""
    wall, read, wrote = fields["wall_s"], fields["prefill_s"], fields["decode_s"]
    rest = max(0.0, wall - read - wrote)
    return Bars(
        words=Words(
            title=f"{count_of(fields['n_prompts'], 'prompt')} in {wall:.1f} s",
            x="seconds",
            alt=f"prompts {read:.1f} s, answers {wrote:.1f} s, else {rest:.1f} s",
        ),
        rows=["prompt tokens", "answer tokens", "everything else"],
        parts=[("seconds", [read, wrote, rest])],
        notes=[
            f"{fields['n_prefill_tokens']:,} at {fields['prefill_tokens_per_s']:,.0f}/s",
            f"{fields['n_decode_tokens']:,} at {fields['decode_tokens_per_s']:,.0f}/s",
            "",
        ],
        legend=None,
    )


def _band(i: int) -> str:
    if i == 0:
        return f"{BANDS[0]} to 1"
    return f"{BANDS[i]} to {BANDS[i - 1]}" if BANDS[i] else f"below {BANDS[i - 1]}"
