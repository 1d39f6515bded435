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
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import distribution
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from urllib3 import HTTPConnectionPool
from urllib3.exceptions import HTTPError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shape import Shape
    from urllib3 import BaseHTTPResponse
    from workloads import Workload

FOLDER = Path(
    os.environ.get("LLAMAHERD_PEERS", Path(__file__).parents[1] / "build/peers/bin")
)
_BLOCK = 256  # libllama rounds the cells of a sequence up to multiples of this
_START_S = 60.0  # maximum time for a server to load its model


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
    with (
        llama_server(model, n_threads, settings) as (port, process),
        ThreadPoolExecutor(n_slots + 2) as threads,
    ):
        complete = partial(_complete, connect(port, n_slots + 2), load.temperature)
        complete(0, "Hello", 2)
        if warm_up is not None:
            list(threads.map(complete, count(), warm_up.prompts, warm_up.max_tokens))
        start = time.perf_counter()
        texts = list(threads.map(complete, count(), load.prompts, load.max_tokens))
        seconds = time.perf_counter() - start
        status = Path(f"/proc/{process.pid}/status")
        lines = status.read_text().splitlines() if status.exists() else []
    peaks = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")]
    return {"seconds": [seconds], "texts": texts, "peak_bytes": max(peaks, default=None)}


def connect(port: int, n: int = 1) -> HTTPConnectionPool:
    """Return a pool of n persistent connections to a server of this machine."""
    return HTTPConnectionPool("127.0.0.1", port, maxsize=n, timeout=600, retries=False)


def post(
    pool: HTTPConnectionPool, path: str, body: object, *, streams: bool = False
) -> BaseHTTPResponse:
    """Return the answer to a JSON body; raise an error if its status is not 200."""
    answer = pool.request("POST", path, json=body, preload_content=not streams)
    if answer.status != 200:
        raise PeerError(f"{path}: status {answer.status}, {answer.data[:500]!r}")
    return answer


def _complete(
    pool: HTTPConnectionPool, temperature: float, seed: int, prompt: str, n: int
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
    answer = post(pool, "/completion", body).json()
    if answer["tokens_predicted"] != n:
        raise PeerError(f"llama-server: {str(answer)[:500]}")
    text: str = answer["content"]
    return text


@contextmanager
def llama_server(
    model: str, n_threads: int, settings: list[str]
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run a llama-server until the block ends; yield its port and process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]  # no other program uses it
    command = [
        *(str(program("llama-server")), "-m", model, "-fa", "on"),
        *("-t", str(n_threads), "-tb", str(n_threads), *settings),
        *("--host", "127.0.0.1", "--port", str(port), "--log-disable"),
    ]
    process = subprocess.Popen(command, env=environment(), stdout=sys.stderr)
    try:
        wait_until_ready(port, process)
        yield port, process
    finally:
        stop(process)


def stop(process: subprocess.Popen[Any]) -> None:
    """End a server; kill it if it has not ended after 10 s."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until llama-server's /health has status 200."""
    limit = time.monotonic() + _START_S
    pool = connect(port)
    while time.monotonic() < limit and process.poll() is None:
        with suppress(HTTPError):
            if pool.request("GET", "/health", timeout=5).status == 200:
                return
        time.sleep(0.05)
    raise PeerError(f"llama-server did not start (exit status {process.poll()})")
