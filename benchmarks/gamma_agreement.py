"""Compares unitizing alpha with gamma, by llamaherd and by pygamma-agreement.

    python3.11 -m venv build/gamma-venv
    build/gamma-venv/bin/python -m pip install pygamma-agreement==0.5.9
    export PYTHONPATH=build/gamma-venv/lib/python3.11/site-packages
    .venv/bin/python benchmarks/gamma_agreement.py

A true coder marks passages in texts. A second coder marks the same passages with errors:
moved boundaries, omitted passages, wrong labels, or passages at random positions. The
table in docs/validation.md has the mean agreement of both coders over several texts.

Source: Mathet, Widloecher, Metivier, "The Unified and Holistic Method Gamma for
Inter-Annotator Agreement Measure and Alignment", Computational Linguistics 41, 2015.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import marked
import numpy as np
from llamaherd.research.codes.span_files import Unit
from llamaherd.research.statistics.gamma import Gamma
from llamaherd.research.statistics.unitizing import Unitizing, f1_of, matches

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "validation.md"
LENGTH, N_UNITS, SIZE = 1000, 8, 40  # characters, passages, characters of a passage
N_DRAWS = 8
LABELS = ("a", "b", "c")
CASES: dict[str, dict[str, float]] = {
    "the same passages": {},
    "boundaries moved by up to 5 characters": {"moved": 5},
    "boundaries moved by up to 20 characters": {"moved": 20},
    "a third of the passages omitted": {"omitted": 1 / 3},
    "a third of the labels wrong": {"wrong": 1 / 3},
    "all of these, moved by up to 20": {"moved": 20, "omitted": 1 / 3, "wrong": 1 / 3},
    "as many passages at random places": {"random": 1},
}
_COLUMNS = (
    "unitizing alpha",
    "gamma",
    "gamma (pygamma-agreement)",
    "exact F1",
    "overlap F1",
)


def main() -> None:
    """Simulate all cases and write the table."""
    rows = []
    for name, errors in CASES.items():
        drawn = [_agreement(seed, errors) for seed in range(N_DRAWS)]
        means = np.mean(drawn, axis=0)
        rows.append(f"| {name} | " + " | ".join(f"{each:.2f}" for each in means) + " |")
        print(rows[-1], flush=True)
    head = "|  | " + " | ".join(_COLUMNS) + " |"
    rule = "| --- |" + " ---: |" * len(_COLUMNS)
    what = f"{N_DRAWS} draws of a text of {LENGTH:,} characters with {N_UNITS} passages."
    marked.write(PAGE, {"gamma": "\n".join([what, "", head, rule, *rows])})


def _agreement(seed: int, errors: dict[str, float]) -> list[float]:
    """Return the measures of `_COLUMNS` for a text that two coders marked."""
    rng = np.random.default_rng(seed)
    true = _units(rng)
    other = _units(rng) if errors.get("random") else _with_errors(true, rng, errors)
    coders = [[true], [other]]
    alpha = Unitizing(coders, [LENGTH]).alpha()
    gamma = Gamma(coders, [LENGTH], seed=seed).value()
    f1 = f1_of(matches([other], [true]))
    theirs = _theirs(true, other, seed)
    return [alpha, gamma, theirs, f1["exact f1"], f1["overlap f1"]]


def _units(rng: np.random.Generator) -> list[Unit]:
    """Return passages that do not overlap, with random labels."""
    room = LENGTH - N_UNITS * SIZE
    starts = np.sort(rng.integers(0, room + 1, N_UNITS)) + SIZE * np.arange(N_UNITS)
    names = rng.choice(LABELS, N_UNITS)
    return [
        Unit(int(start), int(start) + SIZE, str(name))
        for start, name in zip(starts, names, strict=True)
    ]


def _with_errors(
    units: list[Unit], rng: np.random.Generator, errors: dict[str, float]
) -> list[Unit]:
    moved, made = int(errors.get("moved", 0)), []
    for start, end, name in units:
        if rng.random() < errors.get("omitted", 0):
            continue
        shifts = rng.integers(-moved, moved + 1, 2)
        ends = sorted((start + int(shifts[0]), end + int(shifts[1])))
        others = [each for each in LABELS if each != name]
        label = str(rng.choice(others)) if rng.random() < errors.get("wrong", 0) else name
        first, last = max(ends[0], 0), min(max(ends[1], ends[0] + 1), LENGTH)
        made.append(Unit(first, last, label))
    return sorted(made)


def _theirs(true: list[Unit], other: list[Unit], seed: int) -> float:
    """Return gamma by pygamma-agreement, with its sampler that shuffles passages."""
    # numba imports a package "coverage", which a file of this folder would hide.
    sys.path[:] = [each for each in sys.path if Path(each).resolve() != HERE]
    import pygamma_agreement as pa  # noqa: PLC0415 - in an environment of its own
    from pyannote.core import Segment  # noqa: PLC0415

    continuum: Any = pa.Continuum()
    for coder, units in (("true", true), ("other", other)):
        continuum.add_annotator(coder)
        for start, end, label in units:
            continuum.add(coder, Segment(start, end), label)
    how = pa.CombinedCategoricalDissimilarity(
        alpha=1, beta=1, delta_empty=1, cat_dissim=pa.AbsoluteCategoricalDissimilarity()
    )
    np.random.seed(seed)  # noqa: NPY002 - the generator of pygamma-agreement
    sampler = pa.ShuffleContinuumSampler()
    found = continuum.compute_gamma(how, sampler=sampler, precision_level=0.02)
    return float(found.gamma)


if __name__ == "__main__":
    main()
