"""Compares llamaherd with the loop that people write today, on the same kernels.

python benchmarks/run.py MODEL [--quick] [--runs N] [--threads N] [--only NAME ...]

The engines take turns, each in a process of its own, so that a machine whose speed drifts
treats them alike. Quote the ratios: seconds differ from machine to machine. Each run adds
a line of JSON to benchmarks/results.jsonl; the table is printed.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import median

from workloads import make_workloads

HERE = Path(__file__).parent
ENGINES = ("llamaherd", "loop")


def run_once(engine: str, workload: str, options: argparse.Namespace) -> dict:
    """One run in a new process."""
    command = [
        sys.executable,
        str(HERE / "worker.py"),
        engine,
        workload,
        options.model,
        str(options.threads),
        *(["--quick"] if options.quick else []),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def describe(options: argparse.Namespace) -> dict[str, object]:
    """What the figures depend on."""
    return {
        "model": Path(options.model).name,
        "threads": options.threads,
        "quick": options.quick,
        "llamaherd": version("llamaherd"),
        "llama_cpp_python": version("llama-cpp-python"),
        "machine": platform.machine(),
        "processor": _processor(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def row(name: str, runs: dict[str, list[dict]]) -> str:
    """A line of the table: medians, their ratio, equal texts, memory."""
    seconds = {e: median(sum(r["seconds"]) for r in runs[e]) for e in ENGINES}
    rate = runs["llamaherd"][0]["n_generated"] / seconds["llamaherd"]
    pairs = list(
        zip(runs["llamaherd"][0]["texts"], runs["loop"][0]["texts"], strict=True)
    )
    equal = sum(a == b for a, b in pairs) / len(pairs)
    peak = {e: max(r["peak_bytes"] for r in runs[e]) / 2**20 for e in ENGINES}
    return (
        f"| {name} | {seconds['llamaherd']:.1f} | {seconds['loop']:.1f} "
        f"| {seconds['loop'] / seconds['llamaherd']:.2f} | {rate:.0f} | {equal:.0%} "
        f"| {peak['llamaherd']:.0f} / {peak['loop']:.0f} |"
    )


def steadiness(runs: list[dict]) -> str:
    """Of the workload `repeat`: the tenth call against the second."""
    seconds = [median(r["seconds"][i] for r in runs) for i in (1, -1)]
    decoded = [runs[0]["decoded"][i] for i in (1, -1)]
    return (
        f"\nrepeat: the last call took {seconds[1] / seconds[0]:.2f} of the second's "
        f"time and decoded {decoded[1]} tokens, the second {decoded[0]}."
    )


def main() -> None:
    """Runs everything and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=None)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=None)
    options = parser.parse_args()
    n_runs = options.runs or (1 if options.quick else 5)
    names = options.only or list(make_workloads(quick=options.quick))

    about = describe(options)
    print(json.dumps(about))
    print("| workload | s | loop s | times as fast | tokens/s | same texts | MiB |")
    print("|---|---|---|---|---|---|---|")
    results = HERE / "results.jsonl"
    for name in names:
        runs: dict[str, list[dict]] = {engine: [] for engine in ENGINES}
        for _ in range(n_runs):
            for engine in ENGINES:
                run = run_once(engine, name, options)
                runs[engine].append(run)
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(about | run) + "\n")
        print(row(name, runs), flush=True)
        if name == "repeat":
            print(steadiness(runs["llamaherd"]))


if __name__ == "__main__":
    main()
