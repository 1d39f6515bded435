"""Sequences that belong together have one length: `zip` checks it everywhere."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_no_zip_of_the_package_drops_items() -> None:
    # Ruff's B905 demands that every zip has the argument.
    sources = sorted((ROOT / "python_core").rglob("*.py"))
    assert [str(path) for path in sources if "strict=False" in path.read_text()] == []
