"""Where actors are to be, and what of a cluster they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from llamaherd.core import checks
from llamaherd.core.errors import ClusterError
from llamaherd.ray.cores import n_numa_nodes

# Nothing is done for an actor behind the herd's back, which knows what it had.
_FIXED = {"max_restarts": 0, "max_task_retries": 0}


def placed(
    ray: Any,  # noqa: ANN401 - Ray's types are its own
    n_actors: int | Literal["nodes", "numa"],
    *,
    num_cpus: float | None,
    resources: Mapping[str, float] | None,
    others: Mapping[str, object] | None,
    slice_s: float,
) -> list[dict[str, Any]]:
    """Options of Ray for each actor.

    Args:
        ray: The module, connected.
        n_actors: See `Herd`, like the next three.
        num_cpus: As there.
        resources: As there.
        others: As there.
        slice_s: Longest wait after which Ctrl-C is seen.

    Raises:
        TypeError: `resources` or `others` is no mapping.
        ValueError: `others` has what Ray is not to do.
        ClusterError: The cluster has no node with CPUs.
    """
    common = {**_checked(others), **_FIXED}
    if resources is not None:
        if not isinstance(resources, Mapping):
            raise TypeError(f"resources must be a dict, not {checks.shown(resources)}")
        common["resources"] = dict(resources)
    nodes = [node for node in ray.nodes() if node["Alive"] and _cpus(node) > 0]
    if not nodes:
        raise ClusterError("the cluster has no node with CPUs")
    if isinstance(n_actors, int):
        share = max(1, int(sum(map(_cpus, nodes)) // n_actors))
        one = {
            "scheduling_strategy": "SPREAD",
            **common,
            "num_cpus": share if num_cpus is None else num_cpus,
        }
        return [one] * n_actors
    each = []
    for node in nodes:
        n = _n_numa_nodes(ray, node, slice_s) if n_actors == "numa" else 1
        own = {
            **common,
            "scheduling_strategy": _on(ray, node),
            "num_cpus": max(1, int(_cpus(node) // n)) if num_cpus is None else num_cpus,
        }
        each += [own] * n
    return each


def _checked(others: Mapping[str, object] | None) -> dict[str, Any]:
    if others is None:
        return {}
    if not isinstance(others, Mapping):
        raise TypeError(f"actor_options must be a dict, not {checks.shown(others)}")
    own = {*_FIXED, "num_cpus", "resources", "concurrency_groups", "max_concurrency"}
    for name in others:
        if name in own:
            raise ValueError(f"actor_options must not have {name!r}: the herd sets it")
    return dict(others)


def _cpus(node: Mapping[str, Any]) -> float:
    return float(node["Resources"].get("CPU", 0))


def _on(ray: Any, node: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of Ray
    strategies = ray.util.scheduling_strategies
    return strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)


def _n_numa_nodes(ray: Any, node: Mapping[str, Any], slice_s: float) -> int:  # noqa: ANN401
    count = ray.remote(n_numa_nodes)
    ref = count.options(num_cpus=0, scheduling_strategy=_on(ray, node)).remote()
    while not ray.wait([ref], timeout=slice_s)[0]:
        pass
    return int(ray.get(ref))
