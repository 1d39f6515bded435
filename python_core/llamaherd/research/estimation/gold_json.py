"""Gold samples as JSON, with a checksum of their inclusion probabilities."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.core.json_text import DAMAGED
from llamaherd.research.statistics import waves
from llamaherd.research.statistics.draw_variance import Outside
from llamaherd.research.statistics.waves import Wave

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.statistics.sampling import Floats

_FORMAT = 1


def text_of(sample: Mapping[str, Any]) -> str:
    """Return JSON of the fields of a `GoldSample`; floats are exact."""
    marks = sample["label_marks"]
    stored = {
        "llamaherd_gold": _FORMAT,
        "rows": sample["rows"],
        "ids": sample["ids"],
        "texts": sample["texts"],
        "all_probs": sample["all_probs"].tolist(),
        "strata": sample["strata"].tolist(),
        "names": sample["names"],
        "labels": sample["labels"],
        "design": sample["design"],
        "codes": sample["codes"],
        "coders": sample["coders"],
        **({} if sample["all_ids"] is None else {"all_ids": sample["all_ids"]}),
        **({} if marks is None else {"label_marks": marks.tolist()}),
    }
    if sample["waves"]:
        stored["waves"] = [
            {
                "rows": each.rows.tolist(),
                "probs": each.probs.tolist(),
                "strata": each.strata.tolist(),
                "n": each.n,
                "n_left": each.n_left,
                **_outside_stored(each.outside),
            }
            for each in sample["waves"]
        ]
    stored.update(_outside_stored(sample["outside"]))
    stored["probs_sha256"] = _probs_sha256(sample["all_probs"])
    return json.dumps(stored, ensure_ascii=False)


def fields_of(text: str) -> dict[str, Any]:
    """Return the fields of the `GoldSample` that `text_of` stored.

    Raises:
        ValueError: The text is not a sample, or its probabilities were changed.
    """
    try:
        stored = json.loads(text)
        made: dict[str, Any] = {
            "rows": [int(row) for row in stored["rows"]],
            "ids": list(map(str, stored["ids"])),
            "texts": list(stored["texts"]),
            "all_probs": np.array(stored["all_probs"], dtype=np.float64),
            "strata": np.array(stored["strata"], dtype=np.int64),
            "names": tuple(stored["names"]),
            "labels": list(stored["labels"]),
            "design": dict(stored["design"]),
            "codes": [list(each) for each in stored["codes"]],
            "coders": list(stored["coders"]),
            "all_ids": _texts_or_none(stored.get("all_ids")),
            "waves": tuple(_wave(each) for each in stored.get("waves") or ()),
            "outside": _outside(stored),
            "label_marks": None
            if "label_marks" not in stored
            else np.array(stored["label_marks"], dtype=np.int64),
        }
        checksum, form = stored["probs_sha256"], stored["llamaherd_gold"]
    except DAMAGED as error:
        raise ArgumentError(
            f"is not a stored gold sample: {error!r}", argument="text"
        ) from error
    if form != _FORMAT:
        raise ArgumentError(
            f"is a gold sample of another format, {form!r}", argument="text"
        )
    is_other = bool(made["waves"]) and not np.allclose(
        waves.combined(made["waves"]).all_probs, made["all_probs"], rtol=1e-9, atol=0
    )
    if is_other or checksum != _probs_sha256(made["all_probs"]):
        raise ArgumentError(
            "the inclusion probabilities of the stored gold sample were changed: it "
            "gives no valid estimates; use the sample as it was drawn",
            argument="gold",
            code="changed",
            form="{name}: {problem}",
        )
    return made


def _wave(stored: Mapping[str, Any]) -> Wave:
    return Wave(
        rows=np.array(stored["rows"], dtype=np.int64),
        probs=np.array(stored["probs"], dtype=np.float64),
        strata=np.array(stored["strata"], dtype=np.int64),
        n=int(stored["n"]),
        n_left=int(stored["n_left"]),
        outside=_outside(stored),
    )


def _outside_stored(outside: Outside | None) -> dict[str, Any]:
    """Return the stored form of the codes outside a subset; {} without any."""
    if outside is None:
        return {}
    stored = {"strata": outside.strata.tolist(), "left": outside.left.tolist()}
    return {"outside": stored}


def _outside(stored: Mapping[str, Any]) -> Outside | None:
    found = stored.get("outside")
    if found is None:
        return None
    return Outside(
        strata=np.array(found["strata"], dtype=np.int64),
        left=np.array(found["left"], dtype=np.float64),
    )


def _texts_or_none(values: Sequence[Any] | None) -> list[str] | None:
    return None if values is None else list(map(str, values))


def _probs_sha256(probs: Floats) -> str:
    return hashlib.sha256(np.ascontiguousarray(probs, dtype="<f8").tobytes()).hexdigest()
