"""Runs one workload once with one engine, in a process of its own, and prints JSON.

python benchmarks/worker.py ENGINE WORKLOAD MODEL N_THREADS [--quick]
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import resource
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import peers
from shape import measure_shape
from workloads import SEED, make_workloads

if TYPE_CHECKING:
    from collections.abc import Callable

    import llamaherd as lh
    from workloads import Workload

    Run = Callable[[Workload, str, int], dict[str, object]]

N_CTX_LOOP = 2048  # of the loop; every prompt with its answer fits


# ---- this project ---------------------------------------------------------------------


def run_llamaherd(
    load: Workload, model: str, n_threads: int, **settings: object
) -> dict[str, object]:
    """`generate_parallel`, everything automatic but the number of threads."""
    import llamaherd as lh  # noqa: PLC0415 - an engine loads its own library only

    with (
        lh.Model(model) as opened,
        lh.Context(opened, n_threads=n_threads, **settings) as ctx,
    ):
        lh.generate(ctx, "Hello", max_tokens=2)  # pages of the model come in
        seconds, outs = [], []
        for _ in range(load.n_calls):
            start = time.perf_counter()
            outs.append(
                lh.generate_parallel(ctx, load.prompts, params=_params(load), seed=SEED)
            )
            seconds.append(time.perf_counter() - start)
        _check(outs[-1], load)
        return {
            "seconds": seconds,
            "decoded": [
                out.stats.n_prefill_tokens + out.stats.n_generated_tokens for out in outs
            ],
            "texts": outs[-1].texts,
            "kv_bytes": ctx.plan.memory_bytes if ctx.plan else None,
            "stats": asdict(outs[-1].stats),
        }


def run_deterministic(load: Workload, model: str, n_threads: int) -> dict[str, object]:
    """As `run_llamaherd`, with answers that do not depend on their companions."""
    return run_llamaherd(load, model, n_threads, deterministic=True)


def run_alone(
    load: Workload, model: str, n_threads: int, **settings: object
) -> dict[str, object]:
    """`generate`, one prompt after the other, each computed from its first token."""
    import llamaherd as lh  # noqa: PLC0415

    if "keep_prefixes" in inspect.signature(lh.Context).parameters:
        settings["keep_prefixes"] = False
    with (
        lh.Model(model) as opened,
        lh.Context(opened, n_threads=n_threads, **settings) as ctx,
    ):
        start = time.perf_counter()
        texts = [
            lh.generate(ctx, prompt, params=params).text
            for prompt, params in zip(load.prompts, _params(load), strict=True)
        ]
        return {"seconds": [time.perf_counter() - start], "texts": texts}


def run_alone_deterministic(
    load: Workload, model: str, n_threads: int
) -> dict[str, object]:
    """As `run_alone`, in the deterministic mode."""
    return run_alone(load, model, n_threads, deterministic=True)


def _params(load: Workload) -> list[lh.SamplingParams]:
    import llamaherd as lh  # noqa: PLC0415

    return [
        lh.SamplingParams(temperature=load.temperature, max_tokens=n, ignore_eos=True)
        for n in load.max_tokens
    ]


def _check(out: lh.Results, load: Workload) -> None:
    """Refuses figures of a run that did less than it had to."""
    generated = [result.n_generated_tokens for result in out]
    if generated != load.max_tokens:
        raise RuntimeError(f"generated {generated} tokens, not {load.max_tokens}")


# ---- peers ----------------------------------------------------------------------------


def run_loop(load: Workload, model: str, n_threads: int) -> dict[str, object]:
    """What people write today with llama-cpp-python: one prompt after the other."""
    import llama_cpp  # noqa: PLC0415

    llama = llama_cpp.Llama(
        model,
        n_ctx=N_CTX_LOOP,
        n_threads=n_threads,
        n_threads_batch=n_threads,
        flash_attn=True,
        verbose=False,
    )
    vocab = llama_cpp.llama_model_get_vocab(llama.model)
    never = {
        token: -1e30
        for token in range(llama.n_vocab())
        if llama_cpp.llama_vocab_is_eog(vocab, token)
    }
    llama("Hello", max_tokens=2)
    seconds: list[float] = []
    texts: list[str] = []
    for _ in range(load.n_calls):
        start = time.perf_counter()
        texts = []
        for i, (prompt, n) in enumerate(zip(load.prompts, load.max_tokens, strict=True)):
            out = llama(
                prompt,
                max_tokens=n,
                temperature=load.temperature,
                top_k=40,
                top_p=1.0,
                min_p=0.05,
                repeat_penalty=1.0,
                logit_bias=never,
                seed=SEED + i,
            )
            if out["usage"]["completion_tokens"] != n:
                raise RuntimeError(f"the loop generated {out['usage']}, not {n} tokens")
            texts.append(out["choices"][0]["text"])
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "texts": texts}


def run_server(
    load: Workload, model: str, n_threads: int, name: str
) -> dict[str, object]:
    """`server-N` or `server-N-swa`: llama-server with N slots."""
    slots, *swa = name.split("-")[1:]
    longest = max(
        len(tokens) + n
        for tokens, n in zip(_tokens(load, model), load.max_tokens, strict=True)
    )
    return peers.run_server(load, longest, model, n_threads, int(slots), swa=bool(swa))


# ---- what is no engine ----------------------------------------------------------------


def _tokens(load: Workload, model: str) -> list[list[int]]:
    import llamaherd as lh  # noqa: PLC0415

    with lh.Model(model) as opened:
        return [lh.tokenize(opened, prompt) for prompt in load.prompts]


def count(load: Workload, model: str, _n_threads: int) -> dict[str, object]:
    """The workload in tokens, and whether the model has sliding windows."""
    import llamaherd as lh  # noqa: PLC0415

    shape = measure_shape(
        _tokens(load, model), load.max_tokens, greedy=load.temperature == 0
    )
    with lh.Model(model) as opened:
        return {"shape": asdict(shape), "n_swa": opened.info.n_swa}


ENGINES: dict[str, Run] = {
    "llamaherd": run_llamaherd,
    "deterministic": run_deterministic,
    "alone": run_alone,
    "alone-deterministic": run_alone_deterministic,
    "loop": run_loop,
    "count": count,
}


def digest(text: str) -> str:
    """Stands for a text in the results."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _memory() -> dict[str, int]:
    """Peak resident memory, and how much of what is resident belongs to no file."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"peak_bytes": peak}


def main() -> None:
    """Prints one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("engine")
    parser.add_argument("workload")
    parser.add_argument("model")
    parser.add_argument("n_threads", type=int)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    load = make_workloads(quick=options.quick)[options.workload]
    start_bytes = _memory()["peak_bytes"]
    arguments = (load, options.model, options.n_threads)
    if options.engine.startswith("server-"):
        result = run_server(*arguments, options.engine)
    else:
        result = ENGINES[options.engine](*arguments)
    if "texts" in result:
        result["texts"] = [digest(text) for text in result["texts"]]
    record = {"start_bytes": start_bytes} | _memory() | result
    sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
