"""Actor of a herd, as the caller's process sees it: start, calls, restart."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from functools import partial
from threading import Event, Lock, RLock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from llamaherd.core.errors import ClusterError, ContextClosedError, LlamaHerdError
from llamaherd.ray.actor import Actor, build
from llamaherd.ray.files import hashed, parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.ray.files import SourceFile
    from llamaherd.ray.wire import ActorInfo, Change, HandIn

_SLICE_S = 0.2  # interval between checks whether the herd was closed
_MOST_TRIES = 3  # maximum number of attempts to start an actor that has never started
_PAUSE_S = 1.0  # pause before the next attempt
_UNAVAILABLE = "ActorUnavailableError"
_VERDICT_S = 10.0  # maximum time until Ray reports whether an unavailable actor is dead
_GROUPS = {
    "orders": 1,
    "outputs": 1,
    "embed": 1,
}  # number of threads of an actor, by kind of call


class ActorState(Enum):
    """State of an actor, as the caller's process knows it."""

    STARTING = auto()
    READY = auto()
    FAILED = auto()  # the actor cannot be started


class Death(Exception):  # noqa: N818 - an event, not an error of the caller
    """Loss of an actor.

    Attributes:
        is_crash: Whether the actor's process died; False if the process or its node is
            unreachable.
    """

    def __init__(self, reason: str, *, is_crash: bool) -> None:
        super().__init__(reason)
        self.is_crash = is_crash


class Payload:
    """Files and settings of the model for the actors.

    Args:
        files: Files of the model, then files of its adapters.
        n_model: Number of files of the model.
        scales: Scales of the adapters.
        model: Other arguments of `Model`.
        context: Arguments of `Context`; None for a model for embeddings.
        n_threads: Number of threads of each actor; None to derive it from its CPUs.
        may_send: Whether to send files to nodes without them.
    """

    def __init__(
        self,
        files: Sequence[SourceFile],
        n_model: int,
        *,
        scales: Sequence[float],
        model: dict[str, Any],
        context: dict[str, Any] | None,
        n_threads: int | None,
        may_send: bool,
    ) -> None:
        self.files = list(files)
        self.scales = list(scales)
        self.model = model
        self.context = context
        self.n_threads = n_threads
        self.may_send = may_send
        self._n_model = n_model
        self._lock = Lock()  # files are hashed once, and sent to one node at a time

    def bring(self, ask: Callable[..., Any], node: str) -> None:
        """Ensure that an actor has the files: let it find them, or send them.

        Args:
            ask: Function that calls a method of the actor and waits for the result.
            node: Name of the node in messages.

        Raises:
            ClusterError: The node does not have the files, and sending is disabled.
            ModelLoadError: The files no longer exist on this machine.
        """
        if not ask("missing", self.files):
            return
        with self._lock:
            if not self.files[0].sha256:
                self.files = hashed(self.files, self._n_model)
            for i in ask("missing", self.files):
                file = self.files[i]
                if not self.may_send:
                    raise ClusterError(
                        f"node {node} has no file {file.path!r} with the same content "
                        f"as here (SHA-256 {file.sha256}): copy it there, or send it "
                        "(send_model=True)"
                    )
                for data, is_last in parts(file):
                    ask("receive", file, data, is_last=is_last)


class Member:
    """Actor of a herd, and the actors that replace it after restarts.

    Args:
        number: Number of the actor, from 0.
        ray: Module of Ray.
        options: Ray options of the actor.
        payload: Model to load.
        on_change: Function called with the member, from any thread, after a change of its
            state.

    Attributes:
        number: Number of the actor, from 0.
        node: Node of the current actor, if known; see `Actor.node`.
        state: State of the actor. A death is detected only at the next call.
        generation: Number of actors that were started so far.
        info: Information about the last actor that became ready.
        error: Error of a failed start.
    """

    def __init__(
        self,
        number: int,
        ray: Any,  # noqa: ANN401 - types of Ray
        options: dict[str, Any],
        payload: Payload,
        on_change: Callable[[Member], None],
    ) -> None:
        self.number = number
        self.node: tuple[str, int] = ("", 0)
        self.state = ActorState.STARTING
        self.generation = 0
        self.info: ActorInfo | None = None
        self.error: BaseException | None = None
        self.changed_s = monotonic()
        self._ray = ray
        self._options = options
        self._payload = payload
        self._on_change = on_change
        self._handle: Any = None
        self._lock = RLock()
        self._is_closed = Event()

    @property
    def takes(self) -> str:
        """Resources that the actor reserves in the cluster, for messages."""
        each = {"CPUs": self._options["num_cpus"], **self._options.get("resources", {})}
        return ", ".join(f"{n:g} {name}" for name, n in each.items())

    # ---- start ----

    def start(self) -> None:
        """Start the first actor; returns at once, and calls `on_change` later."""
        self._start_thread()

    def restart(self, generation: int) -> None:
        """Replace the actor of this generation, unless it has already been replaced."""
        with self._lock:
            if generation != self.generation or self.state is not ActorState.READY:
                return
            self.state = ActorState.STARTING
            self.changed_s = monotonic()
        self._kill()
        self._start_thread()

    def close(self) -> None:
        """End the actor, and a start that is in progress."""
        self._is_closed.set()
        self._kill()

    def _start_thread(self) -> None:
        name = f"llamaherd-actor-{self.number}"
        Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        for i_try in range(_MOST_TRIES):
            try:
                info = self._made()
                break
            except BaseException as error:  # noqa: BLE001 - reported to the waiting caller
                self._kill()
                self.error = _plain(error)
                is_lost = isinstance(self.error, Death)
                if self._is_closed.is_set() or not is_lost or i_try + 1 == _MOST_TRIES:
                    self._become(ActorState.FAILED)
                    return
                self._is_closed.wait(_PAUSE_S)
        with self._lock:
            self.generation += 1
            self.info = replace(info, n_starts=self.generation)
        self._become(ActorState.READY)

    def _become(self, state: ActorState) -> None:
        self.state = state
        self.changed_s = monotonic()
        self._on_change(self)

    def _made(self) -> ActorInfo:
        """Start an actor, wait until it has the model, and return its information."""
        remote = self._ray.remote(concurrency_groups=_GROUPS)(Actor)
        with self._lock:
            if self._is_closed.is_set():
                raise ContextClosedError("the herd was closed")
            self._handle = remote.options(**self._options).remote()
        self.node = self._ask("node")
        there = self._ask("build")
        if there != build():
            raise ClusterError(
                f"an actor has {_listed(there)}, this process {_listed(build())}: "
                "install the same versions everywhere"
            )
        payload = self._payload
        payload.bring(self._ask, self.node[0])
        info: ActorInfo = self._ask(
            "open",
            self.number,
            files=payload.files,
            scales=payload.scales,
            model=payload.model,
            context=payload.context,
            n_cpus=float(self._options["num_cpus"]),
            n_threads=payload.n_threads,
        )
        return info

    def _ask(self, method: str, *args: object, **named: object) -> Any:  # noqa: ANN401
        """Call the actor and wait for the result or the end of the herd."""
        ref = getattr(self._handle, method).remote(*args, **named)
        while not self._ray.wait([ref], timeout=_SLICE_S)[0]:
            if self._is_closed.is_set():
                raise ContextClosedError("the herd was closed")
        return self._ray.get(ref)

    def _kill(self) -> None:
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None and self._ray.is_initialized():
            self._ray.kill(handle)

    # ---- calls; if the actor has died, they report a `Death` ----

    def order(
        self,
        generation: int,
        orders: Sequence[HandIn | Change],
        then: Callable[[BaseException | None], None],
    ) -> None:
        """Send orders; call `then` with None when they have arrived, or with an error."""
        self._call(
            "orders",
            "orders",
            [list(orders)],
            lambda _, error: then(error),
            generation=generation,
        )

    def poll(
        self, generation: int, then: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Request a report of this actor; call `then` with the report or an error."""
        self._call("outputs", "outputs", [], then, generation=generation)

    def knock(self, then: Callable[[Any, BaseException | None], None]) -> None:
        """Test whether the actor responds; call `then` within half a second."""
        self._call("node", "outputs", [], then)

    def embed(
        self,
        args: Sequence[object],
        then: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Compute embeddings."""
        self._call("embed", "embed", args, then)

    def rest(self) -> None:
        """Free the actor's memory for embeddings."""
        self._call("rest", "embed", [], lambda _value, _error: None)

    def _call(
        self,
        method: str,
        group: str,
        args: Sequence[object],
        then: Callable[[Any, BaseException | None], None],
        *,
        generation: int | None = None,
    ) -> None:
        with self._lock:
            # While an actor is starting, the handle may be that of the next generation.
            is_right = self.state is ActorState.READY and generation == self.generation
            handle = self._handle if generation is None or is_right else None
        if handle is None:
            then(None, Death("it was ended or replaced", is_crash=False))
            return
        try:
            call = getattr(handle, method).options(concurrency_group=group)
            future = call.remote(*args).future()
        except Exception as error:  # noqa: BLE001 - Ray itself may be gone
            then(None, _plain(error))
            return

        def pass_on(done: Any) -> None:  # noqa: ANN401 - a future of anything
            error = done.exception()
            if error is None:
                then(done.result(), None)
            elif type(error).__name__ == _UNAVAILABLE:
                wait = partial(self._await_verdict, handle, error, then)
                Thread(target=wait, name="llamaherd-verdict", daemon=True).start()
            else:
                then(None, _plain(error))

        future.add_done_callback(pass_on)

    def _await_verdict(
        self,
        handle: Any,  # noqa: ANN401 - types of Ray
        error: BaseException,
        then: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Wait until Ray reports whether an "unavailable" actor has died."""
        end_s = monotonic() + _VERDICT_S
        while monotonic() < end_s and not self._is_closed.wait(_SLICE_S):
            try:
                self._ray.get(handle.build.remote(), timeout=_VERDICT_S)
                break  # the actor is alive, but the state of the call is unknown
            except Exception as latest:  # noqa: BLE001 - inspected below
                if type(latest).__name__ not in (_UNAVAILABLE, "GetTimeoutError"):
                    error = latest
                    break
        then(None, _plain(error))


def _plain(error: BaseException) -> BaseException:
    """Convert an error of Ray to the error that the actor raised, or to a `Death`."""
    from ray import exceptions  # noqa: PLC0415 - Ray is loaded by now

    if isinstance(error, exceptions.RayTaskError):  # checked first, because an error may
        # be both
        cause = error.cause
        return cause if isinstance(cause, BaseException) else RuntimeError(str(error))
    if isinstance(error, (Death, LlamaHerdError)):
        return error
    if isinstance(error, exceptions.ActorDiedError):
        reason = str(error)
        return Death(reason, is_crash="its node has died" not in reason.lower())
    if isinstance(error, exceptions.OutOfMemoryError):
        return Death(str(error), is_crash=True)
    if isinstance(error, (exceptions.RayError, ConnectionError)):
        return Death(str(error), is_crash=False)
    return error


def _listed(build: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in build.items())
