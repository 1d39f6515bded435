"""Embeddings of texts, computed by actors."""

from __future__ import annotations

from functools import partial
from threading import Condition, Event
from time import monotonic
from typing import TYPE_CHECKING

from llamaherd.core.errors import ClusterError, ContextError, NativeError
from llamaherd.ray.member import ActorState, Death
from llamaherd.ray.tracked_actor import Silence, warn_of

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from llamaherd.ray.member import Member
    from llamaherd.run.embedders import EmbedSpec

_SLICE_S = 0.1  # interval between checks whether to stop
_MOST_DEATHS = 2  # number of deaths of actors after which a text is refused


class HerdEmbedder:
    """Embedder that computes each batch of texts on a free actor.

    Args:
        members: Actors.
        spec: Settings of the embeddings.
        patience_s: Maximum time to wait while no actor exists, in seconds.
        silence_s: Maximum time without a report from an actor, in seconds.
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
        self._refusals: dict[int, BaseException] = {}  # by number of the actor
        self._free = list(members)
        self._members = members
        self._changed = Condition()
        self._is_aborted = False

    @property
    def n_at_once(self) -> int:
        """Maximum number of concurrent runs, which is the number of actors."""
        return len(self._members)

    def abort(self) -> None:
        """End all current runs; later runs fail at once."""
        with self._changed:
            self._is_aborted = True
            self._changed.notify_all()

    def run(self, texts: Sequence[array[int]]) -> array[float]:
        """Compute the embeddings of some texts in one run.

        Raises:
            NativeError: A text was refused, the actor that computed the texts died
                twice, or `abort` was called.
            ClusterError: No actor is available.
            LlamaHerdError: The model has no embeddings, or memory is insufficient.
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
                    message = f"the process that computed the text died twice: {death}"
                    raise NativeError(message, 0) from None
            except (ContextError, MemoryError) as error:
                if member.number not in self._refusals:
                    self._refusals[member.number] = error
                    warn_of(member, "computes no embeddings", error)
            finally:
                with self._changed:
                    self._free.append(member)
                    self._changed.notify_all()

    def _borrowed(self) -> Member:
        """Yield an actor that is ready and free."""
        end_s = monotonic() + self._patience_s
        with self._changed:
            while True:
                if self._is_aborted:
                    raise NativeError("the call was cancelled", 0)
                for member in self._free:
                    if member.state is ActorState.READY and member in self._able():
                        self._free.remove(member)
                        return member
                states = {member.state for member in self._able()}
                if states <= {ActorState.FAILED}:
                    reason = self._members[0].error
                    none = ClusterError(f"no actor can be started: {reason}")
                    raise next(iter(self._refusals.values()), none)
                if ActorState.READY in states:
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
