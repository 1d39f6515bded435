"""The worked examples: a simulation without a model, and scores by a model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long(reason="starts R, with a real model or several calls")
def test_naive_intervals_miss_the_truth_and_corrected_ones_do_not() -> None:
    output = run(EXAMPLES / "naive_or_corrected.py", 20)
    pattern = r"^(\w+) +slope ([\d.]+)  coverage (\d+)%  width ([\d.]+)$"
    found = {row[0]: row[1:] for row in re.findall(pattern, output, re.MULTILINE)}
    assert list(found) == ["naive", "gold", "dsl"]
    slope = {name: float(row[0]) for name, row in found.items()}
    covered = {name: int(row[1]) for name, row in found.items()}
    width = {name: float(row[2]) for name, row in found.items()}
    assert slope["naive"] < 0.15
    assert 0.17 < slope["dsl"] < 0.23
    assert covered["naive"] < 50
    assert min(covered["gold"], covered["dsl"]) >= 80
    assert width["naive"] < width["dsl"] < width["gold"]


@pytest.mark.model
@pytest.mark.long(reason="scores texts, and writes reasons, with a real model")
def test_scores_go_from_texts_to_regressions(smollm2_path: Path) -> None:
    output = run(EXAMPLES / "scores.py", EXAMPLES / "data" / "comments.csv", smollm2_path)
    assert "<CodebookComparison: 3 candidates" in output
    assert "Krippendorff's alpha" in output
    assert "label waited" in output
    assert "visits label" in output
    assert "(Egami et al. 2023; Egami et al. 2024)" in output
