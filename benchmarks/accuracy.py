"""Accuracy of the labels of a model and of their probabilities.

    python benchmarks/accuracy.py TEXTS.csv MODEL.gguf ... [--n 1200]

The table is written into docs/probabilities.md.

TEXTS.csv has columns `text` and `label`, the human code: positive, neutral or negative.
Some texts of each label are used only as examples. Methods: labels are generated
(`choices`), classified, classified with batch calibration, or written into JSON
(`schema`). Each method is used without examples and with eight examples; without
examples, the labels are also written as JSON with a reason before the label.

- accuracy: share of texts whose most probable label is the human code;
- Brier score: mean over texts of the sum over labels of (probability - y)^2, where y is
  1 for the human code and 0 for other labels;
- ECE: expected calibration error. Texts are put into ten bins by the probability of their
  most probable label; ECE is the mean over bins of the distance between accuracy and mean
  probability, weighted by the number of texts in the bin.

In the scores, a generated label has the probability 1, and all other labels have 0.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import labelled
import llamaherd as lh
import marked
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

LABELS = ["positive", "neutral", "negative"]
N_BINS = 10
SEED = 20261123
LABEL = {"label": {"enum": LABELS}}
REASON = {"reason": {"type": "string", "maxLength": 80}}


def brier(probs: np.ndarray, truth: np.ndarray) -> float:
    """Return the Brier score of probabilities, float64[n, k], for labels, int[n]."""
    return float(((probs - np.eye(probs.shape[1])[truth]) ** 2).sum(axis=1).mean())


def ece(probs: np.ndarray, truth: np.ndarray) -> float:
    """Return the expected calibration error of probabilities for labels, int[n]."""
    top = probs.max(axis=1)
    right = probs.argmax(axis=1) == truth
    bins = np.minimum((top * N_BINS).astype(int), N_BINS - 1)
    return float(
        sum(
            abs(right[bins == b].mean() - top[bins == b].mean()) * (bins == b).mean()
            for b in np.unique(bins)
        )
    )


def figures(probs: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Return the scores of probabilities, float64[n, k], for labels, int[n]."""
    right = probs.argmax(axis=1) == truth
    return {
        "accuracy": float(right.mean()),
        "brier": brier(probs, truth),
        "ece": ece(probs, truth),
    }


def prompts_of(texts: list[str], shots: list[dict[str, str]]) -> list[str]:
    """Return completion prompts that begin with the examples."""
    start = "Tell the sentiment of each tweet: positive, neutral or negative.\n\n"
    start += "".join(f"Tweet: {s['text']}\nSentiment: {s['label']}\n\n" for s in shots)
    return [f"{start}Tweet: {text}\nSentiment:" for text in texts]


def json_labels(
    context: lh.Context, texts: list[str], shots: list, fields: dict[str, object]
) -> list[str | None]:
    """Let the model write labels as fields of JSON; return the label of each text."""
    schema = {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }
    start = "Tell the sentiment of each tweet: positive, neutral or negative.\n"
    start += lh.structured.schema_prompt(schema) + "\n\n"
    for shot in shots:
        answer = json.dumps({"label": shot["label"]}, separators=(",", ":"))
        start += f"Tweet: {shot['text']}\nJSON: {answer}\n\n"
    prompts = [f"{start}Tweet: {text}\nJSON:" for text in texts]
    out = lh.generate_parallel(context, prompts, schema=schema, max_tokens=120)
    return [None if answer is None else answer["label"] for answer in out.parsed]


def certain(answers: list[str | None]) -> np.ndarray:
    """Return float64[n, k] with 1 for the label of each answer, 0 for others."""
    return np.array([[float(a == label) for label in LABELS] for a in answers])


def made_ways(
    context: lh.Context, texts: list[str], shots: list
) -> dict[tuple[str, ...], Callable[[], list[np.ndarray]]]:
    """Return the functions that compute probabilities, float64[n, k], by method."""
    prompts = prompts_of(texts, shots)

    def generated() -> list[np.ndarray]:
        return [certain(lh.generate_parallel(context, prompts, choices=LABELS).texts)]

    def scored() -> list[np.ndarray]:
        scores = lh.classify_parallel(context, prompts, LABELS)
        return [scores.probs, scores.calibrated(lh.calibrate_batch(scores)).probs]

    def written(fields: dict[str, object]) -> list[np.ndarray]:
        return [certain(json_labels(context, texts, shots, fields))]

    ways: dict[tuple[str, ...], Callable[[], list[np.ndarray]]] = {
        ("generated (`choices`)",): generated,
        ("`classify_parallel`", "the same, batch calibration"): scored,
        ("JSON (`schema`)",): lambda: written(LABEL),
    }
    if not shots:
        ways["JSON, a reason first",] = lambda: written(REASON | LABEL)
    return ways


def rows_of(
    path: Path, texts: list[str], shots: list, truth: np.ndarray
) -> list[list[str]]:
    """Return the table's rows of a model, without and with examples."""
    rows = []
    with lh.Model(path) as model, lh.Context(model) as context:
        for some in ([], shots):
            for ways, make in made_ways(context, texts, some).items():
                for way, probs in zip(ways, make(), strict=True):
                    scores = [f"{value:.3f}" for value in figures(probs, truth).values()]
                    counts = f"{len(texts):,}", str(len(some))
                    rows.append([path.stem, way, *counts, *scores])
                    print(*rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure models, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--n", type=int, default=None, help="texts; default: all")
    options = parser.parse_args()
    every = labelled.read(options.texts, SEED)
    shots = labelled.shots_of(every, LABELS)
    rest = [row for row in every if row not in shots][: options.n]
    truth = np.array([LABELS.index(row["label"]) for row in rest])
    texts = [row["text"] for row in rest]
    head = ["model", "way", "tweets", "examples", "accuracy", "Brier score", "ECE"]
    rows = [row for path in options.models for row in rows_of(path, texts, shots, truth)]
    marked.write("docs/probabilities.md", {"accuracy": marked.table(head, rows, 2)})


if __name__ == "__main__":
    main()
