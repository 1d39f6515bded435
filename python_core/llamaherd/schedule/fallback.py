"""Fallback for a refused batch: find the clients that cause the refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.core.outcome import NO_KV_SLOT, Finish, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.outcome import RunOutcome
    from llamaherd.schedule.engine import Engine


def isolate(engine: Engine, ids: Sequence[int]) -> list[int]:
    """End the clients whose batches libllama refuses.

    The group is halved until each refused part has one client: k guilty clients among n
    cost O(k log n) batches. Every other client takes one step. A client ends only when
    its batch is refused a second time, with no other client in it. A transient failure
    of the device therefore ends no client.

    Args:
        engine: Engine that runs the clients.
        ids: Ids of the clients of the refused batch, one or more.

    Returns:
        Ids of the clients that ended or became held, including clients that are not
        guilty.
    """
    events: list[int] = []
    middle = len(ids) // 2
    for part in filter(None, (ids[:middle], ids[middle:])):
        outcome = engine.run(part, max_steps=1)
        if not is_guilty(outcome):
            events += outcome.events
        elif len(part) == 1:
            engine.end(part[0], Finish.ERROR, outcome.message)
            events += part
        else:
            events += isolate(engine, part)
    return events


def is_guilty(outcome: RunOutcome) -> bool:
    """Whether a batch was refused because of its content, not for lack of KV cells."""
    return outcome.status is Status.REFUSED and outcome.decode_code != NO_KV_SLOT
