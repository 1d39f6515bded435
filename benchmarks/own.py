"""Engines of the benchmark that run this project: from Python, R, or prompt by prompt."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
from shape import measure_shape
from workloads import SEED

if TYPE_CHECKING:
    from workloads import Workload

HERE = Path(__file__).parent

N_STREAMS = 32


def run_llamaherd(
    load: Workload, model: str, n_threads: int, **settings: object
) -> dict[str, object]:
    """Run `generate_parallel` with automatic settings, except the number of threads."""
    settings["n_threads"] = n_threads
    with lh.Model(model) as opened, lh.Context(opened, **settings) as ctx:
        lh.generate(ctx, "Hello", max_tokens=2)  # this loads the pages of the model
        setup_s = set_up(ctx, load)
        seconds, decoded, resident = [], [], []
        for i_call in range(load.n_calls):
            took, out = _call(ctx, load, i_call)
            seconds.append(took)
            resident.append(_resident_bytes())
            decoded.append(out.stats.n_prefill_tokens + out.stats.n_generated_tokens)
        record = {
            "seconds": seconds,
            "setup_s": setup_s,
            "decoded": decoded,
            "resident_bytes": resident,
            "texts": out.texts,
            "kv_bytes": ctx.plan.memory_bytes if ctx.plan else None,
            "stats": asdict(out.stats),
        }
        if load.n_calls > 1:
            with lh.Context(opened, **settings) as new:
                record["to_new"] = _compare_ages(load, ctx, new)
        return record


def set_up(ctx: lh.Context, load: Workload) -> float:
    """Create the KV cache for a workload, and return the seconds.

    A context allocates its memory at its first call; here this call is cancelled
    immediately. Competing programs create their cache when they start.
    """
    part = load.call(0)
    params = _params(load, part)
    start = time.perf_counter()
    job = lh.start_parallel(ctx, load.prompts[part], params=params, seed=SEED)
    job.cancel()
    job.wait()
    return time.perf_counter() - start


def _call(ctx: lh.Context, load: Workload, i_call: int) -> tuple[float, lh.Results]:
    """Run one call of a workload; return its seconds and results."""
    part = load.call(i_call)
    params = _params(load, part)
    start = time.perf_counter()
    out = lh.generate_parallel(ctx, load.prompts[part], params=params, seed=SEED)
    seconds = time.perf_counter() - start
    _check([result.n_generated_tokens for result in out], load.max_tokens[part])
    return seconds, out


def run_call(ctx: lh.Context, load: Workload) -> float:
    """Return the duration of a workload's first call on a context, in seconds."""
    return _call(ctx, load, 0)[0]


def _compare_ages(load: Workload, used: lh.Context, new: lh.Context) -> list[float]:
    """Return ratios of call times: time on a used context / time on a new context.

    The new context first makes a warm-up call. Calls alternate, so that drifts of the
    machine's speed affect both contexts equally.
    """
    _call(new, load, 0)
    n_pairs = max(3, load.n_calls // 10)
    pairs = [(_call(new, load, i), _call(used, load, i)) for i in range(1, n_pairs + 1)]
    return [of_used / of_new for (of_new, _), (of_used, _) in pairs]


def run_alone(
    load: Workload, model: str, n_threads: int, **settings: object
) -> dict[str, object]:
    """Run `generate` for each prompt in a new context, so that it starts from nothing."""

    def answer(prompt: str, sampling: lh.SamplingParams) -> str | None:
        with lh.Context(opened, n_threads=n_threads, **settings) as ctx:
            return lh.generate(ctx, prompt, params=sampling).text

    with lh.Model(model) as opened:
        params = _params(load)
        start = time.perf_counter()
        texts = list(map(answer, load.prompts, params))
        return {"seconds": [time.perf_counter() - start], "texts": texts}


def run_streams(load: Workload, model: str, n_threads: int) -> dict[str, object]:
    """Read 32 streams at the same time, each in its own thread; do this five times."""
    prompts = load.prompts[:N_STREAMS]

    def read(prompt: str) -> str:
        return "".join(lh.generate(ctx, prompt, stream=True, max_tokens=32))

    seconds: list[float] = []
    texts: list[str] = []
    with (
        lh.Model(model) as opened,
        lh.Context(opened, n_threads=n_threads) as ctx,
        ThreadPoolExecutor(N_STREAMS) as pool,
    ):
        lh.generate(ctx, "Hello", max_tokens=2)  # this loads the pages of the model
        for _ in range(5):
            start = time.perf_counter()
            texts = list(pool.map(read, prompts))
            seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "texts": texts}


def run_r(load: Workload, model: str, n_threads: int) -> dict[str, object]:
    """Run the call from R, and measure the seconds that R adds to calls."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"prompts": load.prompts, "max_tokens": load.max_tokens}, file)
        file.flush()
        command = ["Rscript", "--vanilla", str(HERE / "bridge.R")]
        command += [file.name, model, str(n_threads), str(SEED)]
        environment = os.environ | {
            "RETICULATE_PYTHON": sys.executable,
            "R_LIBS": str(HERE.parent / ".rlib"),
        }
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, env=environment
        )
    result: dict[str, object] = json.loads(done.stdout)
    return result


def count(load: Workload, model: str, _n_threads: int) -> dict[str, object]:
    """Return the workload in tokens, and whether the model has sliding windows."""
    with lh.Model(model) as opened:
        prompts = [lh.tokenize(opened, prompt) for prompt in load.prompts]
        n_swa = opened.info.n_swa
    shape = measure_shape(prompts, load.max_tokens, greedy=load.temperature == 0)
    needs = [len(p) + n for p, n in zip(prompts, load.max_tokens, strict=True)]
    return {
        "shape": asdict(shape),
        "max_tokens": load.max_tokens,
        "most_cells": max(needs),
        "n_swa": n_swa,
    }


def _params(load: Workload, part: slice = slice(None)) -> list[lh.SamplingParams]:
    return [
        lh.SamplingParams(temperature=load.temperature, max_tokens=n, ignore_eos=True)
        for n in load.max_tokens[part]
    ]


def _check(generated: list[int], expected: list[int]) -> None:
    """Raise an error if a run generated fewer tokens than the workload requires."""
    if generated != expected:
        raise RuntimeError(f"generated {generated} tokens, not {expected}")


def _resident_bytes() -> int | None:
    """Return the current resident memory; None on systems without /proc."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return None
    return int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
