"""Ray in this process: actors on fake engines, which die when a test says so."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fake_engine import make_loop
from llamaherd.ray.loop import ClusterLoop
from llamaherd.ray.worker import Actor
from ray.exceptions import ActorUnavailableError, RayError, RayTaskError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from llamaherd.engine.core.request import Request
    from llamaherd.ray.worker import Change, PieceAnswers

    Deadly = Callable[[Sequence[Request]], bool]


class LocalActor:
    """Handle of an actor, as Ray's.

    Args:
        is_deadly: Whether requests kill the process. As Ray does, the handle starts it
            again and repeats the call once.
        before: Function called with the requests before they run.
    """

    def __init__(
        self,
        is_deadly: Deadly = lambda _: False,
        before: Callable[[Sequence[Request]], object] = lambda _: None,
    ) -> None:
        self.sent: list[Sequence[Request]] = []
        self.inner, self.pid = self._made(), 1
        self._is_deadly, self._before = is_deadly, before
        self._threads = ThreadPoolExecutor(8)
        self._lock = Lock()
        self.run = SimpleNamespace(remote=partial(self._threads.submit, self._run))
        self.change = SimpleNamespace(remote=self._change)

    @staticmethod
    def _made() -> Actor:
        actor = Actor.__new__(Actor)
        actor._groups, actor._ended, actor._lock = {}, set(), Lock()
        actor.info = lambda: None  # type: ignore[assignment, return-value]
        actor._loop = make_loop(n_cells=1 << 15)
        return actor

    def _run(self, call: str, requests: Sequence[Request]) -> PieceAnswers:
        self.sent.append(requests)
        self._before(requests)
        for _ in range(2):
            if not self._is_deadly(requests):
                return replace(self.inner.run(call, requests), pid=self.pid)
            self.pid += 1
        raise ActorUnavailableError("it was killed", None)

    def _change(self, call: str, kind: Change) -> None:
        self.inner.change(call, kind)

    def close(self) -> None:
        self.inner._loop.close()
        self._threads.shutdown(wait=False)


class LocalRay:
    """The functions of Ray that the loop uses."""

    is_shut_down = False

    def is_initialized(self) -> bool:
        return not self.is_shut_down

    def wait(
        self, refs: list[Future[Any]], *, timeout: float
    ) -> tuple[list[Future[Any]], list[Future[Any]]]:
        done, left = wait(refs, timeout, FIRST_COMPLETED)
        return list(done), list(left)

    def get(self, ref: Future[Any]) -> Any:
        error = ref.exception()
        if error is None or isinstance(error, RayError):
            return ref.result()
        raise RayTaskError("run", "", error)


@contextmanager
def local_cluster(*actors: LocalActor) -> Iterator[ClusterLoop]:
    infos = [SimpleNamespace(node=f"node{i}", pid=a.pid) for i, a in enumerate(actors)]
    loop = ClusterLoop(LocalRay(), actors, infos, "", lambda: None)
    try:
        yield loop
    finally:
        for actor in actors:
            actor.inner._loop.close()
        loop.close()
        for actor in actors:
            actor.close()
