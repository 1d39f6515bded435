"""Time that each slot spends on prompts and answers, measured only on demand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from llamaherd.engine.schedule.client import Client

_EVERY_S = 0.02  # interval of reading the times of running requests


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTime:
    """Seconds that a slot was in use since the measurement began, by kind of use."""

    prefill_s: float = 0.0
    decode_s: float = 0.0
    waiting_s: float = 0.0

    def add(self, seconds: float, prefill_s: float, decode_s: float) -> SlotTime:
        """Add time, divided like that of batches; without any, it is waiting time."""
        computed_s = prefill_s + decode_s
        if computed_s <= 0:
            return replace(self, waiting_s=self.waiting_s + seconds)
        of_prompt_s = seconds * prefill_s / computed_s
        return replace(
            self,
            prefill_s=self.prefill_s + of_prompt_s,
            decode_s=self.decode_s + seconds - of_prompt_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTimes:
    """Times of the slots of prompts, and of those that computed prefixes.

    `began_s` identifies the measurement; `at_s` is the last change.
    """

    began_s: float
    at_s: float
    prompts: tuple[SlotTime, ...] = ()
    prefixes: tuple[SlotTime, ...] = ()


NO_TIMES = SlotTimes(began_s=0.0, at_s=0.0)


@dataclass(slots=True)
class _Running:
    """A request in a slot: time of the last reading, and times in batches until then."""

    is_prefix: bool
    slot: int
    at_s: float
    prefill_s: float
    decode_s: float


class SlotWatch:
    """Measures the slots of an engine, for display; only the loop's thread may use it.

    Requests get the free slot with the lowest number, and leave it when they are paused.
    """

    def __init__(
        self, read: Callable[[int], tuple[float, float]], clock: Callable[[], float]
    ) -> None:
        self._read = read
        self._clock = clock
        self._began_s = self._at_s = clock()
        self._times: dict[bool, list[SlotTime]] = {False: [], True: []}  # by is_prefix
        self._running: dict[int, _Running] = {}
        self._looked_s = float("-inf")

    @property
    def times(self) -> SlotTimes:
        """Times of the slots used so far."""
        prompts, prefixes = self._times[False], self._times[True]
        return SlotTimes(
            began_s=self._began_s,
            at_s=self._at_s,
            prompts=tuple(prompts),
            prefixes=tuple(prefixes),
        )

    def enter(self, client: Client) -> None:
        """Record that a request got a slot."""
        times = self._times[client.is_prefix]
        every = self._running.values()
        taken = {other.slot for other in every if other.is_prefix == client.is_prefix}
        slot = next(i for i in range(len(taken) + 1) if i not in taken)
        if slot == len(times):
            times.append(SlotTime())
        running = _Running(client.is_prefix, slot, self._clock(), *self._read(client.id))
        self._running[client.id] = running

    def leave(self, id_: int) -> None:
        """Record that a request leaves its slot, before the engine removes it."""
        if id_ in self._running:
            self._update(id_)
            del self._running[id_]

    def look(self, clients: Iterable[Client]) -> None:
        """Update the times of running requests, unless this happened just now."""
        if self._clock() - self._looked_s < _EVERY_S:
            return
        self._looked_s = self._clock()
        for client in clients:
            if client.id in self._running:
                self._update(client.id)
            else:
                self.enter(client)  # it ran before the measurement began

    def _update(self, id_: int) -> None:
        running, now_s = self._running[id_], self._clock()
        prefill_s, decode_s = self._read(id_)
        times = self._times[running.is_prefix]
        times[running.slot] = times[running.slot].add(
            now_s - running.at_s,
            prefill_s - running.prefill_s,
            decode_s - running.decode_s,
        )
        self._at_s = now_s
        running.at_s, running.prefill_s, running.decode_s = now_s, prefill_s, decode_s
