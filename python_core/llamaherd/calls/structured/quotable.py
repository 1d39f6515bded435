"""Verbatim quotes from a text: grammar of all possible quotes, and their positions."""

from __future__ import annotations

import json
import unicodedata
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field, Name
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


Unit = Literal["words", "characters"]
UNITS: tuple[Unit, ...] = get_args(Unit)
DEFAULT_LENGTHS: dict[str, tuple[int, int]] = {"words": (3, 40), "characters": (10, 200)}
# Longer minimum lengths would need more states than llguidance allows.
MOST_LEAST: dict[str, int] = {"words": 30, "characters": 300}
MOST_LENGTH = 10_000
_APOSTROPHES = frozenset("'\u2019")
_JOINER = "\u200d"
_TONES = range(0x1F3FB, 0x1F400)  # skin tones, which modify the emoji before them
# Scripts that are written without spaces. A quote may begin or end at each character.
_UNSPACED = (
    range(0x0E00, 0x0F00),
    range(0x1000, 0x10A0),
    range(0x1780, 0x1800),
    range(0x2E80, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x40000),
)


@dataclass(frozen=True, slots=True)
class QuoteRule:
    """Length of a quote; a text shorter than `least` is quoted completely.

    "words" are runs of letters and digits, and a quote begins and ends where words do;
    "characters" are code points.
    """

    unit: Unit = "words"
    least: int = DEFAULT_LENGTHS["words"][0]
    most: int = DEFAULT_LENGTHS["words"][1]

    @classmethod
    def of(cls, value: object, name: Name = "quote") -> QuoteRule:
        """Read the value of the keyword `quote`, True or a mapping."""
        if value is True:
            return cls()
        if not isinstance(value, dict):
            raise ArgumentTypeError(
                "must be true, or an object with unit, least and most, not "
                f"{checks.brief(value)}",
                argument=name,
            )
        for key in value:
            if key not in ("unit", "least", "most"):
                raise ArgumentError(
                    "is not a key of a quote; it has unit, least, most",
                    argument=_below(name, str(key)),
                    code="unknown_argument",
                )
        unit = checks.choice("unit", value.get("unit", "words"), UNITS)
        usual = DEFAULT_LENGTHS[unit]
        most = value.get("most", usual[1])
        most = checks.integer(_below(name, "most"), most, 1, MOST_LENGTH)
        least = value.get("least", min(usual[0], most))
        least = checks.integer(_below(name, "least"), least, 1, MOST_LEAST[unit])
        if least > most and "most" in value:
            raise ArgumentError(
                f"must be at most {most} (the value of most), not {least}",
                argument=_below(name, "least"),
                code="out_of_range",
            )
        return cls(unit, least, max(least, most))


def _below(name: Name, key: str) -> Argument:
    argument = Argument(name) if isinstance(name, str) else name
    return argument.at(Field(key))


class Span(NamedTuple):
    """Position of a quote: `text[start:end]`, in code points."""

    start: int
    end: int


@lru_cache(maxsize=4096)
def is_letter(char: str) -> bool:
    """Return whether a character is a letter, mark, number or underscore."""
    return unicodedata.category(char)[0] in "LMN" or char == "_"


def _is_unspaced(char: str) -> bool:
    return any(ord(char) in block for block in _UNSPACED)


def _goes_on(before: str, char: str) -> bool:
    """Return whether two characters are displayed as one character."""
    if before.isspace() or char.isspace():
        return before + char == "\r\n"
    return (
        unicodedata.category(char)[0] == "M"
        or _JOINER in (before, char)
        or ord(char) in _TONES
    )


def clusters(text: str) -> list[int]:
    """Return the positions of visible characters, followed by the length of the text."""
    return [
        0,
        *(
            i
            for i, (before, char) in enumerate(pairwise(text), 1)
            if not _goes_on(before, char)
        ),
        *([len(text)] if text else []),
    ]


def word_bounds(text: str) -> list[int]:
    """Return the positions at which words may begin or end, with 0 and len(text)."""
    marks = clusters(text)
    return [
        mark
        for i, mark in enumerate(marks)
        if mark in (0, len(text)) or not _within(text, mark, marks[i - 1])
    ]


def _within(text: str, mark: int, before: int) -> bool:
    """Return whether a position lies within a word or within white space."""
    left, right = text[before], text[mark]
    if left.isspace() or right.isspace():
        return left.isspace() and right.isspace()
    if _is_unspaced(left) or _is_unspaced(right):
        return False
    if is_letter(left) and is_letter(right):
        return True
    if right in _APOSTROPHES:
        after = text[mark + 1 : mark + 2]
        return is_letter(left) and bool(after) and is_letter(after)
    if left in _APOSTROPHES and before:
        return is_letter(text[before - 1]) and is_letter(right)
    return False


class Quotable:
    """Text from which answers may quote; `rule` is reduced if no part is long enough."""

    def __init__(self, text: str, rule: QuoteRule) -> None:
        self.text = text
        by_words = rule.unit == "words"
        self._bounds = word_bounds(text) if by_words else clusters(text)
        self.rule = self._fit_rule(rule) if text.strip() else rule

    @cached_property
    def is_empty(self) -> bool:
        """Whether the text is only white space, so that there is nothing to quote."""
        return not self.text.strip()

    def find(self, quote: str, after: int = 0) -> Span | None:
        """Find a quote at or after a position; return None if there is none."""
        known = self._known
        start = self.text.find(quote, after)
        while start >= 0 and quote:
            end = start + len(quote)
            if start in known and end in known:
                return Span(start, end)
            start = self.text.find(quote, start + 1)
        return None

    @cached_property
    def _known(self) -> set[int]:
        return set(self._bounds)

    def lark(self, name: str) -> list[str]:
        """Return rules of a Lark grammar; the rule `name` is a quote as JSON."""
        chunks = [escaped_text(self.text[a:b]) for a, b in pairwise(self._bounds)]
        content = json.dumps({"substring_chunks": chunks}, ensure_ascii=False)
        return [
            f'{name}: "\\"" {name}_TEXT "\\""',
            f"{name}_TEXT: {name}_PART & {name}_ENDS & {name}_LENGTH",
            f"{name}_PART: %regex {content}",
            f"{name}_ENDS: /{self._ends}/",
            f"{name}_LENGTH: /{self._length}/",
        ]

    # ---- private ----

    @cached_property
    def _ends(self) -> str:
        """Return a regular expression for quotes without white space at their ends."""
        chars = set(self.text)
        solid = _any({char for char in chars if not char.isspace()})
        return f"{solid}({_any(chars)}*{solid})?"

    @cached_property
    def _length(self) -> str:
        """Return a regular expression for quotes whose length is allowed."""
        chars = set(self.text)
        least, most = self.rule.least, self.rule.most
        if self.rule.unit == "characters":
            return f"{_any(chars)}{{{least},{most}}}"
        letters = {char for char in chars if is_letter(char)}
        if not letters:
            return f"{_any(chars)}+"
        word, others = f"{_any(letters)}+", chars - letters
        if not others:
            return word
        gap = _any(others)
        return f"{gap}*({word}{gap}+){{{max(0, least - 1)},{most - 1}}}{word}{gap}*"

    def _fit_rule(self, rule: QuoteRule) -> QuoteRule:
        """Reduce the lengths of a rule so that some part of the text can follow it."""
        starts, ends, counts = self._count_units(rule.unit)

        def length(start: int, end: int) -> int:
            n_before, is_within = counts[start]
            return counts[end][0] - n_before + is_within

        reach = 0
        for i, start in enumerate(starts):
            first = bisect_left(ends, start + 1)
            n = bisect_right(ends, rule.most, lo=first, key=partial(length, start))
            if n > first:
                reach = max(reach, length(start, ends[n - 1]))
            if reach >= rule.least or i > MOST_LENGTH:
                return rule
        if reach:
            return QuoteRule(rule.unit, reach, rule.most)
        shortest = min(length(one, ends[bisect_left(ends, one + 1)]) for one in starts)
        return QuoteRule(rule.unit, shortest, max(shortest, rule.most))

    def _count_units(
        self, unit: Unit
    ) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """Return starts, ends, and for each position units before it and 1 if in one."""
        text, marks = self.text, self._bounds
        starts = [a for a in marks[:-1] if not text[a].isspace()]
        ends = [b for b in marks[1:] if not text[b - 1].isspace()]
        if unit == "characters":
            return starts, ends, [(i, 0) for i in range(len(text) + 1)]
        flags = [False, *map(is_letter, text)]
        begun = [int(now and not last) for last, now in pairwise(flags)]
        n_before = list(accumulate(begun, initial=0))
        within = [int(flags[i] and flags[i + 1]) for i in range(len(text))]
        return starts, ends, list(zip(n_before, [*within, 0], strict=True))


def escaped_text(text: str) -> str:
    """Return a text with the escapes of JSON, without quotation marks."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _any(chars: Iterable[str]) -> str:
    """Return a regular expression for any one of these characters, with JSON escapes."""
    plain: list[str] = []
    escaped: list[str] = []
    for char in sorted(chars):
        codes = [f"\\x{{{ord(piece):x}}}" for piece in escaped_text(char)]
        (plain if len(codes) == 1 else escaped).append("".join(codes))
    classes = [*escaped, *([f"[{''.join(plain)}]"] if plain else [])]
    return f"({'|'.join(classes)})"


class Quoted(dict[str, Any]):
    """Quote in an answer: "quote", and "start" and "end" as in `Span`."""


def quote_of(text: str, span: Span) -> Quoted:
    """Return a quote with its position."""
    return Quoted(quote=text[span.start : span.end], start=span.start, end=span.end)


def shift_positions(value: Any, offset: int) -> Any:  # JSON
    """Add an offset to the positions in an answer about a part of a text."""

    def moved(quote: Quoted) -> Quoted:
        start, end = quote["start"] + offset, quote["end"] + offset
        return Quoted(quote=quote["quote"], start=start, end=end)

    return _change_quotes(value, moved)


def counted_from_one(value: Any) -> Any:  # JSON
    """Return an answer whose positions count from 1; `end` is the last character."""
    return _change_quotes(value, lambda quote: {**quote, "start": quote["start"] + 1})


def _change_quotes(value: Any, change: Callable[[Quoted], Any]) -> Any:  # JSON
    if isinstance(value, Quoted):
        return change(value)
    if isinstance(value, dict):
        return {key: _change_quotes(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_change_quotes(item, change) for item in value]
    return value


def quotes_in(value: object) -> list[Quoted]:
    """Return all quotes of an answer, in order."""
    if isinstance(value, Quoted):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    parts = value if isinstance(value, list) else []
    return [quote for part in parts for quote in quotes_in(part)]
