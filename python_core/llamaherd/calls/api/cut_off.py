"""One warning about the answers of a call that `max_tokens` ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import CutOffWarning
from llamaherd.engine.core.plurals import count_of, verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.results import Result


def cut_note(n_cut: int, n: int) -> str:
    """Return a sentence on n_cut of n answers that `max_tokens` ended."""
    answers = "the answer" if n == 1 else f"{n_cut:,} of {count_of(n, 'answer')}"
    return (
        f"{answers} ended at max_tokens, before the model had ended "
        f"{verb(n_cut, 'it', 'them')}: set a larger max_tokens for whole answers"
    )


def warn_of_cut(results: Sequence[Result]) -> None:
    """Warn of answers that `max_tokens` ended, also of those that failed under a schema.

    Warns:
        CutOffWarning: There are such answers.
    """
    is_cut = [
        result.finish_reason == "length" or result.error_code == "cut_off"
        for result in results
    ]
    if any(is_cut):
        warn_caller(cut_note(sum(is_cut), len(is_cut)), CutOffWarning)
