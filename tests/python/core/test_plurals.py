"""Numbers with their nouns."""

from __future__ import annotations

import llamaherd as lh
import pytest
from llamaherd.engine.core.phrases import count_of, part_of, percent, verb


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


@pytest.mark.parametrize(
    ("n", "whole", "wanted"),
    [
        (0, 1, "0 of 1 text of it has"),
        (1, 20, "1 of 20 texts of it has"),
        (0, 20, "0 of 20 texts of it have"),
        (1200, 3000, "1,200 of 3,000 texts of it have"),
    ],
)
def test_verbs_follow_the_number_of_a_part(n: int, whole: int, wanted: str) -> None:
    assert part_of(n, whole, "text", of="of it") == wanted
    assert part_of(n, whole, "text") == wanted.replace(" of it", "")


def test_a_confidence_level_is_not_rounded() -> None:
    """A level of 0.995 was printed as "100% confidence intervals", unlike in R."""
    written = [percent(level) for level in (0.5, 0.95, 0.975, 0.995, 0.9999)]
    assert written == ["50%", "95%", "97.5%", "99.5%", "99.99%"]
    found = lh.validate(["a", "b"] * 10, ["a", "b"] * 9 + ["b", "a"], level=0.995)
    assert "[99.5% confidence intervals" in repr(found)
    assert "97.5% confidence" in str(lh.gold_size(0.05, level=0.975))
