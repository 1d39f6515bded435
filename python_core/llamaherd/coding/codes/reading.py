"""Conversion of codes by several coders to one type; near-equal codes are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.coding.codes.cells import LARGEST, form_of, is_nothing, number_in, plain
from llamaherd.coding.codes.coders import declare_labels
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from llamaherd.engine.core.argument import Name

Code = Hashable | None
_SHOWN = 20
_MOST_LABELS = 20  # a column with more distinct numbers contains measurements


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Columns of codes and labels of one type: numbers, truth values, or texts.

    A missing code is None.
    """

    columns: list[list[Any]]
    names: tuple[Any, ...]


def read(
    columns: Sequence[Sequence[Any]],
    names: Sequence[Any] = (),
    *,
    distinct: Iterable[object] = (),
    argument: Name = "codes",
) -> Reading:
    """Convert columns of codes to one type.

    Codes are equal if they represent the same number in any type or text form (1, 1.0,
    "1", "1.0"), the same truth value, or the same text in Unicode form NFC. A text such
    as "TRUE" is a truth value if all texts of its column are truth values. True is equal
    to the number 1 if all numbers are 0 or 1. Missing values, blank texts and texts for
    missing values (NA, N/A, NaN) are not codes, unless they are among `names`. Texts that
    differ only in case are different labels if both are among `names` or `distinct`.
    """
    names = [label for name in names if form_of(_text(label := plain(name, argument)))]
    known = {_text(name): name for name in names}
    cells = [[plain(code, argument) for code in column] for column in columns]
    for column in cells:
        for i, cell in enumerate(column):
            if isinstance(cell, str) and cell not in known and is_nothing(cell):
                column[i] = None
            elif _is_number(cell) and abs(cell) > LARGEST:
                raise ArgumentError(
                    f"has the number {checks.brief(cell)}, which is not a code: the "
                    f"largest is {LARGEST:g}",
                    argument=argument,
                    place=(i,),
                    code="out_of_range",
                )
    _settle_truth(cells, known)
    numbers = _numbers_of(known)
    seen: dict[str, Any] = dict(known)
    key_of: dict[Any, str] = {}
    for column in cells:
        for cell in dict.fromkeys((type(c), c) for c in column if c is not None):
            key, value = _comparison_key(cell[1], known, numbers)
            key_of[cell] = key
            first = seen.setdefault(key, value)
            if isinstance(first, str) and key not in known and not isinstance(value, str):
                seen[key] = value  # prefer a number to its text
    _check_forms(seen, known, {*known, *map(str, distinct)}, argument)
    values = _in_one_form(seen)
    return Reading(
        columns=[
            [None if c is None else values[key_of[type(c), c]] for c in column]
            for column in cells
        ],
        names=tuple(values[_text(name)] for name in names),
    )


def read_sets(
    columns: Sequence[Sequence[Any]],
    names: Sequence[Any],
    between: str,
    none: Sequence[str],
    *,
    argument: Name = "codes",
) -> list[list[tuple[Any, ...] | None]]:
    """Convert columns of codes with several labels each, written with a separator."""
    known = {_text(plain(name)) for name in names}
    parts = [[_parts(c, known, between, none, argument) for c in col] for col in columns]
    flat = [[part for cell in column for part in cell or ()] for column in parts]
    sets = []
    for column, codes in zip(
        parts, read(flat, names, argument=argument).columns, strict=True
    ):
        labels = iter(codes)
        sets.append(
            [
                None if cell is None else tuple(next(labels) for _ in cell)
                for cell in column
            ]
        )
    return sets


def names_of(categories: Sequence[Sequence[Any]]) -> list[Any]:
    """Return all labels of several columns of categories, in the order of the first.

    A later label that differs only in case or whitespace is no separate label.
    """
    labels: list[Any] = []
    forms: set[str] = set()
    for names in categories:
        new = [name for name in names if form_of(_text(plain(name))) not in forms]
        labels += new
        forms |= {form_of(_text(plain(name))) for name in new}
    return labels


def are_measured(values: Sequence[Any]) -> bool:
    """Return True for numbers with fractions, or with more than 20 different values."""
    distinct = {value for value in map(plain, values) if value is not None}
    if not distinct or any(isinstance(v, bool) or not _is_number(v) for v in distinct):
        return False
    return len(distinct) > _MOST_LABELS or any(isinstance(v, float) for v in distinct)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _parts(
    code: Any,
    known: set[str],
    between: str,
    none: Sequence[str],
    argument: Name,
) -> list[str] | None:
    value = plain(code, argument)
    if isinstance(value, (tuple, frozenset)):
        return [_text(plain(label, argument)) for label in value]
    if value is None:
        return None
    text = _text(value)
    form = form_of(text)
    if form == "" or form in none:
        return []
    if text not in known and is_nothing(text):
        return None
    return [
        p.strip() for p in text.split(between) if not is_nothing(p) or p.strip() in known
    ]


def _comparison_key(
    cell: Any,
    known: dict[str, Any],
    numbers: dict[str, str],
) -> tuple[str, Any]:
    """Return the comparison key of a code, and the value that represents it."""
    text = _text(cell)
    if text in known:
        return text, known[text]
    number = number_in(text)
    if number is None:
        return text, cell
    key = numbers.get(str(number), str(number))
    return key, known.get(key, str(number) if isinstance(cell, str) else cell)


def _numbers_of(known: dict[str, Any]) -> dict[str, str]:
    """Map numbers to labels; omit numbers that fit several labels ("1" and "1.0")."""
    numbers = {text: str(number_in(text)) for text in known}
    times = Counter(numbers.values())
    return {number: text for text, number in numbers.items() if times[number] == 1}


def _settle_truth(cells: list[list[Any]], known: dict[str, Any]) -> None:
    """Convert truth values to the form of the other codes.

    If 0 and 1 are the only numbers, and no known label is a word such as "TRUE", truth
    values become 0 and 1. Otherwise truth values become such words, in the upper or lower
    case that the known labels use. If no known label is such a word, the case is that of
    the texts. If no text is such a word either, truth values do not change.
    """
    truths = [_is_truth(column) for column in cells]
    if not any(truths) and not any(isinstance(c, bool) for col in cells for c in col):
        return
    words = {text.casefold(): text for text in known if _is_word(text)}
    first: dict[str, str] = {}
    numbers = set()
    for cell in (c for column in cells for c in column):
        if isinstance(cell, str):
            numbers.add(number_in(cell))
            if _is_word(cell):
                first.setdefault(cell.casefold(), cell)
        elif cell is not None and not isinstance(cell, bool):
            numbers.add(cell)
    numbers |= {number_in(text) for text in known}
    numbers.discard(None)
    words = words or first
    are_01 = bool(numbers) and numbers <= {0, 1} and not any(map(_is_word, known))
    for column, is_truth in zip(cells, truths, strict=True):
        for i, cell in enumerate(column):
            if isinstance(cell, bool) or (is_truth and isinstance(cell, str)):
                word = _text(cell).casefold()
                other = int(word == "true") if are_01 else word == "true"
                column[i] = other if are_01 else _word_in_case(words, word, other)


def _word_in_case(words: dict[str, str], word: str, other: Any) -> Any:
    """Return a word in the case (upper or lower) of `words`; `other` without words."""
    if word in words or not words:
        return words.get(word, other)
    example = next(iter(words.values()))
    return next(
        cased
        for cased in (word.upper(), word, word.title())
        if cased.isupper() == example.isupper() and cased.islower() == example.islower()
    )


def _is_truth(column: Sequence[Any]) -> bool:
    """Return True for a column of truth values, or of texts of truth values."""
    distinct = {cell for cell in column if cell is not None}
    words = [cell for cell in distinct if isinstance(cell, str)]
    return (
        bool(distinct)
        and all(
            isinstance(c, bool) or (isinstance(c, str) and _is_word(c)) for c in distinct
        )
        and len(words) == len({word.casefold() for word in words})
    )


def _is_word(text: str) -> bool:
    return text.casefold() in ("true", "false")


def _in_one_form(seen: dict[str, Any]) -> dict[str, Any]:
    """Convert mixed types: to numbers if all texts are numeric, otherwise to texts."""
    kinds = {type(value) for value in seen.values()}
    if kinds <= {int, float} or len(kinds) <= 1:
        return seen
    if kinds <= {int, float, str}:
        numbers = {
            key: number_in(v) if isinstance(v, str) else v for key, v in seen.items()
        }
        if None not in numbers.values():
            return numbers
    return {key: _text(value) for key, value in seen.items()}


def _check_forms(
    seen: dict[str, Any], known: dict[str, Any], distinct: set[str], argument: Name
) -> None:
    by_form: dict[str, str] = {}
    for key in seen:  # known labels come first
        form = form_of(key)
        other = by_form.setdefault(form, key)
        if other == key or {key, other} <= distinct:
            continue
        if other in known:
            more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
            raise ArgumentError(
                f"has the code {checks.quoted(key)}, which is not among the "
                f"labels {', '.join(list(known)[:_SHOWN])}{more}; did you mean "
                f"{checks.quoted(other)}?",
                argument=argument,
                code="unknown_choice",
            )
        raise ArgumentError(
            f"has {checks.quoted(other)} and {checks.quoted(key)}, "
            "which differ only in case, whitespace or number format: did you mean "
            f"{checks.quoted(other)} in both cases? If they are two labels, "
            f"{declare_labels()}",
            argument=argument,
        )


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)
