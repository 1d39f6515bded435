"""When a unified batch is refused: find the guilty clients, spare the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.engine import NO_KV_SLOT, Finish, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine import Engine, RunOutcome


def isolate(engine: Engine, ids: Sequence[int], refusal: RunOutcome) -> list[int]:
    """Ends the clients that no batch can be decoded with.

    The group is halved until the refused ones are single, so that k guilty clients among
    n cost O(k log n) batches. Every other client takes one step.

    Args:
        engine: Where they run.
        ids: The clients that were decoded together.
        refusal: How that ended.

    Returns:
        Ids of the clients that ended or were held, innocent ones included.
    """
    if len(ids) == 1:
        engine.end(ids[0], Finish.ERROR, refusal.message)
        return [ids[0]]
    events: list[int] = []
    middle = len(ids) // 2
    for half in (ids[:middle], ids[middle:]):
        outcome = engine.run(half, max_steps=1)
        if is_guilty(outcome):
            events += isolate(engine, half, outcome)
        else:
            events += outcome.events
    return events


def is_guilty(outcome: RunOutcome) -> bool:
    """Whether a batch was refused for what is in it, not for want of KV cells."""
    return outcome.status is Status.REFUSED and outcome.decode_code != NO_KV_SLOT
