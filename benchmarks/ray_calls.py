"""Compares the time of a call on a cluster with an execution of Ray Data.

python benchmarks/ray_calls.py MODEL   # prints seconds; figures of decision 0043
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import llamaherd as lh
import ray

PROMPTS = [f"No. {i} is" for i in range(8)]


def timed(name: str, what: object) -> None:
    """Print the seconds of a call without arguments."""
    started_s = time.perf_counter()
    what()  # type: ignore[operator]
    print(f"{name}: {time.perf_counter() - started_s:.2f} s", flush=True)


def main() -> None:
    """Measure three executions of each kind, on two actors of one CPU."""
    config = lh.ray.Config(
        Path(sys.argv[1]).resolve(), concurrency=2, num_cpus=1, batch_size=1
    )
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    processor = lh.ray.map(config, max_tokens=1)
    rows = [{"prompt": prompt} for prompt in PROMPTS]
    for _ in range(3):
        data = processor(ray.data.from_items(rows, override_num_blocks=8))
        timed("an execution of Ray Data", data.take_all)
    clusters: list[lh.ray.Cluster] = []
    timed("start of a cluster", lambda: clusters.append(lh.ray.Cluster(config)))
    for _ in range(3):
        timed(
            "a call on the cluster",
            lambda: lh.generate_parallel(clusters[0], PROMPTS, max_tokens=1),
        )
    clusters[0].close()


if __name__ == "__main__":
    main()
