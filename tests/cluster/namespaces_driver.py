"""Runs a call on a cluster of two nodes: namespaces_driver.py MODEL N SEED JOURNAL.

Runs in the namespace of the head. Prints one JSON object per line: the progress, and at
the end the results.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import llamaherd as lh
import ray

if TYPE_CHECKING:
    from llamaherd.engine.core.stats import Progress

ADDRESS = "10.77.0.1:6379"
WORDS = ["sea", "bread", "winter", "music", "moon", "river", "stone", "paper", "light"]


def prompts(n: int) -> list[str]:
    """Return prompts of several lengths that share beginnings."""
    k = len(WORDS)
    return [
        f"A story of the {WORDS[i % k]} and the {WORDS[i // k % k]}, no. {i}: "
        + "once upon a time, " * (i % 4)
        for i in range(n)
    ]


def settings(seed: int) -> dict[str, object]:
    """Return settings that draw answers, so that a wrong seed changes the answers."""
    return {"max_tokens": 32, "ignore_eos": True, "temperature": 0.8, "seed": seed}


def say(**what: object) -> None:
    """Print one line."""
    print(json.dumps(what), flush=True)  # noqa: T201 - that is what it is for


def main() -> None:
    """Run the call."""
    path, n, seed, journal = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

    def report(progress: Progress) -> None:
        say(n_done=progress.n_done, n_failed=progress.n_failed)

    ray.init(
        address=ADDRESS,
        _node_ip_address=ADDRESS.partition(":")[0],  # the namespace has no network access
        log_to_driver=False,
        logging_level="ERROR",
    )
    exact = {"deterministic": True}
    config = lh.ray.Config(path, concurrency=2, num_cpus=1, context=exact)
    with lh.ray.Cluster(config) as cluster:
        started_s = time.perf_counter()
        results = lh.generate_parallel(
            cluster, prompts(n), progress=report, journal=journal, **settings(seed)
        )
    say(
        wall_s=time.perf_counter() - started_s,
        texts=results.texts,
        errors=results.errors,
        n_generated=results.stats.n_generated_tokens,
        stats=str(results.stats),
    )


if __name__ == "__main__":
    main()
