"""Conversion of R objects to the contents of reports and plots."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from llamaherd.research.plots.result_dicts import plain
from llamaherd.research.reports.report_data import evaluation_dict
from llamaherd.research.selection.candidates import CodebookChoice

if TYPE_CHECKING:
    from collections.abc import Mapping


def estimates_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert R's estimates to the form of `estimates_dict`.

    Args:
        given: `rows`, as columns; `model`, `formula`, `level`, `target`, `n_texts`,
            `n_gold`, `design`, `notes`, `grouped_by`; `source`, as JSON or None; for a
            report `title`, perhaps "".
    """
    columns = given["rows"]
    names = list(columns)
    rows = [
        dict(zip(names, values, strict=True))
        for values in zip(*columns.values(), strict=True)
    ]
    told: dict[str, Any] = plain(
        {
            **given,
            "rows": rows,
            "source": _source(given["source"]),
            "n_texts": int(given["n_texts"]),
            "n_gold": int(given["n_gold"]),
        }
    )
    return told


def robustness_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert R's robustness results to the form of `robustness_dict`.

    Args:
        given: `json`; `estimates` as in `estimates_of`, or None.
    """
    estimates = given["estimates"]
    content: dict[str, Any] = json.loads(given["json"])
    own = None if estimates is None else estimates_of(estimates)
    return {**content, "estimates": own}


def evaluation_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert R's evaluation of a selected codebook to the form of `evaluation_dict`.

    Args:
        given: `choice`, as JSON; `value`, `low`, `high`, `n`, `n_failed`, `n_openings`,
            `notes`.
    """
    return evaluation_dict(
        CodebookChoice.from_json(given["choice"]),
        {name: float(given[name]) for name in ("value", "low", "high")},
        n=int(given["n"]),
        n_failed=int(given["n_failed"]),
        n_openings=int(given["n_openings"]),
        notes=list(given["notes"]),
    )


def _source(told: str | None) -> dict[str, Any] | None:
    """Return the hashes of the texts; None for an object saved by an earlier version."""
    found: dict[str, Any] | None = None if told is None else json.loads(told)
    return found
