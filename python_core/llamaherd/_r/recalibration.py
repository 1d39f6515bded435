"""Recalibration of labels. R stores the data frame and its record."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd._r.boundary import boundary, clean, clean_or_none
from llamaherd.research import frames
from llamaherd.research.coding.joins import RAW
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.estimation.head_inputs import coded_of
from llamaherd.research.estimation.recalibration import recalibrate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.estimation.recalibrated import Recalibrated


@boundary
def recalibrate_columns(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Recalibrate labels and return the new columns.

    Args:
        columns: Used columns of the data frame.
        gold: Sample as JSON, or N codes.
        options: Mapping with these keys. `label`, `text`: names of columns. `probs`:
            columns of probabilities in the order of the labels, or None. `roles`: columns
            by role. `ordered`: whether the labels are ordered. `run`: JSON or None.
            `vectors`: concatenated embeddings of all texts, or None. `n_dimensions`: size
            of an embedding. Other keys are arguments of `recalibrate`.

    Returns:
        `names`, `gain`. `label`: N labels. `numbers`: new columns of numbers by name.
        `raw`: original columns by their new names. `fold`: name of the column of folds.
        `line`: summary. `run`: JSON. `scores`: columns.

    Warns:
        UserWarning: See `recalibrate`.
    """
    arguments = dict(options)
    given = {
        name: arguments.pop(name)
        for name in ("label", "text", "probs", "roles", "ordered", "run")
    }
    vectors, n = arguments.pop("vectors", None), arguments.pop("n_dimensions", 0)
    if vectors is not None:
        arguments["embeddings"] = np.array(vectors, dtype=np.float64).reshape(-1, int(n))
    arguments["seed"] = int(arguments["seed"])
    model = coded_of(
        dict(columns),
        given["label"],
        given["text"],
        given["probs"],
        roles=given["roles"],
        ordered=given["ordered"],
    )
    sample = GoldSample.from_json(gold) if isinstance(gold, str) else gold
    return _for_r(recalibrate(model, sample, **arguments), given["run"])


def _for_r(found: Recalibrated, run: str | None) -> dict[str, Any]:
    label = found.columns["label"]
    there = frames.names(found.frame)
    numbers = {
        name: _numbers(found.frame[name])
        for role, name in found.columns.items()
        if role in {"prob", "margin", "entropy", "mean", "sd"} or role.startswith("p_")
    }
    fold = there[-1]
    known = {} if run is None else json.loads(run)
    return {
        "names": [clean(name) for name in found.names],
        "label": [clean_or_none(each) for each in found.labels],
        "numbers": numbers,
        "raw": {
            name.removeprefix(RAW): name
            for name in there
            if name.removeprefix(RAW) in {label, *numbers} and name.startswith(RAW)
        },
        "fold": fold,
        "folds": [math.nan if each is None else float(each) for each in found.folds],
        "line": found.summary(),
        "run": json.dumps({**known, **found.run}),
        "scores": {
            "measure": ["accuracy", "brier", "ece"],
            "model": _scores(found, "raw"),
            "recalibrated": _scores(found, "cross_validated"),
        },
        "gain": [found.gain.value, found.gain.low, found.gain.high],
    }


def _numbers(values: Sequence[Any]) -> list[float]:
    return [math.nan if each is None else float(each) for each in values]


def _scores(found: Recalibrated, name: str) -> list[float]:
    own = getattr(found, name)
    return [own.accuracy.value, own.brier.value, own.ece]
