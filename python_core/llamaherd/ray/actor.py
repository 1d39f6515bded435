"""Process of an actor: loads a model, runs requests and exchanges messages.

This module does not import Ray. Ray calls `orders` from one thread and `outputs` from
another.
"""

from __future__ import annotations

import os
import pickle
import platform
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Condition, RLock
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import psutil

from llamaherd.core.errors import ContextError, NativeError
from llamaherd.loop.group import Group
from llamaherd.loop.prefixes import call_tree
from llamaherd.model.model import Model
from llamaherd.native import _build_info
from llamaherd.ray.cores import Claim, n_own_threads
from llamaherd.ray.files import Files
from llamaherd.ray.wire import ActorInfo, Change, Ended, HandIn, Report
from llamaherd.run.context import Context
from llamaherd.run.embedders import make_embedder

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from llamaherd.core.outcome import Output, Piece
    from llamaherd.core.stats import RequestStats
    from llamaherd.loop.loop import Loop
    from llamaherd.ray.files import SourceFile
    from llamaherd.run.embedders import EmbedSpec
    from llamaherd.run.embedding import Embedder

_GATHER_S = 0.1  # outputs within this time share a message; a message costs 1 ms
_SOON_S = 0.01  # this time if few requests are left
_REPORT_S = 0.25  # maximum time between two reports


def build() -> dict[str, str]:
    """Return the versions that must be equal on all machines for equal answers."""
    from llamaherd import __version__  # noqa: PLC0415 - this import loads all subpackages

    return {
        "llamaherd": __version__,
        "llama-cpp-python": _build_info.LLAMA_CPP_PYTHON_VERSION,
        "llama.cpp": _build_info.LLAMA_BUILD_COMMIT,
    }


class Actor:
    """Object in a process of a herd that runs the requests."""

    def __init__(self) -> None:
        self._files = Files()
        self._model: Model | None = None
        self._loop: Loop | None = None
        self._claim: Claim | None = None
        self._outbox = Outbox()
        self._groups: dict[int, Group] = {}
        self._embedder: tuple[EmbedSpec, Embedder] | None = None
        self._n_threads = 1

    # ---- before the actor is ready ----

    def build(self) -> dict[str, str]:
        """See `build`."""
        return build()

    def node(self) -> tuple[str, int]:
        """Return the machine's name and the id of the process that started the actor.

        Ray has one such process per node. Its id distinguishes nodes with the same
        name.
        """
        return socket.gethostname(), os.getppid()

    def missing(self, expected: Sequence[SourceFile]) -> list[int]:
        """Return the indices of missing files; record the paths of the other files."""
        return self._files.missing(expected)

    def receive(self, expected: SourceFile, data: bytes, *, is_last: bool) -> None:
        """Receive the next part of a file.

        Raises:
            OSError: The file cannot be stored.
            ModelLoadError: The received file has another hash.
        """
        self._files.receive(expected, data, is_last=is_last)

    def open(
        self,
        number: int,
        *,
        files: Sequence[SourceFile],
        scales: Sequence[float],
        model: dict[str, Any],
        context: dict[str, Any] | None,
        n_cpus: float,
        n_threads: int | None,
    ) -> ActorInfo:
        """Load the model. Call this before all methods below.

        Args:
            number: Number of the actor.
            files: Files of the model, then one file per adapter. `missing` must have
                recorded their paths.
            scales: Scales of the adapters.
            model: Other arguments of `Model`.
            context: Arguments of `Context`; None for a model for embeddings.
            n_cpus: CPUs that Ray reserves for the actor.
            n_threads: Number of threads; None to derive it from the CPUs.

        Raises:
            LlamaHerdError: The model cannot be loaded.
        """
        started_s = perf_counter()
        paths = [self._files.path(file) for file in files]
        n_model = len(paths) - len(scales)
        loras: list[Any] = list(zip(paths[n_model:], scales, strict=True))
        self._n_threads = n_threads or n_own_threads(n_cpus)
        self._claim = Claim(self._n_threads)
        self._model = Model(paths[0], lora=loras or None, **model)
        if context is not None:
            options = {**context, "n_threads": self._n_threads}
            self._loop = Context(self._model, **options).loop
            self._outbox.loop = self._loop
        return ActorInfo(
            actor=number,
            node=socket.gethostname(),
            pid=os.getpid(),
            n_threads=self._n_threads,
            cores=self._claim.cores,
            load_s=perf_counter() - started_s,
            memory_bytes=psutil.Process().memory_info().rss,
            processor=_processor(),
        )

    # ---- called from the thread for orders ----

    def orders(self, orders: Sequence[HandIn | Change]) -> None:
        """Receive new requests, and changes of earlier requests.

        Raises:
            ContextError: The model cannot generate.
        """
        if self._loop is None:
            raise ContextError("the model is one for embeddings: it cannot generate")
        if self._claim is not None:
            self._claim.pin()  # the threads of the loop and of ggml inherit this affinity
        for order in orders:
            if isinstance(order, HandIn):
                self._hand_in(self._loop, order)
            elif order.chunk in self._groups:
                getattr(self._loop, order.kind)(self._groups[order.chunk])
        for chunk in [c for c, group in self._groups.items() if group.is_over]:
            del self._groups[chunk]

    def _hand_in(self, loop: Loop, order: HandIn) -> None:
        group = Group(
            order.requests,
            _Teller(order.chunk, self._outbox),
            tree=call_tree(order.requests),
            is_watched=order.is_watched,
            is_counted=True,
            n_again=order.n_again,
        )
        loop.share(order.n_on_node)
        self._groups[order.chunk] = group
        self._outbox.add(order.chunk, group)
        loop.hand_in(group)

    # ---- called from the thread for outputs ----

    def outputs(self) -> Report:
        """Wait for outputs for at most a quarter of a second, and return them."""
        return self._outbox.collect()

    # ---- called from the thread for embeddings ----

    def embed(self, spec: EmbedSpec, texts: Sequence[array[int]]) -> array[float]:
        """Compute the embeddings of some texts in one run.

        Raises:
            NativeError: A text was refused.
            LlamaHerdError: The model has no embeddings, or memory is insufficient.
        """
        if self._model is None:
            raise NativeError("the model is not loaded", 0)
        if self._embedder is None or self._embedder[0] != spec:
            self._embedder = None  # the old embedder is freed first, to save memory
            if self._claim is not None:
                self._claim.pin()
            own = replace(spec, n_threads=spec.n_threads or self._n_threads)
            self._embedder = spec, make_embedder(self._model, own)
        return self._embedder[1].run(texts)

    def rest(self) -> None:
        """Free the memory that `embed` used."""
        self._embedder = None


class _Teller:
    """Listener of a chunk that adds its events to the outbox."""

    def __init__(self, chunk: int, outbox: Outbox) -> None:
        self._chunk = chunk
        self._outbox = outbox

    def on_output(self, i: int, output: Output, stats: RequestStats) -> None:
        """Record that a request has ended."""
        self._outbox.put_output(self._chunk, i, output, stats)

    def on_piece(self, piece: Piece) -> None:
        """Record new text of an answer."""
        self._outbox.put_piece(self._chunk, piece)

    def on_end(self, error: BaseException | None) -> None:
        """Record that all requests have ended."""
        self._outbox.put_end(self._chunk, error)


class Outbox:
    """Collects messages for the caller's process.

    Attributes:
        loop: Loop that produces the messages; None before it exists.
    """

    def __init__(self) -> None:
        self.loop: Loop | None = None
        self._changed = Condition(RLock())
        self._report = Report()
        self._open: dict[int, Group] = {}
        self._last_s = 0.0

    def add(self, chunk: int, group: Group) -> None:
        """Add a chunk."""
        with self._changed:
            self._open[chunk] = group

    def put_output(self, chunk: int, i: int, output: Output, stats: RequestStats) -> None:
        """Record that a request has ended."""
        with self._changed:
            if chunk in self._open:
                self._report.outputs.append((chunk, i, output, stats))
                self._changed.notify_all()

    def put_piece(self, chunk: int, piece: Piece) -> None:
        """Record new text of an answer."""
        with self._changed:
            if chunk in self._open:
                self._report.pieces.append((chunk, piece))
                self._changed.notify_all()

    def put_end(self, chunk: int, error: BaseException | None) -> None:
        """Record that all requests of a chunk have ended."""
        with self._changed:
            group = self._open.pop(chunk, None)
            if group is None:  # its end was reported when its thread had died
                return
            self._report.counts[chunk] = group.counts
            self._report.ended.append(
                Ended(chunk=chunk, error=_plain(error), n_fallbacks=group.n_fallbacks)
            )
            self._changed.notify_all()

    def collect(self) -> Report:
        """Return the collected messages; wait for more if no caller needs them now."""
        end_s = monotonic() + _REPORT_S
        with self._changed:
            self._end_lost()
            while (left_s := self._due_s(end_s) - monotonic()) > 0:
                self._changed.wait(left_s)
            self._last_s = monotonic()
            report, self._report = self._report, Report()
            for chunk, group in self._open.items():
                report.counts[chunk] = group.counts
        if self.loop is not None:
            report.plan = self.loop.plan
            report.n_batches = self.loop.n_batches
        return report

    def _end_lost(self) -> None:
        """Record the end of chunks whose thread has died for lack of memory."""
        loop = self.loop
        if loop is None:
            return
        for chunk, group in list(self._open.items()):
            error = loop.why_lost(group)
            if error is not None:
                group.is_cancelled = True  # no later thread runs it from the queue
                self.put_end(chunk, error)

    def _due_s(self, end_s: float) -> float:
        """Return the time at which to send the collected messages."""
        if self._report.pieces or (self._report.ended and not self._open):
            return 0.0
        if not self._report.is_news:
            return end_s
        plan = None if self.loop is None else self.loop.plan
        n_open = sum(len(group.open) for group in self._open.values())
        is_low = plan is not None and n_open <= plan.n_seq_max
        return min(end_s, self._last_s + (_SOON_S if is_low else _GATHER_S))


def _plain(error: BaseException | None) -> BaseException | None:
    """Return an error that can be pickled, with the same message."""
    with suppress(Exception):
        pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled by this process
        return error
    return RuntimeError(str(error))


def _processor() -> str:
    """Return the name of the processor, for display."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
