"""Recalibration of labels. R stores the data frame and its record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from llamaherd._r.forms import Part, named, parts, r_object, table, value, vector
from llamaherd.coding import frames
from llamaherd.coding.estimation.recalibrated import coded_of
from llamaherd.coding.estimation.recalibration import recalibrate
from llamaherd.coding.gold.joins import RAW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.coding.estimation.recalibrated import Recalibrated

_NUMBERS = ("prob", "margin", "entropy", "mean", "sd")  # roles of columns


def recalibrate_columns(
    columns: dict[str, list[Any]],
    gold: Any,  # noqa: ANN401 - a sample, or N codes
    coded: Mapping[str, Any],
    **options: Any,  # noqa: ANN401 - arguments of `recalibrate`
) -> Part:
    """Recalibrate labels and return the new columns and the record.

    Args:
        columns: Used columns of the data frame.
        gold: Sample, or N codes.
        coded: `label`, `text`: names of columns. `probs`: columns of probabilities in the
            order of the labels, or None. `roles`: columns by role. `ordered`: whether the
            labels are ordered. `run`: JSON or None.
        options: Other arguments of `recalibrate`.

    Warns:
        UserWarning: See `recalibrate`.
    """
    model = coded_of(
        columns,
        coded["label"],
        coded["text"],
        coded["probs"],
        roles=coded["roles"] or {},
        ordered=coded["ordered"],
    )
    found = recalibrate(model, gold, **options)
    there = frames.names(found.frame)
    label, n = found.columns["label"], len(found.labels)
    numbers = [
        vector("number", found.frame[name], name)
        for role, name in found.columns.items()
        if role in _NUMBERS or role.startswith("p_")
    ]
    old = {label, *(each["name"] for each in numbers)}
    raw = [name for name in there if name.startswith(RAW) and name[len(RAW) :] in old]
    known = {} if coded["run"] is None else json.loads(coded["run"])
    return parts(
        names=vector("text", found.names),
        label=vector("text", found.labels),
        numbers=table(numbers, n),
        raw=vector("text", raw),
        fold=value(there[-1]),
        folds=vector("integer", found.folds),
        run=value(json.dumps({**known, **found.run})),
        record=_record(found),
    )


def _record(found: Recalibrated) -> Part:
    run, gain = found.run["recalibration"], found.gain
    scores = [
        ("model", found.raw),
        ("recalibrated", found.cross_validated),
        ("constant", found.constant),
    ]
    columns = [vector("text", ("accuracy", "brier", "ece"), "measure")]
    columns += [
        vector("number", (own.accuracy.value, own.brier.value, own.ece), name)
        for name, own in scores
    ]
    made = {
        "features": vector("text", run["features"]),
        **{name: value(run[name]) for name in ("n_codes", "n_folds", "seed")},
        "scores": table(columns, 3),
        "gain": named({"estimate": gain.value, "low": gain.low, "high": gain.high}),
        "line": vector("text", found.summary().split("\n")),
    }
    return r_object("recalibration", made, page=found.summary())
