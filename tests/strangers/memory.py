"""Tests programs with up to 600 MiB more memory than they use without a model.

Each program loads the model, creates a context and answers prompts, with a limit on its
address space. It must not crash: it ends with the answers or an exception that it can
catch.
"""

from __future__ import annotations

import collections
import os
import subprocess
import sys

from rows import tell

N_TRIES = 100
MOST_BYTES = 600 << 20
TIMEOUT_S = 60

PROGRAM = """
import os, resource, sys
import llamaherd as lh
more = int(sys.argv[2])
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * os.sysconf("SC_PAGESIZE") + more
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    model = lh.Model(sys.argv[1])
    context = lh.Context(model, n_threads=2)
    out = lh.generate_parallel(context, ["One", "Two", "Three"], max_tokens=4)
    errors = [result.error for result in out if result.error is not None]
except Exception as error:
    errors = [repr(error)]
os.write(1, ("error " + errors[0] if errors else "answers").encode()[:200])
"""


def outcome(model: str, more_bytes: int) -> str:
    """Return the outcome of a program with a given number of additional bytes."""
    command = [sys.executable, "-c", PROGRAM, model, str(more_bytes)]
    try:
        run = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return "hang"
    word = run.stdout.decode(errors="replace").split(" ")[0]
    if run.returncode == 0 and word in {"answers", "error"}:
        if word == "error" and "-v" in sys.argv:
            sys.stderr.write(f"{more_bytes >> 20} MiB: {run.stdout.decode()}\n")
        return word
    sys.stderr.write(f"{more_bytes >> 20} MiB: {run.returncode}\n")
    sys.stderr.write(run.stderr.decode(errors="replace")[-600:] + "\n")
    return "abort" if run.returncode < 0 else "exit"


def main() -> None:
    """Print one line."""
    model = os.environ["LLAMAHERD_TEST_SMOLLM2"]
    steps = [i * MOST_BYTES // (N_TRIES - 1) for i in range(N_TRIES)]
    counts = collections.Counter(outcome(model, step) for step in steps)
    tell(
        6,
        "the address space limited to 0 to 600 MiB more than before loading the model: "
        "an answer or an error",
        N_TRIES,
        counts["answers"] + counts["error"],
        ", ".join(f"{n} {how}" for how, n in sorted(counts.items())),
    )


if __name__ == "__main__":
    main()
