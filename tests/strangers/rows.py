"""A row of the table that run.py writes, as a topic prints it."""

from __future__ import annotations

import json


def tell(item: int, what: str, tries: int, held: int, note: str = "") -> None:
    """Prints one row; `held`: how many of the tries went as they should."""
    row = {"item": item, "what": what, "tries": tries, "held": held, "note": note}
    print(json.dumps(row), flush=True)
