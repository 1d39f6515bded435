"""The table of docs/cluster.md is generated from the simulation."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_what_is_simulated_becomes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sharding = importlib.import_module("sharding")
    output, page = tmp_path / "sharding.json", tmp_path / "cluster.md"
    monkeypatch.setattr(sharding, "PAGE", page)
    told = ["sharding", "--prompts", "3000", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", told)
    sharding.main()
    rows = json.loads(output.read_text(encoding="utf-8"))["rows"]
    assert [row["name"] for row in rows] == list(sharding.ASSUMED)
    assert all(row["n_prompts"] == 3000 for row in rows)
    assert all(0 <= row["lost"] < row["lost_at_random"] for row in rows[1:])
    # Prompts without shared prefixes lose nothing, except sometimes a first token.
    assert rows[-1]["lost"] < 0.001 < rows[0]["lost"]

    page.write_text((ROOT / "docs/cluster.md").read_text(encoding="utf-8"), "utf-8")
    monkeypatch.setattr(sys, "argv", [*told, "--page"])
    sharding.main()
    made = page.read_text(encoding="utf-8")
    assert "3,000 prompts, 64 shards" in made
    assert f"{rows[2]['imbalance']:.2%} | {rows[2]['lost']:.2%} |" in made
    page.write_text("none", encoding="utf-8")
    with pytest.raises(ValueError, match="not 0 times: sharding"):
        sharding.main()
