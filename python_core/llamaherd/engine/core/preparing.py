"""Preparation of a request, which ends when nobody waits for the answer any more."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class AbandonedError(BaseException):
    """Nobody waits for the answer of the request that is prepared.

    Like `KeyboardInterrupt`, it is no `Exception`: no handler may take it for an error
    of a prompt.
    """


class Preparing:
    """Work on a request before its prompts run, within `with preparing.entered()`.

    All steps of the work ask `check_wanted`: each text that is tokenized, each
    conversation that is rendered, each constraint that is compiled. A step itself is
    bounded and is not interrupted.

    Attributes:
        is_wanted: Whether somebody waits for the work; False after `end`.
    """

    def __init__(self) -> None:
        self.is_wanted = True

    def end(self) -> None:
        """End the work at its next step. Any thread may call this method."""
        self.is_wanted = False

    def check(self) -> None:
        """Raise AbandonedError after `end`."""
        if not self.is_wanted:
            raise AbandonedError

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let `check_wanted` ask about this work in this thread."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Preparing | None] = ContextVar("preparing", default=None)


def check_wanted() -> None:
    """End the thread's work if nobody waits for it; see `Preparing`.

    Raises:
        AbandonedError: The work of this context was ended.
    """
    current = _current.get()
    if current is not None:
        current.check()
