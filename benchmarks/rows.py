"""Memory for 100,000 rows, and time until the first progress report, for docs/coding.md.

    python benchmarks/rows.py [--rows 100000]

`annotate` and R's `annotate_texts()` code texts of 55 characters with three labels, each
in a new process. The model is tiny and has random weights, because the memory per row
does not depend on the model. All other parts of the call are real.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import llamaherd as lh
import marked
import psutil

HERE = Path(__file__).parent
LABELS = ["for", "against", "neither"]
MB = 1e6

sys.path.insert(0, str(HERE.parent / "tests" / "python"))


def text_of(i: int) -> str:
    """Return text number i, with 55 characters; all texts differ."""
    return f"Speech number {i:07d}: the roads have to be mended now."


def code_rows(model_path: str, n: int) -> dict[str, float]:
    """Code n rows; return memory before the call, and seconds to the first report."""
    book = lh.Codebook("Is the speech for or against?", LABELS)
    frame = {"text": [text_of(i) for i in range(n)]}
    first: list[float] = []
    with lh.Model(model_path) as model, lh.Context(model) as context:
        before = psutil.Process().memory_info().rss
        start = time.monotonic()
        coded = lh.annotate(
            frame,
            "text",
            book,
            context,
            progress=lambda _: first or first.append(time.monotonic() - start),
        )
        seconds = time.monotonic() - start
    n_errors = sum(error is not None for error in coded.frame["error"])
    if n_errors:
        raise SystemExit(f"{n_errors} rows failed")
    return {"before": before, "first_s": first[0], "seconds": seconds}


def watched(command: list[str], env: dict[str, str]) -> dict[str, float]:
    """Run a program; return its JSON output and its peak memory in bytes."""
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    printed = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{command[0]} ended with {status}")
    return {**json.loads(printed.splitlines()[-1]), "most": 1024 * usage.ru_maxrss}


def main() -> None:
    """Measure Python and R, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--in-process", metavar="MODEL")
    options = parser.parse_args()
    if options.in_process:
        print(json.dumps(code_rows(options.in_process, options.rows)))
        return
    import tiny_models  # module of the tests

    head = [f"{options.rows:,} rows", "most memory", "before the call", "first progress"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model = str(tiny_models.write(Path(folder, "tiny.gguf"), "llama"))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        program = [sys.executable, __file__, "--in-process", model]
        ways = {"Python": [*program, "--rows", str(options.rows)]}
        if shutil.which("Rscript"):
            script = str(HERE / "rows.R")
            ways["R, with Python in it"] = ["Rscript", script, model, str(options.rows)]
        for way, command in ways.items():
            figures = watched(command, env if way == "Python" else dict(os.environ))
            print(way, figures, flush=True)
            sizes = [f"{figures[name] / MB:.0f} MB" for name in ("most", "before")]
            rows.append([way, *sizes, f"{figures['first_s']:.1f} s"])
    marked.write("docs/coding.md", {"rows": marked.table(head, rows)})


if __name__ == "__main__":
    main()
