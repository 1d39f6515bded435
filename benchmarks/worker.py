"""Runs one workload once with one engine, in a process of its own, and prints JSON.

python benchmarks/worker.py ENGINE WORKLOAD MODEL N_THREADS [--quick]
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
from typing import TYPE_CHECKING

from workloads import make_workloads

if TYPE_CHECKING:
    from workloads import Workload

N_CTX_LOOP = 2048  # of the loop; every prompt with its answer fits


def run_llamaherd(load: Workload, model: str, n_threads: int) -> dict[str, object]:
    """`generate_parallel`, everything automatic but the number of threads."""
    import llamaherd as lh  # noqa: PLC0415 - an engine loads its own library only

    with lh.Model(model) as opened, lh.Context(opened, n_threads=n_threads) as ctx:
        params = [
            lh.SamplingParams(temperature=load.temperature, max_tokens=n, ignore_eos=True)
            for n in load.max_tokens
        ]
        lh.generate(ctx, load.prompts[0], max_tokens=2)  # pages of the model come in
        seconds, texts, decoded = [], [], []
        for _ in range(load.n_calls):
            start = time.perf_counter()
            out = lh.generate_parallel(ctx, load.prompts, params=params)
            seconds.append(time.perf_counter() - start)
            decoded.append(out.stats.n_prefill_tokens + out.stats.n_generated_tokens)
            texts = out.texts
        return {"seconds": seconds, "decoded": decoded, "texts": texts}


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
    never = {llama.token_eos(): -1e30}
    llama(load.prompts[0], max_tokens=2)
    seconds, texts = [], []
    for _ in range(load.n_calls):
        start = time.perf_counter()
        texts = [
            llama(
                prompt,
                max_tokens=n,
                temperature=load.temperature,
                top_k=40,
                top_p=1.0,
                min_p=0.05,
                repeat_penalty=1.0,
                logit_bias=never,
                seed=i,
            )["choices"][0]["text"]
            for i, (prompt, n) in enumerate(
                zip(load.prompts, load.max_tokens, strict=True)
            )
        ]
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "texts": texts}


ENGINES = {"llamaherd": run_llamaherd, "loop": run_loop}


def main(argv: list[str]) -> None:
    """Prints one line of JSON."""
    engine, name, model, n_threads = argv[:4]
    load = make_workloads(quick="--quick" in argv)[name]
    result = ENGINES[engine](load, model, int(n_threads))
    texts = result.pop("texts")
    digests = [hashlib.sha256(str(text).encode()).hexdigest()[:16] for text in texts]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sys.stdout.write(
        json.dumps(
            {
                "engine": engine,
                "workload": name,
                "n_generated": sum(load.max_tokens) * load.n_calls,
                "peak_bytes": peak,
                "texts": digests,
                **result,
            }
        )
        + "\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
