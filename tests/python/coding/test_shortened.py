"""Names cut to the width of a column."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from llamaherd.coding.sentences import shortened


@given(st.lists(st.text("ab", max_size=40), unique=True, max_size=9), st.integers(12, 30))
def test_shortened_names_stay_distinct_and_fit(names: list[str], room: int) -> None:
    short = shortened(names, room)
    assert len(set(short)) == len(names)
    assert all(
        len(cut) <= room and (cut == name or len(name) > room)
        for cut, name in zip(short, names, strict=True)
    )
