"""An actor in this process, on a fake engine, which dies when a test requests it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING

from fake_engine import make_loop
from llamaherd.ray.actor import Actor
from llamaherd.ray.member import ActorState, Death
from llamaherd.ray.wire import Change, HandIn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.ray.loop import HerdLoop
    from llamaherd.ray.wire import Report


class LocalLink:
    """Link to an actor, with the interface of `Member`.

    Args:
        number: Number of the actor, from 0.
        is_deadly: Whether a request kills the actor.
        n_lives: Number of actors that can be started.
    """

    def __init__(
        self,
        number: int,
        is_deadly: Callable[[HandIn], bool] = lambda _: False,
        n_lives: int = 1000,
        *,
        is_crash: bool = True,
    ) -> None:
        self.number = number
        self.node = (f"node{number}", 1)
        self.state = ActorState.READY
        self.generation = 1
        self.error: BaseException | None = None
        self.changed_s = monotonic()
        self.loop: HerdLoop | None = None
        self.orders: list[HandIn | Change] = []
        self.is_dead = False
        self._is_deadly = is_deadly
        self._is_crash = is_crash
        self._n_lives = n_lives
        self._pool = ThreadPoolExecutor(1)
        self._actor = self._made()

    @property
    def handed_in(self) -> list[HandIn]:
        """Orders with requests; an actor may also be told that a group has ended."""
        return [order for order in self.orders if isinstance(order, HandIn)]

    def _made(self) -> Actor:
        actor = Actor()
        actor._loop = actor._outbox.loop = make_loop(n_cells=1 << 15)
        return actor

    def order(
        self,
        generation: int,
        orders: Sequence[HandIn | Change],
        then: Callable[[BaseException | None], None],
    ) -> None:
        if generation != self.generation:
            then(Death("it was replaced", is_crash=False))
            return
        self.orders += orders
        if self.is_dead:
            then(self._death())
            return
        self._actor.orders(orders)
        for order in orders:
            if isinstance(order, HandIn) and self._is_deadly(order):
                self.is_dead = True
        then(None)

    def poll(
        self, generation: int, then: Callable[[Report, BaseException | None], None]
    ) -> None:
        actor = self._actor
        if generation != self.generation:
            then(None, Death("it was replaced", is_crash=False))  # type: ignore[arg-type]
            return

        def ask() -> None:
            report = actor.outputs()
            if self.is_dead:
                then(None, self._death())  # type: ignore[arg-type]
            else:
                then(report, None)

        self._pool.submit(ask)

    def restart(self, generation: int) -> None:
        if generation != self.generation or self.state is not ActorState.READY:
            return
        self.state = ActorState.STARTING
        self._replace()

    def _replace(self) -> None:
        """Replace the actor; as in `Member`, the state is set last."""
        self._actor._loop.close()
        self._n_lives -= 1
        self.changed_s = monotonic()
        if self._n_lives <= 0:
            self.error = ValueError("no room")
            self.state = ActorState.FAILED
        else:
            self.is_dead = False
            self._actor = self._made()
            self.generation += 1
            self.state = ActorState.READY
        self.loop.changed(self)

    def close(self) -> None:
        self._actor._loop.close()
        self._pool.shutdown(wait=False)

    def _death(self) -> Death:
        return Death("Ray says:\nit was killed", is_crash=self._is_crash)
