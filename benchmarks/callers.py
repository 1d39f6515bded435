"""Speed of callers that share a context: threads, prompts during a call, streams.

The two calls of a comparison run alternately. Results are medians of
ratios.

    benchmarks/callers.py MODEL [--rounds 5] [--beside 400] [--singles 20] [--output FILE]
    benchmarks/callers.py MODEL --python OTHER/.venv/bin/python ...

With --python, the package of another installation is measured, such as an earlier
version. Measurements are skipped if they need features that the measured version lacks
(priorities).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from workloads import sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MAX_TOKENS = 32


def seconds(work: Callable[[], object]) -> float:
    """Return the duration of a call, in seconds."""
    start = time.monotonic()
    work()
    return time.monotonic() - start


def ratios(one: Callable[[], object], other: Callable[[], object], n: int) -> list[float]:
    """Return n ratios of the durations of two calls that alternate, after a warm-up."""
    one()
    other()
    return [seconds(one) / seconds(other) for _ in range(n)]


def five_callers(context: lh.Context, texts: list[str], n_rounds: int) -> dict[str, Any]:
    """Compare five threads with 20 prompts each to one call with all 100 prompts."""
    parts = [texts[i * 20 : (i + 1) * 20] for i in range(5)]

    def call(prompts: list[str]) -> lh.Results:
        return lh.generate_parallel(context, prompts, max_tokens=_MAX_TOKENS)

    def at_once() -> None:
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(call, parts))

    found = ratios(at_once, lambda: call(texts[:100]), n_rounds)
    return {"five_callers": statistics.median(found), "five_callers_all": found}


def streams(context: lh.Context, texts: list[str], n_rounds: int) -> dict[str, Any]:
    """Compare 32 concurrent streams to one call with the same prompts."""
    prompts = texts[100:132]

    def read(prompt: str) -> None:
        for _ in lh.generate(context, prompt, stream=True, max_tokens=_MAX_TOKENS):
            pass

    def at_once() -> None:
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(read, prompts))

    def call() -> None:
        lh.generate_parallel(context, prompts, max_tokens=_MAX_TOKENS)

    found = ratios(at_once, call, n_rounds)
    return {"streams": statistics.median(found), "streams_all": found}


def first_piece_s(pieces: Iterator[str]) -> float:
    """Return the seconds until the first piece of a text; ignore the rest."""
    start = time.monotonic()
    next(pieces)
    took = time.monotonic() - start
    pieces.close()
    return took


def beside(context: lh.Context, texts: list[str], n_long: int, n: int) -> dict[str, Any]:
    """Measure single prompts, one after the other, during a call with many prompts."""
    single = [f"{text} So" for text in texts[:n]]
    many = [f"{texts[i % len(texts)]} {i}" for i in range(n_long)]
    options = {"stream": True, "max_tokens": 4}

    def ask(text: str) -> Iterator[str]:
        return lh.generate(context, text, **options)

    def urgent(text: str) -> Iterator[str]:
        handle = context.submit(text, priority=1, stream=True, max_tokens=4)
        yield from handle

    idle = statistics.median(first_piece_s(ask(text)) for text in single)
    alone = lh.generate_parallel(context, many, max_tokens=_MAX_TOKENS).stats
    step_s = alone.wall_s / alone.n_batches
    unit = idle + step_s
    found: dict[str, Any] = {"idle_s": idle, "step_s": step_s}
    ways = {"single": ask}
    if hasattr(context, "submit"):
        ways["priority"] = urgent
    for name, way in ways.items():
        stats: list[lh.Stats] = []

        def run(stats: list[lh.Stats] = stats) -> None:
            out = lh.generate_parallel(context, many, max_tokens=_MAX_TOKENS)
            stats.append(out.stats)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(4 * idle + 0.5)
        times = []
        for text in single:
            times.append(first_piece_s(way(text)))
            if not thread.is_alive():
                break
        n_beside = len(times)
        thread.join()
        found[f"{name}_first_s"] = statistics.median(times)
        found[f"{name}_first"] = statistics.median(times) / unit
        found[f"{name}_n"] = n_beside
        # Share of tokens that belong to the single prompts.
        share = n_beside * 4 / (n_beside * 4 + stats[0].n_generated_tokens)
        found[f"{name}_call"] = stats[0].wall_s / alone.wall_s
        found[f"{name}_share"] = share
    return found


def main() -> None:
    """Measure, and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beside", type=int, default=400)
    parser.add_argument("--singles", type=int, default=20)
    parser.add_argument("--python")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.python:
        arguments = [a for a in sys.argv[1:] if a not in ("--python", options.python)]
        command = [options.python, __file__, *arguments]
        raise SystemExit(subprocess.run(command, check=False).returncode)
    texts = sentences()
    found: dict[str, Any] = {}
    with lh.Model(options.model) as model:
        for measure in (five_callers, streams):
            with lh.Context(model) as context:
                found |= measure(context, texts, options.rounds)
        with lh.Context(model) as context:
            found |= beside(context, texts, options.beside, options.singles)
    line = json.dumps(found)
    print(line)
    if options.output:
        options.output.write_text(line + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
