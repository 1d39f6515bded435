"""What a report holds: all that is needed to read it, and to run it again, as JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.scores import ClassifyResults
from llamaherd.research import frames
from llamaherd.research.coding.codebook import JOINED
from llamaherd.research.coding.source import Source, check_source
from llamaherd.research.coding.texts import checked_texts, hash_of_texts, unique_texts
from llamaherd.research.reports.variants_check import check_variants

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.coding.coded import Coded
    from llamaherd.research.coding.texts import Integers

FORMAT = "llamaherd report"
VERSION = 1
# Shares of labels by probability: the least of each band, the surest first.
BANDS = (0.9, 0.7, 0.5, 0.0)
Contents = dict[str, Any]


def contents_of(
    coded: Coded,
    *,
    title: str,
    texts: bool,
    n_examples: int,
    validation: Mapping[str, Any] | None,
    estimates: Mapping[str, Any] | None,
    robustness: Mapping[str, Any] | None,
) -> Contents:
    """Everything that a report tells, JSON-able.

    Args:
        coded: What it is about.
        title: Of the page.
        texts: Whether texts may be in it; otherwise only their hashes are.
        n_examples: Most texts that are shown.
        validation: What `Validation.to_dict` returned.
        estimates: What `Estimates.to_dict` returned.
        robustness: What `robustness_dict` returned.

    Raises:
        ValueError: The data frame is not that which was coded; or another part is not
            of its texts and labels.
    """
    column = checked_texts(frames.column(coded.frame, coded.text, "text"), coded.text)
    unique, rows = unique_texts(column)
    first = _first_rows(rows, len(unique))
    _check_equal(coded, rows, first)
    source = Source.of(column, coded.labels)
    for name, part, any_order in (
        ("validation", validation, False),  # it tells of texts by their rows
        ("estimates", estimates, True),
    ):
        if part is not None:
            check_source(name, part.get("source"), source, any_order=any_order)
    if robustness is not None:
        check_variants(robustness, column, coded.run)
    labels = [coded.labels[i] for i in first]
    by_fields = coded.codebook.type == "fields"
    data: dict[str, Any] = {
        "text": coded.text,
        "n_rows": len(column),
        "rows": [None if place < 0 else place for place in rows.tolist()],
        "sha256": hash_of_texts(column),
    }
    if texts:
        data["texts"] = unique
    else:
        data["texts_sha256"] = [sha256_of(text) for text in unique]
    is_hidden = by_fields and not texts  # fields may quote their text
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": title,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "run": coded.run,
        "stats": {**dataclasses.asdict(coded.stats), "line": str(coded.stats)},
        "data": data,
        "source": source.to_dict(),
        "labels": {
            "names": list(coded.names),
            "are_hashes": is_hidden,
            "values": hidden(labels) if is_hidden else labels,
        },
        "probs": _probs(coded, first),
        "errors": {
            str(place): coded.errors[i]
            for place, i in enumerate(first)
            if coded.errors[i] is not None
        },
        "summary": summary_of(coded),
        "validation": _without_texts(validation),
        "estimates": None if estimates is None else plain(estimates),
        "robustness": None if robustness is None else plain(robustness),
        "examples": _examples(column, coded, validation, n_examples) if texts else [],
    }


def summary_of(coded: Coded | ClassifyResults) -> list[dict[str, Any]]:
    """For each label its number of texts, their share, and how sure the model is.

    Returns:
        For each label "label"; "n"; "share" of the texts that have a label; "prob", the
        mean probability of those that have this one; "bands", their numbers by
        probability, see `BANDS`. None where there are no probabilities. [] for fields.
    """
    labels = coded.labels
    book = None if isinstance(coded, ClassifyResults) else coded.codebook
    several = book is not None and book.type == "multiple"
    known = [label for label in labels if label is not None]
    found = []
    for j, name in enumerate(coded.names):
        has = np.array([_has(label, name, several) for label in labels], dtype=bool)
        sure = None if coded.probs is None else coded.probs[has, j]
        found.append(
            {
                "label": name,
                "n": int(has.sum()),
                "share": float(has.sum()) / len(known) if known else None,
                "prob": None if sure is None or not len(sure) else float(sure.mean()),
                "bands": None if sure is None else in_bands(sure.tolist()),
            }
        )
    return found


def in_bands(probs: Sequence[float]) -> list[int]:
    """How many probabilities are in each of `BANDS`."""
    counted = Counter(next(b for b in (*BANDS, -math.inf) if p >= b) for p in probs)
    return [counted[band] for band in BANDS]


def robustness_dict(found: Any) -> dict[str, Any]:  # noqa: ANN401 - Robustness
    """A `Robustness` without its texts' labels, JSON-able."""
    told: dict[str, Any] = plain(
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
    return told


def variants_dict(found: Any) -> dict[str, Any] | None:  # noqa: ANN401 - Robustness
    """The estimates of a `Robustness`, as `estimates_dict` has them; None without."""
    known = [each for each in found.estimates if each is not None]
    if not known:
        return None
    notes = list(dict.fromkeys(note for each in known for note in each.notes))
    told = estimates_dict(known[0])
    return {**told, "notes": notes, "rows": plain(found.estimate_rows())}


def estimates_dict(found: Any) -> dict[str, Any]:  # noqa: ANN401 - Estimates
    """An `Estimates`, JSON-able."""
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
    )
    told = {name: getattr(found, name) for name in names}
    told["source"] = getattr(found, "source", None)
    made: dict[str, Any] = plain({"rows": found.to_dicts(), **told})
    return made


def plain(value: Any) -> Any:  # noqa: ANN401 - anything
    """What JSON has: no arrays, no tuples, None for what is not a number."""
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


def to_json(contents: Contents, *, indent: int | None = None) -> str:
    """As text; floats with all their digits, so that they are read back bit by bit."""
    return json.dumps(contents, ensure_ascii=False, allow_nan=False, indent=indent)


def sha256_of(text: str) -> str:
    """SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def hidden(labels: Sequence[str | None]) -> list[str | None]:
    """Hashes in place of labels."""
    return [None if label is None else sha256_of(label) for label in labels]


def _first_rows(rows: Integers, n_unique: int) -> list[int]:
    """The row in which each text comes first."""
    first = np.full(n_unique, -1, dtype=np.int64)
    there = np.flatnonzero(rows >= 0)[::-1]
    first[rows[there]] = there
    return list(map(int, first))


def _check_equal(coded: Coded, rows: Integers, first: Sequence[int]) -> None:
    """Equal texts have equal labels, if they are those that were coded."""
    for i, place in enumerate(rows.tolist()):
        if place >= 0 and coded.labels[i] != coded.labels[first[place]]:
            raise ValueError(
                f"coded: rows {first[place]} and {i} have the same text and different "
                f"labels, {checks.shown(coded.labels[first[place]])} and "
                f"{checks.shown(coded.labels[i])}: they were changed after coding"
            )


def _probs(coded: Coded, first: Sequence[int]) -> list[list[float | None] | None] | None:
    if coded.probs is None:
        return None
    found = coded.probs[list(first)] if first else coded.probs[:0]
    missing: Any = np.isnan(found).all(axis=1)
    return [
        None if gone else plain(row)
        for row, gone in zip(found.tolist(), missing.tolist(), strict=True)
    ]


def _has(label: str | None, name: str, several: bool) -> bool:
    if label is None:
        return False
    return name in label.split(JOINED) if several else label == name


def _without_texts(validation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What is said of texts says their rows; how sure it was of all is in "probs"."""
    if validation is None:
        return None
    told = {key: value for key, value in validation.items() if key != "confidence"}
    told["wrong"] = [
        {key: value for key, value in each.items() if key != "text"}
        for each in validation.get("wrong") or []
    ]
    kept: dict[str, Any] = plain(told)
    return kept


def _examples(
    column: Sequence[str | None],
    coded: Coded,
    validation: Mapping[str, Any] | None,
    n: int,
) -> list[dict[str, Any]]:
    """Texts to show: those where model and people disagree, otherwise the first ones."""
    if validation is not None:
        return [
            {**plain(dict(each)), "text": column[int(each["row"])]}
            for each in (validation.get("wrong") or [])[:n]
        ]
    there = [i for i, text in enumerate(column) if text is not None]
    return [
        {
            "row": i,
            "label": coded.labels[i],
            "truth": None,
            "prob": _prob(coded, i),
            "text": column[i],
        }
        for i in there[:n]
    ]


def _prob(coded: Coded, row: int) -> float | None:
    label = coded.labels[row]
    if coded.probs is None or label not in coded.names:
        return None
    return float(coded.probs[row, coded.names.index(label)])
