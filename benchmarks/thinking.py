"""Time of thoughts and answers as a multiple of T*.

    python benchmarks/thinking.py MODEL.gguf [--rounds 5] [--quick] [--write]

A chat template opens a thought before each answer. T* is defined as in
docs/performance.md, for all tokens: distinct prompt tokens and forced tokens at the
prefill rate, and one token of each unfinished thought or answer per step. The rates are
measured by llama-batched-bench (benchmarks/build_peers.sh) before and after each run.
benchmarks/before.py measures the cost of the code for thoughts in calls without
thoughts. With --write, the table is written into docs/thinking.md.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import marked
import peers
from disturbance import watch
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests
from rounds import rounds_parser
from shape import Shape, ideal_seconds, measure_shape
from thinking_accuracy import PAGE, TEMPLATE
from workloads import SEED, make_workloads

if TYPE_CHECKING:
    import argparse

BUDGET, QUICK_BUDGET = 64, 8
MAX_TOKENS, QUICK_MAX_TOKENS = 16, 4
COLUMNS = (
    *("model", "prompts", "thinking tokens", "closed by force", "time, s", "T\\*, s"),
    *("time / T\\*, median", "from", "to"),
)
_UBATCHES = (512, 1024)


@dataclass(frozen=True, slots=True)
class Thought:
    """A run with thoughts.

    Attributes:
        seconds: Seconds of the call.
        shape: Numbers of all tokens of the run.
        n_thinking: Number of tokens of thoughts.
        n_closed: Number of thoughts that were closed by force.
    """

    seconds: float
    shape: Shape
    n_thinking: int
    n_closed: int


def think(model: lh.Model, prompts: list[str], options: argparse.Namespace) -> Thought:
    """Answer prompts after thoughts, in a new context."""
    how: dict[str, Any] = {
        "chat": True,
        "template": TEMPLATE,
        "thinking": QUICK_BUDGET if options.quick else BUDGET,
    }
    n_new = QUICK_MAX_TOKENS if options.quick else MAX_TOKENS
    call: dict[str, Any] = {**how, "max_tokens": n_new, "ignore_eos": True, "seed": SEED}
    with lh.Context(model, n_threads=options.threads) as context:
        lh.generate(context, "Hello", max_tokens=2)  # pages of the model come in
        job = lh.start_parallel(context, prompts, **call)  # makes the cache
        job.cancel()
        job.wait()
        start = time.perf_counter()
        found = lh.generate_parallel(context, prompts, **call)
        seconds = time.perf_counter() - start
    lengths = [r.n_thinking_tokens + r.n_generated_tokens for r in found]
    if any(r.n_generated_tokens != n_new for r in found):
        raise RuntimeError("an answer has another number of tokens than it had to have")
    requests = make_requests(model, prompts, GenerateOptions(**how))[0]
    shape = measure_shape([list(r.tokens) for r in requests], lengths, greedy=True)
    n_forced = sum(
        len(r.thought.after if result.thinking_complete else r.thought.closing)
        for r, result in zip(requests, found, strict=True)
        if r.thought is not None
    )
    shape = replace(shape, n_unique_tokens=shape.n_unique_tokens + n_forced)
    stats = found.stats
    return Thought(seconds, shape, stats.n_thinking_tokens, stats.n_thoughts_closed)


def ideal_of(shape: Shape, rates: dict[str, Any]) -> float:
    """Return T* in seconds, from one measurement of the rates."""
    return ideal_seconds(shape, rates["prefill"], rates["decode"])


def against_ideal(options: argparse.Namespace) -> list[str]:
    """Return the lines of the table of times relative to T*."""
    texts = make_workloads(quick=options.quick)["distinct"].prompts
    prompts = [f"What is said here? {text}" for text in texts]
    rows: list[tuple[float, float]] = []
    with lh.Model(options.model) as model:
        run = think(model, prompts, options)
        ubatches: tuple[int, ...] = _UBATCHES
        for i in range(options.rounds):
            record: dict[str, object] = {}
            path = str(options.model)
            before = peers.measure_rates(path, run.shape, options.threads, ubatches)
            ubatches = (int(str(before["ubatch"])),)
            with watch(record):
                run = think(model, prompts, options)
            after = peers.measure_rates(path, run.shape, options.threads, ubatches)
            ideal = (ideal_of(run.shape, before) + ideal_of(run.shape, after)) / 2
            rows.append((run.seconds, ideal))
            print(i + 1, f"{run.seconds:.2f} s, T* {ideal:.2f} s", record, flush=True)
    ratios = [seconds / ideal for seconds, ideal in rows]
    cells = [
        *(options.model.stem, str(len(prompts)), f"{run.n_thinking:,}"),
        *(str(run.n_closed), f"{statistics.median(s for s, _ in rows):.2f}"),
        f"{statistics.median(t for _, t in rows):.2f}",
        *(f"{f(ratios):.3f}" for f in (statistics.median, min, max)),
    ]
    return [
        f"| {' | '.join(COLUMNS)} |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        f"| {' | '.join(cells)} |",
    ]


def main() -> None:
    """Run the measurements that the command line selects."""
    parser = rounds_parser(__doc__, "docs/thinking.md")
    parser.add_argument("model", type=Path, metavar="MODEL")
    options = parser.parse_args()
    table = "\n".join(against_ideal(options))
    print(table)
    if options.write:
        marked.write(PAGE, {"thinking: cost": table})


if __name__ == "__main__":
    main()
