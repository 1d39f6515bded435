"""Reads texts with human codes, and selects examples from them."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

N_SHOTS = 8
DEMO = Path(__file__).resolve().parent.parent / "examples" / "data"


def demo(name: str) -> list[dict[str, str]]:
    """Return the rows of a file of the demo."""
    with (DEMO / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read(path: Path, seed: int) -> list[dict[str, str]]:
    """Return the shuffled rows of a CSV file with columns `text` and `label`."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    random.Random(seed).shuffle(rows)  # noqa: S311 - the same each time, no secret
    return rows


def shots_of(rows: list[dict[str, str]], labels: Sequence[str]) -> list[dict[str, str]]:
    """Return `N_SHOTS` rows as examples, selected from each label in turn."""
    shots: list[dict[str, str]] = []
    for i in range(N_SHOTS):
        label = labels[i % len(labels)]
        shots.append(next(r for r in rows if r["label"] == label and r not in shots))
    return shots
