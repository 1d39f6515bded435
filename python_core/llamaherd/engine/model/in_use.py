"""Counter of threads inside a native object, so that close() can wait for them."""

from __future__ import annotations

from collections import Counter
from threading import Condition, get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_SLICE_S = 0.05  # an unlimited wait would ignore Ctrl-C on some platforms


class InUse:
    """Counter of the threads inside an object: `with in_use: ...`.

    A thread that uses the object first enters the block and then checks that the object
    is open. A thread that closes the object first marks the object as closed and then
    waits for the counter.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._threads: Counter[int] = Counter()

    def wait_for_others(self) -> None:
        """Wait until no other thread is inside the object.

        The calling thread itself may be inside, because garbage collection can call a
        destructor at any point.
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
