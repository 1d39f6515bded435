"""Placement of actors, and the resources that they reserve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError, ArgumentTypeError, ClusterError
from llamaherd.ray.cores import n_numa_nodes

# Ray must not restart actors or repeat calls. The herd restarts actors and repeats
# calls, because it knows the state of all requests.
_FIXED = {"max_restarts": 0, "max_task_retries": 0}


def placed(
    ray: Any,  # noqa: ANN401 - types of Ray
    n_actors: int | Literal["nodes", "numa"],
    *,
    num_cpus: float | None,
    resources: Mapping[str, float] | None,
    others: Mapping[str, object] | None,
    slice_s: float,
) -> list[dict[str, Any]]:
    """Return the options of Ray for each actor.

    Args:
        ray: Module of Ray, connected to a cluster.
        n_actors: See `Herd`.
        num_cpus: See `Herd`.
        resources: See `Herd`.
        others: `actor_options` of `Herd`.
        slice_s: Interval of the checks for Ctrl-C, in seconds.

    Raises:
        TypeError: `resources` or `others` is not a mapping.
        ValueError: `others` has an option that the herd sets.
        ClusterError: The cluster has no node with CPUs.
    """
    common = {**_checked(others), **_FIXED}
    if resources is not None:
        if not isinstance(resources, Mapping):
            raise ArgumentTypeError(
                f"must be a dict, not {checks.shown(resources)}", argument="resources"
            )
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
        raise ArgumentTypeError(
            f"must be a dict, not {checks.shown(others)}", argument="actor_options"
        )
    own = {*_FIXED, "num_cpus", "resources", "concurrency_groups", "max_concurrency"}
    for name in others:
        if name in own:
            raise ArgumentError(
                f"must not have {name!r}: the herd sets it", argument="actor_options"
            )
    return dict(others)


def _cpus(node: Mapping[str, Any]) -> float:
    return float(node["Resources"].get("CPU", 0))


def _on(ray: Any, node: Mapping[str, Any]) -> Any:  # noqa: ANN401 - types of Ray
    strategies = ray.util.scheduling_strategies
    return strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)


def _n_numa_nodes(ray: Any, node: Mapping[str, Any], slice_s: float) -> int:  # noqa: ANN401
    count = ray.remote(n_numa_nodes)
    ref = count.options(num_cpus=0, scheduling_strategy=_on(ray, node)).remote()
    while not ray.wait([ref], timeout=slice_s)[0]:
        pass
    return int(ray.get(ref))
