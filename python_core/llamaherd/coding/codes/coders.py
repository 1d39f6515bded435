"""Columns of coders: names, misspelt labels, which codes compare, and which code counts.

Every coded text keeps a code. The most frequent code counts; if several codes are equally
frequent, the code of the first of their coders counts, in the order of the coders. Texts
on which people tie are not left out: they are the difficult ones, so that the other texts
would show too few errors, and their inclusion probabilities would be unknown. If a text
may have several labels, each label is decided alone: it counts if more than half of the
coders gave it, and if exactly half did, as the first coder of the text decided.

Numbers of which a mean or a median is computed are averaged instead, see
`estimation.inputs`, `validation.validate` and `selection.parts`.
"""

from __future__ import annotations

import difflib
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar
from unicodedata import normalize

from llamaherd.coding.codes.cells import are_alike, number_in
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, part_of, verb, with_commas
from llamaherd.engine.core.words import call, words

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from llamaherd.engine.core.argument import Name

_ALIKE = 0.75  # similarity of texts of which one is the other, misspelt
_SHOWN = 3  # values of a column that a message shows
_FEWEST_IDS = 5  # a column of fewer distinct values may contain codes


def check_coders(
    labels: Iterable[Any],
    columns: Sequence[Iterable[Any]],
    coders: Sequence[str],
    known: Iterable[Any],
) -> None:
    """Refuse a column without any label (notes, dates, rows) beside columns of codes.

    As codes they would tie with the codes of the coders, or outvote them. Codes such as
    "unclear" must be declared as labels. If no column has a label, nothing is refused:
    then labels and codes are written differently.
    """
    used, names = set(labels) - {None}, list(known)
    columns = [list(column) for column in columns]
    _check_spelling(columns, used.union(names))
    codes_by_coder = [set(column) - {None} for column in columns]
    are_codes = [not codes or are_alike(used, codes, names) for codes in codes_by_coder]
    others = {
        code
        for codes, is_one in zip(codes_by_coder, are_codes, strict=True)
        if is_one
        for code in codes
    }
    if not others:
        return
    for coder, codes, is_one in zip(coders, codes_by_coder, are_codes, strict=True):
        if is_one or codes & others:
            continue
        examples = sorted(map(str, codes))
        more = " ..." if len(examples) > _SHOWN else ""
        raise ArgumentError(
            f"has a column {checks.quoted(coder)} without any label: it contains "
            f"{', '.join(map(checks.quoted, examples[:_SHOWN]))}{more}. If these are "
            "notes, leave the column out "
            f"({words().argument('read_gold', 'coders')}); if they "
            "mean that texts were skipped, leave these cells empty; if they are codes, "
            "write labels and codes alike, or declare all labels "
            f"({words().argument('gold_sample', 'names')})",
            argument="gold",
            code="no_codes",
        )


def check_declared(
    declared: Iterable[Any], columns: Iterable[Iterable[Any]], argument: Name
) -> None:
    """Refuse a list of labels from which labels or codes that occur are missing."""
    missing = {code for column in columns for code in column}.difference(declared, {None})
    if missing:
        labels = with_commas(map(checks.quoted, sorted(map(str, missing))))
        raise ArgumentError(
            f"must have all labels: {labels} {verb(len(missing), 'is', 'are')} missing",
            argument=argument,
            code="missing",
        )


def _check_spelling(columns: Sequence[Iterable[Any]], labels: Iterable[Any]) -> None:
    """Refuse texts that are no label, but are written almost like one."""
    known = {str(label) for label in labels if label is not None}
    counts = Counter(
        str(code) for column in columns for code in column if code is not None
    )
    for code, n in counts.items():
        if code in known or number_in(code) is not None:  # 1.5 is not a misspelt 15
            continue
        label = next(iter(difflib.get_close_matches(code, known, 1, _ALIKE)), None)
        if label is None or _letters(code) == _letters(label):
            continue
        raise ArgumentError(
            f"has {count_of(n, 'code')} {checks.quoted(code)}, which is no label: did "
            f"you mean {checks.quoted(label)}? Correct the codes. If it is a label that "
            f"the model never gave, {declare_labels()}",
            argument="gold",
            code="unknown_choice",
        )


def declare_labels() -> str:
    """Return the advice to name all labels, and the ways to do so."""
    return (
        f"declare all labels ({words().argument('gold_sample', 'names')}, "
        f"{call('validate')} and functions of agreement an argument for labels or "
        f"levels, {words().categories})"
    )


def _letters(text: str) -> str:
    """Return a text without digits: "topic 2" and "topic 3" are two labels."""
    return "".join(sign for sign in text if not sign.isdigit())


def check_names(
    names: Iterable[object], argument: Name = "gold", owner: str = ""
) -> None:
    """Refuse names that are equal in NFC without whitespace: one would be lost."""
    seen = set()
    for i, name in enumerate(names):
        form = normalize("NFC", str(name)).strip()
        if form and form in seen:
            raise ArgumentError(
                f"{owner}{' ' if owner else ''}has two columns with the name "
                f"{checks.quoted(form)}: give each column its own name",
                argument=argument,
                place=(i,) if owner else (),
                code="duplicate",
                form="{problem}" if owner else "{name} {problem}",
            )
        seen.add(form)


def check_comparable(
    columns: Sequence[Sequence[Any]],
    coders: Sequence[str],
    known: Iterable[Any],
    *,
    are_measures: bool = False,
) -> None:
    """Refuse columns that cannot contain the codes of a coder of the same units."""
    names, codes_by_column = list(known), [set(column) - {None} for column in columns]
    for i, (coder, codes) in enumerate(zip(coders, codes_by_column, strict=True)):
        others: set[Any] = set().union(*codes_by_column[:i], *codes_by_column[i + 1 :])
        n = len(columns[i]) - list(columns[i]).count(None)
        most = max(
            len(column_codes) for j, column_codes in enumerate(codes_by_column) if j != i
        )
        are_ids = len(codes) == n >= _FEWEST_IDS and most <= n / 2
        are_ids = are_ids and not are_measures and not codes <= set(names)
        problem = ""
        if coder.strip().casefold() in ("id", "text") or are_ids:
            problem = "contains identifiers or texts, not codes"
        elif codes and others and not are_alike(others, codes, names):
            examples = ", ".join(checks.quoted(str(code)) for code in _some(codes))
            problem = (
                f"has no code in common with the other coders: it contains {examples}"
            )
        if problem:
            column = checks.quoted(coder) if coder else str(i + 1)
            raise ArgumentError(
                f"column {column} {problem}: leave it out, write codes alike, "
                "or declare all labels in levels",
                argument="codes",
                place=(i,),
                code="no_codes",
                form="{problem}",
            )


def _some(codes: AbstractSet[Any]) -> list[Any]:
    return sorted(codes, key=str)[:_SHOWN]


_CodeT = TypeVar("_CodeT", bound="Hashable")
_LabelT = TypeVar("_LabelT", bound="Hashable")

# Arguments that selected a model of coders, for `removed_arguments`.
REMOVED_CONSENSUS = dict.fromkeys(
    ("consensus", "n_imputations"),
    "the right code is that of the majority. A model of coders estimates how often each "
    "coder errs; let one more coder decide the texts on which coders disagree",
)


def majority(codes: Sequence[_CodeT | None]) -> tuple[_CodeT | None, bool]:
    """Return the code of a text, None without codes; and True if its coders tie."""
    counted = Counter(code for code in codes if code is not None).most_common(2)
    if not counted:
        return None, False
    # Equal counts are in the order in which the codes occur.
    return counted[0][0], len(counted) > 1 and counted[0][1] == counted[1][1]


def majority_codes(
    codes: Sequence[Sequence[_CodeT | None]],
) -> tuple[list[_CodeT | None], int]:
    """Return the code of each text by `majority`, and the number of ties."""
    decided = [majority(row) for row in zip(*codes, strict=True)]
    return [code for code, _ in decided], sum(is_tie for _, is_tie in decided)


def majority_of_sets(
    codes: Sequence[Sequence[_LabelT] | None],
) -> tuple[list[_LabelT] | None, bool]:
    """Return the labels of a text, None without codes; and True if its coders tie."""
    known = [code for code in codes if code is not None]
    if not known:
        return None, False
    counts = Counter(label for code in known for label in dict.fromkeys(code))
    labels = [
        label
        for label, n in counts.items()
        if 2 * n > len(known) or (2 * n == len(known) and label in known[0])
    ]
    return labels, any(2 * n == len(known) for n in counts.values())


def note_on_ties(n_ties: int, n_coded: int, coders: Sequence[str]) -> list[str]:
    """Return a note on the number of texts on which coders tie."""
    if n_ties == 0:
        return []
    first, *others = coders
    ties = part_of(n_ties, n_coded, "code", "is", "are")
    note = (
        f"{ties} {verb(n_ties, 'a tie', 'ties')}, decided by the first coder ({first} "
        f"before {', '.join(others)}): another order gives other results. "
        "To break the ties, add a first column with codes by somebody who decides them"
    )
    return [note]
