"""Compares the speed of a small encoder with the time of its matrix products.

    OPENBLAS_NUM_THREADS=1 python benchmarks/encoder_bound.py all-MiniLM-L6-v2.F16.gguf

Embeds 300 sentences with one thread, with the model file and with copies of it in BF16
and Q8_0. T* is the time of the matrix products alone, at the speed that OpenBLAS reaches
in single precision for a product of the encoder's shape. Times are processor times: the
shorter of two runs. The table is written into docs/embeddings.md.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llama_cpp
import llamaherd as lh
import marked
import numpy as np
from bounds import at_least

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "embeddings.md"
NOVEL = HERE / "data" / "pride_and_prejudice.txt"
N_TEXTS, N_ROUNDS, BATCH = 300, 2, 256
COPIES = {"BF16": 32, "Q8_0": 7}  # llama_ftype of llama.h


def seconds(run: Callable[[], Any]) -> float:
    """Return the least processor time of several runs."""
    found = []
    for _ in range(N_ROUNDS):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def sentences() -> list[str]:
    """Return the first sentences of 30 to 300 characters."""
    parts = re.split(r"(?<=[.!?])\s+", NOVEL.read_text(encoding="utf-8"))
    clean = [" ".join(part.split()) for part in parts]
    return [each for each in clean if 30 < len(each) < 300][:N_TEXTS]


def operations(model: lh.Model, n_tokens: int) -> float:
    """Return the operations of all matrix products, with attention over a batch."""
    kind = model.metadata["general.architecture"]
    layers, width, inner = (
        int(model.metadata[f"{kind}.{name}"])
        for name in ("block_count", "embedding_length", "feed_forward_length")
    )
    products = 2 * (4 * width**2 + 2 * width * inner)
    return n_tokens * layers * (products + 4 * BATCH * width)


def peak() -> float:
    """Return operations per second of a product with the encoder's shape."""
    rng = np.random.default_rng(1)
    a = rng.random((BATCH, 384), dtype=np.float32)
    b = rng.random((384, 1536), dtype=np.float32)
    return 200 * 2 * a.shape[0] * b.size / seconds(lambda: [a @ b for _ in range(200)])


def copied(path: Path, folder: Path, name: str) -> Path:
    """Write a copy of a model in another type."""
    made = folder / f"{name}.gguf"
    how = llama_cpp.llama_model_quantize_default_params()
    how.ftype, how.allow_requantize, how.nthread = COPIES[name], True, 1
    code = llama_cpp.llama_model_quantize(
        str(path).encode(), str(made).encode(), ctypes.byref(how)
    )
    if code != 0:
        raise RuntimeError(f"llama_model_quantize returned {code}")
    return made


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    path = parser.parse_args().model
    texts = sentences()
    model = lh.Model(path)
    tokens = [lh.tokenize(model, text) for text in texts]
    n_tokens = sum(len(each) + 2 for each in tokens)
    bound = operations(model, n_tokens) / peak()
    lines = ["| file | texts/s | time / T* | cosine with the file's vectors |"]
    lines += ["|---|---:|---:|---:|", f"| T* | {len(texts) / bound:.0f} | 1 | |"]
    own = lh.embed_parallel(model, texts, n_threads=1).vectors
    with tempfile.TemporaryDirectory() as folder:
        files = {path.stem: path}
        files |= {name: copied(path, Path(folder), name) for name in COPIES}
        for name, file in files.items():
            with lh.Model(file) as each:
                took = seconds(
                    lambda each=each: lh.embed_parallel(each, texts, n_threads=1)
                )  # type: ignore[misc]
                vectors = lh.embed_parallel(each, texts, n_threads=1).vectors
            cosine = float((own * vectors).sum(axis=1, dtype=np.float64).min())
            shown = "" if file == path else f"at least {at_least(cosine, 4)}"
            lines.append(
                f"| {name} | {len(texts) / took:.0f} | {took / bound:.2f} | {shown} |"
            )
    tokenizing = seconds(lambda: [lh.tokenize(model, text) for text in texts])
    said = (
        f"{len(texts)} sentences, {n_tokens:,} tokens, one thread; tokenizing takes "
        f"{tokenizing * 1000:.0f} ms in all, T* is {bound:.2f} s."
    )
    marked.write(PAGE, {"encoder bound": "\n".join([said, "", *lines])})


if __name__ == "__main__":
    main()
