"""Execution of calls. Ctrl-C at any time keeps all finished results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import TYPE_CHECKING, Any, TypeVar, overload

from llamaherd.core.errors import Interrupted
from llamaherd.core.progress import reporter
from llamaherd.core.results import Result, Results
from llamaherd.core.stats import Stats
from llamaherd.run.handle import Handle
from llamaherd.run.interrupts import Interrupts, wait_for_end
from llamaherd.run.job import Job

if TYPE_CHECKING:
    from llamaherd.core.pieces import TextPiece
    from llamaherd.core.request import Request
    from llamaherd.run.host import Host
    from llamaherd.run.job import Runnable

_R = TypeVar("_R")
_W = TypeVar("_W")
_J = TypeVar("_J", bound=Job[Any])


def run_to_end(
    prepare: Callable[[], Runnable[_R]],
    progress: bool | Callable[[Any], object],
    prompts: object = (),
    nothing: Callable[[int], _R] | None = None,
) -> _R:
    """Run a call until it ends or Ctrl-C is pressed; keep all finished results.

    Args:
        prepare: Function that checks the arguments and creates the work of a `Job`.
        progress: True, False or a function, as given by the caller.
        prompts: Prompts as given by the caller.
        nothing: Function that creates results for a number of prompts that have not
            begun. None if the call has no partial results.

    Raises:
        Interrupted: Ctrl-C ended the call; `results` has the finished results.
        KeyboardInterrupt: Ctrl-C ended a call without partial results.
    """
    results: _R | None = None
    try:
        with Interrupts() as interrupts, reporter(progress) as report:
            with interrupts.let_through():
                work = prepare()
            job = Job(work)
            try:
                wait_for_end(job, report, interrupts)
            except KeyboardInterrupt:
                results = job.results()
                raise
            results = job.results()
        interrupts.deliver()
        return results  # noqa: TRY300 - Ctrl-C may come as late as here
    except KeyboardInterrupt:
        if results is None and nothing is not None:
            results = nothing(len(prompts) if isinstance(prompts, Sized) else 0)
        if results is None:
            raise
        raise Interrupted(results) from None


@overload
def start(prepare: Callable[[], Runnable[_R]]) -> Job[_R]: ...
@overload
def start(prepare: Callable[[], _W], kind: Callable[[_W], _J]) -> _J: ...
def start(prepare: Callable[[], Any], kind: Callable[[Any], Any] = Job) -> Any:
    """Start a call and return at once.

    Invalid arguments raise an error before anything runs.

    Args:
        prepare: Function that checks the arguments and creates the work.
        kind: Class `Job` or a subclass.
    """
    with Interrupts() as interrupts:
        with interrupts.let_through():
            work = prepare()
        job = kind(work)
        try:
            interrupts.deliver()
        except BaseException:
            job.cancel()
            raise
    return job


def stream_pieces(
    context: Host, request: Request, owner: object, *, with_thought: bool = False
) -> Iterator[TextPiece]:
    """Yield the answer to one prompt in pieces; cancel the prompt if the loop ends early.

    Args:
        context: Context that runs the prompt.
        request: Request to run.
        owner: Object to keep alive, such as a Llama whose model the context uses.
        with_thought: Whether to yield the pieces of the thought, too.
    """
    handle: Handle | None = None
    try:
        with Interrupts() as interrupts:
            handle = Handle(context.loop, request, owner, is_alone=False, stream=True)
        interrupts.deliver()
        yield from handle.pieces() if with_thought else handle
    finally:
        if handle is not None:
            handle.cancel()


def none_answered(n_prompts: int, n: int = 1) -> Results:
    """Return results for prompts that have not begun, with n samples each."""
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
