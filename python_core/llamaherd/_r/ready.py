"""Ready codebooks, and recommended models by memory size."""

from __future__ import annotations

from typing import Any

import llamaherd as lh
from llamaherd._r.boundary import boundary
from llamaherd._r.coding import described_codebook
from llamaherd.research.coding.codebook_file import ready_dicts


@boundary
def codebook_ready(name: str, target: str | None) -> dict[str, Any]:
    """Return a ready codebook in the form of `codebook_make`."""
    return described_codebook(lh.ready_codebook(name, target))


@boundary
def codebooks_ready() -> dict[str, list[Any]]:
    """Return the list of ready codebooks as columns."""
    return _columns(ready_dicts())


@boundary
def models_recommended(memory_gb: float | None) -> dict[str, list[Any]]:
    """Return recommended models as columns."""
    found = lh.recommended_models(memory_gb)
    names = ("source", "memory_gb", "size_bytes", "fits", "measured", "published")
    rows = [{name: getattr(each, name) for name in names} for each in found]
    for row in rows:
        row["size_bytes"] = float(row["size_bytes"])
    return _columns(rows)


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}
