"""First come, first served."""

from __future__ import annotations

from collections import deque
from threading import Condition
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_SLICE_S = 0.05  # a wait without end would not see Ctrl-C on every platform


class Turns:
    """A lock that threads get in the order in which they asked: `with turns: ...`."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._queue: deque[object] = deque()

    def __enter__(self) -> None:
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            try:
                while self._queue[0] is not ticket:
                    self._changed.wait(_SLICE_S)
            except BaseException:
                self._queue.remove(ticket)
                self._changed.notify_all()
                raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._changed:
            self._queue.popleft()
            self._changed.notify_all()
