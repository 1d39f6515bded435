"""Speed on a GPU, effect of batches on answers, and comparison with other programs.

    gpu.py run MODEL OUTPUT.json    measures, on a machine with a GPU build
    gpu.py peers MODEL OUTPUT.json  the same workloads in other programs
    gpu.py report                   gpu.json and gpu_peers.json into docs/gpu.md

`run` measures a loop of llama-cpp-python; concurrent prompts; the time of a step by its
number of rows, on a random model with 1.1 billion parameters (Q8_0); the cache in host
memory; and the share of prompts with the same answer when run alone and together with
other prompts.

`peers` runs the workloads of workloads.py with all layers on the GPU, in llamaherd, in
llama-server (with 16, 32 and 64 slots: the fastest counts) and in a loop over
llama-cpp-python, all with the same CUDA kernels, each after a small warm-up workload. The
second model is random, with about 7 billion parameters in Q8_0.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import llamaherd as lh
import marked
import numpy as np
import own
import peers
import random_model
from llamaherd.engine.native import shim
from marked import table
from worker import run_loop
from workloads import Workload, make_workloads

# llama-cpp-python logs every detail until a `Llama` sets its log level.
logging.getLogger("llama-cpp-python").setLevel(logging.CRITICAL)
RESULT = Path(__file__).with_suffix(".json")
PEERS = Path(__file__).with_name("gpu_peers.json")
PEERS_HEAD = "model", "workload", "llamaherd, s", "llama-server / own", "loop / own"
WORDS = (
    *("the", "sea", "bread", "Paris", "winter", "trains"),
    *("music", "moon", "river", "stone", "paper", "light"),
)
AT_ONCE = (1, 8, 16, 32, 40, 64, 120, 240)
ROWS = (1, 2, 4, 8, 9, 16, 24, 32, 40, 48, 64, 96, 128, 192, 248)
SLOTS = (16, 32, 64)
N_THREADS = 8
ON_GPU = {"n_gpu_layers": -1, "n_ctx": 8192}  # settings of the loop
N_RUNS = 3
SMALL = ("distinct", "annotate", "tree", "mixed", "samples", "long")
LARGE = ("distinct", "annotate")
_RULES = "Label the topic of this text with one word. " * 8


def prompts(n: int, low: int, high: int, *, seed: int = 1, head: str = "") -> list[str]:
    """Return random prompts that differ from each other."""
    draw = random.Random(seed)  # noqa: S311 - texts of a benchmark
    texts = (" ".join(draw.choices(WORDS, k=draw.randint(low, high))) for _ in range(n))
    return [f"{head}{text} {i}:" for i, text in enumerate(texts)]


def seconds(context: lh.Context, batch: list[Any], **settings: object) -> float:
    """Return the shorter duration of two calls, after a call that sizes the context."""
    lh.generate_parallel(context, batch, max_tokens=2, ignore_eos=True)
    times = []
    for _ in range(2):
        start = time.perf_counter()
        lh.generate_parallel(context, batch, ignore_eos=True, **settings)
        times.append(time.perf_counter() - start)
    return min(times)


def throughput(model: lh.Model) -> dict[str, float]:
    """Return tokens per second by the number of prompts at once."""
    rates = {}
    settings: dict[str, dict[str, Any]] = {str(n): {"n_seq_max": n} for n in AT_ONCE}
    settings["deterministic"] = {"n_seq_max": 40, "deterministic": True}
    settings["cache in host memory"] = {"n_seq_max": 40, "offload_kqv": False}
    for name, options in settings.items():
        n = options["n_seq_max"]
        batch = prompts(n if n < 64 else 240, 30, 60)
        with lh.Context(model, **options) as context:
            rates[name] = len(batch) * 64 / seconds(context, batch, max_tokens=64)
    return rates


def step_times(model: lh.Model) -> dict[str, float]:
    """Return the milliseconds of a step by its number of rows."""
    times_ms = {}
    for n in ROWS:
        batch = [[5 + (i * 7 + j) % 3000 for j in range(8)] for i in range(n)]
        with lh.Context(model, n_seq_max=n, kv_layout="per_sequence") as context:
            times_ms[str(n)] = seconds(context, batch, max_tokens=48) / 48 * 1000
    return times_ms


def compared_prompts() -> list[str]:
    """Return prompts of which a third begin with the same rules."""
    return [*prompts(24, 20, 60), *prompts(12, 60, 80, seed=3, head=_RULES)]


def answers(model: lh.Model, batch: list[str], **settings: object) -> list[lh.Result]:
    """Return the answers of a new context."""
    more = {"max_tokens": 12, "ignore_eos": True, "logprobs": 0}
    with lh.Context(model, **settings) as context:
        return list(lh.generate_parallel(context, batch, **more))


def equal_shares(model: lh.Model, **settings: object) -> list[float]:
    """Compare prompts run alone with the same prompts run together; return two shares.

    The two values are the share of equal texts, and the share of answers with equal bits.
    """
    batch = compared_prompts()
    # Alone: each in a new context, so that it starts from nothing.
    alone = [answers(model, [prompt], n_seq_max=1, **settings)[0] for prompt in batch]
    return _equal_shares(alone, answers(model, batch, n_seq_max=40, **settings))


def again(model: lh.Model, n_seq_max: int) -> list[float]:
    """Repeat a call on a new context; return the shares of equal texts and equal bits.

    With `n_seq_max=1`, the second call has the prompts in the opposite order.
    """
    batch = compared_prompts()
    step = -1 if n_seq_max == 1 else 1
    first = answers(model, batch, n_seq_max=n_seq_max)
    second = answers(model, batch[::step], n_seq_max=n_seq_max)[::step]
    return _equal_shares(first, second)


def _equal_shares(first: list[lh.Result], second: list[lh.Result]) -> list[float]:
    pairs = list(zip(first, second, strict=True))
    texts = np.mean([a.text == b.text for a, b in pairs])
    bits = np.mean([a.logprobs == b.logprobs for a, b in pairs])
    return [float(texts), float(bits)]


def run(path: str, output: Path) -> None:
    """Measure everything with a model, and write the result."""
    results: dict[str, Any] = {"device": shim.gpus()[0].description}
    loop = Workload(prompts(24, 30, 60), [64] * 24)
    results["loop"] = run_loop(loop, path, N_THREADS, **ON_GPU)["seconds"][0] / 24
    with lh.Model(path, n_gpu_layers=-1) as model:
        results["throughput"] = throughput(model)
        results["same"] = {"Q4_0": equal_shares(model)}
        results["same"]["Q4_0, deterministic"] = equal_shares(model, deterministic=True)
        results["same"]["Q4_0, the same call again"] = again(model, 40)
        results["same"]["Q4_0, `n_seq_max=1`, in another order"] = again(model, 1)
    with lh.Model(path) as model:
        key = "Q4_0, deterministic, no layers on the GPU"
        results["same"][key] = equal_shares(model, deterministic=True)
    with tempfile.TemporaryDirectory() as folder:
        path = random_model.write("1b", f"{folder}/random.gguf")
        with lh.Model(path, n_gpu_layers=-1) as model:
            results["steps"] = step_times(model)
    output.write_text(json.dumps(results, indent=1) + "\n")


def own_seconds(model: lh.Model, load: Workload, warm_up: Workload) -> float:
    """Return the duration of a workload in llamaherd, on a new context."""
    with lh.Context(model, n_threads=N_THREADS) as context:
        own.run_call(context, warm_up)
        own.set_up(context, load)
        return own.run_call(context, load)


def peers_of(path: str, names: tuple[str, ...], *, loop: bool) -> dict[str, Any]:
    """Return seconds by workload and program; the runs of llamaherd are medians."""
    loads, warm_ups = make_workloads(), make_workloads(quick=True)
    by_workload: dict[str, Any] = {}
    for name in names:
        load, warm_up = loads[name], warm_ups[name]
        with lh.Model(path, n_gpu_layers=-1) as model:
            longest = max(
                len(lh.tokenize(model, prompt)) + n
                for prompt, n in zip(load.prompts, load.max_tokens, strict=True)
            )
            runs = [own_seconds(model, load, warm_up) for _ in range(N_RUNS)]
        servers = {}  # seconds of llama-server, by the number of slots
        for n in SLOTS:
            result = peers.run_server(
                load, path, N_THREADS, longest, n, n_gpu_layers=999, warm_up=warm_up
            )
            servers[n] = result["seconds"][0]
        by_workload[name] = {
            "n_tokens": sum(load.max_tokens),
            "llamaherd": median(runs),
            "llama-server": min(servers.values()),
            "slots": min(servers, key=servers.__getitem__),
        }
        if loop:
            looped = run_loop(load, path, N_THREADS, **ON_GPU)
            by_workload[name]["loop"] = looped["seconds"][0]
        print(name, json.dumps(by_workload[name]), runs, servers, flush=True)
    return by_workload


def run_peers(smollm2: str, output: Path) -> None:
    """Measure both models, and write the result."""
    results = {"SmolLM2-135M Q4_0": peers_of(smollm2, SMALL, loop=True)}
    with tempfile.TemporaryDirectory() as folder:
        path = random_model.write("7b", f"{folder}/random.gguf")
        results["random, 7 billion, Q8_0"] = peers_of(path, LARGE, loop=False)
    output.write_text(json.dumps(results, indent=1) + "\n")


def report() -> None:
    """Write the tables of docs/gpu.md."""
    results = json.loads(RESULT.read_text())
    loop = 64 / results["loop"]
    rates = [
        [n if n.isdigit() else f"40, {n}", f"{rate:.0f}", f"{rate / loop:.1f} x"]
        for n, rate in results["throughput"].items()
    ]
    steps = [
        [n, f"{ms:.2f}", f"{int(n) / ms * 1000:.0f}"]
        for n, ms in results["steps"].items()
    ]
    equal = [
        [name, *(f"{share:.0%}" for share in shares)]
        for name, shares in results["same"].items()
    ]
    parts = {
        "throughput": table(["prompts at once", "tokens/s", "the loop"], rates),
        "steps": table(["rows of a step", "ms", "tokens/s"], steps, 0),
        "same": table(["model", "same texts", "same bits"], equal),
        "peers": table(PEERS_HEAD, _peer_rows(), 2),
    }
    marked.write("docs/gpu.md", parts)


def _peer_rows() -> list[list[str]]:
    """Return the rows of the table of the other programs."""
    rows = []
    for model, workloads in json.loads(PEERS.read_text()).items():
        for name, times in workloads.items():
            own_s = times["llamaherd"]
            ratios = [
                f"{times[peer] / own_s:.1f}" if peer in times else ""
                for peer in ("llama-server", "loop")
            ]
            rows.append([model, name, f"{own_s:.2f}", *ratios])
    return rows


def main(arguments: list[str]) -> None:
    """Run `run MODEL OUTPUT`, `peers MODEL OUTPUT` or `report`."""
    warnings.simplefilter("ignore")
    match arguments:
        case ["run", path, output]:
            run(path, Path(output))
        case ["peers", path, output]:
            run_peers(path, Path(output))
        case ["report"]:
            report()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
