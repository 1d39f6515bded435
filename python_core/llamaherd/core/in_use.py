"""Frees nothing that another thread is inside of."""

from __future__ import annotations

from collections import Counter
from threading import Condition, get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_SLICE_S = 0.05  # a wait without end would not see Ctrl-C on every platform


class InUse:
    """Who uses something: `with in_use: ...`, by any number of threads at once.

    Whoever uses it enters first and looks then whether it is still there. Whoever takes
    it away does that first and then waits here.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._threads: Counter[int] = Counter()

    def wait_for_others(self) -> None:
        """Waits until no other thread uses it.

        This thread itself may: garbage collection calls destructors anywhere.
        """
        with self._changed:
            while self._threads.keys() - {get_ident()}:
                self._changed.wait(_SLICE_S)

    def __enter__(self) -> None:
        with self._changed:
            self._threads[get_ident()] += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._changed:
            me = get_ident()
            self._threads[me] -= 1
            if self._threads[me] == 0:
                del self._threads[me]
                self._changed.notify_all()
