"""Tests the R package by Rscript: defaults, results, Ctrl-C, progress, labels."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from rows import tell

ROOT = Path(__file__).resolve().parent.parent.parent
R = Path(__file__).parent / "r_user"
MODEL = os.environ["LLAMAHERD_TEST_SMOLLM2"]
ENVIRONMENT = {
    **os.environ,
    "RETICULATE_PYTHON": sys.executable,
    "R_LIBS": os.environ.get("R_LIBS", str(ROOT / ".rlib")),
    "LC_ALL": "C.UTF-8",
}


def run(name: str, *, may_fail: bool = False) -> str:
    """Run an R script; print its rows and return its output."""
    lines = []
    with subprocess.Popen(
        ["Rscript", "--vanilla", str(R / f"{name}.R")],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout:
            lines.append(line)
            if line.startswith("ROW "):
                print(line[4:].strip(), flush=True)
            if line.startswith("round"):
                time.sleep(6)
                process.send_signal(signal.SIGINT)
    lines.append(f"exit status {process.returncode}\n")
    output = "".join(lines)
    if process.returncode != 0 and not may_fail:
        raise SystemExit(output)
    return output


def row(item: int, what: str, held: list[bool], note: str) -> None:
    tell(item, what, len(held), sum(held), note)


def loop() -> None:
    output = run("loop", may_fail=True)
    message = re.search(r"Interrupted: .*", output)
    row(
        16,
        "one Ctrl-C ends a loop and its script, with an exit status and a message",
        [
            "exit status 1" in output,
            "round 2" not in output and "went on" not in output,
            message is not None,
        ],
        message[0] if message else output[-200:],
    )


def progress() -> None:
    import llamaherd as lh  # R's tries come first

    run("progress")
    seen: list[lh.types.Progress] = []
    shots = "Label the text. " * 20
    with lh.Model(MODEL) as model, lh.Context(model) as context:
        prompts = [f"{shots}Text {i}" for i in range(60)]
        lh.generate_parallel(context, prompts, max_tokens=1, progress=seen.append)
    counts = [report.n_prompt_tokens for report in seen]
    last = seen[-1]
    row(
        17,
        "the progress of a labelling call reaches the total number of prompt tokens",
        [
            counts == sorted(counts),
            last.n_prompt_tokens == last.n_prompt_tokens_total > 60 * 50,
        ],
        f"{last.n_prompt_tokens} prompt tokens, {last.n_generated_tokens} generated",
    )


if __name__ == "__main__":
    run("defaults")
    run("results")
    loop()
    run("caught")
    progress()
    run("labels")
