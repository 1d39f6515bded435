"""Preparation of a request, which ends when nobody waits for the answer any more."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType


class AbandonedError(BaseException):
    """Nobody waits for the answer of the request that is prepared.

    Like `KeyboardInterrupt`, it is no `Exception`: no handler may take it for an error
    of a prompt.
    """


class Preparing:
    """Work on a request before its prompts run, within a `with` block.

    All steps of the work ask `check_wanted`: each text that is tokenized, each
    conversation that is rendered, each constraint that is compiled. A step itself is
    bounded and is not interrupted.

    Attributes:
        is_wanted: Whether somebody waits for the work; False after `end`.
    """

    def __init__(self) -> None:
        self.is_wanted = True
        self._token: Token[Preparing | None] | None = None

    def end(self) -> None:
        """End the work at its next step. Any thread may call this method."""
        self.is_wanted = False

    def check(self) -> None:
        """Raise AbandonedError after `end`."""
        if not self.is_wanted:
            raise AbandonedError

    def __enter__(self) -> None:
        self._token = _current.set(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._token is not None:
            _current.reset(self._token)


_current: ContextVar[Preparing | None] = ContextVar("preparing", default=None)


def check_wanted() -> None:
    """End the thread's work if nobody waits for it; see `Preparing`.

    Raises:
        AbandonedError: The work of this context was ended.
    """
    current = _current.get()
    if current is not None:
        current.check()
