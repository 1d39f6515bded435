"""Runs llama.cpp's programs for comparison: `llama-batched-bench`, `llama-server`.

Both programs use the libllama and libggml that llama-cpp-python installed, so that all
engines of the benchmark run the same compiled kernels.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from importlib.metadata import distribution
from pathlib import Path
from threading import local
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shape import Shape
    from workloads import Workload

FOLDER = Path(
    os.environ.get("LLAMAHERD_PEERS", Path(__file__).parents[1] / "build/peers/bin")
)
_BLOCK = 256  # libllama rounds the cells of a sequence up to multiples of this
_START_S = 60.0  # maximum time for a server to load its model
_ANSWER_S = 600.0


class PeerError(RuntimeError):
    """A competing program failed."""


def program(name: str) -> Path:
    """Return the path of a program; raise an error if it was not built."""
    path = FOLDER / name
    if not path.exists():
        raise PeerError(f"{path} is missing: run benchmarks/build_peers.sh")
    return path


def environment() -> dict[str, str]:
    """Return an environment in which the wheel's libraries are found first."""
    libraries = distribution("llama-cpp-python").locate_file("llama_cpp/lib")
    return os.environ | {"LD_LIBRARY_PATH": str(libraries)}


def round_up(n_tokens: float) -> int:
    """Return the number of cells that libllama reserves for a sequence."""
    return -(-int(n_tokens) // _BLOCK) * _BLOCK


# ---- llama-batched-bench --------------------------------------------------------------


def measure_rates(
    model: str, shape: Shape, n_threads: int, ubatches: tuple[int, ...]
) -> dict[str, object]:
    """Return prefill and decode rates at the depth and batch sizes of a workload.

    In a prefill of n tokens, each token has n / 2 tokens before it on average. The
    prefill is therefore twice as long as the mean position of the workload's unique
    tokens. Short prefills run in parallel. Decoding starts from a prompt that is copied
    to every sequence.
    """
    n_prefill = max(16, round(2 * shape.unique_depth))
    n_side = max(1, min(round(1024 / n_prefill), shape.n_prompts))
    prefill = {
        n: _batched_bench(model, n_threads, n_prefill, 1, (n_side,), n)[0]["speed_pp"]
        for n in ubatches
    }
    ubatch = max(prefill, key=prefill.__getitem__)
    n_new = 12  # number of timed steps, around the middle of the mean answer
    middle = sum(shape.lengths) / len(shape.lengths) / 2
    depth = round(shape.prompt_length + max(0.0, middle - n_new / 2))
    rows = _batched_bench(
        model, n_threads, depth, n_new, _batch_sizes(shape.lengths), ubatch, shared=True
    )
    return {
        "prefill": prefill[ubatch],
        "ubatch": ubatch,
        "decode": {row["pl"]: row["speed_tg"] for row in rows},
    }


def _batch_sizes(lengths: list[int]) -> tuple[int, ...]:
    """Return large batch sizes, and small sizes if answers end at different times."""
    most = min(64, len(lengths))
    sizes = {most, max(1, most // 2)}
    if max(lengths) > min(lengths):
        sizes |= {1, 4, 16}
    return tuple(sorted(sizes))


def _batched_bench(  # noqa: PLR0917 - the settings of the program
    model: str,
    n_threads: int,
    n_prompt: int,
    n_new: int,
    sizes: tuple[int, ...],
    ubatch: int,
    *,
    shared: bool = False,
) -> list[dict[str, float]]:
    cells = round_up(n_prompt + n_new + 1) * max(sizes)
    command = [
        *(str(program("llama-batched-bench")), "-m", model, "-fa", "on", "-no-kvu"),
        *("-t", str(n_threads), "-tb", str(n_threads), "-c", str(cells)),
        *("-b", "2048", "-ub", str(ubatch), "-npp", str(n_prompt), "-ntg", str(n_new)),
        *("-npl", ",".join(map(str, sizes)), "--output-format", "jsonl"),
        *(["-pps"] if shared else []),
    ]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment()
    )
    rows = [json.loads(s) for s in done.stdout.splitlines() if s.startswith("{")]
    if done.returncode or len(rows) != len(sizes):
        raise PeerError(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return rows


# ---- llama-server ---------------------------------------------------------------------


def run_server(
    load: Workload,
    model: str,
    n_threads: int,
    longest: int,
    n_slots: int,
    *,
    swa: bool = False,
    n_gpu_layers: int = 0,
    warm_up: Workload | None = None,
) -> dict[str, object]:
    """Run a workload with two clients more than the server has slots."""
    cells = round_up(longest + 8) * n_slots
    settings = ["-np", str(n_slots), "-c", str(cells), *(["--swa-full"] if swa else [])]
    settings += ["-ngl", str(n_gpu_layers)]
    with llama_server(model, n_threads, settings) as (port, process):
        connections = local()

        def answer(request: tuple[int, str, int]) -> str:
            if not hasattr(connections, "http"):
                connections.http = HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)
            return _complete(connections.http, *request, load.temperature)

        requests = _requests(load)
        with ThreadPoolExecutor(n_slots + 2) as pool:
            answer((0, "Hello", 2))
            if warm_up is not None:
                list(pool.map(answer, _requests(warm_up)))
            start = time.perf_counter()
            texts = list(pool.map(answer, requests))
            seconds = time.perf_counter() - start
        peak = _peak_bytes(process.pid)
    return {"seconds": [seconds], "texts": texts, "peak_bytes": peak}


def _requests(load: Workload) -> list[tuple[int, str, int]]:
    """Return the seed, the prompt and the number of tokens of each request."""
    pairs = zip(load.prompts, load.max_tokens, strict=True)
    return [(i, prompt, n) for i, (prompt, n) in enumerate(pairs)]


def _complete(
    http: HTTPConnection, seed: int, prompt: str, n: int, temperature: float
) -> str:
    body = {
        "prompt": prompt,
        "n_predict": n,
        "ignore_eos": True,
        "temperature": temperature,
        "top_k": 40,
        "top_p": 1.0,
        "min_p": 0.05,
        "seed": seed,
    }
    headers = {"Content-Type": "application/json"}
    http.request("POST", "/completion", json.dumps(body), headers)
    response = http.getresponse()
    answer = json.loads(response.read())
    if response.status != 200 or answer["tokens_predicted"] != n:
        raise PeerError(f"llama-server: status {response.status}, {str(answer)[:500]}")
    return answer["content"]


@contextmanager
def llama_server(
    model: str, n_threads: int, settings: list[str]
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run a llama-server until the block ends; yield its port and process."""
    port = free_port()
    command = [
        *(str(program("llama-server")), "-m", model, "-fa", "on"),
        *("-t", str(n_threads), "-tb", str(n_threads), *settings),
        *("--host", "127.0.0.1", "--port", str(port), "--log-disable"),
    ]
    process = subprocess.Popen(command, env=environment(), stdout=sys.stderr)
    try:
        wait_until_ready("llama-server", port, process)
        yield port, process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server; kill it if it has not ended after 10 s."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """Return a port of this machine that no program uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_ready(
    name: str, port: int, process: subprocess.Popen[bytes], limit_s: float = _START_S
) -> None:
    """Wait until a server's /health has status 200."""
    limit = time.monotonic() + limit_s
    while time.monotonic() < limit and process.poll() is None:
        http = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            http.request("GET", "/health")
            if http.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            http.close()
        time.sleep(0.05)
    raise PeerError(f"{name} did not start (exit status {process.poll()})")


def _peak_bytes(pid: int) -> int | None:
    """Return a running process's peak resident memory; None without /proc."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return None
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024
