"""Conversion of R objects to the contents of reports and plots."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from llamaherd.coding.reports.report_data import evaluation_dict
from llamaherd.coding.selection.candidates import CodebookChoice

if TYPE_CHECKING:
    from collections.abc import Mapping


def robustness_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert R's robustness results to the form of `Robustness.to_dict`.

    Args:
        given: `json`; `estimates` as JSON, or None.
    """
    estimates = given["estimates"]
    content: dict[str, Any] = json.loads(given["json"])
    return {**content, "estimates": None if estimates is None else json.loads(estimates)}


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
