"""Long work with files, in short steps, so that other work on the thread takes turns."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator
    from concurrent.futures import Executor
    from typing import TypeAlias

_T = TypeVar("_T")
# Each step takes up to about 20 ms.
ShortSteps: TypeAlias = "Generator[None, None, _T]"


async def in_turns(thread: Executor, steps: ShortSteps[_T]) -> _T:
    """Run steps on a thread; between two steps the thread does other work.

    Args:
        thread: Executor with one thread.
        steps: Steps, which are closed after an error or a cancellation.
    """
    try:
        while True:
            ended = await asyncio.wrap_future(thread.submit(_step, steps))
            if ended:
                return ended[0]
    except BaseException:
        with suppress(RuntimeError):  # the thread has ended
            thread.submit(steps.close)  # after a step that still runs
        raise


def _step(steps: ShortSteps[_T]) -> tuple[()] | tuple[_T]:
    """Run the next step; return the result in a tuple if it was the last step."""
    try:
        next(steps)
    except StopIteration as stop:
        return (stop.value,)
    return ()
