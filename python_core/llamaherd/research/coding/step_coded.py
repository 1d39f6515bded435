"""Result of a coding in steps: the data frame, with its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.research.coding.answers import of_rows
from llamaherd.research.coding.coded_frame import coded_frame
from llamaherd.research.coding.coding import BLANK
from llamaherd.research.coding.columns import table_of
from llamaherd.research.coding.notes import notes_of
from llamaherd.research.coding.record import thinking_record
from llamaherd.research.coding.texts import hash_of_texts, is_blank

if TYPE_CHECKING:
    from llamaherd.core.stats import Stats
    from llamaherd.research.coding.coded import Coded
    from llamaherd.research.coding.step_results import StepResults
    from llamaherd.research.coding.texts import Integers
    from llamaherd.research.coding.work import CodingWork


def coded_of_steps(
    work: CodingWork,
    record: dict[str, Any],
    results: StepResults,
    rows: Integers,
    stats: Stats,
) -> Coded:
    """Return the data frame with the labels of all steps so far.

    Args:
        work: Texts to code, with codebook and settings.
        record: Record of the first step; the counts of all steps are added to it.
        results: Labels of the unique texts.
        rows: For each row, the position of its text; -1 for rows without a text.
        stats: Statistics of all steps.
    """
    answers = of_rows(results.answers, rows)
    answers.errors = [
        BLANK if is_blank(text) else error
        for text, error in zip(work.texts, answers.errors, strict=True)
    ]
    table = table_of(answers, work.codebook)
    table.columns["step"] = results.names(rows)
    record |= {
        "n_rows": len(work.texts),
        "n_texts": len(results.step),
        "texts_sha256": hash_of_texts(work.texts),
        "seconds": round(stats.wall_s, 3),
        "n_prompts": stats.n_prompts,
        "n_journal": stats.n_journal,
        "n_computed_tokens": stats.n_prefill_tokens + stats.n_decode_tokens,
    }
    if work.settings.thinks:
        record["thinking"] = thinking_record(work.settings, stats)
    record["notes"] = notes_of(
        table.labels,
        answers.coverage,
        work.codebook,
        work.settings.to_dict(),
        "" if work.settings.thinks else record["prompts"]["empty"],
    )
    new = {name: table.columns[role] for role, name in work.columns.items()}
    return coded_frame(
        work,
        new,
        names=work.codebook.names,
        labels=table.labels,
        probs=table.probs,
        errors=table.errors,
        run=record,
        stats=stats,
    )
