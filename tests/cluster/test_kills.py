"""Kills a worker at twenty random moments: no answer is lost or delivered twice.

Figures are written to build/cluster/kills.json.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import llamaherd as lh
import psutil
import ray

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "build/cluster/kills.json"
N_KILLS, N_PROMPTS, SEED = 20, 12_000, 11
SETTINGS = {"max_tokens": 64, "ignore_eos": True, "temperature": 0.8, "seed": SEED}


def prompts() -> list[str]:
    return [
        f"A story, no. {i}, of {'the sea, ' * (i % 5)}and of {i % 17}:"
        for i in range(N_PROMPTS)
    ]


class Killer:
    """Receives the progress of a call, and kills a worker at random points."""

    def __init__(self) -> None:
        self.n_kills = 0
        self._random = Random(SEED)
        # No kill at the very end, because the call could end before it.
        self._points = sorted(self._random.sample(range(N_PROMPTS * 9 // 10), N_KILLS))

    def __call__(self, progress: lh.types.Progress) -> None:
        if self.n_kills == N_KILLS or progress.n_done < self._points[self.n_kills]:
            return
        actors = [
            process
            for process in psutil.Process().children(recursive=True)
            if process.name().startswith("ray::Actor")
        ]
        if actors:  # an actor that starts again has another name
            with suppress(psutil.NoSuchProcess):
                self._random.choice(actors).kill()
                self.n_kills += 1


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
            exact = {"deterministic": True}
            config = lh.ray.Config(model, concurrency=2, num_cpus=1, context=exact)
            with lh.ray.Cluster(config) as cluster:
                killer = Killer()
                results = lh.generate_parallel(
                    cluster, prompts(), journal=journal, progress=killer, **SETTINGS
                )
        finally:
            ray.shutdown()
    n_deaths = sum(row.n_deaths for row in results.stats.actors)
    assert results.texts == expected.texts
    assert results.stats.n_failed == 0
    assert killer.n_kills == N_KILLS
    assert 0 < n_deaths <= N_KILLS
    assert sum(row.n_done for row in results.stats.actors) == N_PROMPTS
    assert len(lh.journal_read(journal)) == N_PROMPTS
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    figures = {
        "n_prompts": N_PROMPTS,
        "n_kills": N_KILLS,
        "n_deaths_with_work": n_deaths,
        "n_lost": sum(text is None for text in results.texts),
    }
    FIGURES.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
