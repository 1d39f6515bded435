"""Jobs that start a server or a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from llamaherd.engine.core.errors import ServerError
from llamaherd.engine.core.progress import JobProgress

if TYPE_CHECKING:
    from collections.abc import Callable

_Started = TypeVar("_Started")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProgress(JobProgress):
    """Progress of a start, without counts until the start is complete.

    Attributes:
        n_done: 1 when the start is complete, 0 before.
        n_total: 0, because the duration is unknown.
    """

    n_done: int
    n_total: int = 0

    unit: ClassVar[str] = "starts"


class StartWork(Generic[_Started]):
    """Work of a `Job`: starts a server or a cluster, which may take minutes.

    Args:
        start: Function that starts it. Its argument `is_cancelled` is a function
            that returns True after `cancel`.
    """

    problem = ""

    def __init__(self, start: Callable[..., _Started]) -> None:
        self._start = start
        self._is_cancelled = False
        self._is_complete = False

    @property
    def progress(self) -> StartProgress:
        """Progress of the start; `n_done` is 1 when all is ready."""
        return StartProgress(n_done=int(self._is_complete))

    def cancel(self) -> None:
        """End the processes that are starting."""
        self._is_cancelled = True

    def run(self) -> _Started | None:
        """Start; return None if the start of a server was cancelled.

        Raises:
            ServerError: The server did not start.
            ClusterError: The cluster did not start.
        """
        try:
            made = self._start(is_cancelled=lambda: self._is_cancelled)
        except ServerError:
            if self._is_cancelled:
                return None
            raise
        self._is_complete = True
        return made
