"""Coverage of validation intervals, simulated with texts whose codes are all known.

    python benchmarks/validation.py [--draws 1000]

2,000 texts have one of three labels. An overconfident model labels them; two people, who
err in 5% of the cases, code them. Gold samples of 200 texts are drawn; texts with less
certain labels have a higher probability to be drawn. Only the codes of these texts are
used. One of the samples is the example of docs/validation.md. The program counts how many
of the 95% intervals contain the value for all texts. The table of texts for human coders
is from a simple sample.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import llamaherd as lh
import marked
import numpy as np
from studies import hit

PAGE = Path(__file__).resolve().parent.parent / "docs" / "validation.md"
LABELS = ["positive", "neutral", "negative"]
SHARES = [0.2, 0.5, 0.3]
SEED = 20261123
N_TEXTS, N_GOLD = 2000, 200
EVIDENCE = 2.4  # mean log odds of the right label minus those of other labels
SURENESS = 1.5  # factor of the model's log odds, for its overconfidence
ERRORS = 0.05
WANTED = (0.85, 0.9, 0.95)


def numbers_of(validation: lh.types.Validation) -> dict[str, Any]:
    """Return the compared measures, with intervals."""
    measured = validation.accuracy
    named: dict[str, Any] = {
        "accuracy": measured.accuracy,
        "balanced accuracy": measured.balanced_accuracy,
        "macro F1": measured.macro_f1,
        "recall of *positive*": measured.per_label[0].recall,
        "precision of *positive*": measured.per_label[0].precision,
    }
    titles = {"kappa": "Cohen's kappa", "alpha": "Krippendorff's alpha", "ac1": "AC1"}
    for coefficient in validation.model_agreement:
        if coefficient.name in titles:
            named[titles[coefficient.name]] = coefficient
    return named


def texts() -> tuple[np.ndarray, list[list[str]]]:
    """Return the model's probabilities, float64[n, 3], and the codes of two people."""
    rng = np.random.default_rng(SEED)
    truth = rng.choice(3, N_TEXTS, p=SHARES)
    odds = rng.normal(size=(N_TEXTS, 3)) + np.log(SHARES)
    odds[np.arange(N_TEXTS), truth] += EVIDENCE
    raised = np.exp(SURENESS * odds)
    coders = [
        [LABELS[rng.integers(3) if rng.random() < 1.5 * ERRORS else t] for t in truth]
        for _ in range(2)
    ]
    return raised / raised.sum(axis=1, keepdims=True), coders


def drawn(
    frame: dict[str, list[Any]],
    coders: list[list[str]],
    seed: int,
    prob: str = "uncertainty",
) -> lh.GoldSample:
    """Draw a gold sample with codes."""
    confidence = "prob" if prob == "uncertainty" else None
    sample = lh.gold_sample(
        frame, N_GOLD, prob=prob, label="label", confidence=confidence, seed=seed
    )
    named = zip(("ann", "bob"), coders, strict=False)
    return sample.with_codes({name: [c[row] for row in sample.rows] for name, c in named})


def coverage(
    frame: dict[str, list[Any]], probs: np.ndarray, truth: list[str], draws: int
) -> list[list[str]]:
    """Return the rows of the table of intervals."""

    def measured(codes: Any) -> dict[str, Any]:
        return numbers_of(lh.validate(frame["label"], codes, prob=probs, labels=LABELS))

    every = measured(truth)
    cells = {name: [f"{measure.value:.3f}"] for name, measure in every.items()}
    samples = [drawn(frame, [truth], seed) for seed in range(draws)]
    unweighted = []
    for sample in samples:
        codes = np.full(len(truth), None)
        codes[list(sample.rows)] = sample.codes[0]
        unweighted.append(codes.tolist())
    for golds in (samples, unweighted):
        results = [measured(gold) for gold in golds]
        for name, measure in every.items():
            mean = np.mean([result[name].value for result in results])
            held = np.mean([hit(result[name], measure.value).share for result in results])
            cells[name] += [f"{mean:.3f}", f"{held:.1%}"]
    return [[name, *row] for name, row in cells.items()]


def selective(
    validation: lh.types.Validation, labels: list[str], truth: list[str]
) -> list[list[object]]:
    """Return table rows: texts for human coders, for each target accuracy.

    A row shows the number of these texts and the accuracy of all other labels.
    """
    table: list[list[object]] = []
    for target in WANTED:
        for sure in (False, True):
            rows = set(validation.for_people(target, sure=sure))
            kept = [i for i in range(len(labels)) if i not in rows]
            right = [labels[i] == truth[i] for i in kept]
            reached = f"{np.mean(right):.3f}" if right else "-"
            way = "lower end of the interval" if sure else "the number itself"
            table.append([target, way, len(rows), len(kept), reached])
    return table


def labelled(probs: np.ndarray) -> dict[str, list[Any]]:
    """Return the most probable labels, and their probabilities."""
    labels = [LABELS[j] for j in probs.argmax(axis=1)]
    return {"label": labels, "prob": probs.max(axis=1).tolist()}


def example() -> str:
    """Return the example of the page."""
    probs, coders = texts()
    frame = labelled(probs)
    gold = drawn(frame, coders, SEED)
    validation = lh.validate(frame["label"], gold, prob=probs, labels=LABELS)
    return f"```\n{validation!r}\n```"


def main() -> None:
    """Write the example and the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    probs, coders = texts()
    frame = labelled(probs)
    labels = frame["label"]
    parts = {"example": example()}
    head = ["", "all texts", "weighted: mean", "weighted: coverage"]
    head += ["unweighted: mean", "unweighted: coverage"]
    table = marked.table(head, coverage(frame, probs, coders[0], draws))
    about = f"{draws:,} gold samples of {N_GOLD}, one person's codes."
    parts["coverage"] = f"{about}\n\n{table}"
    head = ["wanted accuracy", "reached by", "texts for people"]
    head += ["texts the model keeps", "their accuracy"]
    one = lh.validate(
        labels, drawn(frame, coders[:1], SEED, "simple"), prob=probs, labels=LABELS
    )
    table = marked.table(head, selective(one, labels, coders[0]), 2)
    parts["selective"] = table
    marked.write(PAGE, parts)


if __name__ == "__main__":
    main()
