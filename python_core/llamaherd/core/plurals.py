"""Numbers with nouns and verbs in messages: "1 text is", "2 texts are"."""

from __future__ import annotations

_IRREGULAR = {"person": "people", "stratum": "strata"}


def count_of(n: int, what: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    Args:
        n: Number.
        what: Noun in the singular, which may follow adjectives: "coded text".
    """
    before, _, noun = what.rpartition(" ")
    if n != 1:
        is_y = noun.endswith("y") and noun[-2:-1] not in "aeiou"
        regular = f"{noun[:-1]}ies" if is_y else f"{noun}s"
        noun = _IRREGULAR.get(noun, regular)
    return " ".join(part for part in (f"{n:,}", before, noun) if part)


def verb(n: int, one: str, other: str) -> str:
    """Return the form of a verb that fits a number, such as "is" or "are"."""
    return one if n == 1 else other
