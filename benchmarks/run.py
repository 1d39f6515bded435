"""Compares llamaherd with other programs on the same kernels, and with the ideal time.

python benchmarks/run.py MODEL ... [--runs N] [--peer-runs N] [--only NAME ...]
    [--engines NAME ...] [--threads N] [--session NAME] [--quick]

The engines alternate in rounds, each in a new process. This project runs first in one
round and last in the next round, so that drifts of the machine's speed affect all
engines equally. The rates that determine T* are measured before and after this
project's runs. Every measurement is a line of JSON in benchmarks/results/SESSION.jsonl.
If a session ended early, a run with the same session name makes the missing measurements.
`report.py` makes the tables. Each line has the mean number of processors that other
programs used (`others_cpus`). If this number is high, measure again.

Engines: llamaherd; deterministic; r (the same call from R); loop (llama-cpp-python, one
prompt after the other); server (llama-server, in the first round with each of --slots,
later with the fastest of them); rates (of llama-batched-bench, for T*). Measured only
once: alone and alone-deterministic (each prompt runs alone; its text is the reference for
the texts of other engines). With `many`: scheduling (10,000 prompts on an engine that
answers immediately).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import mean

import peers
from session import Session, describe, watch
from shape import Shape
from summary import ideal_of
from workloads import make_workloads

HERE = Path(__file__).parent
RESULTS = HERE / "results"
OWN = ("llamaherd", "deterministic", "r", "scheduling")
ONLY = {"r": "annotate", "scheduling": "many"}  # engines that run one workload
GROWTH = ("repeat", "many")  # measure growth of time and memory
ONCE = ("alone", "alone-deterministic")
ENGINES = (*OWN, "loop", "server")
_BUSY_CPUS = 0.1  # number of processors used by others above which a line reports it
_UBATCHES = (512, 1024)  # settings of llama-batched-bench to try


class Bench:
    """Runs those requested measurements that the session does not have yet."""

    def __init__(self, options: argparse.Namespace, session: Session) -> None:
        self.options = options
        self.session = session
        self.failed = False

    def run(self) -> None:
        """Run all rounds."""
        turns = product(
            range(max(self.options.runs, self.options.peer_runs)),
            self.options.models,
            self.options.only,
        )
        for i_run, model, workload in turns:
            try:
                self._turn(model, workload, i_run)
            except (subprocess.CalledProcessError, peers.PeerError) as error:
                # Others are still measured; the next session tries this one again.
                print(f"{model_name(model)} {workload}: FAILED: {error}", flush=True)
                self.failed = True

    def _turn(self, model: str, workload: str, i_run: int) -> None:
        """Run one round of a workload."""
        parts = [self._own(workload, i_run), self._peers(model, workload, i_run)]
        # The order alternates between rounds, so that a drift of speed favours no engine.
        if i_run % 2:
            parts.reverse()
        engines = [engine for part in parts for engine in part]
        if not engines:
            return
        records = [self._measure(e, model, workload, i_run) for e in engines]
        shape = Shape(**self._count(model, workload)["shape"])
        print(_line(model, workload, i_run, shape, records), flush=True)

    def _own(self, workload: str, i_run: int) -> list[str]:
        engines = [e for e in OWN if self._wants(e, workload, i_run)]
        if "rates" in self.options.engines and engines and workload not in GROWTH:
            return ["rates-before", *engines, "rates-after"]
        return engines

    def _wants(self, engine: str, workload: str, i_run: int) -> bool:
        grows = workload in GROWTH
        if engine in ONLY:
            runs_it = workload == ONLY[engine]
        else:
            runs_it = engine == "llamaherd" or not grows
        is_first = engine == "llamaherd" and not grows
        n_runs = self.options.runs if is_first else self.options.peer_runs
        return runs_it and engine in self.options.engines and i_run < n_runs

    def _peers(self, model: str, workload: str, i_run: int) -> list[str]:
        if workload in GROWTH:
            return []
        names = ["loop"] if self._wants("loop", workload, i_run) else []
        if self._wants("server", workload, i_run):
            names += self._servers(model, workload, i_run)
        if i_run == 0:
            greedy = make_workloads()[workload].temperature == 0
            names += [e for e in ONCE if e in self.options.engines and greedy]
        return names

    def _servers(self, model: str, workload: str, i_run: int) -> list[str]:
        # With sliding windows, the server finds shared prefixes only if it keeps all
        # cells.
        swa = "-swa" if self._count(model, workload)["n_swa"] > 0 else ""
        names = [f"server-{n}{swa}" for n in self.options.slots]
        seconds = {}
        for name in names:
            record = self.session.get(Path(model).name, workload, name, 0)
            if i_run > 0 and record:
                seconds[name] = record["seconds"][0]
        return [min(seconds, key=seconds.__getitem__)] if seconds else names

    def _count(self, model: str, workload: str) -> dict:
        return self._measure("count", model, workload, 0)

    def _measure(self, engine: str, model: str, workload: str, i_run: int) -> dict:
        """Return a measurement; take it from the session if the session has it."""
        name = Path(model).name
        known = self.session.get(name, workload, engine, i_run)
        if known:
            return known
        record: dict[str, object] = {
            "model": name,
            "workload": workload,
            "engine": engine,
            "i_run": i_run,
        }
        count = {} if engine == "count" else self._count(model, workload)
        with watch(record):
            if engine.startswith("rates"):
                result = self._rates(model, workload, Shape(**count["shape"]))
            else:
                result = self._work(engine, model, workload, count.get("most_cells"))
        return self.session.add(record | result)

    def _rates(self, model: str, workload: str, shape: Shape) -> dict[str, object]:
        # The best setting is searched only once.
        first = self.session.get(Path(model).name, workload, "rates-before", 0)
        ubatches = (first["ubatch"],) if first else _UBATCHES
        return peers.measure_rates(model, shape, self.options.threads, ubatches)

    def _work(self, engine: str, model: str, workload: str, n_cells: int | None) -> dict:
        """Run an engine once, in a new process."""
        command = [
            *(sys.executable, str(HERE / "worker.py"), engine, workload, model),
            str(self.options.threads),
            *(["--quick"] if self.options.quick else []),
            *([] if n_cells is None else ["--cells", str(n_cells)]),
        ]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        result: dict = json.loads(done.stdout)
        return result


def _line(
    model: str, workload: str, i_run: int, shape: Shape, records: list[dict]
) -> str:
    """Return a progress line: seconds of each engine, and this project's ratio to T*."""
    parts = [f"{model_name(model)} {workload} {i_run + 1}:"]
    rates = [r for r in records if r["engine"].startswith("rates")]
    ideal = mean(ideal_of(shape, r) for r in rates) if rates else None
    if ideal:
        parts.append(f"T* {ideal:.2f}")
    for record in records:
        if record in rates:
            continue
        seconds = record["seconds"][-1]
        share = f" ({seconds / ideal:.3f})" if ideal else ""
        others = record.get("others_cpus") or 0.0
        busy = f" [others: {others:.1f} CPUs]" if others > _BUSY_CPUS else ""
        parts.append(f"{record['engine']} {seconds:.2f}{share}{busy}")
    return "  ".join(parts)


def model_name(path: str) -> str:
    """Return the first word of a model file's name."""
    return Path(path).name.split("-")[0]


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    every = list(make_workloads())
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    known = (*ENGINES, *ONCE, "rates")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--runs", type=int, help="of llamaherd; default: 5")
    parser.add_argument("--peer-runs", type=int, help="of the others; default: --runs")
    parser.add_argument("--only", nargs="+", choices=every, default=every)
    parser.add_argument(
        "--engines", nargs="+", choices=known, help="default: all that there are"
    )
    parser.add_argument("--slots", nargs="+", type=int, default=[8, 16, 32])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--session", default=now)
    parser.add_argument("--quick", action="store_true", help="tiny, without peers")
    options = parser.parse_args()
    options.runs = options.runs or (1 if options.quick else 5)
    if options.engines is None:
        quick = ("llamaherd", "loop", "scheduling")
        options.engines = quick if options.quick else known
    if options.peer_runs is None:
        options.peer_runs = options.runs
    return options


def main() -> int:
    """Run the session."""
    options = parse_arguments()
    about = {"session": options.session, "quick": options.quick}
    about |= describe(options.threads)
    print(json.dumps(about))
    session = Session(RESULTS / f"{options.session}.jsonl", about)
    bench = Bench(options, session)
    bench.run()
    print(f"\n{session.path}")
    return int(bench.failed)


if __name__ == "__main__":
    sys.exit(main())
