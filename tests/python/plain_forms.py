"""Reads results in the form in which they go to R, as R's from_python() does."""

from __future__ import annotations

from typing import Any

import numpy as np


def value(status: dict[str, Any]) -> Any:
    """Return the value of a call that succeeded."""
    assert status["ok"], status
    return status["value"]


def plain(part: Any) -> Any:
    """Return dicts of columns and of named parts, lists, and values.

    An object has its printed lines as `page`, and its JSON as `json`.
    """
    if not isinstance(part, dict) or "type" not in part:
        return part
    kind = part["type"]
    if kind in ("value", "json"):
        return part["value"]
    if kind in ("table", "list", "object"):
        items = part["columns" if kind == "table" else "parts"]
        if kind == "list" and not any(item.get("name") for item in items):
            return [plain(item) for item in items]
        by_name = {item["name"]: plain(item) for item in items}
        if kind == "object":
            by_name |= {"page": part["page"], "json": part["json"]}
        return by_name | attributes(part)
    if kind == "factor":
        return [part["levels"][code - 1] if code else None for code in part["values"]]
    return _rows(part) if kind in ("matrix", "counts") else part["values"]


def attributes(part: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a vector or a table."""
    return {item["name"]: plain(item) for item in part.get("attributes", ())}


def _rows(part: dict[str, Any]) -> list[list[float]]:
    values: Any = part["values"]
    if "size" in part:
        values = np.frombuffer(values, dtype=f"<f{part['size']}").tolist()
    n = part["columns"]
    n = n if isinstance(n, int) else len(n)
    return [values[i : i + n] for i in range(0, len(values), n)]
