"""Gold samples as JSON, with a checksum of their inclusion probabilities."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.core.json_text import DAMAGED
from llamaherd.research.statistics import waves
from llamaherd.research.statistics.waves import Outside, Wave

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llamaherd.research.statistics.sampling import Floats, Ints

_FORMAT = 1


def text_of(sample: Mapping[str, Any]) -> str:
    """Return JSON of the fields of a `GoldSample`; floats are exact."""
    known = {name: _stored(sample[name]) for name in _READERS}
    stored = {
        name: value
        for name, value in known.items()
        if name not in _OPTIONAL or value not in (None, [])
    }
    checksum = _probs_sha256(sample["all_probs"])
    return json.dumps(
        {"llamaherd_gold": _FORMAT, **stored, "probs_sha256": checksum},
        ensure_ascii=False,
    )


def fields_of(text: str) -> dict[str, Any]:
    """Return the fields of the `GoldSample` that `text_of` stored.

    Raises:
        ValueError: The text is not a sample, or its probabilities were changed.
    """
    try:
        stored = json.loads(text)
        made = {
            name: read(stored[name])
            for name, read in _READERS.items()
            if name not in _OPTIONAL or stored.get(name) is not None
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
    is_other = bool(made.get("waves")) and not np.allclose(
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


def _stored(value: Any) -> Any:  # noqa: ANN401 - of any field
    """Return a value as JSON types; fields of dataclasses that are None are left out."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_dataclass(value):
        given = {each.name: _stored(getattr(value, each.name)) for each in fields(value)}
        return {name: each for name, each in given.items() if each is not None}
    return [_stored(each) for each in value] if isinstance(value, tuple) else value


def _floats(values: Any) -> Floats:  # noqa: ANN401 - of JSON
    return np.array(values, dtype=np.float64)


def _ints(values: Any) -> Ints:  # noqa: ANN401 - of JSON
    return np.array(values, dtype=np.int64)


def _texts(values: Any) -> list[str]:  # noqa: ANN401 - of JSON
    return list(map(str, values))


def _outside(stored: Mapping[str, Any]) -> Outside:
    return Outside(strata=_ints(stored["strata"]), left=_floats(stored["left"]))


def _wave(stored: Mapping[str, Any]) -> Wave:
    outside = stored.get("outside")
    return Wave(
        rows=_ints(stored["rows"]),
        probs=_floats(stored["probs"]),
        strata=_ints(stored["strata"]),
        n=int(stored["n"]),
        n_left=int(stored["n_left"]),
        outside=None if outside is None else _outside(outside),
    )


# Fields of a sample in the order of the text, with the function that reads each.
_READERS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda values: [int(row) for row in values],
    "ids": _texts,
    "texts": list,
    "all_probs": _floats,
    "strata": _ints,
    "names": tuple,
    "labels": list,
    "design": dict,
    "codes": lambda columns: [list(each) for each in columns],
    "coders": list,
    "all_ids": _texts,
    "label_marks": _ints,
    "waves": lambda stored: tuple(map(_wave, stored)),
    "outside": _outside,
}
_OPTIONAL = ("all_ids", "label_marks", "waves", "outside")


def _probs_sha256(probs: Floats) -> str:
    return hashlib.sha256(np.ascontiguousarray(probs, dtype="<f8").tobytes()).hexdigest()
