"""The simulation of codebook selection writes its tables into a page."""

from __future__ import annotations

import sys
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parents[3] / "benchmarks"
PAGE = FOLDER.parent / "docs" / "selection.md"


@pytest.mark.slow(reason="42 samples, drawn, split and compared in four measures")
def test_tables_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    page = tmp_path / "selection.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["selection", "--draws", "2", "--page", str(page)])
    main: Callable[[], None] = run_path(str(FOLDER / "selection.py"))["main"]
    main()
    text = page.read_text(encoding="utf-8")
    assert "8 draws; ten candidates, each right in 70%" in text
    for row in ("\n| 100 |", "\n| simple | 50 |", "\n| uncertainty | 200 |"):
        assert text.count(row) == 1
