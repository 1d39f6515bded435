"""Seconds per text of candidates, stored in a file next to the journal."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.core.files import write_whole
from llamaherd.core.json_text import DAMAGED
from llamaherd.research.selection.candidates import hash_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_AFTERWARDS = ("calibrate", "normalize")  # settings that cost no computing time
_LEAST = 0.5  # a time is stored if at least this share of prompts was computed


def seconds_per_text(run: Mapping[str, Any], journal: str | None) -> float:
    """Return the computing time per text in seconds, without answers from the journal.

    If at least half of the prompts were computed, their time is stored. Otherwise most
    answers came from the journal, and the stored time is returned.

    Args:
        run: Provenance of labels, see `Coded.run`.
        journal: Path of the journal; None if there is none.

    Returns:
        Seconds per text; NaN if no prompt was computed and no time is stored.
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
    if stored is None:  # a file of the user
        return found
    if share < _LEAST:
        return float(stored.get(key, found))
    write_whole(path, json.dumps({**stored, key: found}, indent=1).encode())
    return found


def _read(path: Path) -> dict[str, float] | None:
    """Return stored times; {} without a file, None for a file of another kind."""
    if not path.exists():
        return {}
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        is_own = all(isinstance(each, (int, float)) for each in stored.values())
        return {key: float(value) for key, value in stored.items()} if is_own else None
    except (OSError, OverflowError, *DAMAGED):
        return None
