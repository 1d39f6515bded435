"""One actor of a herd, as its caller sees it: started, asked, and started again."""

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

    from llamaherd.ray.files import Wanted
    from llamaherd.ray.wire import ActorInfo, Change, HandIn

_SLICE_S = 0.2  # longest wait after which a herd that was closed is seen
_MOST_TRIES = 3  # to start an actor that has never started
_PAUSE_S = 1.0  # before the next one
_UNAVAILABLE = "ActorUnavailableError"
_VERDICT_S = 10.0  # longest time until Ray knows whether such an actor is dead
_GROUPS = {"orders": 1, "outputs": 1, "embed": 1}  # of an actor's threads


class State(Enum):
    """Of an actor."""

    STARTING = auto()
    READY = auto()
    FAILED = auto()  # it cannot be started


class Death(Exception):  # noqa: N818 - no error of the caller's
    """An actor is there no more.

    Attributes:
        is_crash: Whether its process died; else it, or its node, cannot be reached.
    """

    def __init__(self, reason: str, *, is_crash: bool) -> None:
        super().__init__(reason)
        self.is_crash = is_crash


class Payload:
    """What actors load, and how.

    Args:
        files: Of the model, then of its adapters.
        n_model: How many are the model's.
        scales: Of the adapters.
        model: Other arguments of `Model`.
        context: Arguments of `Context`; None: the model is for embeddings.
        n_threads: Of each actor; None: what suits its CPUs.
        may_send: Whether files are sent to nodes that do not have them.
    """

    def __init__(
        self,
        files: Sequence[Wanted],
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
        """Has an actor find the files, or sends them.

        Args:
            ask: Calls a method of the actor and waits for what it returns.
            node: For messages.

        Raises:
            ClusterError: They are not there, and may not be sent.
            ModelLoadError: They are gone here.
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
                        f"node {node} has no file {file.path!r} with the content that "
                        f"it has here (SHA-256 {file.sha256}): copy it there, or let it "
                        "be sent (send_model=True)"
                    )
                for data, is_last in parts(file):
                    ask("receive", file, data, is_last=is_last)


class Member:
    """An actor's place in a herd. What it holds changes when the actor is started again.

    Args:
        number: From 0.
        ray: The module.
        options: Of Ray, for its actor.
        payload: What to load.
        tell: Called from any thread, with the member, when its state has changed.

    Attributes:
        number: From 0.
        node: Where its last actor was, as far as is known; see `Actor.node`.
        state: It may die at any moment, which is seen when it is asked.
        generation: Counts the actors that there were.
        info: Of the last one that was ready.
        error: Why it cannot be started.
    """

    def __init__(
        self,
        number: int,
        ray: Any,  # noqa: ANN401 - Ray's types are its own
        options: dict[str, Any],
        payload: Payload,
        tell: Callable[[Member], None],
    ) -> None:
        self.number = number
        self.node: tuple[str, int] = ("", 0)
        self.state = State.STARTING
        self.generation = 0
        self.info: ActorInfo | None = None
        self.error: BaseException | None = None
        self.changed_s = monotonic()
        self._ray = ray
        self._options = options
        self._payload = payload
        self._tell = tell
        self._handle: Any = None
        self._lock = RLock()
        self._is_closed = Event()

    @property
    def takes(self) -> str:
        """What of the cluster it takes, for people."""
        each = {"CPUs": self._options["num_cpus"], **self._options.get("resources", {})}
        return ", ".join(f"{n:g} {name}" for name, n in each.items())

    # ---- to start it ----

    def start(self) -> None:
        """Starts its first actor. Returns at once; `tell` is called."""
        self._start_thread()

    def restart(self, generation: int) -> None:
        """Has another actor take the place of that generation's, unless one did."""
        with self._lock:
            if generation != self.generation or self.state is not State.READY:
                return
            self.state = State.STARTING
            self.changed_s = monotonic()
        self._kill()
        self._start_thread()

    def close(self) -> None:
        """Ends its actor, and whatever starts one."""
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
            except BaseException as error:  # noqa: BLE001 - told to who waits
                self._kill()
                self.error = _plain(error)
                is_lost = isinstance(self.error, Death)
                if self._is_closed.is_set() or not is_lost or i_try + 1 == _MOST_TRIES:
                    self._become(State.FAILED)
                    return
                self._is_closed.wait(_PAUSE_S)
        with self._lock:
            self.generation += 1
            self.info = replace(info, n_starts=self.generation)
        self._become(State.READY)

    def _become(self, state: State) -> None:
        self.state = state
        self.changed_s = monotonic()
        self._tell(self)

    def _made(self) -> ActorInfo:
        """A new actor, once it has the model."""
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
                "install the same everywhere"
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
        """Calls the actor and waits; a herd that is closed ends the wait."""
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

    # ---- to ask it; failures are `Death`s where it died ----

    def order(
        self,
        orders: Sequence[HandIn | Change],
        then: Callable[[BaseException | None], None],
    ) -> None:
        """Hands orders over; `then` is called when they are there, or with an error."""
        self._call("orders", "orders", [list(orders)], lambda _, error: then(error))

    def poll(self, then: Callable[[Any, BaseException | None], None]) -> None:
        """Asks for what is new; `then` is called with the report, or with an error."""
        self._call("outputs", "outputs", [], then)

    def knock(self, then: Callable[[Any, BaseException | None], None]) -> None:
        """Asks for a sign of life; `then` is called within half a second."""
        self._call("node", "outputs", [], then)

    def embed(
        self,
        args: Sequence[object],
        then: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Has vectors made."""
        self._call("embed", "embed", args, then)

    def rest(self) -> None:
        """No vectors are made any more."""
        self._call("rest", "embed", [], lambda _value, _error: None)

    def _call(
        self,
        method: str,
        group: str,
        args: Sequence[object],
        then: Callable[[Any, BaseException | None], None],
    ) -> None:
        handle = self._handle
        if handle is None:
            then(None, Death("it was ended", is_crash=False))
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
        handle: Any,  # noqa: ANN401 - of Ray
        error: BaseException,
        then: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Ray often says that an actor is unavailable before it knows that it died."""
        end_s = monotonic() + _VERDICT_S
        while monotonic() < end_s and not self._is_closed.wait(_SLICE_S):
            try:
                self._ray.get(handle.build.remote(), timeout=_VERDICT_S)
                break  # it lives, but nobody knows what it did of what was asked
            except Exception as latest:  # noqa: BLE001 - looked at
                if type(latest).__name__ not in (_UNAVAILABLE, "GetTimeoutError"):
                    error = latest
                    break
        then(None, _plain(error))


def _plain(error: BaseException) -> BaseException:
    """An error of Ray's as one of ours: what the actor raised, or its death."""
    from ray import exceptions  # noqa: PLC0415 - there is one: an actor was asked

    if isinstance(error, exceptions.RayTaskError):  # before ours: it may be both
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
