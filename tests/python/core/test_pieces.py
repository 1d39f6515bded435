"""Pieces of texts."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st
from llamaherd.engine.core.outcome import Stripped, TextPiece


def test_a_piece_is_text_with_a_kind() -> None:
    piece = TextPiece("a", "thinking")
    assert piece == "a"
    assert piece.kind == copy.copy(piece).kind == "thinking"
    assert TextPiece("b").kind == "answer"


@given(st.lists(st.text(alphabet=" \n\ta\u00e9\u3000", max_size=4)))
def test_parts_are_those_of_the_stripped_text(parts: list[str]) -> None:
    text = Stripped()
    new = [text.add(part) for part in parts]
    for n in range(len(parts) + 1):  # also after each part
        assert "".join(new[:n]) == "".join(parts[:n]).strip()
