"""Warnings that point to the line of the user's program, and removed arguments.

One warning about the answers of a call that `max_tokens` ended is issued, too.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from llamaherd.engine.core.errors import ArgumentTypeError, CutOffWarning
from llamaherd.engine.core.phrases import count_of, verb
from llamaherd.engine.core.words import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from llamaherd.engine.core.results import Result


class ListedWarning(UserWarning):
    """Several notes of one call, in one warning."""

    def __init__(self, notes: Sequence[str]) -> None:
        self.notes = tuple(notes)
        lines = (f"- {note}" for note in self.notes)
        super().__init__("\n".join([f"{len(self.notes)} warnings:", *lines]))


def warn_notes(notes: Sequence[str]) -> None:
    """Issue one warning for all notes of a call; none without notes.

    A filter that ignores the warning about one note, for example
    `warnings.filterwarnings("ignore", "median coverage")`, removes it from the list.
    """
    left = [note for note in notes if not _is_ignored(note)]
    if len(left) == 1:
        warn_caller(left[0])
    elif left:
        warnings.warn(ListedWarning(left), stacklevel=_depth_of_caller())


def _is_ignored(note: str) -> bool:
    """Return True if the first filter for a note that fits in every module ignores it."""
    for action, pattern, category, module, line in warnings.filters:
        is_general = module is None and line == 0 and issubclass(UserWarning, category)
        text: Any = pattern
        if is_general and (text is None or text.match(note)):
            return action == "ignore"
    return False


def notes_of(warning: Warning | str) -> tuple[str, ...]:
    """Return the notes of a `ListedWarning`, or the message of another warning."""
    return warning.notes if isinstance(warning, ListedWarning) else (str(warning),)


@contextmanager
def recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Record warnings of the classes UserWarning and RuntimeWarning; ignore others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        yield caught


@contextmanager
def one_warning() -> Iterator[None]:
    """Issue all UserWarnings of the block as one, at its end; others unchanged."""
    notes: list[str] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        for record in caught:
            if record.category in {UserWarning, ListedWarning}:
                notes += notes_of(record.message)
            else:
                warnings.warn_explicit(
                    record.message, record.category, record.filename, record.lineno
                )
        warn_notes(list(dict.fromkeys(notes)))


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the nearest caller outside of this package."""
    warnings.warn(message, category, _depth_of_caller())


def _depth_of_caller() -> int:
    """Return the stack level of the first frame outside of this package."""
    depth, frame = 1, sys._getframe(1)  # noqa: SLF001 - no other way gives the depth
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("llamaherd", "contextlib")):
            break
        depth, frame = depth + 1, frame.f_back
    return depth


_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def removed_arguments(
    **instead: str,
) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """Return a decorator of functions that lost arguments."""

    def decorated(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        @wraps(function)
        def refusing(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
            for name, other in instead.items():
                if name in kwargs:
                    raise ArgumentTypeError(
                        f"was removed: {other}", argument=name, code="removed"
                    )
            return function(*args, **kwargs)

        return refusing

    return decorated


def cut_note(n_cut: int, n: int) -> str:
    """Return a sentence on n_cut of n answers that `max_tokens` ended."""
    answers = "the answer" if n == 1 else f"{n_cut:,} of {count_of(n, 'answer')}"
    return (
        f"{answers} ended at {name_of('max_tokens')}, before the model had ended "
        f"{verb(n_cut, 'it', 'them')}: set a larger {name_of('max_tokens')} for whole "
        "answers"
    )


def warn_of_cut(results: Sequence[Result]) -> None:
    """Warn of answers that `max_tokens` ended, also of failures under a schema."""
    is_cut = [
        result.finish_reason == "length" or result.error_code == "cut_off"
        for result in results
    ]
    if any(is_cut):
        warn_caller(cut_note(sum(is_cut), len(is_cut)), CutOffWarning)
