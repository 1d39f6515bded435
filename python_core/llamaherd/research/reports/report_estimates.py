"""Sections of a report's page on estimates and on robustness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core.decimals import decimals
from llamaherd.core.plurals import count_of, percent
from llamaherd.research.plots.intervals import (
    METHODS,
    estimate_name,
    estimates_plot,
    robustness_plot,
)
from llamaherd.research.reports.prose import listed
from llamaherd.research.reports.report_blocks import (
    ends_text,
    note_block,
    number_text,
    share_text,
    shown,
    table_block,
    text_block,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.research.reports.report_blocks import Block

    Draw = Callable[..., Block | None]

# Decimals, as in printed estimates and robustness.
_ESTIMATE, _VARIANT = 4, 3
_TOGETHER = "The intervals of each method are simultaneous at this level (Bonferroni)."


def estimates_blocks(
    found: Sequence[Mapping[str, Any]], draw: Draw
) -> list[Block | None]:
    """Return tables and plots of estimates, with a heading for each of several."""
    titles = titles_of(found)
    shared = [
        note
        for note in (found[0]["notes"] if len(found) > 1 else ())
        if all(note in fields["notes"] for fields in found)
    ]
    blocks: list[Block | None] = [note_block(shown(note)) for note in shared]
    for title, fields in zip(titles, found, strict=True):
        if len(found) > 1 or fields.get("title"):
            blocks.append({"kind": "heading", "text": shown(title)})
        blocks += _estimates(fields, draw, shared)
    return blocks


def titles_of(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a different title for each of several estimates."""
    names = [fields.get("title") or _title(fields) for fields in found]
    return [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


def _title(fields: Mapping[str, Any]) -> str:
    """Return a title from the content: the formula, or "Share of yes by party"."""
    if fields["formula"]:
        return str(fields["formula"])
    terms = {row["term"] for row in fields["rows"]} - {"difference"}
    outcomes = {row["outcome"] for row in fields["rows"]}
    term = terms.pop() if len(terms) == 1 else "estimate"
    name = f"{term} of {outcomes.pop()}" if len(outcomes) == 1 else f"{term}s"
    by = fields.get("grouped_by") or ()
    groups = f" by {listed(by)}" if by else ""
    return f"{name[:1].upper()}{name[1:]}{groups}"


def _estimates(
    fields: Mapping[str, Any], draw: Draw, shared: Sequence[str]
) -> list[Block | None]:
    whole = dict(fields)
    rows = [
        [
            shown(estimate_name(r, whole.get("grouped_by") or ())),
            METHODS[r["method"]],
            number_text(r["estimate"], _ESTIMATE),
            number_text(r["std_error"], _ESTIMATE),
            ends_text(r, _ESTIMATE),
        ]
        for r in fields["rows"]
    ]
    head = [
        "what",
        "method",
        "estimate",
        "standard error",
        f"{percent(fields['level'])} interval",
    ]
    what = f"{shown(fields['formula'])}. " if fields["formula"] else ""
    return [
        text_block(
            f"{what}{count_of(fields['n_texts'], 'text')}; {fields['n_gold']:,} of them "
            f"were coded by people ({shown(fields['design'])})."
        ),
        text_block(f"{shown(fields['agreement'])}.") if fields.get("agreement") else None,
        text_block(_TOGETHER) if fields.get("simultaneous") else None,
        *(note_block(shown(note)) for note in fields["notes"] if note not in shared),
        table_block(head, rows, numbers={2, 3, 4}, part="estimates"),
        draw(lambda: estimates_plot(whole)),
    ]


def robustness_blocks(fields: Mapping[str, Any] | None, draw: Draw) -> list[Block | None]:
    """Return the tables and plot of variants."""
    if fields is None:
        return []
    whole = dict(fields)
    rows = [
        [shown(name), share_text(flips), *map(share_text, shares)]
        for name, flips, shares in zip(
            fields["variants"], fields["flips"], fields["shares"], strict=True
        )
    ]
    alpha = fields["alpha"]
    more = "" if alpha is None else f", Krippendorff's alpha {decimals(alpha, 3)}"
    head = ["variant", "labels that change", *map(shown, fields["names"])]
    return [
        text_block(
            f"The same {count_of(fields['n_texts'], 'text')}, "
            f"{count_of(len(fields['variants']), 'variant')}. "
            f"Mean agreement of two variants: {share_text(fields['agreement'])}{more}."
        ),
        table_block(head, rows, caption="Against the first variant; shares of labels"),
        draw(lambda: robustness_plot(whole)),
        *_corrected(fields),
    ]


def _corrected(fields: Mapping[str, Any]) -> list[Block | None]:
    """Return blocks with the estimates of each variant.

    The labels of each variant are corrected by the same codes (DSL).
    """
    found = fields.get("estimates")
    if not found:
        return []
    rows = [
        [
            shown(", ".join(p for p in (r["outcome"], r["term"], r["group"]) if p)),
            shown(r["variant"]),
            number_text(r["estimate"], _VARIANT),
            ends_text(r, _VARIANT),
        ]
        for r in sorted(
            found["rows"], key=lambda r: (r["outcome"], r["term"], r["group"])
        )
    ]
    head = ["what", "variant", "estimate", f"{percent(found['level'])} interval"]
    caption = "Labels of each variant corrected by the same codes (DSL)"
    return [
        *(note_block(shown(note)) for note in found["notes"]),
        table_block(head, rows, caption=caption, numbers={2, 3}, part="robustness"),
    ]
