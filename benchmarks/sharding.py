"""Balance of 64 shards, and tokens computed again because shards split prefixes.

python benchmarks/sharding.py [--prompts 1000000] [--output FILE]
python benchmarks/sharding.py --page   # write stored measurements into docs/cluster.md

No model runs. The cost of a prompt is the number of its tokens that its shard has not
computed before, plus the number of tokens of its answer. Tokens are random numbers,
because only common prefixes matter.
"""

from __future__ import annotations

import argparse
import json
import time
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

import marked
import numpy as np
from llamaherd.engine.schedule.shards import plan_shards

if TYPE_CHECKING:
    from collections.abc import Callable

    Prompts = list[array[int]]

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results/sharding.json"
PAGE = HERE.parent / "docs/cluster.md"
N_VOCAB, N_SHARDS, N_ANSWER = 50_000, 64, 16


def lengths(rng: np.random.Generator, n: int, median: int, most: int) -> np.ndarray:
    """Draw lengths with the distribution of real texts, int[n]: many short, few long."""
    drawn = rng.lognormal(np.log(median), 0.6, n)
    return np.clip(drawn, 3, most).astype(int)


def tokens(rng: np.random.Generator, n: int) -> array[int]:
    """int32[n]."""
    return array("i", rng.integers(0, N_VOCAB, n, dtype=np.int32).tobytes())


def texts(rng: np.random.Generator, n: int, median: int, most: int) -> Prompts:
    """Draw texts without common prefixes."""
    each = lengths(rng, n, median, most)
    drawn = tokens(rng, int(each.sum()))
    ends = np.cumsum(each).tolist()
    return [drawn[end - k : end] for end, k in zip(ends, each.tolist(), strict=True)]


def codebook(rng: np.random.Generator, n: int) -> Prompts:
    """Draw prompts: a codebook of 400 tokens, a text (median 40), a question of 8."""
    head, tail = tokens(rng, 400), tokens(rng, 8)
    return [head + text + tail for text in texts(rng, n, 40, 400)]


def templates(rng: np.random.Generator, n: int) -> Prompts:
    """Draw prompts: one of 30 templates, then a text with a median of 40 tokens.

    Templates have 20 to 500 tokens, and some are used much more often than others (Zipf's
    law). The first half of a template is shared with one other template.
    """
    heads: Prompts = []
    for _ in range(15):
        half = tokens(rng, int(rng.integers(10, 250)))
        heads += [half + tokens(rng, len(half)) for _ in range(2)]
    shares = 1 / np.arange(1, len(heads) + 1)
    chosen = rng.choice(len(heads), n, p=shares / shares.sum()).tolist()
    return [
        heads[k] + text for k, text in zip(chosen, texts(rng, n, 40, 400), strict=True)
    ]


def chats(rng: np.random.Generator, n: int) -> Prompts:
    """Draw conversations: a system message of 60 tokens, then 1 to 8 turns.

    A turn has a median of 30 tokens. Every turn is a prompt, which begins with all turns
    before it.
    """
    system = tokens(rng, 60)
    turns = iter(texts(rng, n, 30, 200))
    made: Prompts = []
    while len(made) < n:
        prompt = system
        for _ in range(min(int(rng.integers(1, 9)), n - len(made))):
            prompt = prompt + next(turns)
            made.append(prompt)
    return made


def unrelated(rng: np.random.Generator, n: int) -> Prompts:
    """Draw texts without common prefixes, with a median of 120 tokens."""
    return texts(rng, n, 120, 1000)


ASSUMED: dict[str, tuple[str, Callable[[np.random.Generator, int], Prompts]]] = {
    "codebook": ("a codebook of 400 tokens, a text, a question", codebook),
    "templates": ("30 templates of 20 to 500 tokens, used unequally", templates),
    "chats": ("chats of 1 to 8 turns, every turn a prompt", chats),
    "unrelated": ("texts that share nothing", unrelated),
}


def measure(name: str, n: int, seed: int) -> dict[str, Any]:
    """Divide the prompts of one kind, in random order, into shards."""
    rng = np.random.default_rng(seed)
    prompts = ASSUMED[name][1](rng, n)
    prompts = [prompts[i] for i in rng.permutation(n)]
    started = time.perf_counter()
    shards = plan_shards(prompts, N_SHARDS, N_ANSWER)
    wall_s = time.perf_counter() - started
    at_random = plan_at_random(prompts, rng)
    return {
        "name": name,
        "n_prompts": n,
        "n_tokens": sum(map(len, prompts)),
        "n_unique": shards.n_unique,
        "plan_s": wall_s,
        "imbalance": shards.imbalance,
        "lost": shards.lost,
        "lost_at_random": at_random / shards.n_unique - 1,
    }


def plan_at_random(prompts: Prompts, rng: np.random.Generator) -> int:
    """Return the cost of shards that ignore shared prefixes."""
    parts = np.array_split(rng.permutation(len(prompts)), N_SHARDS)
    return sum(
        plan_shards([prompts[i] for i in part], 1, N_ANSWER).n_unique for part in parts
    )


def table(found: dict[str, Any]) -> str:
    """Return the table for the page."""
    setting = (
        f"{found['n_prompts']:,} prompts, {N_SHARDS} shards, {N_ANSWER} tokens an answer."
    )
    columns = (
        "prompts",
        "tokens",
        "computed by one machine",
        "time to plan",
        "largest shard above the mean",
        "computed again",
        "the same, divided at random",
    )
    lines = [setting, "", f"| {' | '.join(columns)} |", "|---" + "|---:" * 6 + "|"]
    lines += [
        f"| {ASSUMED[row['name']][0]} | {row['n_tokens'] / 1e6:.0f} M "
        f"| {row['n_unique'] / 1e6:.0f} M | {row['plan_s']:.1f} s "
        f"| {row['imbalance']:.2%} | {row['lost']:.2%} | {row['lost_at_random']:.1%} |"
        for row in found["rows"]
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true", help="write docs/cluster.md")
    args = parser.parse_args()
    if args.page:
        found = json.loads(args.output.read_text(encoding="utf-8"))
        marked.write(PAGE, {"sharding": table(found)})
        return
    rows = []
    for name in ASSUMED:
        rows.append(measure(name, args.prompts, args.seed))
        print(rows[-1], flush=True)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    found = {"n_prompts": args.prompts, "seed": args.seed, "rows": rows}
    args.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
