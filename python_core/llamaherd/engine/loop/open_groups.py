"""What a runner knows of its groups: those that have not ended, watched answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from llamaherd.engine.schedule.client import Client, State

if TYPE_CHECKING:
    from collections.abc import Iterable, ValuesView

    from llamaherd.engine.loop.group import Group
    from llamaherd.engine.schedule.engine import Engine

_SLICE_MS = 50  # maximum interval between progress reports
_WATCHED_MS = 25  # maximum interval between new texts of watched answers
_FEW = 4  # short slices if at most this many answers run, all of them watched
_EACH_STEP_MS = 1


class OpenGroups:
    """Groups of a runner that have not ended, by number.

    No turn of the loop looks at all of them: there may be 100,000. The loop's thread adds
    and removes groups; any thread may read, and call `will_end`.
    """

    def __init__(self) -> None:
        self._groups: dict[int, Group] = {}
        self._needed: set[int] = set()  # numbers of groups that are not cancelled
        self._calls: set[int] = set()  # numbers of groups that are not single prompts
        self._counted: dict[int, Group] = {}  # groups whose counts are updated

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, number: int) -> bool:
        return number in self._groups

    def __getitem__(self, number: int) -> Group:
        return self._groups[number]

    def values(self) -> ValuesView[Group]:
        """Return all groups, in the order of their arrival."""
        return self._groups.values()

    @property
    def are_single(self) -> bool:
        """Whether each group is one of many single prompts."""
        return not self._calls

    @property
    def counted(self) -> ValuesView[Group]:
        """Groups whose counts are updated while they run."""
        return self._counted.values()

    @property
    def is_needed(self) -> bool:
        """Whether a group that is not cancelled runs or waits."""
        return bool(self._needed)

    def will_end(self, group: Group) -> None:
        """Record that a group was cancelled, so that `is_needed` ignores it."""
        self._needed.discard(group.number)

    def add(self, group: Group) -> None:
        """Add a group."""
        self._groups[group.number] = group
        self._needed.add(group.number)
        if group.is_cancelled:  # perhaps since before `will_end` could find it here
            self._needed.discard(group.number)
        if not group.is_alone:
            self._calls.add(group.number)
        if group.is_counted:
            self._counted[group.number] = group

    def remove(self, group: Group) -> None:
        """Remove a group."""
        del self._groups[group.number]
        self._needed.discard(group.number)
        self._calls.discard(group.number)
        self._counted.pop(group.number, None)


class WatchedAnswers:
    """Groups with a listener that reads along, by the ids of their running clients."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._groups: dict[int, Group] = {}

    def add(self, id_: int, group: Group) -> None:
        """Add a running client."""
        self._groups[id_] = group

    def discard(self, id_: int) -> None:
        """Remove a client if it is watched."""
        self._groups.pop(id_, None)

    def slice_ms(self, n_running: int) -> int:
        """Return the maximum duration of a slice in milliseconds."""
        if not self._groups:
            return _SLICE_MS
        is_few = n_running == len(self._groups) <= _FEW
        return _EACH_STEP_MS if is_few else _WATCHED_MS

    def send_all(self) -> None:
        """Send the new parts of all watched answers."""
        for id_ in self._groups:
            self.send(id_)

    def send(self, id_: int) -> None:
        """Send the new part of a client's thought and answer, if it is watched."""
        group = self._groups.get(id_)
        if group is None:
            return
        if group.requests[0].thought is not None:
            thought = self._engine.read_thought(id_, group.n_thought_read)
            if thought.n_bytes != group.n_thought_read:
                group.n_thought_read = thought.n_bytes
                group.listener.on_piece(thought)
        piece = self._engine.read(id_, *group.n_read)
        if (piece.n_bytes, piece.n_tokens) != group.n_read:
            n_before, group.n_read = group.n_read[1], (piece.n_bytes, piece.n_tokens)
            if group.requests[0].logprobs is not None:
                logprobs, top = self._engine.read_logprobs(id_, n_before)
                piece = replace(piece, logprobs=logprobs, top_logprobs=top)
            group.listener.on_piece(piece)


class Delayed:
    """Clients that the last optional change of the cache has interrupted.

    Before the next one (shorter sequences, another layout), each of them must end, and
    each prefix be continued by a child. Otherwise requests of different lengths, which
    arrive again and again, could delay a client forever.
    """

    def __init__(self) -> None:
        self._clients: list[tuple[Client, int]] = []

    def note(self, clients: Iterable[Client]) -> None:
        """Record the clients that an optional change interrupts."""
        self._clients = [(client, client.n_unsubmitted) for client in clients]

    @property
    def has_any(self) -> bool:
        """Whether the last optional change still delays a client."""
        self._clients = [entry for entry in self._clients if _is_delayed(*entry)]
        return bool(self._clients)


def _is_delayed(client: Client, n_children: int) -> bool:
    """Return whether a client has not ended, or no child has continued a prefix."""
    if client.state is State.ENDED:
        return False
    return not client.is_prefix or client.n_unsubmitted >= n_children > 0
