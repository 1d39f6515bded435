"""Execution of calls: Ctrl-C or an error at any time keeps all finished results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, overload

from llamaherd.calls.journal.recording import record_call
from llamaherd.calls.run.context import as_context
from llamaherd.calls.run.handle import Handle
from llamaherd.calls.run.host import Elsewhere, Host
from llamaherd.calls.run.hosted import HostedCall, OwnThread
from llamaherd.calls.run.job import Interrupts, Job, Runnable, wait_for_end
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.keeping import (
    as_interrupted,
    begun,
    forget,
    keep,
    kept_results,
)
from llamaherd.engine.core.progress import reporter
from llamaherd.engine.core.results import Result, Results
from llamaherd.engine.core.stats import Stats
from llamaherd.engine.core.words import words
from llamaherd.engine.hub.profile import cpu_features

if TYPE_CHECKING:
    from llama_cpp import Llama

    from llamaherd.calls.asks.options import CallOptions
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.call import Call
    from llamaherd.engine.core.outcome import TextPiece
    from llamaherd.engine.core.request import Request

_R = TypeVar("_R")
_W = TypeVar("_W")
_J = TypeVar("_J", bound=Job[Any])


def run_to_end(
    prepare: Callable[[], Runnable[_R]],
    progress: bool | Callable[[Any], object],
    prompts: object = (),
    nothing: Callable[[int], _R] | None = None,
) -> _R:
    """Run a call to its end; Ctrl-C and errors of the caller keep finished results."""
    results: _R | None = None
    call = begun()
    try:
        with Interrupts() as interrupts, reporter(progress) as report:
            with interrupts.let_through():
                work = prepare()
            job: Job[_R] | OwnThread[_R]
            if isinstance(work, HostedCall) and work.is_stepped:
                job = OwnThread(work)
            else:
                job = Job(work)
            try:
                wait_for_end(job, report, interrupts)
            except BaseException:
                results = _finished_results(job)
                raise
            results = job.outcome()  # first, because a warning may become an error
            job.warn()
        job.tell()
        interrupts.deliver()
        return results  # noqa: TRY300 - Ctrl-C may come as late as here
    except KeyboardInterrupt as error:
        forget(error, call)
        if results is None and nothing is not None:
            results = nothing(len(prompts) if isinstance(prompts, Sized) else 0)
        if results is None:
            raise
        raise as_interrupted(error, results) from None
    except BaseException as error:
        forget(error, call)
        if results is not None:
            keep(error, results)
        raise


def _finished_results(job: Job[_R] | OwnThread[_R]) -> _R | None:
    """Return the finished results of a call that is ended by an error; None without any.

    The error is raised next. Therefore neither an error of the job nor a filter that
    turns the warning about its journal into an error may replace it.
    """
    results: _R | None
    try:
        results = job.outcome()
    except Exception as error:  # noqa: BLE001 - see above
        results = kept_results(error)
    with suppress(Exception):
        job.warn()
    return results


@overload
def start(prepare: Callable[[], Runnable[_R]]) -> Job[_R]: ...
@overload
def start(prepare: Callable[[], _W], kind: Callable[[_W], _J]) -> _J: ...
def start(prepare: Callable[[], Any], kind: Callable[[Any], Any] = Job) -> Any:
    """Start a call; invalid arguments raise an error before anything runs."""
    with Interrupts() as interrupts:
        with interrupts.let_through():
            work = prepare()
        job = kind(work)
        interrupts.deliver(job.cancel)
    return job


def stream_pieces(
    context: Host, request: Request, *, with_thought: bool = False
) -> Iterator[TextPiece]:
    """Yield the answer in pieces; cancel the prompt if the loop ends early."""
    handle: Handle | None = None
    try:
        with Interrupts() as interrupts:
            handle = Handle(context.loop, request, context, stream=True)
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


MANY = 5000  # prompts from which on a faster file is worth minutes of requantizing


# Values of general.file_type of types that ggml does not rearrange for wide instructions,
# and than which Q8_0 reads prompts twice as fast; see docs/decisions/0013.
_SLOW = {"3": "Q4_1"}


_noted: set[str] = set()  # paths of models for which the note was issued


def note_slow_file(host: Host, n_prompts: int) -> None:
    """Warn once if a call is long, and its model is of a type that is slow here."""
    if n_prompts < MANY or isinstance(host, Elsewhere):
        return
    model = host.model
    name = _SLOW.get(model.metadata.get("general.file_type", ""))
    path = str(model.path)
    if name is None or model.n_gpu_layers != 0 or path in _noted:
        return
    features = cpu_features()
    if "avx2" not in features or "amx_int8" in features:
        return  # without wide instructions, or with those for matrices of any type
    _noted.add(path)
    warn_caller(
        f"{model.file.name} is of the type {name}, and this processor reads prompts "
        "about twice as fast with Q8_0, which predicts almost the same: "
        f"{words().faster(path)} writes such a file and measures it"
    )


def open_context(context: Host | Llama) -> Host:
    """Return the context to run in; raise ContextClosedError if it is closed."""
    host = as_context(context)
    host.check_open()
    return host


def host_call(
    host: Host,
    call: Call,
    prompts: object,
    options: CallOptions,
    *,
    journal: Journal | None = None,
    **more: Any,  # see HostedCall
) -> HostedCall[Any]:
    """Return a call on its host, with its journal; an open `journal` is not closed."""
    file = options.journal if journal is None else journal
    work = call if file is None else record_call(call, host, file)
    return HostedCall(host, work, prompts, **more)
