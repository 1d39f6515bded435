"""Carries out the scheduler's decisions on an engine until every prompt has an output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.core.errors import NativeError, NoSpaceError
from llamaherd.core.outcome import Finish, Output, Status
from llamaherd.schedule.client import State
from llamaherd.schedule.fallback import is_guilty, isolate
from llamaherd.schedule.scheduler import Kind, Limits, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from llamaherd.schedule.client import Client, Kept
    from llamaherd.schedule.engine import Engine
    from llamaherd.schedule.scheduler import Action

SLICE_MS = 50  # longest time that a cancelled call goes on


class Runner:
    """Runs clients on an engine.

    Args:
        engine: Has no requests but those in `kept`, also when `run` returns or raises.
        clients: As for `Scheduler`.
        limits: As for `Scheduler`.
        is_cancelled: Asked between runs of steps; True ends the work.
        on_finish: Called with each prompt's id and output.
        watch: Called after each step with every prompt's id and output so far.
        kept: As for `Scheduler`.

    Attributes:
        scheduler: What decides; its `stop_admitting` may be called from `on_finish`.
        n_prefill: Prompt tokens decoded so far.
        n_generated: Tokens generated so far.
        n_fallbacks: Batches that were refused for what was in them.
    """

    def __init__(
        self,
        engine: Engine,
        clients: Iterable[Client],
        limits: Limits,
        *,
        is_cancelled: Callable[[], bool],
        on_finish: Callable[[int, Output], None],
        watch: Callable[[int, Output], None] | None = None,
        kept: Kept | None = None,
    ) -> None:
        self._engine = engine
        self._kept: Kept = {} if kept is None else kept
        self._clients = clients = list(clients)
        self.scheduler = Scheduler(clients, limits, self._kept)
        self._is_cancelled = is_cancelled
        self._on_finish = on_finish
        self._watch = watch
        # A single prompt gets the text that a plain loop would give it, row by row.
        self._may_draft = sum(not client.is_prefix for client in clients) > 1
        # What the engine knows.
        self._live = {c.id: c for c in clients if c.state is State.HELD}
        self._live |= {c.id: c for c in self._kept.values()}
        self._before = engine.counts()
        self.n_prefill = 0
        self.n_generated = 0
        self.n_fallbacks = 0

    def run(self) -> None:
        """Runs until all are done, or cancelled.

        What the engine itself fails with, such as want of memory, fails the prompts that
        have not ended; those that have keep their outputs.
        """
        try:
            self._run()
        except NativeError as error:
            self._start_afresh()
            self._fail_rest(f"the engine failed: {error}")
        except BaseException:
            self._start_afresh()
            raise

    def _run(self) -> None:
        while not self.scheduler.is_done and not self._is_cancelled():
            actions = self.scheduler.admit(self._engine.n_cells_taken())
            for action in actions:
                self._apply(action)
            is_alive = self._step()
            if not is_alive and not actions:
                raise RuntimeError("clients are left that neither run nor may start")
        self._cancel_rest()
        if self._engine.counts().n_lost > self._before.n_lost:
            self._start_afresh()  # nothing is left of the prefixes
            return
        kept_ids = {prefix.id for prefix in self._kept.values()}
        for id_ in self._live.keys() - kept_ids:
            self._engine.release(id_)

    def _start_afresh(self) -> None:
        self._kept.clear()
        self._engine.reset()

    def _step(self) -> bool:
        """Runs steps until something happens. Returns whether anything did."""
        outcome = self._engine.run(
            max_time_ms=SLICE_MS,
            max_steps=0 if self._watch is None else 1,
            draft=self._may_draft,
        )
        if self._watch is not None:
            for id_ in self._live.keys() - outcome.events:
                self._watch(id_, self._engine.get(id_))
        counts = self._engine.counts()
        self.n_prefill = counts.n_prefill - self._before.n_prefill
        self.n_generated = counts.n_generated - self._before.n_generated
        self._settle(outcome.events)
        if outcome.status is Status.ABORTED and not self._is_cancelled():
            self._engine.abort(on=False)  # meant for the call before this one
        elif is_guilty(outcome):
            self.n_fallbacks += 1
            self._settle(isolate(self._engine, self.scheduler.running_ids))
        elif outcome.status is Status.REFUSED:
            self._apply(self.scheduler.make_room(), outcome.message)
        return bool(outcome.n_steps or outcome.events or outcome.status is not Status.OK)

    def _apply(self, action: Action, reason: str = "") -> None:
        client = action.client
        if action.kind is Kind.SUBMIT:
            self._submit(client, action.fork_from)
        elif action.kind is Kind.RESUME:
            self._resume(client)
        elif action.kind is Kind.PAUSE:
            self.scheduler.paused(client, self._engine.pause(client.id))
        elif action.kind is Kind.RELEASE:
            self._release(client)
        else:
            message = f"the KV cache is too small for it, even alone: {reason}"
            self._engine.end(client.id, Finish.ERROR, message)
            self._settle([client.id])

    def _submit(self, client: Client, fork_from: int | None) -> None:
        try:
            self._engine.submit(client.id, client.request, fork_from)
        except (ValueError, NativeError) as error:  # such as a bad grammar
            self._finish(client, Output(finish=Finish.ERROR, message=str(error)))
        else:
            self._live[client.id] = client

    def _resume(self, client: Client) -> None:
        try:
            self._engine.resume(client.id)
        except NoSpaceError as error:
            self.scheduler.paused(client, client.n_saved)
            if not self.scheduler.running_ids:
                self._apply(self.scheduler.make_room(), str(error))

    def _settle(self, events: Iterable[int]) -> None:
        for id_ in events:
            client = self._live[id_]
            output = self._engine.get(id_)
            if output.finish is Finish.NONE:
                self.scheduler.held(client)
            else:
                self._release(client)
                self._finish(client, output)

    def _finish(self, client: Client, output: Output) -> None:
        self.scheduler.ended(client)
        if client.is_prefix:
            return
        if self._watch is not None:
            self._watch(client.id, output)
        self._on_finish(client.id, output)

    def _release(self, client: Client) -> None:
        del self._live[client.id]
        self._engine.release(client.id)

    def _cancel_rest(self) -> None:
        """What has started keeps the tokens that it has."""
        for id_, client in self._live.items():
            if not client.is_prefix:
                self._engine.end(id_, Finish.CANCELLED, "")
                client.state = State.ENDED
                self._on_finish(id_, self._engine.get(id_))

    def _fail_rest(self, reason: str) -> None:
        for client in self._clients:
            if not client.is_prefix and client.state is not State.ENDED:
                client.state = State.ENDED
                self._on_finish(client.id, Output(finish=Finish.ERROR, message=reason))
