"""Calls together with the host that computes them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from llamaherd.core.keeping import kept
from llamaherd.core.progress import say
from llamaherd.core.table import index_of, set_index
from llamaherd.run.steps import Stepped, run_steps, steps_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.core.stats import Progress
    from llamaherd.loop.group import GroupLoop
    from llamaherd.run.host import Host
    from llamaherd.run.steps import Steps


_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)


class LoopCall(Protocol[_R_co]):
    """A call whose requests run in a host's loop, with or without a journal."""

    @property
    def progress(self) -> Progress:
        """Counts of finished units."""
        ...

    @property
    def problem(self) -> str:
        """Warning for the caller, during and after the run; "" if there is none."""
        ...

    def cancel(self) -> None:
        """Ends the call soon. Any thread may call this method."""
        ...

    def run(self, loop: GroupLoop) -> _R_co:
        """Answers the prompts."""
        ...


class HostedCall(Generic[_R]):
    """A call and the host that it runs on: the work of a `Job`.

    Args:
        host: Context or cluster.
        call: The call, whose results become the results of the job.
        owner: Object to keep alive, such as a Llama whose model the context uses.
        prompts: Prompts as the caller gave them; the results get the index of a Series.
        tell: Function that warns about the results when the caller receives them.
    """

    def __init__(
        self,
        host: Host,
        call: LoopCall[_R],
        owner: object = None,
        prompts: object = None,
        tell: Callable[[_R], object] | None = None,
    ) -> None:
        self.host = host
        self.tell = tell
        self.call = call
        self._owner = owner
        self._index = index_of(prompts)

    @property
    def progress(self) -> Progress:
        """Counts of finished units."""
        return self.call.progress

    @property
    def is_stepped(self) -> bool:
        """Whether no step blocks its thread until other requests have ended."""
        return isinstance(self.call, Stepped)

    @property
    def problem(self) -> str:
        """Warning of the journal after the run; "" if there is none."""
        return self.call.problem

    def cancel(self) -> None:
        """Ends the call soon; finished answers are kept."""
        self.call.cancel()

    def run(self) -> _R:
        """Answers the prompts; if the loop's thread is ending, waits for its end."""
        try:
            return run_steps(self.steps())
        finally:
            self.host.loop.settle()

    def steps(self) -> Steps[_R]:
        """Answers the prompts in steps, with the errors of `run`."""
        try:
            results = yield from steps_of(self.call, self.host.loop)
        except BaseException as error:
            set_index(kept(error), self._index)
            raise
        set_index(results, self._index)
        if os.environ.get("NEWRLLAMA_DEBUG", "0") not in ("", "0"):
            say(f"llamaherd: {getattr(results, 'stats', results)}")
        return results
