"""Seconds per text of candidates, kept beside the journal that keeps their answers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.research.selection.candidates import hash_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_AFTERWARDS = ("calibrate", "normalize")  # settings that need no computing of their own
_LEAST = 0.5  # share of prompts to compute before a time replaces the stored one


def seconds_per_text(run: Mapping[str, Any], journal: str | None) -> float:
    """Return the seconds of computing per text, without answers from the journal.

    A run that computes half of its prompts or more stores its time; one that takes nearly
    all answers from the journal returns the stored time.

    Args:
        run: Provenance of labels, see `Coded.run`.
        journal: Path of the journal; None without one.

    Returns:
        NaN if nothing was computed and no time is stored.
    """
    n_prompts, n_journal = run.get("n_prompts", 0), run.get("n_journal", 0)
    share = (n_prompts - n_journal) / n_prompts if n_prompts else 0.0
    found = math.nan
    if share > 0:
        found = float(run["seconds"]) / (share * max(1, run["n_texts"]))
    if journal is None:
        return found
    key = hash_of(run, without=_AFTERWARDS)
    path = Path(f"{journal}.times.json")
    stored = _read(path)
    if share < _LEAST:
        return float(stored.get(key, found))
    path.write_text(json.dumps({**stored, key: found}, indent=1), encoding="utf-8")
    return found


def _read(path: Path) -> dict[str, float]:
    """Return stored times; none from a file that is missing or damaged."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(stored, dict):
        return {}
    return {
        str(key): float(value)
        for key, value in stored.items()
        if isinstance(value, (int, float))
    }
