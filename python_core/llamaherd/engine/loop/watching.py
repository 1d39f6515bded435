"""Answers whose listeners get each new part while they are generated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llamaherd.engine.loop.group import Group
    from llamaherd.engine.schedule.engine import Engine

_SLICE_MS = 50  # maximum interval between progress reports
_WATCHED_MS = 25  # maximum interval between new texts of watched answers
_FEW = 4  # short slices if at most this many answers run, all of them watched
_EACH_STEP_MS = 1


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
