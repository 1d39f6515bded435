"""Tests threads of ggml in R and Python: they are llamaherd's, and sleep when idle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rows import tell

# Prints the kind of threads, and the processor seconds of an idle context per second.
PROGRAM = """
import os, sys, time
import llamaherd as lh
from llamaherd.engine.native import shim
assert "GOMP_SPINCOUNT" not in os.environ
context = lh.Context(lh.Model(sys.argv[1]), n_threads=4)
lh.generate_parallel(context, ["One", "Two"], max_tokens=4)
start = time.process_time()
time.sleep(1)
print(int(shim.own_threads()), time.process_time() - start)
"""
R = """
library(llamaherd)
args <- commandArgs(TRUE)
stopifnot(Sys.getenv("GOMP_SPINCOUNT") == "")
context <- context_create(model_load(args[[1]]), n_threads = 4L)
invisible(generate_parallel(context, c("One", "Two"), max_tokens = 4L))
start <- sum(proc.time()[1:2])
Sys.sleep(1)
busy <- sum(proc.time()[1:2]) - start
native <- reticulate::import("llamaherd.engine.native.shim")
cat(as.integer(native$own_threads()), busy, "\\n")
"""
# Prints, next to a busy loop, the time of a call with two threads relative to the time
# with one thread, which never waits for another thread.
BUSY = """
import sys, time
import llamaherd as lh
model = lh.Model(sys.argv[1])
def seconds(n_threads):
    with lh.Context(model, n_threads=n_threads) as context:
        lh.generate(context, "One", max_tokens=2)
        start = time.monotonic()
        lh.generate_parallel(context, ["One", "Two"], max_tokens=24)
        return time.monotonic() - start
print(seconds(2) / seconds(1))
"""
N_TRIES = 5
ROOT = Path(__file__).resolve().parents[2]


def run(command: list[str]) -> list[float]:
    """Return the numbers that a program prints."""
    environment = {k: v for k, v in os.environ.items() if k != "GOMP_SPINCOUNT"}
    environment |= {"RETICULATE_PYTHON": sys.executable, "R_LIBS": str(ROOT / ".rlib")}
    done = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, timeout=100
    )
    return [float(word) for word in done.stdout.split()]


def report(what: str, held: list[bool], note: str) -> None:
    """Print one line."""
    tell(11, what, len(held), sum(held), note)


def main() -> None:
    """Print three lines."""
    model = os.environ["LLAMAHERD_TEST_SMOLLM2"]
    for language, program in (
        ("Python", [sys.executable, "-c", PROGRAM]),
        ("R", ["Rscript", "--vanilla", "-e", R]),
    ):
        rows = [run([*program, model]) for _ in range(N_TRIES)]
        most = max(busy for _, busy in rows)
        report(
            f"{language} without settings: llamaherd's own threads sleep when idle",
            [n_threads == 1 and busy < 0.2 for n_threads, busy in rows],
            f"at most {most:.2f} processor seconds in an idle second",
        )
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        ratios = [run([sys.executable, "-c", BUSY, model])[0] for _ in range(N_TRIES)]
    finally:
        loop.kill()
        loop.wait()
    report(
        "next to a busy loop, two threads need at most 3 times as long as one thread",
        [ratio < 3 for ratio in ratios],
        "ratios " + ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios)),
    )


if __name__ == "__main__":
    main()
