"""Decides which models are loaded and unloaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

State = Literal["unloaded", "loading", "loaded", "unloading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """State of a model.

    Attributes:
        n_bytes: Memory in bytes, in use from the start of loading to the end of
            unloading.
        state: Loading state: "unloaded", "loading", "loaded" or "unloading".
        n_leases: Number of requests that run or wait in the model's context.
        used: Time or number of the model's last request; only the order of these values
            matters.
    """

    n_bytes: int
    state: State
    n_leases: int = 0
    used: float = 0.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model that requests wait for.

    Attributes:
        name: Name of the model.
        is_urgent: Whether the requests have waited so long that models in use have to be
            unloaded.
    """

    name: str
    is_urgent: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """Models to load, to unload and to hold.

    Attributes:
        load: Models to load.
        unload: Models without requests to unload.
        hold: Models in use that have to be unloaded: running requests finish, new
            requests wait.
    """

    load: tuple[str, ...] = ()
    unload: tuple[str, ...] = ()
    hold: frozenset[str] = frozenset()


def decide(
    models: Mapping[str, Resident], wanted: Sequence[Wanted], n_bytes: int
) -> Decision:
    """Decide which models to load and to unload.

    Models without requests are unloaded to free memory, the least recently used first. If
    unloading does not free enough memory for a model, later models that fit into the free
    memory may be loaded before it. An urgent model also gets the memory of models in use,
    and free memory is reserved for it.

    Args:
        models: All models by name.
        wanted: Models that requests wait for, in the order of the first request.
        n_bytes: Memory of all models in bytes.
    """
    free = n_bytes - sum(x.n_bytes for x in models.values() if x.state != "unloaded")
    coming = sum(x.n_bytes for x in models.values() if x.state == "unloading")
    load: list[str] = []
    unload: list[str] = []
    hold: set[str] = set()
    for each in wanted:
        model = models[each.name]
        if model.state != "unloaded" or model.n_bytes > n_bytes:
            continue
        if model.n_bytes <= free:
            load.append(each.name)
            free -= model.n_bytes
            continue
        short = model.n_bytes - free - coming
        left = {
            name: x
            for name, x in models.items()
            if x.state == "loaded" and name not in hold and name not in unload
        }
        victims = _victims(left, short, with_used=each.is_urgent)
        if victims is None:
            continue
        idle = [name for name in victims if models[name].n_leases == 0]
        unload += idle
        hold.update(name for name in victims if name not in idle)
        # Reserve free memory, and memory that becomes free, for this model.
        coming += sum(models[name].n_bytes for name in idle)
        rest = model.n_bytes - min(free, model.n_bytes)
        free -= min(free, model.n_bytes)
        coming -= min(coming, rest)
    return Decision(tuple(load), tuple(unload), frozenset(hold))


def _victims(
    models: Mapping[str, Resident], short: int, *, with_used: bool
) -> list[str] | None:
    """Return models whose unloading frees `short` bytes; None if this is impossible.

    Models without requests come first, and among them the least recently used. Models
    with requests are chosen only with `with_used`.
    """
    if short <= 0:
        return []
    order = sorted(
        models, key=lambda name: (models[name].n_leases > 0, models[name].used)
    )
    chosen: list[str] = []
    total = 0
    for name in order:
        if total >= short or (models[name].n_leases and not with_used):
            break
        chosen.append(name)
        total += models[name].n_bytes
    if total < short:
        return None
    for name in tuple(chosen):  # drop it if the others free enough
        if total - models[name].n_bytes >= short:
            chosen.remove(name)
            total -= models[name].n_bytes
    return chosen
