"""Compares labels by a model, by recalibration, and by a classifier on embeddings.

    python benchmarks/recalibration.py MODEL.gguf EMBEDDINGS.gguf --output ROWS.json
        [--texts NAME=TEXTS.csv ...] [--n 300] [--seeds 10] [--passes FOLDER]

TEXTS.csv has columns `text` and `label`, the human code. The package's `ag_news_sample`
(100 news texts) is also measured. Eight texts of each set are the examples of the prompt.
For each seed, a simple sample of half of the other texts is coded, and classifiers
(heads) are fitted to these codes. Accuracy, Brier score and calibration error (ten bins
of equal mass) are measured on the texts without a code. The width is the mean width of
95% intervals of all shares (`target="texts"`, DSL). FOLDER stores the models' results for
later runs. recalibration_report.py writes the rows into docs/estimates.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
import warnings
from pathlib import Path
from typing import Any

import labelled
import llamaherd as lh
import numpy as np
from llamaherd.coding.estimation.recalibrated import ProbabilityScores

AG_NEWS = Path(__file__).resolve().parents[1] / "r_package/data/ag_news_sample.R"
SEED = 20261125
QUESTIONS = {"ag_news_sample": "Name the topic of the news text."}
QUESTION = "Name the sentiment of the text."
HEADS: dict[str, tuple[str, ...]] = {
    "recalibrated": ("probs",),
    "head on embeddings": ("embeddings",),
    "both": ("probs", "embeddings"),
}


def ag_news(seed: int) -> list[dict[str, str]]:
    """Return the shuffled rows of the package's sample."""
    lines = AG_NEWS.read_text(encoding="utf-8").splitlines()
    split = [line.split("|") for line in lines if line.count("|") == 2]
    rows = [{"text": text, "label": label} for label, _, text in split[1:]]
    random.Random(seed).shuffle(rows)  # noqa: S311 - the same each time, no secret
    return rows


def passes(
    rows: list[dict[str, str]],
    shots: list[dict[str, str]],
    name: str,
    paths: tuple[Path, Path],
    folder: Path | None,
) -> dict[str, Any]:
    """Return probabilities, embeddings and seconds; read them from a file, if it exists.

    Args:
        rows: Texts to label.
        shots: Examples.
        name: Name of the set.
        paths: Files of the model and of the model for embeddings.
        folder: Folder of results of earlier runs.
    """
    key = hashlib.sha256(json.dumps([rows, shots, name, *map(str, paths)]).encode())
    file = None if folder is None else folder / f"{key.hexdigest()[:16]}.json"
    if file is not None and file.exists():
        known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return known
    labels = sorted({row["label"] for row in [*rows, *shots]})
    book = lh.Codebook(
        QUESTIONS.get(name, QUESTION),
        labels,
        examples=[(shot["text"], shot["label"]) for shot in shots],
    )
    texts = [row["text"] for row in rows]
    with lh.Model(paths[0]) as model, lh.Context(model) as context:
        start = time.monotonic()
        coded = lh.annotate({"text": texts}, "text", book, context)
        seconds = time.monotonic() - start
    with lh.Model(paths[1]) as model:
        start = time.monotonic()
        vectors = lh.embed_parallel(model, texts, truncate=True).vectors
        seconds_vectors = time.monotonic() - start
    made = {
        "names": list(coded.names),
        "probs": coded.probs.tolist() if coded.probs is not None else None,
        "vectors": vectors.tolist(),
        "seconds": seconds,
        "seconds_vectors": seconds_vectors,
    }
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(made), encoding="utf-8")
    return made


def of_seed(
    rows: list[dict[str, str]], known: dict[str, Any], seed: int
) -> list[dict[str, Any]]:
    """Return the results of each method for one sample of codes."""
    names = known["names"]
    probs, vectors = np.array(known["probs"]), np.array(known["vectors"])
    codes = np.array([names.index(row["label"]) for row in rows])
    frame = {
        "text": [row["text"] for row in rows],
        "label": [names[j] for j in probs.argmax(axis=1)],
        **{f"p_{name}": probs[:, j].tolist() for j, name in enumerate(names)},
    }
    drawn = lh.gold_sample(
        frame, len(rows) // 2, text="text", label="label", names=names, seed=seed
    )
    gold = drawn.with_codes([rows[i]["label"] for i in drawn.rows])
    others = np.setdiff1d(np.arange(len(rows)), drawn.rows)
    ones = np.ones(len(others))

    def figures(
        way: str, own: np.ndarray, seconds: float, estimates: lh.Estimates
    ) -> dict[str, Any]:
        scores = ProbabilityScores.of(own[others], codes[others], ones, 0.95)
        widths = [row.high - row.low for row in estimates.by("dsl")]
        return {
            "way": way,
            "accuracy": scores.accuracy.value,
            "brier": scores.brier.value,
            "ece": scores.ece,
            "width": float(np.nanmean(widths)),
            "seconds": seconds,
        }

    by_labels = lh.estimate(frame, gold, target="texts")
    by_probs = lh.estimate(frame, gold, target="texts", predictions="probs")
    alone = [row.high - row.low for row in by_labels.by("gold")]
    made = [
        figures("model, labels", probs, 0.0, by_labels),
        figures("model, probabilities", probs, 0.0, by_probs),
    ]
    for way, features in HEADS.items():
        start = time.monotonic()
        new = lh.recalibrate(
            frame,
            gold,
            features,
            embeddings=vectors if "embeddings" in features else None,
            seed=seed,
        )
        seconds = time.monotonic() - start
        estimates = lh.estimate(new, gold, target="texts")
        made.append(figures(way, new.probs, seconds, estimates))
    return [{**each, "alone": float(np.nanmean(alone))} for each in made]


def main() -> None:
    """Measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--texts", action="append", default=[], metavar="NAME=TEXTS.csv")
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--passes", type=Path, default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # ignore warnings about few codes
    sets = {"ag_news_sample": ag_news(SEED)}
    for each in args.texts:
        name, path = each.split("=", 1)
        sets[name] = labelled.read(Path(path), SEED)
    found = []
    for name, every in sets.items():
        shots = labelled.shots_of(every, sorted({row["label"] for row in every}))
        rows = [row for row in every if row not in shots][: args.n]
        rows = [{"text": row["text"], "label": row["label"]} for row in rows]
        paths = (args.model, args.embeddings)
        known = passes(rows, shots, name, paths, args.passes)
        each = [of_seed(rows, known, seed) for seed in range(args.seeds)]
        one = {
            "set": name,
            "n_texts": len(rows),
            "n_codes": len(rows) // 2,
            "seeds": args.seeds,
            "seconds": known["seconds"],
            "seconds_vectors": known["seconds_vectors"],
            "draws": each,
        }
        found.append(one)
        print(name, known["seconds"], known["seconds_vectors"], flush=True)
    out = {"model": args.model.stem, "embeddings": args.embeddings.stem, "sets": found}
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
