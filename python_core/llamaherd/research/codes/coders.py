"""Check that the column of each coder contains labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.research.codes.cells import are_alike

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SHOWN = 3  # values of a column that a message shows


def check_coders(
    labels: Iterable[Any],
    columns: Sequence[Iterable[Any]],
    coders: Sequence[str],
    known: Iterable[Any],
) -> None:
    """Refuse a column without any label beside columns of codes.

    Such a column contains notes, dates or row numbers. As codes they would tie with the
    codes of the coders, or outvote them. A coder who gave only codes such as "unclear"
    cannot be told from a column of notes, unless these codes are declared as labels. If
    no column has a label, nothing is refused: then labels and codes are written
    differently.

    Args:
        labels: The model's labels, in the form of the codes; None for missing labels.
        columns: Codes of each coder, a label each; None for missing codes.
        coders: Names of the columns.
        known: Labels that can occur and labels that the user declared for codes, () if
            they are not known.

    Raises:
        ValueError: None of the codes in a column is a label, or a code of another coder
            who gave labels.
    """
    there, names = set(labels) - {None}, list(known)
    own = [set(column) - {None} for column in columns]
    are_codes = [not codes or are_alike(there, codes, names) for codes in own]
    others = {
        code
        for codes, is_one in zip(own, are_codes, strict=True)
        if is_one
        for code in codes
    }
    if not others:
        return
    for coder, codes, is_one in zip(coders, own, are_codes, strict=True):
        if is_one or codes & others:
            continue
        shown = sorted(map(str, codes))
        more = " ..." if len(shown) > _SHOWN else ""
        raise ArgumentError(
            f"has a column {checks.quoted(coder)} without any label: it contains "
            f"{', '.join(map(checks.quoted, shown[:_SHOWN]))}{more}. If these are "
            "notes, leave the column out (read_gold() has the argument coders); if they "
            "mean that texts were skipped, leave these cells empty; if they are codes, "
            "write labels and codes alike, or declare all labels (gold_sample() has the "
            "argument names)",
            argument="gold",
            code="no_codes",
        )
