"""Compares a herd of two actors with one thread each to one context with two threads.

python benchmarks/herd.py MODEL [--prompts 160] [--runs 3] [--output FILE]
python benchmarks/herd.py --page   # write the stored measurements into docs/cluster.md

Runs alternate, so that other load of the machine affects both. The texts of both must
be equal.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import llamaherd as lh
import marked

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results/herd.json"
PAGE = HERE.parent / "docs/cluster.md"
TOPICS = ("the sea", "bread", "winter", "an old town", "music", "a long road", "rain")


def prompts(n: int) -> list[str]:
    """Return different prompts of several lengths with a common beginning."""
    head = "You write short texts for a calendar, one for each day of the year. "
    return [
        f"{head * 3}Day {i}. It is about {TOPICS[i % 7]}"
        f"{', and ' + TOPICS[i // 7 % 7] if i % 3 else ''}. The text:"
        for i in range(n)
    ]


def measure(path: Path, n: int, n_runs: int) -> dict[str, Any]:
    """Measure the herd and the context alternately.

    Raises:
        RuntimeError: The herd and the context returned different texts.
    """
    import ray  # noqa: PLC0415 - `--page` does not need Ray

    settings: dict[str, Any] = {"max_tokens": 48, "ignore_eos": True}
    walls: dict[str, list[float]] = {"context": [], "herd": []}
    with tempfile.TemporaryDirectory(prefix="lh", dir="/tmp") as folder:
        ray.init(
            num_cpus=2, include_dashboard=False, _temp_dir=folder, log_to_driver=False
        )
        started = time.perf_counter()
        with (
            lh.ray.Herd(path, n_actors=2, num_cpus=1, deterministic=True) as herd,
            lh.Model(path) as model,
            lh.Context(model, deterministic=True, n_threads=2) as context,
        ):
            ready_s = time.perf_counter() - started
            asked = prompts(n)
            for host in (context, herd):  # this call creates the KV cache
                lh.generate_parallel(host, asked[:40], **settings)
            n_tokens = 0
            for _ in range(n_runs):
                one = lh.generate_parallel(context, asked, **settings)
                two = lh.generate_parallel(herd, asked, **settings)
                if one.texts != two.texts:
                    raise RuntimeError("the texts differ")
                walls["context"].append(one.stats.wall_s)
                walls["herd"].append(two.stats.wall_s)
                n_tokens = one.stats.n_generated_tokens
                print(one.stats, two.stats, *two.stats.actors, sep="\n", flush=True)
            actors = [
                {"load_s": info.load_s, "memory_bytes": info.memory_bytes}
                for info in herd.actors
            ]
        ray.shutdown()
    medians = {name: statistics.median(each) for name, each in walls.items()}
    return {
        "model": path.name,
        "model_bytes": path.stat().st_size,
        "n_prompts": n,
        "n_generated": n_tokens,
        "walls_s": walls,
        "ratio": medians["context"] / medians["herd"],
        "ready_s": ready_s,
        "actors": actors,
    }


def table(found: dict[str, Any]) -> str:
    """Return the table for the page."""
    n = found["n_generated"]
    walls = {name: statistics.median(each) for name, each in found["walls_s"].items()}
    load_s = max(actor["load_s"] for actor in found["actors"])
    memory = max(actor["memory_bytes"] for actor in found["actors"])
    rows = [
        ("one context, 2 threads", f"{n / walls['context']:.0f} tokens/s"),
        ("2 actors of 1 thread", f"{n / walls['herd']:.0f} tokens/s"),
        ("herd / context", f"{found['ratio']:.2f}"),
        ("texts", "the same, all of them"),
        ("from `Herd()` to ready", f"{found['ready_s']:.1f} s"),
        ("of that to load the model", f"{load_s:.2f} s"),
        ("memory of an actor with the model", f"{memory / 1e6:.0f} MB"),
    ]
    setting = (
        f"{found['n_prompts']} prompts, {n} tokens generated, {found['model']} "
        f"({found['model_bytes'] / 1e6:.0f} MB), medians of "
        f"{len(found['walls_s']['herd'])} alternate runs, deterministic."
    )
    lines = [setting, "", "| | |", "|---|---:|"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows)]) + "\n"


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--prompts", type=int, default=160)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true", help="write docs/cluster.md")
    args = parser.parse_args()
    if args.page:
        found = json.loads(args.output.read_text(encoding="utf-8"))
        marked.write(PAGE, {"herd": table(found)})
        return
    if args.model is None:
        parser.error("MODEL is missing")
    found = measure(args.model, args.prompts, args.runs)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
