"""Engines of serving.py: the library, `llamaherd serve` and llama-server, in turns.

Workloads: "distinct" texts, "annotate" (all prompts begin with one codebook), "schema"
(answers that follow a JSON Schema). The library runs in this process (one call, and a
handle for each client); llama-server with each number of slots, only if
benchmarks/build_peers.sh has built it. In each pass every program runs the prompts once,
one program after the other, so that drifts of the machine's speed affect all equally.
Each pass has new texts, because servers cache prompts. The first pass is a warm-up.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import peers
from workloads import SEED, codebook_prompt, sentences

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

_N_PROMPTS = {"distinct": 64, "annotate": 100, "schema": 64}
N_TOKENS = {"distinct": 64, "annotate": 8, "schema": 48}
# All values are listed, so that answers have about the same length.
_SCHEMA = {
    "type": "object",
    "properties": {
        "topic": {"enum": ["sport", "politics", "science"]},
        "tone": {"enum": ["good", "bad", "neither"]},
        "certain": {"type": "boolean"},
    },
    "required": ["topic", "tone", "certain"],
    "additionalProperties": False,
}


@dataclass
class Pass:
    """Result of one engine in one pass."""

    seconds: float  # seconds until the last answer
    texts: list[str]  # all answers
    # Seconds until the first text of each answer; empty without streams.
    first_s: list[float]


class Texts:
    """Source of prompts that were not used in earlier passes."""

    def __init__(self) -> None:
        texts = sentences()
        random.Random(SEED).shuffle(texts)  # noqa: S311 - the same ones each time
        self._codebook = codebook_prompt(texts[-12:])
        self._texts = texts[:-12]
        self._i = 0

    def next(self, workload: str, n: int) -> list[str]:
        """Return the n prompts of the next pass."""
        new = []
        for _ in range(n):
            i_round, i = divmod(self._i, len(self._texts))
            # With another beginning, a sentence of an earlier pass is a new prompt.
            start = f"{chr(ord('A') + i_round)}. " if i_round else ""
            new.append(start + self._texts[i])
            self._i += 1
        if workload == "distinct":
            return new
        if workload == "schema":
            return [f"Describe as JSON: {text}\n" for text in new]
        return [f"{self._codebook}Sentence: {text}\nCode:" for text in new]


# ---- the library ----------------------------------------------------------------------


def run_call(ctx: lh.Context, prompts: list[str], n: int, form: dict[str, Any]) -> Pass:
    """Run all prompts in one call."""
    start = time.perf_counter()
    out = lh.generate_parallel(ctx, prompts, max_tokens=n, on_error="return", **form)
    return Pass(time.perf_counter() - start, [text or "" for text in out.texts], [])


def run_handles(
    ctx: lh.Context,
    prompts: list[str],
    n: int,
    n_clients: int,
    form: dict[str, Any],
    *,
    streams: bool,
) -> Pass:
    """Run prompts with concurrent clients, each prompt with a handle."""
    texts = [""] * len(prompts)
    first_s = []
    waiting = iter(enumerate(prompts))

    async def client() -> None:
        for i, prompt in waiting:
            start_s = time.perf_counter()
            handle = ctx.submit(prompt, max_tokens=n, stream=streams, **form)
            if streams:
                pieces = []
                async for piece in handle:
                    if not pieces:
                        first_s.append(time.perf_counter() - start_s)
                    pieces.append(piece)
                texts[i] = "".join(pieces)
            else:
                texts[i] = (await handle).text or ""

    async def all_clients() -> None:
        await asyncio.gather(*(client() for _ in range(n_clients)))

    start = time.perf_counter()
    asyncio.run(all_clients())
    return Pass(time.perf_counter() - start, texts, first_s)


# ---- servers --------------------------------------------------------------------------


@contextmanager
def llamaherd_server(
    model: str, n_threads: int, n_slots: int, n_gpu_layers: int = 0
) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run `llamaherd serve` until the block ends; yield its port and process."""
    command = [sys.executable, "-m", "llamaherd.cli", "serve", model, "--port", "0"]
    command += ["--n-seq-max", str(n_slots), "--n-threads", str(n_threads)]
    if n_gpu_layers:
        command += ["--n-gpu-layers", str(n_gpu_layers)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        if " at http://" not in line:
            raise peers.PeerError("llamaherd serve did not start")
        yield int(line.split(" at http://")[1].split()[0].rpartition(":")[2]), process
    finally:
        peers.stop(process)


def body_of(path: str, n: int, form: dict[str, Any]) -> dict[str, object]:
    """Return a request's body without prompt: /generate or llama-server's /completion."""
    if path == "/generate":
        return {"max_tokens": n, **form}
    names = {"schema": "json_schema"}
    body = {names.get(name, name): value for name, value in form.items()}
    return {**body, "n_predict": n, "temperature": 0.0, "top_k": 40, "min_p": 0.05}


def run_server(
    port: int,
    path: str,
    prompts: list[str],
    n_clients: int,
    body: dict[str, object],
    *,
    streams: bool,
) -> Pass:
    """Run the prompts over HTTP, on persistent connections.

    Each stream has a new connection, because llama-server closes a connection after a
    stream.
    """
    persistent = peers.connect(port, n_clients)
    first_s: list[float] = []

    def post(prompt: str) -> str:
        whole = {**body, "prompt": prompt, "stream": streams}
        start_s = time.perf_counter()
        connections = peers.connect(port) if streams else persistent
        answer = peers.post(connections, path, whole, streams=streams)
        if not streams:
            return _text_of(answer.json())
        texts = []
        for line in answer:
            if line.startswith(b"data: {"):
                text = _text_of(json.loads(line[6:]))
                if text and not texts:
                    first_s.append(time.perf_counter() - start_s)
                texts.append(text)
        return "".join(texts)

    with ThreadPoolExecutor(n_clients) as pool:
        start = time.perf_counter()
        texts = list(pool.map(post, prompts))
        return Pass(time.perf_counter() - start, texts, first_s)


def _text_of(answer: dict[str, Any]) -> str:
    if "choices" in answer:  # the answer of an OpenAI API
        answer = answer["choices"][0]
    text: str = answer["text"] if "text" in answer else answer["content"]
    return text


# ---- turns ----------------------------------------------------------------------------


def form_of(workload: str) -> dict[str, Any]:
    """Return options for the form of answers: a schema, or a fixed number of tokens."""
    return {"schema": _SCHEMA} if workload == "schema" else {"ignore_eos": True}


def measure(options: argparse.Namespace, workload: str) -> dict[str, list[Pass]]:
    """Return all passes of a workload, by engine."""
    n = options.tokens or N_TOKENS[workload]
    clients, streams = options.clients, options.streams
    n_slots, n_gpu_layers = min(clients, max(options.slots)), options.gpu_layers
    form = form_of(workload)
    with ExitStack() as stack:
        model = stack.enter_context(lh.Model(options.model, n_gpu_layers=n_gpu_layers))
        # Handles have a context of their own, as in the server. In a context whose last
        # call put a shared prefix into a pool of KV cells, they would also use the pool.
        ctx, own_ctx = (
            stack.enter_context(
                lh.Context(model, n_seq_max=n_slots, n_threads=options.threads)
            )
            for _ in range(2)
        )
        own_port, _ = stack.enter_context(
            llamaherd_server(options.model, options.threads, n_slots, n_gpu_layers)
        )
        engines: dict[str, Callable[[list[str]], Pass]] = {
            "call": lambda prompts: run_call(ctx, prompts, n, form),
            "handles": lambda prompts: run_handles(
                own_ctx, prompts, n, clients, form, streams=streams
            ),
        }
        ports = {"http": own_port}
        if streams:
            del engines["call"]
        for n_slots in options.slots if peers.FOLDER.exists() else ():
            settings = ["-np", str(n_slots), "-c", str(1024 * n_slots)]
            settings += ["-ngl", str(n_gpu_layers)]
            settings += ["--swa-full"] if options.swa_full else []
            ports[f"llama-server-{n_slots}"], _ = stack.enter_context(
                peers.llama_server(options.model, options.threads, settings)
            )
        for name, port in ports.items():
            path = "/generate" if name == "http" else "/completion"
            engines[name] = partial(
                lambda port, path, prompts: run_server(
                    port, path, prompts, clients, body_of(path, n, form), streams=streams
                ),
                port,
                path,
            )
        return take_turns(engines, options, workload)


def take_turns(
    engines: dict[str, Callable[[list[str]], Pass]],
    options: argparse.Namespace,
    workload: str,
) -> dict[str, list[Pass]]:
    """Run a workload in all engines, in alternating order; return passes by engine."""
    passes: dict[str, list[Pass]] = {name: [] for name in engines}
    texts = Texts()
    for i_pass in range(options.passes + 1):
        prompts = texts.next(workload, options.prompts or _N_PROMPTS[workload])
        names = list(engines) if i_pass % 2 else list(reversed(engines))
        for name in names:
            done = engines[name](prompts)
            if i_pass:
                passes[name].append(done)
            print(f"{workload} {i_pass} {name}: {done.seconds:.2f} s", flush=True)
    return passes
