"""Time for embeddings of 500 short texts, compared with `create_embedding`.

    embeddings.py all-MiniLM-L6-v2.F16.gguf [ROUNDS]

Llamaherd and llama-cpp-python's `create_embedding` use the same number of threads and
alternate within a round. The program prints a table of median, minimum and maximum
seconds.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
from llama_cpp import Llama
from llamaherd.engine.memory import hardware
from marked import at_least, at_most, table

if TYPE_CHECKING:
    from collections.abc import Callable

NOVEL = Path(__file__).with_name("data") / "pride_and_prejudice.txt"
N_TEXTS = 500


def short_texts() -> list[str]:
    """Return different sentences of 3 to 40 words."""
    text = " ".join(NOVEL.read_text(encoding="utf-8").split())
    sentences = dict.fromkeys(re.split(r"(?<=[.!?])\s+", text))
    return [s for s in sentences if 3 <= len(s.split()) <= 40][:N_TEXTS]


def theirs(path: str, texts: list[str], *, flash_attn: bool) -> Callable[[], np.ndarray]:
    """Return a call of llama-cpp-python with defaults, except threads and attention."""
    n = hardware.n_cores()
    llama = Llama(
        path,
        embedding=True,
        verbose=False,
        n_ctx=0,
        n_threads=n,
        n_threads_batch=n,
        flash_attn=flash_attn,
    )
    return lambda: np.array(
        [item["embedding"] for item in llama.create_embedding(texts)["data"]]
    )


def ours(path: str, texts: list[str], **options: bool) -> Callable[[], np.ndarray]:
    """Llamaherd."""
    model = lh.Model(path)
    return lambda: lh.embed_parallel(model, texts, **options).vectors


def main() -> None:
    """Measure, compare, print."""
    path = sys.argv[1]
    n_rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    texts = short_texts()
    with lh.Model(path) as model:
        n_tokens = [len(lh.tokenize(model, text)) for text in texts]
    ways = {
        "llamaherd": ours(path, texts),
        "llamaherd, deterministic": ours(path, texts, deterministic=True),
        "create_embedding": theirs(path, texts, flash_attn=False),
        "create_embedding, flash_attn=True": theirs(path, texts, flash_attn=True),
    }
    vectors = {name: run() for name, run in ways.items()}  # this call is also the warm-up
    for name, rows in vectors.items():
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)  # noqa: PLW2901
        least = (rows * vectors["llamaherd"]).sum(axis=1, dtype=np.float64).min()
        print(f"{name}: least cosine with llamaherd's {at_least(least, 6)}")
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(n_rounds):
        for name, run in ways.items():
            start = perf_counter()
            run()
            seconds[name].append(perf_counter() - start)
    print(
        f"\n{len(texts)} texts of {min(n_tokens)} to {max(n_tokens)} tokens, "
        f"{sum(n_tokens)} in all; {hardware.n_cores()} threads; "
        f"{n_rounds} rounds in turns\n"
    )
    base_s = median(seconds["llamaherd"])
    rows = []
    for name, taken in seconds.items():
        middle = median(taken)
        ends = at_least(min(taken), 2), at_most(max(taken), 2)
        rates = f"{middle / base_s:.2f}", f"{len(texts) / middle:.0f}"
        rows.append([name, f"{middle:.2f}", *ends, *rates])
    head = ["", "median s", "least", "greatest", "times llamaherd's", "texts/s"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
