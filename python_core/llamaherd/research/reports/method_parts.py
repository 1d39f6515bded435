"""Parts of a report about methods: paragraph, checklist, selection of the codebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core.decimals import decimals
from llamaherd.core.plurals import count_of
from llamaherd.research.references import REFERENCES
from llamaherd.research.reports.checklist import ASKED_BY, OPEN
from llamaherd.research.reports.methods import methods_of
from llamaherd.research.reports.prose import measured
from llamaherd.research.reports.report_blocks import note_block
from llamaherd.research.selection.effect import TITLES

if TYPE_CHECKING:
    from llamaherd.research.reports.report_data import Contents

    Block = dict[str, Any]


def methods_blocks(contents: Contents) -> list[Block | None]:
    """Return the methods paragraph, to paste into a paper."""
    text = methods_of(contents).text
    return [{"kind": "text", "text": each} for each in text.split("\n\n")]


def references_blocks(contents: Contents) -> list[Block | None]:
    """Return the references of the methods paragraph, as BibTeX."""
    content = {"title": "", "before": methods_of(contents).bibtex}
    return [
        {"kind": "text", "text": "References of the methods paragraph, as BibTeX."},
        {"kind": "pre", **content, "marked": "", "after": ""},
    ]


def choice_blocks(contents: Contents) -> list[Block | None]:
    """Return the selected codebook and its evaluation; [] without an evaluation."""
    found = contents.get("evaluation")
    if found is None:
        return []
    measure = TITLES[found["measure"]]
    tied = ", ".join(found["tied"]) or "none"
    rows = [
        ["chosen", f"{found['name']}, of {count_of(found['n_candidates'], 'candidate')}"],
        ["candidates that do not differ from it significantly", tied],
        [
            f"{measure} on the texts used to choose it",
            decimals(found["on_select"]),
        ],
        [f"{measure} on {found['n']:,} other texts", measured(found, found["level"])],
        ["evaluations on these texts", str(found["n_openings"])],
    ]
    facts = {"kind": "facts", "caption": "", "head": [], "rows": rows}
    notes = [note_block(note) for note in found["notes"]]
    return [{**facts, "numbers": set(), "texts": 1}, *notes]


def checklist_blocks(contents: Contents) -> list[Block | None]:
    """Return the checklist as a table: items, their states, answers and guidelines."""
    items = methods_of(contents).checklist
    n_open = sum(item.is_open for item in items)
    works = [REFERENCES[key] for key in ASKED_BY]
    numbers = {work.short: str(i) for i, work in enumerate(works, start=1)}
    listed = [f"[{numbers[work.short]}] {work.short} ({work.address})" for work in works]
    return [
        {
            "kind": "text",
            "text": f"Reviewers' questions: {len(items) - n_open} of {len(items)} items "
            f"are answered from the data; {n_open} are {OPEN}, for the author to answer.",
        },
        {
            "kind": "table",
            "caption": "",
            "head": ["item", "state", "answer, or what to add", "asked by"],
            "rows": [
                [
                    item.question,
                    item.state,
                    item.answer,
                    ", ".join(sorted(numbers[each] for each in item.sources)),
                ]
                for item in items
            ],
            "numbers": set(),
            "texts": 2,
        },
        {"kind": "text", "text": f"In our words, based on {'; '.join(listed)}."},
    ]
