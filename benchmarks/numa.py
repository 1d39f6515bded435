"""Speed by the number of threads, on machines with many cores or several memory nodes.

    benchmarks/numa.py MODEL [--prompts 64] [--tokens 48] [--rounds 3] [--threads 1 2 4]
                       [--output speed-by-threads.json]

Generates the same answers with each number of threads, in turns, and prints median
speeds. Without --threads, the numbers are 1, 2, 4 ... up to the number of processors, the
number of processors of each memory node, and the number of all cores. Send the JSON file
to the project: it has the machine's processors, memory nodes and libraries, and no names
of users or files. To compare placements of memory, start the program under numactl:

    numactl --cpunodebind=0 --membind=0 python benchmarks/numa.py MODEL
    numactl --interleave=all python benchmarks/numa.py MODEL
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import llamaherd as lh
import psutil
from llamaherd.engine.memory import hardware
from llamaherd.engine.native import shim

_NODES = Path("/sys/devices/system/node")
_CPUINFO = Path("/proc/cpuinfo")


def processor() -> str:
    """Return the name of the processor."""
    if _CPUINFO.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", _CPUINFO.read_text(), re.MULTILINE)
        if found:
            return found[1]
    return platform.processor() or platform.machine()


def nodes() -> dict[str, str]:
    """Return the processors of each memory node, as Linux lists them; {} elsewhere."""
    return {
        path.name: (path / "cpulist").read_text().strip()
        for path in sorted(_NODES.glob("node[0-9]*"))
    }


def n_of(cpulist: str) -> int:
    """Return the number of processors in a list such as 0-3,8-11."""
    n = 0
    for part in cpulist.split(","):
        low, _, high = part.partition("-")
        n += int(high or low) - int(low) + 1
    return n


def machine() -> dict[str, Any]:
    """Describe this machine; to be called last, because llama_cpp prints logs."""
    import llama_cpp  # noqa: PLC0415

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": processor(),
        "logical_processors": os.cpu_count(),
        "usable_processors": usable,
        "physical_cores": psutil.cpu_count(logical=False),
        "cores_of_llamaherd": hardware.n_cores(),
        "memory_nodes": nodes(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "llamaherd": lh.__version__,
        "llama_cpp_python": llama_cpp.__version__,
        "own_threads": bool(shim.own_threads()),
        "features": llama_cpp.llama_print_system_info().decode(),
    }


def numbers_of_threads() -> list[int]:
    """Return the numbers of threads to measure on this machine."""
    most = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        most = len(os.sched_getaffinity(0))
    found = {2**i for i in range(most.bit_length()) if 2**i <= most}
    found |= {most, hardware.n_cores(), psutil.cpu_count(logical=False) or 1}
    found |= {n_of(cpus) for cpus in nodes().values() if cpus}
    return sorted(n for n in found if 1 <= n <= most)


def prompts(n: int) -> list[str]:
    """Return prompts of some 60 tokens that differ from the first word on."""
    text = "The old harbour of the town lies at the mouth of the river, where ships "
    return [f"{i}. {text * 3} {i}" for i in range(n)]


def one_round(model: lh.Model, n_threads: int, n: int, n_tokens: int) -> dict[str, float]:
    """Measure the speeds of prompts and of answers, in tokens per second.

    Returns:
        "prompt": speed of the prompt tokens in a call that generates one token per
        prompt; "answer": speed of the generated tokens in a call with long answers, whose
        time includes the prompts.
    """
    asked = prompts(n)
    with lh.Context(model, n_seq_max=n, n_threads=n_threads) as context:
        lh.generate_parallel(context, asked[:2], max_tokens=2, ignore_eos=True)
        start = time.perf_counter()
        read = lh.generate_parallel(context, asked, max_tokens=1, ignore_eos=True)
        middle = time.perf_counter()
        lh.generate_parallel(context, asked, max_tokens=n_tokens, ignore_eos=True)
        end = time.perf_counter()
    n_read = sum(each.n_prompt_tokens for each in read)
    return {"prompt": n_read / (middle - start), "answer": n * n_tokens / (end - middle)}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure all numbers of threads in turns, every other round in reverse order."""
    threads = options.threads or numbers_of_threads()
    rounds: dict[int, list[dict[str, float]]] = {n: [] for n in threads}
    with lh.Model(options.model) as model:
        n_bytes = model.size_bytes
        for i in range(options.rounds):
            for n_threads in threads if i % 2 == 0 else reversed(threads):
                found = one_round(model, n_threads, options.prompts, options.tokens)
                rounds[n_threads].append(found)
                speed = f"{n_threads} threads: {found['answer']:.0f} tokens/s"
                print(f"  round {i + 1}, {speed}", flush=True)
    medians = {
        str(n): {
            kind: round(statistics.median(each[kind] for each in rounds[n]), 1)
            for kind in ("prompt", "answer")
        }
        for n in threads
    }
    return {
        "machine": machine(),
        "model_bytes": n_bytes,
        "prompts": options.prompts,
        "tokens": options.tokens,
        "rounds": options.rounds,
        "tokens_per_second": medians,
    }


def table(found: dict[str, Any]) -> str:
    """Return the medians as a table."""
    lines = [f"{'threads':>8} {'prompt tokens/s':>16} {'answer tokens/s':>16}"]
    for n, speeds in found["tokens_per_second"].items():
        lines.append(f"{n:>8} {speeds['prompt']:>16.0f} {speeds['answer']:>16.0f}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print a table and write the file."""
    parser = argparse.ArgumentParser(description="Speed by the number of threads.")
    parser.add_argument("model")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+")
    parser.add_argument("--output", type=Path, default=Path("speed-by-threads.json"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of more threads than processors
    found = measure(options)
    for key, value in found["machine"].items():
        print(f"{key}: {value}")
    print(table(found))
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"written to {options.output}: please send this file")


if __name__ == "__main__":
    sys.exit(main())
