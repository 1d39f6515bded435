"""Times of this version as multiples of the times of another checkout.

    python benchmarks/before.py BEFORE MODEL.gguf [--rounds 5] [--quick]

BEFORE is the folder of another checkout with its .venv and .rlib. Both checkouts run the
same work alternately, each in its own process. Prints a table: figures are medians of
the ratios within rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path

from marked import table
from session import watch

HERE = Path(__file__).resolve().parent
# Measurements: engine of worker.py, workload, and key of the figure in worker.py's
# output.
WORK = {
    "distinct": ("llamaherd", "distinct", "seconds"),
    "annotate": ("llamaherd", "annotate", "seconds"),
    "many": ("llamaherd", "many", "seconds"),
    "32 streams": ("streams", "distinct", "seconds"),
    "annotate from R": ("r", "annotate", "seconds"),
    "R: 10,000 prompts converted": ("r", "annotate", "convert_s"),
}
HEAD = ("work", "before, s", "now, s", "now / before, median", "from", "to")


def measure(
    folder: Path, engine: str, workload: str, options: argparse.Namespace
) -> dict[str, float]:
    """Return times of one run in a checkout: of all calls, and of R's part, in seconds.

    For R, the checkout's own worker.py is run, because R scripts load the package of the
    checkout that contains them.
    """
    scripts = folder / "benchmarks" if engine == "r" else HERE
    command = [str(folder / ".venv/bin/python"), str(scripts / "worker.py")]
    command += [engine, workload, str(options.model), str(options.threads)]
    command += ["--quick"] if options.quick else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    record = json.loads(done.stdout)
    figures = {"seconds": float(sum(record["seconds"]))}
    if "convert_s" in record:
        figures["convert_s"] = float(record["convert_s"])
    return figures


def compare(options: argparse.Namespace) -> str:
    """Return the table."""
    folders = {"before": options.before.resolve(), "now": HERE.parent}
    times: dict[str, dict[str, list[float]]] = {
        name: {key: [] for key in folders} for name in WORK
    }
    runs = dict.fromkeys((engine, workload) for engine, workload, _ in WORK.values())
    record: dict[str, object] = {}
    with watch(record):
        for i in range(options.rounds):
            turns = list(folders) if i % 2 == 0 else list(reversed(folders))
            for engine, workload in runs:
                for key in turns:
                    figures = measure(folders[key], engine, workload, options)
                    for name, (*run, figure) in WORK.items():
                        if tuple(run) == (engine, workload):
                            times[name][key].append(figures[figure])
            for name, by_key in times.items():
                print(i + 1, name, *(f"{t[-1]:.3f}" for t in by_key.values()), flush=True)
    print(record)
    rows = []
    for name, by_key in times.items():
        ratios = [b / a for a, b in zip(by_key["before"], by_key["now"], strict=True)]
        cells = [f"{statistics.median(by_key[key]):.2f}" for key in folders]
        cells += [f"{f(ratios):.3f}" for f in (statistics.median, min, max)]
        rows.append([name, *cells])
    return table(HEAD, rows)


def main() -> None:
    """Run the measurements that the command line selects."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, metavar="BEFORE")
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="a tiny size")
    options = parser.parse_args()
    print(compare(options))


if __name__ == "__main__":
    main()
