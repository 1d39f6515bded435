"""Parts of a report about methods: paragraph, checklist, selection of the codebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.core.decimals import decimals
from llamaherd.core.plurals import count_of
from llamaherd.research.references import REFERENCES
from llamaherd.research.reports.checklist import ASKED_BY, OPEN
from llamaherd.research.reports.prose import measured
from llamaherd.research.reports.report_blocks import (
    facts_block,
    note_block,
    pre_block,
    table_block,
    text_block,
)
from llamaherd.research.selection.measures import TITLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.reports.checklist import ChecklistItem
    from llamaherd.research.reports.methods import MethodsText
    from llamaherd.research.reports.report_blocks import Block
    from llamaherd.research.reports.report_data import Contents


def methods_blocks(methods: MethodsText) -> list[Block | None]:
    """Return the methods paragraph, to paste into a paper."""
    return [text_block(each) for each in methods.text.split("\n\n")]


def references_blocks(methods: MethodsText) -> list[Block | None]:
    """Return the references of the methods paragraph, as BibTeX."""
    return [
        text_block("References of the methods paragraph, as BibTeX."),
        pre_block("", methods.bibtex),
    ]


def choice_blocks(contents: Contents) -> list[Block | None]:
    """Return the selected codebook and its evaluation; [] without an evaluation."""
    found = contents.get("evaluation")
    if found is None:
        return []
    measure = TITLES[found["measure"]]
    of = count_of(found["n_candidates"], "candidate")
    rows = [
        ["chosen", f"{found['name']}, of {of}"],
        [
            "candidates that do not differ from it significantly",
            ", ".join(found["tied"]) or "none",
        ],
        [f"{measure} on the texts used to choose it", decimals(found["on_select"])],
        [f"{measure} on {found['n']:,} other texts", measured(found, found["level"])],
        ["evaluations on these texts", str(found["n_openings"])],
    ]
    return [facts_block(rows), *(note_block(note) for note in found["notes"])]


def checklist_blocks(items: Sequence[ChecklistItem]) -> list[Block | None]:
    """Return the checklist as a table: items, their states, answers and guidelines."""
    n_open = sum(item.is_open for item in items)
    works = [REFERENCES[key] for key in ASKED_BY]
    numbers = {work.short: str(i) for i, work in enumerate(works, start=1)}
    listed = [f"[{numbers[work.short]}] {work.short} ({work.address})" for work in works]
    rows = [
        [
            item.question,
            item.state,
            item.answer,
            ", ".join(sorted(numbers[each] for each in item.sources)),
        ]
        for item in items
    ]
    return [
        text_block(
            f"Reviewers' questions: {len(items) - n_open} of {len(items)} items "
            f"are answered from the data; {n_open} are {OPEN}, for the author to answer."
        ),
        table_block(
            ["item", "state", "answer, or what to add", "asked by"],
            rows,
            numbers=set(),
            texts=2,
        ),
        text_block(f"In our words, based on {'; '.join(listed)}."),
    ]
