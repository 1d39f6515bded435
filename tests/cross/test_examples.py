"""The examples that compute corrected shares from a file of texts."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import rscript

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.model,
    pytest.mark.long(reason="labels all texts of the examples with a real model"),
]
EXAMPLES = rscript.ROOT / "examples"
TOPICS = ("Business", "Politics", "Science", "Sports")


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the news texts, in the columns that the examples expect."""
    with (EXAMPLES / "data" / "headlines.csv").open(encoding="utf-8", newline="") as file:
        rows = [(row["text"], row["topic"]) for row in csv.DictReader(file)]
    path = tmp_path / "texts.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    monkeypatch.chdir(tmp_path)
    return path


def check(output: str, folder: Path) -> None:
    """Check that labels are better than chance, shares sum to 1, a plot exists."""
    accuracy = re.search(r"^accuracy +([0-9.]+)", output, re.MULTILINE)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.6
    _, rest = output.split("labels corrected by codes (DSL)")
    shares, *_ = rest.split("\n\n")
    found = dict(re.findall(r"(\w+) share +([0-9.]+)", shares))
    assert sorted(found) == sorted(TOPICS)
    assert sum(map(float, found.values())) == pytest.approx(1, abs=0.001)
    assert (folder / "estimate.png").read_bytes().startswith(b"\x89PNG")


def test_in_r(texts: Path, smollm2_path: Path) -> None:
    output = rscript.run(str(EXAMPLES / "estimate.R"), texts, smollm2_path)
    check(output, texts.parent)


def test_in_python(texts: Path, smollm2_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "estimate.py", texts, smollm2_path],
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check(done.stdout, texts.parent)
