"""Coverage of 95% intervals in simulated studies, for several pages.

    python benchmarks/coverage.py [NAME ...] [--draws N] [--workers 1] [--seed 1]

Each study (in coverage_designs.py, coverage_estimates.py, coverage_measures.py and
selection.py) draws texts, labels and codes whose true values are known, and counts how
often intervals contain these values. Draw number k of a case depends only on the seed and
k. Each study writes its table into a page: for each case and way, the coverage, and in
parentheses the median width.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import coverage_designs
import coverage_estimates
import coverage_measures
import marked
import numpy as np
import selection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from studies import Hit, Study

STUDIES = {
    name: study
    for module in (coverage_designs, coverage_estimates, coverage_measures, selection)
    for name, study in module.STUDIES.items()
}
_CHUNK = 10  # draws of a task of a process


class _Task(NamedTuple):
    study: str
    case: str
    seed: int
    draws: range


def _run(task: _Task) -> list[Mapping[str, Hit]]:
    study = STUDIES[task.study]
    number = list(study.cases).index(task.case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few codes are the point of a simulation
        return [
            study.draw(
                study.cases[task.case],
                np.random.default_rng([task.seed, number, k]),
            )
            for k in task.draws
        ]


def simulated(name: str, n_draws: int, seed: int, pool: Any) -> dict[str, list[Any]]:
    """Return the results of all draws of each case."""
    tasks = [
        _Task(name, case, seed, range(k, min(k + _CHUNK, n_draws)))
        for case in STUDIES[name].cases
        for k in range(0, n_draws, _CHUNK)
    ]
    results: dict[str, list[Any]] = {case: [] for case in STUDIES[name].cases}
    for task, part in zip(tasks, pool.imap(_run, tasks), strict=True):
        results[task.case] += part
    return results


def cell(hits: Sequence[Hit]) -> str:
    """Return coverage and median width; a share alone if there are no intervals."""
    if not hits:
        return ""
    share = f"{np.mean([hit.share for hit in hits]):.1%}"
    widths = [hit.width for hit in hits if not math.isnan(hit.width)]
    return f"{share} ({np.median(widths):.3g})" if widths else share


def table(study: Study, results: Mapping[str, Sequence[Mapping[str, Hit]]]) -> str:
    """Return the table of a study, with the number of draws."""
    n_draws = max(len(draws) for draws in results.values())
    ways = sorted(
        dict.fromkeys(
            way for draws in results.values() for draw in draws for way in draw
        ),
        key=lambda way: way.startswith(("warned", "right")),
    )
    error = math.sqrt(0.95 * 0.05 / n_draws)
    rows = [
        [case, *(cell([draw[way] for draw in draws if way in draw]) for way in ways)]
        for case, draws in results.items()
    ]
    head = f"{n_draws:,} draws; standard error of a coverage of 95%: {error:.1%}.\n\n"
    return head + marked.table([study.title, *ways], rows)


def main() -> None:
    """Simulate, and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(STUDIES))
    parser.add_argument("--draws", type=int, help="default: as the study says")
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--print", action="store_true", help="change no page")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # each process of the pool uses one thread
    # Processes are started anew: a fork would copy the locks of running threads.
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for name in options.names or STUDIES:
            study = STUDIES[name]
            n_draws = options.draws or study.n_draws
            text = table(study, simulated(name, n_draws, options.seed, pool))
            print(f"{name}\n{text}", flush=True)
            if study.page and not options.print:
                marked.write(f"docs/{study.page}", {f"coverage: {name}": text})


if __name__ == "__main__":
    main()
