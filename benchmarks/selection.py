"""Simulates the selection of codebooks, and compares measured with true accuracy.

    python benchmarks/selection.py [--draws 300]
    python benchmarks/selection.py --model SmolLM2-135M-Instruct.Q4_1.gguf

2,000 texts have one of three labels. Candidates label them; errors of candidates are
correlated through the difficulty of each text. Gold samples are drawn and split by
`gold_split`, and candidates are compared on the parts. True values are known, because all
texts have codes. The program writes a table of docs/selection.md; with --model, it writes
the output of the page's example. coverage.py runs the study of intervals.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import llamaherd as lh
import marked
import numpy as np
from llamaherd.coding.selection import measures as paired
from llamaherd.coding.selection.parts import codes_of_part
from llamaherd.coding.statistics.intervals import share
from studies import Hit, hit, joined, labelled, part_codes, studies

PAGE = Path(__file__).resolve().parent.parent / "docs" / "selection.md"
LABELS = ["negative", "neutral", "positive"]
SHARES = [0.3, 0.55, 0.15]
TEXTS = PAGE.parent.parent / "examples" / "data" / "headlines.csv"
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"  # name in the example
N_TEXTS = 2000
EQUAL = (0.7,) * 10
DIFFERENT = (0.75, 0.72, 0.7, 0.65, 0.5)
HEAD = (
    *("codes", "best on all of them: too high by, points", "interval has it"),
    *("best on select: too high by", "has it", "the same on evaluate: too high by"),
    *("has it", "any two said to differ"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """Texts with codes and labels of several candidates."""

    codes: list[str]  # N codes
    labels: list[list[str]]  # for each candidate, N labels
    sure: np.ndarray[Any, Any]  # float64[N], confidence of the first candidate

    def frame(self) -> dict[str, list[Any]]:
        """Return the texts as a data frame."""
        texts = [f"text {i}" for i in range(N_TEXTS)]
        return {"text": texts, "label": self.labels[0], "sure": self.sure.tolist()}


def random_world(accuracies: tuple[float, ...], rng: np.random.Generator) -> World:
    """Draw texts, with labels of candidates that have exactly these accuracies."""
    codes = rng.choice(3, N_TEXTS, p=SHARES)
    difficulty = rng.normal(size=N_TEXTS)
    labels, sure = [], None
    for accuracy in accuracies:
        ease = 1.2 * difficulty + rng.normal(size=N_TEXTS)
        right = ease > np.quantile(ease, 1 - accuracy)
        other = (codes + rng.choice([1, 2], N_TEXTS, p=[0.7, 0.3])) % 3
        labelled_as = np.where(right, codes, other)
        labels.append([LABELS[j] for j in labelled_as])
        if sure is None:
            sure = 1 / (1 + np.exp(-ease - rng.normal(size=N_TEXTS)))
    return World(codes=[LABELS[j] for j in codes], labels=labels, sure=np.asarray(sure))


def drawn(world: World, design: str, n: int, seed: int) -> lh.GoldSample:
    """Draw a gold sample, with codes and split into parts."""
    options: dict[str, Any] = {"prob": design}
    if design == "stratified":
        options["allocation"] = "equal"
    if design == "uncertainty":
        options["confidence"] = "sure"
    gold = lh.gold_sample(
        world.frame(), n, text="text", label="label", names=LABELS, seed=seed, **options
    )
    gold = gold.with_codes([world.codes[row] for row in gold.rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return lh.gold_split(gold, seed=seed)


def compared(
    world: World, gold: lh.GoldSample, part: str, measure: str, adjust: str = "bonferroni"
) -> paired.Paired:
    """Compare all candidates on the texts of a part."""
    codes = codes_of_part(gold, part)
    rows = [int(id_) - 1 for id_ in codes.ids]
    coded = [labelled([labels[i] for i in rows], LABELS) for labels in world.labels]
    return paired.compare(coded, codes, measure, adjust=adjust)  # type: ignore[arg-type]


def truths(world: World, measure: str) -> list[float]:
    """Return the true measure of each candidate, on all texts."""
    ones = np.ones(N_TEXTS)
    codes = part_codes(world.codes, LABELS, ones, np.zeros(N_TEXTS, dtype=np.int64))
    coded = [labelled(labels, LABELS) for labels in world.labels]
    pairs = paired.compare(coded, codes, measure, adjust="none")  # type: ignore[arg-type]
    return [estimate.value for estimate in pairs.values]


def optimism(draws: int) -> list[list[str]]:
    """Select the best of ten equal candidates; return rows on the bias this causes."""
    rows = []
    for n in (100, 200, 400):
        rng = np.random.default_rng(n)
        figures = []
        for draw in range(draws):
            if draw % 50 == 0:
                world = random_world(EQUAL, rng)
                true = truths(world, "accuracy")
            gold = drawn(world, "simple", n, int(rng.integers(2**53)))
            figures.append(_of_draw(world, gold, true))
        *pairs, apart = np.mean(figures, axis=0)
        cells = [f"{x:.1%}" if i % 2 else f"{100 * x:+.1f}" for i, x in enumerate(pairs)]
        rows.append([str(n), *cells, f"{apart:.1%}"])
    return rows


def _of_draw(world: World, gold: lh.GoldSample, true: list[float]) -> list[float]:
    """Return bias and coverage of the best candidate, and whether any two differ.

    Both are of a choice by all codes, measured on all codes, and of a choice by the part
    "select", measured on "select" and on "evaluate".
    """
    right = np.array([world.codes[row] for row in gold.rows])
    hits = [
        np.array([coded[row] for row in gold.rows]) == right for coded in world.labels
    ]
    best = int(np.argmax([is_right.mean() for is_right in hits]))
    naive = share(hits[best], np.ones(len(gold)), 0.95)
    measured = [(naive, true[best])]
    pairs = compared(world, gold, "select", "accuracy")
    best = int(np.argmax([estimate.value for estimate in pairs.values]))
    measured.append((pairs.values[best], true[best]))
    chosen = replace(world, labels=[world.labels[best]])
    evaluated = compared(chosen, gold, "evaluate", "accuracy").values[0]
    measured.append((evaluated, true[best]))
    figures = [x for m, t in measured for x in (m.value - t, hit(m, t).share)]
    return [*figures, float(any(gap.is_clear for gap in pairs.differences))]


def draw_paired(case: tuple[str, int], rng: np.random.Generator) -> dict[str, Hit]:
    """Simulate intervals of ten differences, each by itself and all at once."""
    design, n = case
    world = random_world(DIFFERENT, rng)
    gold = drawn(world, design, 2 * n, int(rng.integers(2**53)))
    by_way: dict[str, Hit] = {}
    for measure in paired.LABEL_MEASURES:
        true = truths(world, measure)
        for way, adjust in (("", "none"), (", all ten", "bonferroni")):
            hits = [
                hit(row, true[row.first] - true[row.second])
                for row in compared(world, gold, "select", measure, adjust).differences
            ]
            by_way[f"{measure}{way}"] = Hit(joined(hits, adjust).share)
    return by_way


STUDIES = studies(codebooks=draw_paired)


def example(model: Path) -> str:
    """Run the page's example in Python with a model, and return its output."""
    page = PAGE.read_text(encoding="utf-8")
    match = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    if match is None:
        raise ValueError("the page has no example in Python")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / TEXTS.name).symlink_to(TEXTS)
        (folder / MODEL).symlink_to(model.resolve())
        ran = subprocess.run(
            [sys.executable, "-c", match[1]],
            cwd=folder,
            env={**os.environ, "MPLBACKEND": "agg"},
            capture_output=True,
            text=True,
            check=True,
        )
    return ran.stdout


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--model", type=Path, help="write the example's output alone")
    options = parser.parse_args()
    if options.model is not None:
        marked.write(options.page, {"comparison": f"```\n{example(options.model)}```"})
        return
    draws = options.draws
    head = f"{4 * draws:,} draws; ten candidates, each right in 70% of 2,000 texts.\n\n"
    table = marked.table(HEAD, optimism(4 * draws), 0)
    marked.write(options.page, {"optimism": head + table})


if __name__ == "__main__":
    main()
