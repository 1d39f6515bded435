"""Compare llamaherd with other programs on one GPU: gpu_peers.py MODEL OUTPUT.json.

The workloads of `workloads.py` run with all layers on the GPU, in llamaherd, in
llama-server and in a loop over llama-cpp-python, all with the same CUDA kernels. The
second model is random, with about 7 billion parameters in Q8_0. Each program first runs a
small warm-up workload. llama-server runs with 16, 32 and 64 slots; the table has its
fastest run.

`gpu.py report` writes the tables into docs/gpu.md. vLLM is not among the programs.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import llama_cpp
import llamaherd as lh
import own
import peers
import random_model
from workloads import SEED, Workload, make_workloads

# llama-cpp-python logs every detail until a `Llama` sets its log level.
logging.getLogger("llama-cpp-python").setLevel(logging.CRITICAL)
SLOTS = (16, 32, 64)
N_THREADS = 8
N_RUNS = 3
SMALL = ("distinct", "annotate", "tree", "mixed", "samples", "long")
LARGE = ("distinct", "annotate")


def own_seconds(model: lh.Model, load: Workload, warm_up: Workload) -> float:
    """Return the duration of a workload in llamaherd, on a new context."""
    with lh.Context(model, n_threads=N_THREADS) as context:
        own.run_call(context, warm_up)
        own.set_up(context, load)
        return own.run_call(context, load)


def loop_seconds(path: str, load: Workload) -> float:
    """Return the duration of a workload in a loop over llama-cpp-python."""
    llama = llama_cpp.Llama(
        path, n_gpu_layers=-1, n_ctx=8192, flash_attn=True, verbose=False
    )
    vocab = llama_cpp.llama_model_get_vocab(llama.model)
    ends = [
        token
        for token in range(llama.n_vocab())
        if llama_cpp.llama_vocab_is_eog(vocab, token)
    ]
    llama("Hello", max_tokens=8)
    start = time.perf_counter()
    for i, (prompt, n) in enumerate(zip(load.prompts, load.max_tokens, strict=True)):
        llama(
            prompt,
            max_tokens=n,
            temperature=load.temperature,
            logit_bias=dict.fromkeys(ends, -1e30),
            seed=SEED + i,
        )
    seconds = time.perf_counter() - start
    llama.close()
    return seconds


def server_seconds(
    path: str, load: Workload, warm_up: Workload, longest: int
) -> dict[str, float]:
    """Return the durations of a workload in llama-server, by the number of slots."""
    found = {}
    for n_slots in SLOTS:
        result = peers.run_server(
            load, path, N_THREADS, longest, n_slots, n_gpu_layers=999, warm_up=warm_up
        )
        found[str(n_slots)] = result["seconds"][0]
    return found


def measure(path: str, names: tuple[str, ...], *, loop: bool) -> dict[str, Any]:
    """Return seconds by workload and program; the runs of llamaherd are medians."""
    loads, warm_ups = make_workloads(), make_workloads(quick=True)
    found: dict[str, Any] = {}
    for name in names:
        load, warm_up = loads[name], warm_ups[name]
        with lh.Model(path, n_gpu_layers=-1) as model:
            longest = max(
                len(lh.tokenize(model, prompt)) + n
                for prompt, n in zip(load.prompts, load.max_tokens, strict=True)
            )
            runs = [own_seconds(model, load, warm_up) for _ in range(N_RUNS)]
        servers = server_seconds(path, load, warm_up, longest)
        found[name] = {
            "n_tokens": sum(load.max_tokens),
            "llamaherd": median(runs),
            "llama-server": min(servers.values()),
            "slots": int(min(servers, key=servers.__getitem__)),
            **({"loop": loop_seconds(path, load)} if loop else {}),
        }
        print(name, json.dumps(found[name]), runs, servers, flush=True)
    return found


def main(smollm2: str, output: Path) -> None:
    """Measure both models, and write the result after each."""
    found = {"SmolLM2-135M Q4_0": measure(smollm2, SMALL, loop=True)}
    output.write_text(json.dumps(found, indent=1) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        path = random_model.write("7b", f"{folder}/random.gguf")
        found["random, 7 billion, Q8_0"] = measure(path, LARGE, loop=False)
    output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
