"""A call from its arguments to its end, whatever Ctrl-C does."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, TypeVar

from llamaherd.api.progress import reporter
from llamaherd.core.errors import Interrupted
from llamaherd.core.results import Result, Results
from llamaherd.core.stats import Stats
from llamaherd.run.interrupts import Interrupts, wait_for_end
from llamaherd.run.job import Job

if TYPE_CHECKING:
    from llamaherd.api.progress import ProgressOption
    from llamaherd.run.host import Host
    from llamaherd.run.job import Runnable

_R = TypeVar("_R")


def run_to_end(
    prepare: Callable[[], tuple[Host, Runnable[_R], object]],
    progress: ProgressOption,
    prompts: object,
    nothing: Callable[[int], _R],
) -> _R:
    """Runs a call to its end, or to Ctrl-C, which loses nothing whenever it comes.

    Args:
        prepare: Makes the arguments of a `Job`.
        progress: As it was given.
        prompts: As they were given.
        nothing: Results of so many prompts of which none has begun.
    """
    results: _R | None = None
    try:
        with Interrupts() as interrupts, reporter(progress) as report:
            with interrupts.let_through():
                prepared = prepare()
            job = Job(*prepared)
            try:
                wait_for_end(job, report, interrupts)
            except KeyboardInterrupt:
                results = job.results()
                raise
            results = job.results()
        interrupts.deliver()
        return results  # noqa: TRY300 - as late as that Ctrl-C may come
    except KeyboardInterrupt:
        if results is None:  # nothing has begun
            results = nothing(len(prompts) if isinstance(prompts, Sized) else 0)
        raise Interrupted(results) from None


def start(prepare: Callable[[], tuple[Host, Runnable[_R], object]]) -> Job[_R]:
    """Starts a call and returns at once. Wrong arguments raise before anything runs."""
    with Interrupts() as interrupts:
        with interrupts.let_through():
            prepared = prepare()
        job = Job(*prepared)
        try:
            interrupts.deliver()
        except BaseException:
            job.cancel()
            raise
    return job


def none_answered(n_prompts: int, n: int = 1) -> Results:
    """Results of prompts, n samples each, of which none has begun."""
    results = [
        Result(
            index=i,
            sample=j,
            text=None,
            tokens=[],
            finish_reason="cancelled",
            complete=False,
            error=None,
            n_prompt_tokens=0,
            n_reused_tokens=0,
            seed=0,
        )
        for i in range(n_prompts)
        for j in range(n)
    ]
    return Results(results, Stats(n_prompts=n_prompts, n_samples=len(results)), n)
