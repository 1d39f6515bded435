"""Sections of a report's page with texts: disagreements, quotes and passages."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.core.plurals import count_of
from llamaherd.research.coding.spans import SPANS
from llamaherd.research.plots.counts import Passage, passages_of
from llamaherd.research.reports.report_blocks import (
    LONGEST,
    number_text,
    or_dash,
    shown,
    table_block,
    text_block,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llamaherd.research.reports.report_blocks import Block
    from llamaherd.research.reports.report_data import Contents


def example_blocks(contents: Contents) -> tuple[str, list[Block | None]]:
    """Return the title of the section with texts, and its blocks."""
    found = contents["examples"]
    if not found:
        return "Texts", []
    if are_passages(contents):
        names = span_labels(contents)
        made = [_marked(each, passages_of(each["label"]), names) for each in found]
        return "Texts with their passages", [_legend(contents), *made]
    disagree = contents["validation"] is not None
    head = ["row", "text", "model", *(["people"] if disagree else []), "probability"]
    rows = [
        [
            f"{each['row'] + 1:,}",
            shown(each["text"]),
            or_dash(each["label"]),
            *([or_dash(each["truth"])] if disagree else []),
            number_text(each["prob"], 3),
        ]
        for each in found
    ]
    title = "Where model and people disagree" if disagree else "The first texts"
    what = "Texts with the most probable label first." if disagree else "In data order."
    blocks: list[Block | None] = [
        text_block(what),
        table_block(head, rows, numbers={len(head) - 1}, texts=1),
    ]
    quoted = [each for each in found if each.get("quote")]
    if quoted:
        blocks.append({"kind": "heading", "text": "Quotes that support the labels"})
        blocks += [
            _marked(
                each,
                [Passage(each["quote"][0], each["quote"][1], str(each["label"]))],
                contents["labels"]["names"],
            )
            for each in quoted
        ]
    return title, blocks


def are_passages(contents: Contents) -> bool:
    """Return True if the codebook has the type "spans" and labels are included."""
    content = contents["run"]["codebook"]["content"]
    return content.get("type") == SPANS and not contents["labels"]["are_hashes"]


def span_labels(contents: Contents) -> list[str]:
    """Return the labels of a codebook of the type "spans"."""
    return list(contents["run"]["codebook"]["content"].get("labels") or [])


def _marked(
    example: Mapping[str, Any], passages: Sequence[Passage], names: Sequence[str]
) -> Block:
    """Return a text with highlighted passages; the template escapes all parts.

    Each label in `names` has a colour.
    """
    text = str(example["text"])
    pieces = [
        {
            "text": shown(piece.text),
            "labels": shown(", ".join(dict.fromkeys(piece.labels))),
            "starts": shown(", ".join(dict.fromkeys(piece.starts))),
            "colour": _colour(piece.labels[-1], names) if piece.labels else None,
        }
        for piece in pieces_of(text[:LONGEST], passages)
    ]
    left = len(text) - LONGEST
    return {
        "kind": "marked",
        "row": f"{example['row'] + 1:,}",
        "pieces": pieces,
        "rest": f" ... ({len(text):,} characters)" if left > 0 else "",
    }


def _colour(label: str, names: Sequence[str]) -> int:
    """Return the number of a label's colour."""
    place = names.index(label) if label in names else len(names)
    return place % N_COLOURS


def _legend(contents: Contents) -> Block:
    n = len(contents["examples"])
    return text_block(
        f"The first {count_of(n, 'text')}; the label is before each passage."
    )


N_COLOURS = 6  # number of colours in the page's style; further labels reuse them


class MarkedPiece(NamedTuple):
    """Part of a text with the same passages throughout.

    Attributes:
        text: Characters of the part.
        labels: Labels of the passages that contain this part; () outside passages.
        starts: Labels of the passages that begin with this part.
    """

    text: str
    labels: tuple[str, ...]
    starts: tuple[str, ...]


def pieces_of(text: str, passages: Iterable[Passage]) -> list[MarkedPiece]:
    """Split a text at the starts and ends of its passages, which may overlap."""
    inside = [
        Passage(max(each.start, 0), min(each.end, len(text)), each.label)
        for each in passages
        if each.start < min(each.end, len(text))
    ]
    ends = {0, len(text), *(each.start for each in inside), *(e.end for e in inside)}
    cuts = sorted(ends)
    return [
        MarkedPiece(
            text[start:end],
            tuple(p.label for p in inside if p.start <= start and end <= p.end),
            tuple(p.label for p in inside if p.start == start),
        )
        for start, end in pairwise(cuts)
    ]
