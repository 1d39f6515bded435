"""Time of `annotate` compared with simpler calls, for docs/probabilities.md.

    python benchmarks/annotate.py TEXTS.csv MODEL.gguf ... [--n 1200] [--rounds 3]

TEXTS.csv has columns `text` and `label`. Eight texts, some of each label, are the
codebook's examples. Three calls are measured alternately: `annotate`, `classify_parallel`
with the same prompts, and `generate_parallel` with the same prompts and the labels as a
GBNF grammar. Each call has a new context without held prefixes. The table has medians,
and their ratios to the median of `annotate`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import labelled
import llamaherd as lh
import marked

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 20261124


def ways_of(rows: list[dict[str, str]]) -> dict[str, Callable[[lh.Context], Any]]:
    """Return the compared calls by name."""
    labels = sorted({row["label"] for row in rows})
    shots = labelled.shots_of(rows, labels)
    texts = [row["text"] for row in rows if row not in shots]
    book = lh.Codebook(
        "Tell the sentiment of each tweet.",
        labels,
        examples=[(shot["text"], shot["label"]) for shot in shots],
    )
    prompts = [lh.prompt_preview(book, text).prompt for text in texts]
    grammar = "root ::= " + " | ".join(f'" {label}"' for label in labels)
    return {
        "`annotate`": lambda c: lh.annotate({"text": texts}, "text", book, c),
        "`classify_parallel`": lambda c: lh.classify_parallel(c, prompts, labels),
        "`generate_parallel(grammar=)`": lambda c: lh.generate_parallel(
            c, prompts, grammar=grammar, max_tokens=16
        ),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--n", type=int, default=1200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = labelled.read(options.texts, SEED)[: options.n]
    ways = ways_of(rows)
    n_shots = labelled.N_SHOTS
    head = f"{len(rows) - n_shots:,} tweets, {n_shots} examples, {options.rounds} rounds."
    lines = []
    for path in options.models:
        times: dict[str, list[float]] = {way: [] for way in ways}
        with lh.Model(path) as model:
            for _ in range(options.rounds):
                for way, call in ways.items():
                    with lh.Context(model) as context:
                        start = time.monotonic()
                        call(context)
                        times[way].append(time.monotonic() - start)
                    print(path.stem, way, f"{times[way][-1]:.1f}", flush=True)
        base_s = times["`annotate`"]
        for way, runs in times.items():
            ratio = statistics.median(a / b for a, b in zip(runs, base_s, strict=True))
            middle = f"{statistics.median(runs):.1f}"
            lines.append([path.stem, way, middle, f"{ratio:.2f}"])
    table = marked.table(["model", "way", "s", "times `annotate`'s"], lines, 2)
    marked.write("docs/probabilities.md", {"annotate": f"{head}\n\n{table}"})


if __name__ == "__main__":
    main()
