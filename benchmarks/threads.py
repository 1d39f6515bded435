"""Speed of R and Python with defaults, on an idle machine and while busy loops run.

This checkout alternates with another installation of the package, such as an earlier
version. The time of one call in each checkout is measured, after a warm-up.

    benchmarks/threads.py MODEL OTHER [--rounds 5] [--busy 0 1] [--no-r]

OTHER is the folder of the other checkout, with its .venv and .rlib. The other checkout
is started with GOMP_SPINCOUNT=1000, the best setting of libgomp; this checkout is
started without any setting.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent.parent
# Prompts and tokens of each call.
CALLS = ((32, 32), (2, 64))

PYTHON = """
import sys, time
import llamaherd as lh
with lh.Model(sys.argv[1]) as model, lh.Context(model) as context:
    def call(n, max_tokens):
        prompts = [f"Write a story about river number {i}:" for i in range(n)]
        start = time.monotonic()
        lh.generate_parallel(context, prompts, max_tokens=max_tokens)
        return time.monotonic() - start
    call(2, 4)
    print(*(call(int(n), int(m)) for n, m in zip(sys.argv[2::2], sys.argv[3::2])))
"""

R = """
library(llamaherd)
args <- commandArgs(TRUE)
context <- context_create(
  model_load(args[[1]]),
  n_ctx = "auto", n_seq_max = "auto", n_threads = NULL
)
call <- function(n, max_tokens) {
  prompts <- sprintf("Write a story about river number %d:", seq_len(n) - 1L)
  start <- proc.time()[["elapsed"]]
  generate_parallel(context, prompts, max_tokens = max_tokens)
  proc.time()[["elapsed"]] - start
}
invisible(call(2L, 4L))
numbers <- as.integer(args[-1])
odd <- seq(1L, length(numbers), by = 2L)
cat(mapply(call, numbers[odd], numbers[odd + 1L]), "\\n")
"""


def times(language: str, folder: Path, model: str, spin: str | None) -> list[float]:
    """Return the seconds of each call, measured in a new process.

    Args:
        language: "python" or "R".
        folder: Folder of a checkout that is set up.
        model: Path of a model.
        spin: Value of GOMP_SPINCOUNT; None to leave it unset.
    """
    python = folder / ".venv/bin/python"
    environment = {k: v for k, v in os.environ.items() if k != "GOMP_SPINCOUNT"}
    environment |= {"RETICULATE_PYTHON": str(python), "R_LIBS": str(folder / ".rlib")}
    if spin is not None:
        environment["GOMP_SPINCOUNT"] = spin
    program = [str(python), "-c", PYTHON]
    if language == "R":
        program = ["Rscript", "--vanilla", "-e", R]
    sizes = [str(n) for call in CALLS for n in call]
    command = [*program, model, *sizes]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return [float(word) for word in run.stdout.split()]


@contextmanager
def busy_loop() -> Iterator[None]:
    """Run a program that keeps a processor busy, until the block ends."""
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def compare(language: str, options: argparse.Namespace) -> None:
    """Print the medians for one language, and the ratio of both checkouts' times."""
    here: list[list[float]] = []
    other: list[list[float]] = []
    for _ in range(options.rounds):
        other.append(times(language, options.other, options.model, "1000"))
        here.append(times(language, HERE, options.model, None))
    for i, (n, max_tokens) in enumerate(CALLS):
        mine = statistics.median(run[i] for run in here)
        theirs = statistics.median(run[i] for run in other)
        print(
            f"  {language}, {n} prompts x {max_tokens} tokens: {mine:.2f} s here, "
            f"{theirs:.2f} s there, ratio {mine / theirs:.2f}",
            flush=True,
        )


def main() -> None:
    """Read the command line and compare."""
    parser = argparse.ArgumentParser(description="Threads while other programs are busy.")
    parser.add_argument("model")
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--no-r", action="store_true")
    options = parser.parse_args()
    for n_busy in options.busy:
        print(f"busy loops beside: {n_busy}", flush=True)
        with ExitStack() as loops:
            for _ in range(n_busy):
                loops.enter_context(busy_loop())
            for language in ["python"] if options.no_r else ["python", "R"]:
                compare(language, options)


if __name__ == "__main__":
    main()
