"""Prints a row of the table that run.py writes."""

from __future__ import annotations

import json


def tell(item: int, what: str, tries: int, held: int, note: str = "") -> None:
    """Print one row; `held` is the number of trials that passed."""
    row = {"item": item, "what": what, "tries": tries, "held": held, "note": note}
    print(json.dumps(row), flush=True)
