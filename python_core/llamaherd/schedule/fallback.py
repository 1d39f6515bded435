"""When a batch is refused: find the guilty clients, spare the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.core.outcome import NO_KV_SLOT, Finish, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.outcome import RunOutcome
    from llamaherd.schedule.engine import Engine


def isolate(engine: Engine, ids: Sequence[int]) -> list[int]:
    """Ends the clients that no batch can be decoded with.

    The group is halved until the refused ones are single, so that k guilty clients among
    n cost O(k log n) batches. Every other client takes one step. A client ends when its
    batch was refused twice, the second time with nobody else in it: what passes, such as
    a device that fails once, costs nobody anything.

    Args:
        engine: Where they run.
        ids: The clients whose batch was refused, one or more.

    Returns:
        Ids of the clients that ended or were held, innocent ones included.
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
    """Whether a batch was refused for what is in it, not for want of KV cells."""
    return outcome.status is Status.REFUSED and outcome.decode_code != NO_KV_SLOT
