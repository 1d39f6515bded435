"""Fallback for a refused batch: find the clients that caused the refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.engine.core.outcome import NO_KV_SLOT, Finish, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.outcome import RunOutcome
    from llamaherd.engine.schedule.engine import Engine


def isolate(engine: Engine, ids: Sequence[int]) -> list[int]:
    """End the clients whose batches libllama refuses.

    The group is halved until each refused part has one client: k guilty clients among n
    cost O(k log n) batches. Every other client runs one step. A client is ended only
    when a batch with this client alone is refused again. A transient failure of the
    device therefore ends no client.

    Args:
        engine: Engine that runs the clients.
        ids: Ids of the clients of the refused batch, one or more.

    Returns:
        Ids of the clients that ended or are now held, including clients that caused no
        refusal.
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
    """Return whether the content of a batch, not a lack of KV cells, was refused."""
    return outcome.status is Status.REFUSED and outcome.decode_code != NO_KV_SLOT
