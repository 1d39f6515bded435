"""A scoring call: runs a generating call and converts its results to scores."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from llamaherd.calls.run.hosted import run_steps, steps_of
from llamaherd.engine.core.errors import GenerationError
from llamaherd.engine.core.keeping import keep_made, keeping, kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.calls.run.hosted import LoopCall, Steps
    from llamaherd.engine.core.results import Results
    from llamaherd.engine.core.stats import Progress
    from llamaherd.engine.loop.group import GroupLoop


class Scored(Protocol):
    """Protocol of the results of a scoring call."""

    @property
    def errors(self) -> list[str | None]:
        """Reason why each prompt failed; None for the others."""
        ...


_R = TypeVar("_R", bound=Scored)


class Scoring(Generic[_R]):
    """A call that converts the results of another call.

    Args:
        call: Call to run, whose requests have trees.
        convert: Function that converts the results.
        name: Name of the prompts in messages.
        n_beside: Number of additional requests at the end.
    """

    def __init__(
        self,
        call: LoopCall[Results],
        convert: Callable[[Results], _R],
        *,
        name: str = "prompts",
        n_beside: int = 0,
    ) -> None:
        self._call = call
        self._convert = convert
        self._name = name
        self._n_beside = n_beside

    @property
    def progress(self) -> Progress:
        """Progress of the call, without its additional requests."""
        progress = self._call.progress
        n_total = progress.n_total - self._n_beside
        return replace(
            progress,
            n_done=min(progress.n_done, n_total),
            n_failed=min(progress.n_failed, n_total),
            n_total=n_total,
        )

    @property
    def problem(self) -> str:
        """Problem of the call after its run; "" without a problem."""
        return self._call.problem

    def cancel(self) -> None:
        """End the call soon."""
        self._call.cancel()

    def run(self, loop: GroupLoop) -> _R:
        """Run the call."""
        return run_steps(self.steps(loop))

    def steps(self, loop: GroupLoop) -> Steps[_R]:
        """Run the call in steps, with the errors of `run`."""
        try:
            answers = yield from steps_of(self._call, loop)
        except GenerationError as error:
            results = self._convert(error.results)
            failed = ((i, why) for i, why in enumerate(results.errors) if why is not None)
            i, why = next(failed)
            raise type(error)(f"{self._name}[{i}] failed: {why}", results) from None
        except Exception as error:
            partial = kept(error)
            if partial is not None:
                keep_made(error, lambda: self._convert(partial))
            raise
        with keeping(answers):
            return self._convert(answers)
