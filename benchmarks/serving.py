"""Throughput and times to the first token of the server.

The tables are written into docs/server-measured.md.

python benchmarks/serving.py MODEL [--passes N] [--stream-passes N] [--threads N]
    [--slots N ...] [--gpu-layers N] [--swa-full] [--small]

The engines of benchmarks/server.py alternate in passes. Within each pass, the time of
`llamaherd serve` is compared with two other times: of llama-server with its best number
of slots, and of the library if each prompt has a handle. `--small` has fewer and shorter
prompts. With layers on a GPU, the tables are written into docs/gpu.md.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import marked
import server
from session import describe

if TYPE_CHECKING:
    from server import Pass

MARK = "serving: made by benchmarks/serving.py"
WORKLOADS = {
    "distinct": "distinct texts",
    "annotate": "one shared codebook",
    "schema": "a JSON Schema",
}
_CLIENTS = (1, 8, 32, 128)
HEAD = ("32 clients", "against llama-server", "its slots", "as handles", "as one call")
_TIMES = "median, 95% (s)"
STREAMS_HEAD = ("clients", f"llamaherd: {_TIMES}", f"llama-server: {_TIMES}")
_OWN = "http"
_LIBRARY = ("handles", "call")  # a handle for each prompt; all prompts in one call


def ratio(ours: list[Pass], other: list[Pass]) -> float:
    """Return the median over passes of the time of another engine / llamaherd's time."""
    pairs = zip(ours, other, strict=True)
    return median(other.seconds / ours.seconds for ours, other in pairs)


def throughput(options: argparse.Namespace) -> list[list[object]]:
    """Return a row for each workload with 32 clients.

    The last columns compare with the library: handles, and all prompts in one call.
    """
    rows = []
    for name, title in WORKLOADS.items():
        small = {"prompts": 32, "tokens": 4 if name == "annotate" else 16}
        passes = _measured(options, name, 32, small, streams=False)
        peers = {
            int(way.rpartition("-")[2]): ratio(passes[_OWN], passes[way])
            for way in passes
            if way.startswith("llama-server")
        }
        best = min(peers, key=peers.__getitem__, default=0)
        against = [f"{peers[best]:.2f} times", best] if peers else ["-", "-"]
        row = [f"{ratio(passes[_OWN], passes[way]):.3f} times" for way in _LIBRARY]
        rows.append([title, *against, *row])
    return rows


def first_tokens(options: argparse.Namespace) -> list[list[object]]:
    """Return a row for each number of clients, with the time to the first text."""
    rows = []
    for n_clients in _CLIENTS:
        small = {"prompts": max(4, n_clients), "tokens": 2}
        passes = _measured(options, "distinct", n_clients, small, streams=True)
        peers = [engine for engine in passes if engine.startswith("llama-server")]
        best = min((_times(passes[engine]) for engine in peers), default=None)
        theirs = f"{best[0]:.2f}, {best[1]:.2f}" if best else "-"
        ours = _times(passes[_OWN])
        rows.append([n_clients, f"{ours[0]:.2f}, {ours[1]:.2f}", theirs])
    return rows


def _times(passes: list[Pass]) -> tuple[float, float]:
    times_s = sorted(second for one_pass in passes for second in one_pass.first_s)
    return median(times_s), times_s[int(0.95 * len(times_s))]


def _measured(
    options: argparse.Namespace,
    workload: str,
    n_clients: int,
    small: dict[str, int],
    *,
    streams: bool,
) -> dict[str, list[Pass]]:
    settings = argparse.Namespace(**vars(options), clients=n_clients, streams=streams)
    settings.passes = options.stream_passes if streams else options.passes
    settings.prompts = small["prompts"] if options.small else max(64, n_clients)
    settings.tokens = small["tokens"] if options.small else None
    return server.measure(settings, workload)


def main() -> None:
    """Read the arguments, measure, and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--stream-passes", type=int, default=3)
    parser.add_argument("--slots", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--gpu-layers", type=int, default=0)
    parser.add_argument("--swa-full", action="store_true", help="of llama-server")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    loads = [os.getloadavg()[0]]
    tables = [marked.table(HEAD, throughput(options))]
    if options.stream_passes:
        tables.append(marked.table(STREAMS_HEAD, first_tokens(options)))
    loads.append(os.getloadavg()[0])
    about = describe(options.threads)
    name = re.sub(r"\.gguf$", "", Path(options.model).name)
    small = ", small" if options.small else ""
    swa = ", llama-server with --swa-full" if options.swa_full else ""
    head = (
        f"{name}, {options.threads} threads, {options.passes} alternating passes "
        f"(streams: {options.stream_passes}) after a warm-up{small}{swa}; load of the "
        f"machine about {min(loads):.0f} to {max(loads):.0f}."
    )
    print(about)
    text = "\n".join([f"{head}\n", *tables])
    print(text)
    page = "gpu" if options.gpu_layers else "server-measured"
    marked.write(f"docs/{page}.md", {MARK: text})


if __name__ == "__main__":
    main()
