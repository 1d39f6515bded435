"""Runs the draws of a simulation in several processes, on one or several machines.

Draw number k of a case depends only on the seed and k. Parts of a simulation may
therefore run on several machines:

    python benchmarks/coverage_NAME.py --draws 500 --workers 8 --save a.json
    python benchmarks/coverage_NAME.py --draws 500 --skip 500 --workers 8 --save b.json
    python benchmarks/coverage_NAME.py --merge a.json b.json

`--save` writes the result of each draw and no table; `--merge` reads these results
instead of simulating. Import this module before numpy and llamaherd: each process uses
one thread, and the sources of llamaherd suffice (see sources.py).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sources  # noqa: F401 - before the simulation imports llamaherd

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
_CHUNK = 10  # most draws of a task of a process


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Simulation of several cases.

    Attributes:
        name: Name, stored with the results.
        cases: Names of the cases.
        draw: Function of a module that simulates one draw: case, seed, number of the
            draw; returns a value of JSON types.
        parts: Number of draws of a case as a share of `--draws`; 1 for other cases.
    """

    name: str
    cases: Sequence[str]
    draw: Callable[[str, int, int], Any]
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Results of a simulation.

    Attributes:
        seed: Seed.
        core_seconds: Processor time of all draws, in seconds.
        cases: Results of each case, sorted by the number of the draw.
    """

    seed: int
    core_seconds: float
    cases: dict[str, list[Any]]

    @property
    def n_draws(self) -> int:
        """Number of draws of the case with the most draws."""
        return max(len(each) for each in self.cases.values())


def add_options(parser: argparse.ArgumentParser, n_draws: int, seed: int) -> None:
    """Add the options of a simulation to a parser, with default values."""
    parser.add_argument("--draws", type=int, default=n_draws)
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument("--skip", type=int, default=0, help="number of the first draw")
    parser.add_argument("--save", type=Path, help="file for the results of each draw")
    parser.add_argument("--merge", type=Path, nargs="+", help="files of --save to read")


def results(simulation: Simulation, args: argparse.Namespace) -> Drawn | None:
    """Simulate, or read saved results.

    Args:
        simulation: The simulation.
        args: Values of the options of `add_options`.

    Returns:
        The results; None if they were saved.

    Raises:
        ValueError: Files belong to other simulations or seeds, or share draws.
    """
    if args.merge:
        return merged(simulation, args.merge)
    found = _simulated(simulation, args)
    if args.save is None:
        return _drawn(simulation, [found])
    args.save.parent.mkdir(parents=True, exist_ok=True)
    args.save.write_text(json.dumps(found) + "\n", encoding="utf-8")
    return None


def merged(simulation: Simulation, paths: Sequence[Path]) -> Drawn:
    """Return the results of several files; see `results`."""
    return _drawn(
        simulation, [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    )


def _drawn(simulation: Simulation, files: Sequence[dict[str, Any]]) -> Drawn:
    heads = {(each["simulation"], each["seed"]) for each in files}
    if len(heads) > 1 or files[0]["simulation"] != simulation.name:
        raise ValueError(
            f"the results must belong to the simulation {simulation.name} with one seed, "
            f"not to {sorted(heads)}"
        )
    cases: dict[str, list[Any]] = {}
    for case in simulation.cases:
        pairs = [pair for each in files for pair in each["cases"].get(case, [])]
        if len({k for k, _ in pairs}) < len(pairs):
            raise ValueError(f"{case}: several files contain the same draws")
        if pairs:
            cases[case] = [value for _, value in sorted(pairs, key=lambda pair: pair[0])]
    return Drawn(
        seed=files[0]["seed"],
        core_seconds=sum(each["core_seconds"] for each in files),
        cases=cases,
    )


def _simulated(simulation: Simulation, args: argparse.Namespace) -> dict[str, Any]:
    tasks = []
    for case in simulation.cases:
        share = simulation.parts.get(case, 1.0)
        first, last = (round(share * n) for n in (args.skip, args.skip + args.draws))
        tasks += [
            (simulation.draw, case, args.seed, range(k, min(k + _CHUNK, last)))
            for k in range(first, last, _CHUNK)
        ]
    cases: dict[str, list[Any]] = {case: [] for case in simulation.cases}
    seconds = 0.0
    for i, (case, pairs, used) in enumerate(_mapped(tasks, args.workers), 1):
        cases[case] += pairs
        seconds += used
        print(f"{i} of {len(tasks)} parts: {case}", flush=True)
    return {
        "simulation": simulation.name,
        "seed": args.seed,
        "core_seconds": round(seconds, 1),
        "cases": cases,
    }


def _mapped(tasks: Sequence[Any], n_workers: int) -> Iterator[Any]:
    if n_workers == 1:
        yield from map(_run, tasks)
        return
    # Processes are started anew: a fork would copy the locks of running threads.
    with multiprocessing.get_context("spawn").Pool(n_workers) as pool:
        yield from pool.imap_unordered(_run, tasks)


def _run(task: tuple[Any, str, int, range]) -> tuple[str, list[Any], float]:
    draw, case, seed, numbers = task
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few codes are the point of a simulation
        pairs = [[k, draw(case, seed, k)] for k in numbers]
    return case, pairs, time.process_time() - start
