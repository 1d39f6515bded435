"""Speed of a portable libllama, compared with a libllama built for this processor.

    python benchmarks/levels.py FOLDER MODEL... [--levels haswell zen4] [--rounds 5]
    python benchmarks/levels.py --page    # results into docs/decisions/0046-wheels.md

FOLDER contains the libraries of the portable build, with one ggml backend for each level
(`scripts/wheels.sh llama`; the folder llama_cpp/lib of the wheel). The benchmark compares
these libraries with the libraries of this environment, compiled with -march=native. The
two builds run alternately, each in its own process after a warm-up call. The processor
time of one thread is measured, because other programs on the machine disturb this time
least. In the row "chosen", all backends are available, and ggml loads the best backend.
In the row of a level, only the backend of this level is available.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import marked

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "levels.json"
PAGE = HERE.parent / "docs/decisions/0046-wheels.md"
NATIVE, CHOSEN = "native", "chosen"
Ratios = dict[str, dict[str, dict[str, float]]]  # by model, level and call
# Name; prompts, words of each, tokens of each answer.
CALLS = {
    "read 4 texts of 200 words": (4, 200, 1),
    "write 16 x 16 tokens": (16, 8, 16),
    "write 2 x 32 tokens": (2, 8, 32),
}
PROGRAM = """
import random, sys, time
import llamaherd as lh
from llamaherd.engine.native import shim
words = "river stone paper light winter garden market letter window music".split()
numbers = random.Random(1)
calls = [tuple(map(int, x.split(","))) for x in sys.argv[2:]]
with lh.Model(sys.argv[1]) as model, lh.Context(model, n_threads=1) as context:
    def call(n, length, max_tokens):
        prompts = [" ".join(numbers.choices(words, k=length)) for _ in range(n)]
        start = time.process_time()
        lh.generate_parallel(context, prompts, max_tokens=max_tokens, ignore_eos=True)
        return time.process_time() - start
    call(2, 20, 4)
    times = [call(*numbers) for numbers in calls]
print(*times)
maps = open("/proc/self/maps").read().split()
print(*{path.split("/")[-1] for path in maps if "ggml-cpu" in path})
assert shim.own_threads()
"""


def run(model: str, folder: Path | None) -> tuple[list[float], str]:
    """Return the processor seconds of each call, and the name of the backend's library.

    Args:
        model: Path of a model.
        folder: Folder of the libraries; None for the libraries of this environment.
    """
    environment = dict(os.environ)
    if folder is not None:
        environment["LLAMA_CPP_LIB_PATH"] = str(folder)
    sizes = [",".join(map(str, numbers)) for numbers in CALLS.values()]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, model, *sizes],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    times, backends = done.stdout.splitlines()
    return [float(word) for word in times.split()], backends


def only(folder: Path, level: str, into: Path) -> Path:
    """Create a folder with the libraries of another folder, but with only one backend."""
    made = into / "llama_cpp/lib"
    made.mkdir(parents=True)
    for path in folder.iterdir():
        if "ggml-cpu" not in path.name or path.name == f"libggml-cpu-{level}.so":
            (made / path.name).symlink_to(path)
    # The libraries search for libgomp next to their package.
    beside = "llama_cpp_python.libs"
    (into / beside).symlink_to(folder.parents[1] / beside)
    return made


def measure(options: argparse.Namespace) -> None:
    """Measure all models; store and print ratios to the times of the native build."""
    folder = options.folder.resolve()
    found: Ratios = {}
    loaded = ""
    with tempfile.TemporaryDirectory() as temporary:
        kinds: dict[str, Path | None] = {NATIVE: None, CHOSEN: folder}
        for level in options.levels:
            kinds[level] = only(folder, level, Path(temporary) / level)
        for model in options.models:
            times: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
            for i in range(options.rounds):
                # Every second round is in reverse order, because the machine's speed
                # drifts.
                for kind in list(kinds)[:: 1 if i % 2 == 0 else -1]:
                    seconds, backend = run(str(model), kinds[kind])
                    times[kind].append(seconds)
                    loaded = backend if kind == CHOSEN else loaded
                    print(model.stem, kind, backend, *seconds, flush=True)
            for kind in kinds:
                row = found.setdefault(model.stem, {}).setdefault(kind, {})
                for k, call in enumerate(CALLS):
                    ratios = [
                        mine[k] / native[k]
                        for mine, native in zip(times[kind], times[NATIVE], strict=True)
                    ]
                    row[call] = round(statistics.median(ratios), 2)
    record = {"loaded": loaded, "rounds": options.rounds, "ratios": found}
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    print(table(loaded, found))


def table(loaded: str, ratios: Ratios) -> str:
    """Return the ratios as a table in Markdown."""
    lines = ["| model | level | " + " | ".join(CALLS) + " |"]
    lines.append("| --- | --- |" + " ---: |" * len(CALLS))
    for model, kinds in ratios.items():
        for kind, row in kinds.items():
            if kind == NATIVE:
                continue
            name = f"chosen: `{loaded}`" if kind == CHOSEN else kind
            cells = " | ".join(f"{row[call]:.2f}" for call in CALLS)
            lines.append(f"| {model} | {name} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Read the command line, then measure or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--levels", nargs="*", default=["haswell", "x64"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        record = json.loads(RESULTS.read_text())
        marked.write(PAGE, {"levels": table(record["loaded"], record["ratios"])})
    elif options.folder is None or not options.models:
        parser.error("name a folder and a model")
    else:
        measure(options)


if __name__ == "__main__":
    main()
