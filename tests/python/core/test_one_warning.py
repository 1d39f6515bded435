"""The notes of a call are one warning, which points to the line of the caller."""

from __future__ import annotations

import warnings

import pytest
from llamaherd.engine.core.caller import (
    ListedWarning,
    notes_of,
    one_warning,
    warn_caller,
    warn_notes,
)


@one_warning()
def _several() -> int:
    """Return a number; warn."""
    warn_caller("a")
    warn_notes(["b", "c", "a"])
    warnings.warn("soon", FutureWarning, stacklevel=1)
    return 7


def test_all_notes_of_a_call_are_one_warning() -> None:
    with pytest.warns(FutureWarning, match="soon"), pytest.warns(ListedWarning) as caught:
        assert _several() == 7
    (warning,) = [record for record in caught if record.category is ListedWarning]
    assert str(warning.message) == "3 warnings:\n- a\n- b\n- c"
    assert notes_of(warning.message) == ("a", "b", "c")
    assert warning.filename == __file__


def test_one_note_is_the_warning_and_no_note_is_none() -> None:
    with pytest.warns(UserWarning, match="^a$") as caught:
        warn_notes(["a"])
    assert [record.category for record in caught] == [UserWarning]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_notes([])


def test_a_filter_for_one_note_removes_it_from_the_list() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "[ab]")
        warn_notes(["a", "b"])
        with pytest.raises(UserWarning, match=r"^c$"):
            warn_notes(["a", "b", "c"])


def test_warnings_before_an_error_are_issued() -> None:
    def failing() -> None:
        with one_warning():
            warn_caller("first")
            raise ValueError("then")

    with (
        pytest.warns(UserWarning, match="first"),
        pytest.raises(ValueError, match="then"),
    ):
        failing()
