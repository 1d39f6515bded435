"""Messages of an actor whose loop loses its thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fake_calls import request
from llamaherd.core.outcome import Finish, Output
from llamaherd.core.stats import RequestStats
from llamaherd.loop.group import Group
from llamaherd.ray.actor import Outbox, _Teller

if TYPE_CHECKING:
    from llamaherd.core.outcome import Piece
    from llamaherd.ray.wire import Report

TEXT = Output(finish=Finish.STOP)


class _Loop:
    """Loop without a thread."""

    plan = None
    n_batches = 0

    def __init__(self) -> None:
        self.lost: list[Group] = []

    def why_lost(self, group: Group) -> MemoryError | None:
        return MemoryError("no memory") if group in self.lost else None


def _added(outbox: Outbox, chunk: int) -> Group:
    group = Group([request([1, 2])] * 3, _Teller(chunk, outbox))
    outbox.add(chunk, group)
    return group


def _seen(report: Report) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Return the outputs, the chunks that ended, and the chunks that have counts."""
    outputs = [(chunk, i) for chunk, i, *_ in report.outputs]
    return outputs, [each.chunk for each in report.ended], list(report.counts)


def test_a_group_that_was_lost_is_reported_once() -> None:
    """A later thread runs a group that was still in the queue."""
    outbox, loop = Outbox(), _Loop()
    outbox.loop = cast("Any", loop)
    lost, other = _added(outbox, 0), _added(outbox, 1)
    lost.deliver(0, TEXT, RequestStats())
    assert _seen(outbox.collect()) == ([(0, 0)], [], [0, 1])
    loop.lost.append(lost)
    report = outbox.collect()
    assert _seen(report) == ([], [0], [0, 1])
    assert isinstance(report.ended[0].error, MemoryError)
    assert lost.is_cancelled  # so that the later thread does not run it
    assert not other.is_cancelled
    lost.deliver(1, TEXT, RequestStats())
    lost.listener.on_piece(cast("Piece", object()))
    lost.end(None)
    other.deliver(0, TEXT, RequestStats())
    report = outbox.collect()
    assert _seen(report) == ([(1, 0)], [], [1])
    assert not report.pieces
    other.end(MemoryError("no memory"))
    assert _seen(outbox.collect()) == ([], [1], [1])
