"""Labels 100,000 texts with Ray Data, without loading them into this process.

    python examples/ray_data.py MODEL.gguf FOLDER [N_TEXTS [N_ACTORS]]

Writes N_TEXTS texts to Parquet files in FOLDER/texts, writes the labelled texts to
FOLDER/labelled, and prints the speed and the largest memory of this process. If the
environment variable RAY_ADDRESS is set, the script runs on that cluster, and all nodes
must be able to read FOLDER; otherwise it runs on this machine. Needs llamaherd[ray].
"""

import os
import resource
import sys
import time
from pathlib import Path

import llamaherd as lh
import numpy as np
import pyarrow.dataset as pads
import ray

model, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
n_texts = int(sys.argv[3]) if len(sys.argv) > 3 else 100_000
n_actors = int(sys.argv[4]) if len(sys.argv) > 4 else 2

THINGS = ["film", "book", "soup", "hotel", "train", "song", "lamp", "garden"]
OPINIONS = ["wonderful", "awful", "fine", "boring", "lovely", "broken", "cheap", "late"]


def write_texts(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a different text for each number."""
    numbers = batch["id"]
    things = np.take(THINGS, numbers % len(THINGS))
    opinions = np.take(OPINIONS, numbers // len(THINGS) % len(OPINIONS))
    texts = [
        f"The {thing} no. {i} was {opinion}."
        for i, thing, opinion in zip(numbers, things, opinions, strict=True)
    ]
    return {"id": numbers, "text": np.array(texts, dtype=object)}


# One CPU is added, because actors occupy their CPUs all the time and reading and writing
# need a CPU, too.
on_cluster = "RAY_ADDRESS" in os.environ
ray.init(include_dashboard=False, num_cpus=None if on_cluster else n_actors + 1)

ray.data.range(n_texts).map_batches(write_texts).write_parquet(str(folder / "texts"))

# An actor receives one block at a time. The texts are short, so Ray would put all of them
# into one block.
n_blocks = max(4 * n_actors, n_texts // 4096)
started_s = time.perf_counter()
ds = ray.data.read_parquet(str(folder / "texts"), override_num_blocks=n_blocks)
label = lh.ray.map(
    # One CPU, and so one thread, for each actor.
    lh.ray.Config(
        model, concurrency=n_actors, num_cpus=1, context={"deterministic": True}
    ),
    task="classify",
    labels=["positive", "negative"],
    preprocess=lambda row: {"prompt": f"Review: {row['text']}\nThe review is"},
)
label(ds).write_parquet(str(folder / "labelled"))
elapsed_s = time.perf_counter() - started_s

labelled = pads.dataset(folder / "labelled")
n_failed = labelled.count_rows(filter=~pads.field("error").is_null())
peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(
    f"{labelled.count_rows()} texts, {n_failed} failed, in {elapsed_s:.0f} s: "
    f"{n_texts / elapsed_s:.0f} texts/s by {n_actors} actors; this process used at most "
    f"{peak_mb:.0f} MB"
)
