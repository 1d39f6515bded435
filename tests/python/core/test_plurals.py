"""Numbers with their nouns."""

from __future__ import annotations

import pytest
from llamaherd.core.plurals import count_of, verb


@pytest.mark.parametrize(
    ("n", "what", "wanted"),
    [
        (1, "text", "1 text"),
        (0, "text", "0 texts"),
        (1200, "coded text", "1,200 coded texts"),
        (1, "coded text", "1 coded text"),
        (2, "person", "2 people"),
        (3, "stratum", "3 strata"),
        (2, "entry", "2 entries"),
        (2, "day", "2 days"),
    ],
)
def test_nouns_follow_their_number(n: int, what: str, wanted: str) -> None:
    assert count_of(n, what) == wanted


def test_verbs_follow_their_number() -> None:
    assert [verb(n, "is", "are") for n in (0, 1, 2)] == ["are", "is", "are"]
