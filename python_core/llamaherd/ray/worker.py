"""Process of a `Cluster`: a model with its context, which runs pieces of calls.

This module does not import Ray. Ray calls `run` in several threads at a time.
"""

from __future__ import annotations

import os
import pickle
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event, Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal, cast

import psutil

from llamaherd.calls.run.embedders import EmbedSpec, make_embedder
from llamaherd.engine.core.errors import ContextError
from llamaherd.engine.loop.group import Group, call_tree
from llamaherd.ray.config import Config, n_threads_of

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping, Sequence

    from llamaherd.calls.run.embedding import Embedder
    from llamaherd.engine.core.outcome import Counts, Output, Piece
    from llamaherd.engine.core.request import AnswerShape, Request
    from llamaherd.engine.core.stats import RequestStats
    from llamaherd.engine.memory.plan import Plan
    from llamaherd.engine.model.model import Model

Change = Literal["give_up", "stop"]  # methods of `ThreadedLoop`


def for_wire(request: Request) -> Request:
    """Return a request without code: actors enforce schemas, the caller parses."""
    shape = request.shape
    plain = shape and SimpleNamespace(enforced=shape.enforced, is_lark=shape.is_lark)
    return replace(request, shape=cast("AnswerShape | None", plain), text=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceAnswers:
    """Answers of an actor to a piece of a call."""

    # Triples of a request's index in the piece, its output and statistics.
    outputs: list[tuple[int, Output, RequestStats]]
    counts: Counts  # counts of the piece
    n_fallbacks: int  # see `Group`
    # Number of batches of the process before the piece, and after it.
    batches: tuple[int, int]
    plan: Plan | None  # sizes of the actor's KV cache; None if no request ran
    pid: int  # process id


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorInfo:
    """Information about an actor that is ready.

    Attributes:
        node: Name of the machine.
        pid: Process id on that machine.
        n_threads: Number of threads with which the actor computes.
        memory_bytes: Resident memory after loading. For a mapped file, this includes
            the pages that were read, which all actors of a machine share.
        model_bytes: Size of the model's files.
    """

    node: str
    pid: int
    n_threads: int
    memory_bytes: int
    model_bytes: int


class Actor:
    """Object in a process of a `Cluster`."""

    def __init__(self, config: Config, expected: Mapping[str, str]) -> None:
        self._groups: dict[Group, str] = {}  # running pieces, with their calls
        self._ended: set[str] = set()  # calls of which nothing more starts
        self._lock = Lock()
        self._embedder: tuple[EmbedSpec, Embedder] | None = None
        self._n_threads = n_threads_of(config.num_cpus or 1)
        self._error: Exception | None = None  # raised by `info`: Ray would reword it
        try:
            self._model = config.open_model(expected)
            if not why_it_cannot_generate(self._model):
                self._loop = config.open_context(self._model).loop
        except Exception as error:  # noqa: BLE001 - see above
            self._error = _portable(error)

    def info(self) -> ActorInfo:
        """Return information about the actor; raise the error of its start."""
        if self._error is not None:
            raise self._error
        return ActorInfo(
            node=socket.gethostname(),
            pid=os.getpid(),
            n_threads=self._n_threads,
            memory_bytes=psutil.Process().memory_info().rss,
            model_bytes=self._model.file.size_bytes,
        )

    def run(self, call: str, requests: Sequence[Request]) -> PieceAnswers:
        """Run some requests of a call."""
        self.info()
        listener = _Listener()
        group = Group(requests, listener, tree=call_tree(requests), is_counted=True)
        n_before = self._loop.n_batches
        with self._lock:
            is_wanted = call not in self._ended
            self._groups[group] = call
        try:
            if is_wanted:
                self._loop.hand_in(group)
                self._loop.wait_for(listener.is_over, group)
        finally:
            with self._lock:
                del self._groups[group]
        if listener.error is not None:
            raise _portable(listener.error)
        return PieceAnswers(
            outputs=listener.outputs,
            counts=group.counts,
            n_fallbacks=group.n_fallbacks,
            batches=(n_before, self._loop.n_batches),
            plan=self._loop.plan,
            pid=os.getpid(),
        )

    def change(self, call: str, kind: Change) -> None:
        """End the running requests of a call, or start no more of them."""
        with self._lock:
            self._ended.add(call)
            groups = [group for group, name in self._groups.items() if name == call]
        for group in groups:
            getattr(self._loop, kind)(group)

    def embed(self, spec: EmbedSpec, texts: Sequence[array[int]]) -> array[float]:
        """Compute the embeddings of some texts in one run; errors as `Embedder.run`."""
        self.info()
        if self._embedder is None or self._embedder[0] != spec:
            self._embedder = None  # the old embedder is freed first, to save memory
            full_spec = replace(spec, n_threads=spec.n_threads or self._n_threads)
            self._embedder = spec, make_embedder(self._model, full_spec)
        return self._embedder[1].run(texts)


class _Listener:
    """Listener of a piece that collects its outputs."""

    def __init__(self) -> None:
        self.outputs: list[tuple[int, Output, RequestStats]] = []
        self.is_over = Event()
        self.error: BaseException | None = None

    def on_output(self, i: int, output: Output, stats: RequestStats) -> None:
        self.outputs.append((i, output, stats))

    def on_piece(self, piece: Piece) -> None:
        """Do nothing: the requests of a call are not watched."""

    def on_end(self, error: BaseException | None) -> None:
        self.error = error
        self.is_over.set()


def why_it_cannot_generate(model: Model) -> str:
    """Return the reason why a model generates no text; "" if it does."""
    try:
        model.check_generates()
    except ContextError as error:
        return str(error)
    return ""


def _portable(error: BaseException) -> Exception:
    """Return an error that can be pickled, with the same message."""
    with suppress(Exception):
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled by this process
        if isinstance(copy, Exception):
            return copy
    return ContextError(str(error))
