"""Forms of results as JSON types, from which plots and reports are made."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.asks.scores import ClassifyResults
from llamaherd.coding.annotation.answer_types import JOINED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.statistics.ratings import Floats

# Lower limits of bands of label probabilities, the highest first.
BANDS = (0.9, 0.7, 0.5, 0.0)


def summary_of(coded: Coded | ClassifyResults) -> list[dict[str, Any]]:
    """Count texts by label and by label probability; see `label_summary`."""
    book = None if isinstance(coded, ClassifyResults) else coded.codebook
    several = book is not None and book.kind.is_several
    return label_summary(coded.labels, coded.names, coded.probs, several=several)


def label_summary(
    labels: Sequence[str | None],
    names: Sequence[str],
    probs: Floats | None,
    *,
    several: bool,
) -> list[dict[str, Any]]:
    """Count texts by label, with shares and label probabilities.

    Args:
        labels: Label of each text; None for missing labels.
        names: The k labels of the codebook.
        probs: float64[n, k], probability of each label; None if unknown.
        several: True if a text may have several labels, joined by `JOINED`.

    Returns:
        For each label a dict: "label"; "n", the number of texts with this label;
        "n_labelled", the number of texts with an answer, which is the same for each
        label; "share", n / n_labelled, None if no text has an answer; "prob", the label's
        mean probability in the n texts; "bands", counts of the n texts by probability,
        see `BANDS`. "prob" and "bands" are None without probabilities. [] without
        `names`.
    """
    known = sum(label is not None for label in labels)
    found = []
    for j, name in enumerate(names):
        has = np.array([_has(label, name, several) for label in labels], dtype=bool)
        sure = None if probs is None else probs[has, j]
        found.append(
            {
                "label": name,
                "n": int(has.sum()),
                "n_labelled": known,
                "share": float(has.sum()) / known if known else None,
                "prob": None if sure is None or not len(sure) else float(sure.mean()),
                "bands": None if sure is None else in_bands(sure.tolist()),
            }
        )
    return found


def in_bands(probs: Sequence[float]) -> list[int]:
    """Count probabilities in each of `BANDS`, ignoring NaN."""
    counted = Counter(
        next((b for b in (*BANDS, -math.inf) if p >= b), math.nan) for p in probs
    )
    return [counted[band] for band in BANDS]


def robustness_dict(found: Any) -> dict[str, Any]:  # noqa: ANN401 - Robustness
    """Convert a `Robustness` to JSON types, without labels of texts."""
    result: dict[str, Any] = plain(
        {
            "variants": found.variants,
            "names": found.names,
            "n_texts": len(found.rows),
            "rows": found.rows,
            "source": found.source,
            "estimates": variants_dict(found),
            "flips": found.flips,
            "pairwise": found.pairwise,
            "agreement": found.agreement,
            "alpha": found.alpha,
            "shares": found.shares,
            "runs": [
                {
                    key: run.get(key)
                    for key in ("codebook", "settings", "model", "context")
                }
                for run in found.runs
            ],
        }
    )
    return result


def variants_dict(found: Any) -> dict[str, Any] | None:  # noqa: ANN401 - Robustness
    """Return the estimates of a `Robustness` in the form of `estimates_dict`, or None."""
    known = [each for each in found.estimates if each is not None]
    if not known:
        return None
    notes = list(dict.fromkeys(note for each in known for note in each.notes))
    result = estimates_dict(known[0])
    return {**result, "notes": notes, "rows": plain(found.estimate_rows())}


def estimates_dict(found: Any, title: str = "") -> dict[str, Any]:  # noqa: ANN401 - Estimates
    """Convert an `Estimates` to JSON types.

    Args:
        found: The estimates.
        title: Title of their section in a report; "" for a title from their content.
    """
    names = (
        "model",
        "formula",
        "level",
        "target",
        "n_texts",
        "n_gold",
        "design",
        "notes",
        "grouped_by",
        "predictions",
    )
    result = {name: getattr(found, name) for name in names}
    newer = ("simultaneous", "agreement", "is_weighted")
    result |= {name: getattr(found, name, None) for name in newer}
    result["source"] = getattr(found, "source", None)
    made: dict[str, Any] = plain({"title": title, "rows": found.to_dicts(), **result})
    return made


def plain(value: Any) -> Any:  # noqa: ANN401 - anything
    """Convert a value to JSON types, with None for NaN."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _has(label: str | None, name: str, several: bool) -> bool:
    if label is None:
        return False
    return name in label.split(JOINED) if several else label == name
