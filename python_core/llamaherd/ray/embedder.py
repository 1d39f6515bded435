"""Vectors of texts, made by actors."""

from __future__ import annotations

from functools import partial
from threading import Condition, Event
from time import monotonic
from typing import TYPE_CHECKING

from llamaherd.core.errors import ClusterError, ContextError, NativeError
from llamaherd.ray.member import Death, State
from llamaherd.ray.place import Silence, warn_of

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from llamaherd.ray.member import Member
    from llamaherd.run.embedders import EmbedSpec

_SLICE_S = 0.1  # longest wait after which an end is seen
_MOST_DEATHS = 2  # of actors, by the same texts


class HerdEmbedder:
    """Has each run computed by an actor that is free.

    Args:
        members: The actors.
        spec: How vectors are to be made.
        patience_s: How long to wait for an actor when there is none.
        silence_s: How long an actor may say nothing.
    """

    def __init__(
        self,
        members: Sequence[Member],
        spec: EmbedSpec,
        *,
        patience_s: float,
        silence_s: float,
    ) -> None:
        self._spec = spec
        self._patience_s = patience_s
        self._silence_s = silence_s
        self._refusals: dict[int, BaseException] = {}  # by the actor's number
        self._free = list(members)
        self._members = members
        self._changed = Condition()
        self._is_aborted = False

    @property
    def n_at_once(self) -> int:
        """As many threads as there are actors."""
        return len(self._members)

    def abort(self) -> None:
        """Ends all runs, and those that follow."""
        with self._changed:
            self._is_aborted = True
            self._changed.notify_all()

    def run(self, texts: Sequence[array[int]]) -> array[float]:
        """Makes the vectors of some texts, together.

        Raises:
            NativeError: A text was refused, or killed its actor twice; or `abort` was
                called.
            ClusterError: There is no actor.
            LlamaHerdError: The model has no vectors, or there is not enough memory.
        """
        n_deaths = 0
        while True:
            member = self._borrowed()
            generation = member.generation
            try:
                return self._asked(member, texts)
            except Death as death:
                member.restart(generation)
                n_deaths += death.is_crash
                if n_deaths == _MOST_DEATHS:
                    message = f"the process that computed it died, twice: {death}"
                    raise NativeError(message, 0) from None
            except (ContextError, MemoryError) as error:
                if member.number not in self._refusals:
                    self._refusals[member.number] = error
                    warn_of(member, "makes no vectors", error)
            finally:
                with self._changed:
                    self._free.append(member)
                    self._changed.notify_all()

    def _borrowed(self) -> Member:
        """An actor that is ready and free."""
        end_s = monotonic() + self._patience_s
        with self._changed:
            while True:
                if self._is_aborted:
                    raise NativeError("the call was cancelled", 0)
                for member in self._free:
                    if member.state is State.READY and member in self._able():
                        self._free.remove(member)
                        return member
                states = {member.state for member in self._able()}
                if states <= {State.FAILED}:
                    reason = self._members[0].error
                    none = ClusterError(f"no actor can be started: {reason}")
                    raise next(iter(self._refusals.values()), none)
                if State.READY in states:
                    end_s = monotonic() + self._patience_s
                elif monotonic() > end_s:
                    raise ClusterError(
                        f"there has been no actor for {self._patience_s:.0f} s"
                    )
                self._changed.wait(_SLICE_S)

    def _able(self) -> list[Member]:
        return [m for m in self._members if m.number not in self._refusals]

    def _asked(self, member: Member, texts: Sequence[array[int]]) -> array[float]:
        is_there = Event()
        found: list[tuple[array[float], BaseException | None]] = []

        def then(vectors: array[float], error: BaseException | None) -> None:
            found.append((vectors, error))
            is_there.set()

        member.embed([self._spec, list(texts)], then)
        has_answered, silence = Event(), Silence(self._silence_s)
        has_answered.set()
        while not is_there.wait(_SLICE_S):
            if self._is_aborted:
                raise NativeError("the call was cancelled", 0)
            if has_answered.is_set():
                has_answered = Event()
                silence.begin()
                member.knock(partial(_set, has_answered))
            silence.check()
        vectors, error = found[0]
        if error is not None:
            raise error
        return vectors


def _set(event: Event, _value: object, _error: BaseException | None) -> None:
    event.set()
