"""Runs one workload once with one engine, in its own process, and prints JSON.

python benchmarks/worker.py ENGINE WORKLOAD MODEL N_THREADS [--quick] [--cells N]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import peers
from workloads import SEED, make_workloads

if TYPE_CHECKING:
    from workloads import Workload

N_CTX_LOOP = 2048  # cells of the loop: every prompt fits with its answer


def run_own(engine: str, load: Workload, model: str, n_threads: int) -> dict[str, object]:
    """Run an engine of this project.

    Processes that run other programs do not load llamaherd's library.
    """
    import own

    if engine == "scheduling":
        import scheduling

        return scheduling.measure()
    runs = {
        "llamaherd": own.run_llamaherd,
        "deterministic": partial(own.run_llamaherd, deterministic=True),
        "alone": own.run_alone,
        "alone-deterministic": partial(own.run_alone, deterministic=True),
        "r": own.run_r,
        "streams": own.run_streams,
        "count": own.count,
    }
    return runs[engine](load, model, n_threads)


def run_loop(
    load: Workload, model: str, n_threads: int, **settings: int
) -> dict[str, object]:
    """Run the common loop over llama-cpp-python: one prompt after the other."""
    import llama_cpp

    threads = {"n_threads": n_threads, "n_threads_batch": n_threads}
    settings = {"n_ctx": N_CTX_LOOP, **threads, **settings}
    llama = llama_cpp.Llama(model, flash_attn=True, verbose=False, **settings)
    vocab = llama_cpp.llama_model_get_vocab(llama.model)
    never = {
        token: -1e30
        for token in range(llama.n_vocab())
        if llama_cpp.llama_vocab_is_eog(vocab, token)
    }
    llama("Hello", max_tokens=2)
    texts: list[str] = []
    start = time.perf_counter()
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
    seconds = time.perf_counter() - start
    llama.close()
    return {"seconds": [seconds], "texts": texts}


def digest(text: str) -> str:
    """Return a hash that replaces a text in the results."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _peak_bytes() -> int:
    """Return the peak resident memory of this process, including pages of the model."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("engine", help="server-N and server-N-swa: with N slots")
    parser.add_argument("workload")
    parser.add_argument("model")
    parser.add_argument("n_threads", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cells", type=int, help="of the longest prompt, for a server")
    options = parser.parse_args()
    load = make_workloads(quick=options.quick)[options.workload]
    arguments = (load, options.model, options.n_threads)
    name, *details = options.engine.split("-")
    if name == "server":
        swa = details[1:] == ["swa"]
        result = peers.run_server(*arguments, options.cells, int(details[0]), swa=swa)
    elif name == "loop":
        result = run_loop(*arguments)
    else:
        result = run_own(options.engine, *arguments)
    if "texts" in result:
        result["texts"] = [digest(text) for text in result["texts"]]
    record = {
        "model_bytes": Path(options.model).stat().st_size,
        "peak_bytes": None if name == "r" else _peak_bytes(),
    }
    sys.stdout.write(json.dumps(record | result) + "\n")


if __name__ == "__main__":
    main()
