"""The tables of docs/estimates-simulated.md are generated from the measurements."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]


def load(name: str) -> ModuleType:
    path = ROOT / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{name}_of_benchmarks", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses search this module for annotations
    spec.loader.exec_module(module)
    return module


def test_measured_values_become_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    coverage, report = load("coverage"), load("coverage_report")
    output, page = tmp_path / "coverage.json", tmp_path / "page.md"
    monkeypatch.setattr(
        sys, "argv", ["coverage", "--draws", "4", "--output", str(output)]
    )
    coverage.main()
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found["draws"] == 4
    assert {row["draws"] for row in found["rows"] if row["n_gold"] == 200} == {4}
    assert {row["n_gold"] for row in found["rows"]} == {200, 50, 30}

    page.write_text(report.PAGE.read_text(encoding="utf-8"), "utf-8")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(sys, "argv", ["report", str(output)])
    report.main()
    made = page.read_text(encoding="utf-8")
    assert "4 draws of 2,000 texts with a gold sample of 200" in made
    row = found["rows"][0]
    assert (row["design"], row["estimate"], row["method"]) == ("simple", "mean", "naive")
    cell = f"| share | {row['truth']:.3f} | {row['coverage']:.1%} ({row['width']:.3f}) |"
    assert cell in made
    assert "| simple sample of 30 | truth |" in made
    monkeypatch.setattr(sys, "argv", ["report", str(output), "--check"])
    with pytest.raises(SystemExit) as ended:
        report.main()
    assert not ended.value.code
    page.write_text("none", encoding="utf-8")
    with pytest.raises(ValueError, match="not 0 times: coverage: hard designs"):
        report.main()
