"""How good labels and their probabilities are, for docs/probabilities.md.

    python benchmarks/accuracy.py TEXTS.csv MODEL.gguf ... [--n 1200]

TEXTS.csv has columns `text` and `label`, positive, neutral or negative, of people. Some
texts of each label are set aside as examples. Ways: labels generated (`choices`),
classified, classified with batch calibration, and written into JSON (`schema`); without
examples and with eight. Without, JSON with a reason before the label as well.

- accuracy: share of texts whose most probable label is the human one;
- Brier score: mean over texts of the sum over labels of (probability - 1 if right)^2;
- ECE: expected calibration error, ten bins of the most probable label's probability: mean
  distance of accuracy and probability, weighted by the texts in each.

A generated label counts as one of probability 1.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import labelled
import llamaherd as lh
import marked
import numpy as np

PAGE = Path(__file__).resolve().parent.parent / "docs" / "probabilities.md"
LABELS = ["positive", "neutral", "negative"]
N_BINS = 10
SEED = 20261123
LABEL = {"label": {"enum": LABELS}}
REASON = {"reason": {"type": "string", "maxLength": 80}}


def brier(probs: np.ndarray, truth: np.ndarray) -> float:
    """Brier score of float64[n, k] and int[n]."""
    return float(((probs - np.eye(probs.shape[1])[truth]) ** 2).sum(axis=1).mean())


def ece(probs: np.ndarray, truth: np.ndarray) -> float:
    """Expected calibration error of float64[n, k] and int[n]."""
    top = probs.max(axis=1)
    right = probs.argmax(axis=1) == truth
    bins = np.minimum((top * N_BINS).astype(int), N_BINS - 1)
    return float(
        sum(
            abs(right[bins == b].mean() - top[bins == b].mean()) * (bins == b).mean()
            for b in np.unique(bins)
        )
    )


def prompts_of(texts: list[str], shots: list[dict[str, str]]) -> list[str]:
    """Completion prompts, after examples."""
    start = "Tell the sentiment of each tweet: positive, neutral or negative.\n\n"
    start += "".join(f"Tweet: {s['text']}\nSentiment: {s['label']}\n\n" for s in shots)
    return [f"{start}Tweet: {text}\nSentiment:" for text in texts]


def json_labels(
    context: lh.Context, texts: list[str], shots: list, fields: dict[str, object]
) -> list[str | None]:
    """The label of each text, written as a field of JSON."""
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
    """float64[n, k]: 1 for the label that was answered."""
    return np.array([[float(a == label) for label in LABELS] for a in answers])


def rows_of(
    model: lh.Model, name: str, texts: list[str], truth: np.ndarray, shots: list
) -> list[str]:
    """Lines of the table for one model and one kind of prompt."""
    prompts = prompts_of(texts, shots)
    with lh.Context(model) as context:
        answers = lh.generate_parallel(context, prompts, choices=LABELS).texts
        found = lh.classify_parallel(context, prompts, LABELS)
        ways = {
            "generated (`choices`)": certain(answers),
            "`classify_parallel`": found.probs,
            "the same, batch calibration": found.calibrated(
                lh.calibrate_batch(found)
            ).probs,
            "JSON (`schema`)": certain(json_labels(context, texts, shots, LABEL)),
        }
        if not shots:
            answers = json_labels(context, texts, shots, REASON | LABEL)
            ways["JSON, a reason first"] = certain(answers)
    lines = []
    for way, probs in ways.items():
        right = float((probs.argmax(axis=1) == truth).mean())
        lines.append(
            f"| {name} | {len(shots)} | {way} | {right:.3f} | "
            f"{brier(probs, truth):.3f} | {ece(probs, truth):.3f} |"
        )
    return lines


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--n", type=int, default=None, help="texts; default: all")
    options = parser.parse_args()
    every = labelled.read(options.texts, SEED)
    shots = labelled.shots_of(every, LABELS)
    rest = [row for row in every if row not in shots][: options.n]
    truth = np.array([LABELS.index(row["label"]) for row in rest])
    texts = [row["text"] for row in rest]
    lines = [
        f"{len(texts)} tweets.\n",
        "| model | examples | way | accuracy | Brier score | ECE |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for path in options.models:
        with lh.Model(path) as model:
            for some in ([], shots):
                lines += rows_of(model, path.stem, texts, truth, some)
                print("\n".join(lines), flush=True)
    marked.write(PAGE, {"accuracy": "\n".join(lines)})


if __name__ == "__main__":
    main()
