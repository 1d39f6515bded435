"""Validates a model's labels by gold samples of texts whose labels are all known.

    python benchmarks/validation.py TEXTS.csv MODEL.gguf [--draws 1000]

TEXTS.csv has columns `text` and `label`, positive, neutral or negative, of people. Texts
are classified after eight examples, with batch calibration. Then gold samples of 200 are
drawn, those of which the model is less sure more often; the labels of the others are put
aside. One of the samples is shown as the example of docs/validation.md; of all it is
counted how often a 95% interval has the number that all texts have.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
from pathlib import Path
from typing import Any

import llamaherd as lh
import numpy as np
from accuracy import LABELS, N_SHOTS, SEED, prompts_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "validation.md"
STORED = PAGE.parents[1] / "benchmarks" / "results"
N_GOLD = 200
WANTED = (0.6, 0.7, 0.8)


def numbers_of(found: lh.Validation) -> dict[str, tuple[float, float, float]]:
    """Value and interval of what is compared."""
    measured = found.accuracy
    named: dict[str, Any] = {
        "accuracy": measured.accuracy,
        "balanced accuracy": measured.balanced_accuracy,
        "macro F1": measured.macro_f1,
        "recall of *positive*": measured.per_label[0].recall,
        "precision of *positive*": measured.per_label[0].precision,
    }
    titles = {"kappa": "Cohen's kappa", "alpha": "Krippendorff's alpha", "ac1": "AC1"}
    for each in found.model_agreement:
        if each.name in titles:
            named[titles[each.name]] = each
    return {name: (m.value, m.low, m.high) for name, m in named.items()}


def classified(
    model: Path, texts: list[str], shots: list[dict[str, str]]
) -> tuple[list[str], np.ndarray]:
    """Labels and float64[n, 3] probabilities; stored, so that they are computed once."""
    stored = STORED / f"validation-{model.stem}.npy"
    if not stored.exists():
        with lh.Model(model) as loaded, lh.Context(loaded) as context:
            found = lh.classify_parallel(context, prompts_of(texts, shots), LABELS)
        stored.parent.mkdir(parents=True, exist_ok=True)
        np.save(stored, found.calibrated(lh.calibrate_batch(found)).probs)
    probs = np.load(stored)
    return [LABELS[j] for j in probs.argmax(axis=1)], probs


def drawn(frame: dict[str, list[Any]], truth: list[str], seed: int) -> lh.GoldSample:
    """A gold sample with codes."""
    sample = lh.gold_sample(
        frame, N_GOLD, prob="uncertainty", label="label", confidence="prob", seed=seed
    )
    return sample.with_codes([truth[row] for row in sample.rows], "people")


def coverage(
    frame: dict[str, list[Any]], probs: np.ndarray, truth: list[str], draws: int
) -> list[str]:
    """Lines of the table of intervals."""
    labels = frame["label"]
    every = numbers_of(lh.validate(labels, truth, prob=probs, labels=LABELS))
    held = {name: [0, 0] for name in every}
    means = {name: [0.0, 0.0] for name in every}
    for seed in range(draws):
        sample = drawn(frame, truth, seed)
        codes = [None] * len(truth)
        for row, code in zip(sample.rows, sample.codes[0], strict=True):
            codes[row] = code
        for i, gold in enumerate((sample, codes)):
            found = lh.validate(labels, gold, prob=probs, labels=LABELS, n_bootstrap=500)
            for name, (value, low, high) in numbers_of(found).items():
                held[name][i] += low <= every[name][0] <= high
                means[name][i] += value / draws
    return [
        f"| {name} | {value:.3f} | {means[name][0]:.3f} | {held[name][0] / draws:.1%} | "
        f"{means[name][1]:.3f} | {held[name][1] / draws:.1%} |"
        for name, (value, _, _) in every.items()
    ]


def selective(found: lh.Validation, labels: list[str], truth: list[str]) -> list[str]:
    """Lines of the table of what people are sent."""
    lines = []
    for wanted in WANTED:
        for sure in (False, True):
            rows = set(found.for_people(wanted, sure=sure))
            kept = [i for i in range(len(labels)) if i not in rows]
            right = [labels[i] == truth[i] for i in kept]
            reached = f"{np.mean(right):.3f}" if right else "-"
            way = "lower end of the interval" if sure else "the number itself"
            lines.append(f"| {wanted} | {way} | {len(rows)} | {len(kept)} | {reached} |")
    return lines


def filled(page: str, name: str, text: str) -> str:
    """The page with another part of that name."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    pattern = f"{re.escape(start)}.*?{re.escape(end)}"
    return re.sub(pattern, lambda _: f"{start}{text}\n{end}", page, flags=re.DOTALL)


def main() -> None:
    """Writes the example and the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    with options.texts.open(encoding="utf-8", newline="") as file:
        every = list(csv.DictReader(file))
    random.Random(SEED).shuffle(every)  # noqa: S311 - the same each time, no secret
    shots: list[dict[str, str]] = []
    for i in range(N_SHOTS):
        label = LABELS[i % len(LABELS)]
        shots.append(next(r for r in every if r["label"] == label and r not in shots))
    rest = [row for row in every if row not in shots]
    truth = [row["label"] for row in rest]
    labels, probs = classified(options.model, [row["text"] for row in rest], shots)
    frame = {"label": labels, "prob": probs.max(axis=1).tolist()}
    gold = drawn(frame, truth, SEED)
    example = lh.validate(labels, gold, prob=probs, labels=LABELS)
    about = f"{len(rest):,} tweets, {options.model.stem}, a gold sample of {N_GOLD}:"
    page = PAGE.read_text(encoding="utf-8")
    page = filled(page, "example", f"{about}\n\n```\n{example!r}\n```")
    head = [
        f"{options.draws:,} gold samples of {N_GOLD}, drawn by uncertainty.\n",
        "| | all texts | weighted: mean | interval has it | unweighted: mean | has it |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines = coverage(frame, probs, truth, options.draws)
    page = filled(page, "coverage", "\n".join([*head, *lines]))
    head = [
        "| wanted | reached by | for people | the model keeps | their accuracy |",
        "| ---: | --- | ---: | ---: | ---: |",
    ]
    lines = selective(example, labels, truth)
    page = filled(page, "selective", "\n".join([*head, *lines]))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
