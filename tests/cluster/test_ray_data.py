"""Runs examples/ray_data.py with 100,000 texts, which are not in its process.

SmolLM2 labels 1,000 of them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as pads
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("name", "n"),
    [("a tiny model (random, 2 layers)", 100_000), ("SmolLM2-135M", 1000)],
)
def test_the_example(
    name: str,
    n: int,
    tmp_path: Path,
    tiny_path: Callable[[str], Path],
    smollm2_path: Path,
) -> None:
    model = smollm2_path if "SmolLM2" in name else tiny_path("llama")
    # Started from a shell, which needs little memory: Linux includes the memory of the
    # parent process in the peak of a new process (ru_maxrss).
    command = [sys.executable, ROOT / "examples/ray_data.py", model, tmp_path, str(n)]
    done = subprocess.run(
        ["sh", "-c", '"$@"; exit "$?"', "sh", *command],
        capture_output=True,
        text=True,
        check=True,
    )
    match = re.search(r"in (\d+) s: (\d+) texts/s .* at most (\d+) MB", done.stdout)
    assert match, done.stdout
    labelled = pads.dataset(tmp_path / "labelled")
    ids = labelled.to_table(columns=["id", "error"])
    assert sorted(ids["id"].to_pylist()) == list(range(n))
    assert ids["error"].null_count == n
    assert int(match[3]) < 800  # MB of the driver
