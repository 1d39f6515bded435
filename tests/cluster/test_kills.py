"""Twenty times a worker is killed at a random moment: nothing lost, nothing double.

The figures go to build/cluster/kills.json.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import llamaherd as lh
import ray

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "build/cluster/kills.json"
N_KILLS, N_PROMPTS, SEED = 20, 8000, 11
SETTINGS = {"max_tokens": 64, "ignore_eos": True, "temperature": 0.8, "seed": SEED}


def prompts() -> list[str]:
    return [
        f"A story, no. {i}, of {'the sea, ' * (i % 5)}and of {i % 17}:"
        for i in range(N_PROMPTS)
    ]


def kill_now_and_then(herd: lh.ray.Herd, is_over: threading.Event) -> list[float]:
    """Kills a worker that is ready, whichever, until there were enough."""
    random = Random(SEED)
    started_s, when = time.monotonic(), []
    while len(when) < N_KILLS and not is_over.wait(random.uniform(0.2, 3.0)):
        pid = random.choice(herd.actors).pid
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            when.append(time.monotonic() - started_s)
    return when


def test_kills_lose_nothing(tiny_path: Callable[[str], Path], tmp_path: Path) -> None:
    journal = tmp_path / "kills.journal"
    with (
        tempfile.TemporaryDirectory(prefix="lh", dir="/tmp") as folder,
        lh.Model(tiny_path("llama")) as model,
    ):
        with lh.Context(model, deterministic=True, n_threads=2) as context:
            expected = lh.generate_parallel(context, prompts(), **SETTINGS)
        ray.init(
            num_cpus=2, include_dashboard=False, _temp_dir=folder, log_to_driver=False
        )
        try:
            with lh.ray.Herd(model, n_actors=2, num_cpus=1, deterministic=True) as herd:
                is_over = threading.Event()
                found: list[list[float]] = []
                killer = threading.Thread(
                    target=lambda: found.append(kill_now_and_then(herd, is_over))
                )
                killer.start()
                try:
                    results = lh.generate_parallel(
                        herd, prompts(), journal=journal, **SETTINGS
                    )
                finally:
                    is_over.set()
                    killer.join()
        finally:
            ray.shutdown()
    n_kills = len(found[0])
    n_deaths = sum(row.n_deaths for row in results.stats.actors)
    assert results.texts == expected.texts
    assert results.stats.n_failed == 0
    assert n_kills == N_KILLS
    assert 0 < n_deaths <= n_kills
    assert sum(row.n_done for row in results.stats.actors) == N_PROMPTS
    assert len(lh.journal_read(journal)) == N_PROMPTS
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    figures = {
        "n_prompts": N_PROMPTS,
        "n_kills": n_kills,
        "n_deaths_with_work": n_deaths,
        "n_lost": sum(text is None for text in results.texts),
        "wall_s": results.stats.wall_s,
        "wall_alone_s": expected.stats.wall_s,
    }
    FIGURES.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
