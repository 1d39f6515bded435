"""What a model said of each text: of parts joined, of rows put in place."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core.stats import Stats
from llamaherd.core.table import reasons
from llamaherd.run.statistics import added

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.calibration import Floats
    from llamaherd.core.results import Results
    from llamaherd.core.scores import ClassifyResults
    from llamaherd.research.coding.codebook import Codebook
    from llamaherd.research.coding.settings import Split
    from llamaherd.research.coding.texts import Integers


@dataclass(slots=True, kw_only=True)
class Answers:
    """What became of n texts, or of their rows.

    Attributes:
        errors: n reasons; None: it has an answer.
        probs: float64[n, k]; None: nothing was scored.
        coverage: float64[n]: probability of all labels together; None as before.
        values: n labels, or fields; None where `probs` has all there is.
    """

    errors: list[str | None]
    probs: Floats | None = None
    coverage: Floats | None = None
    values: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.errors)


def of_classes(results: ClassifyResults, n_asked: int) -> Answers:
    """From a call that classified: with several prompts a text, one for each label."""
    errors = reasons(results.errors, results.finish_reasons)
    if n_asked == 1:
        return Answers(errors=errors, probs=results.probs, coverage=results.coverage)
    n = len(errors) // n_asked
    return Answers(
        errors=[_first(errors[i * n_asked : (i + 1) * n_asked]) for i in range(n)],
        probs=results.probs[:, 0].reshape(n, n_asked),
        coverage=results.coverage.reshape(n, n_asked).mean(axis=1),
    )


def of_texts(results: Results, codebook: Codebook) -> Answers:
    """From a call that generated."""
    errors = reasons(results.errors, results.finish_reasons)
    if codebook.type == "fields":
        unread = [
            "the answer is not whole: raise max_tokens" if e is None and v is None else e
            for e, v in zip(errors, results.parsed, strict=True)
        ]
        return Answers(errors=unread, values=list(results.parsed))
    texts = [None if text is None else text.strip() for text in results.texts]
    for i, whole in enumerate(results.complete):
        if errors[i] is None and not whole:
            errors[i] = "the answer is not whole: raise max_tokens"
    if codebook.type != "multiple":
        return Answers(errors=errors, values=list(texts))
    k, yes = len(codebook.names), codebook.fixed["yes"]
    n = len(texts) // k
    values = [
        [name for j, name in enumerate(codebook.names) if texts[i * k + j] == yes]
        for i in range(n)
    ]
    first = [_first(errors[i * k : (i + 1) * k]) for i in range(n)]
    return Answers(errors=first, values=list(values))


def _first(errors: Sequence[str | None]) -> str | None:
    return next((error for error in errors if error is not None), None)


def bound(parts: Sequence[Answers]) -> Answers:
    """Answers of blocks, one after the other."""
    errors = [error for part in parts for error in part.errors]
    probs = [part.probs for part in parts if part.probs is not None]
    covered = [part.coverage for part in parts if part.coverage is not None]
    values = [part.values for part in parts if part.values is not None]
    return Answers(
        errors=errors,
        probs=np.concatenate(probs) if probs else None,
        coverage=np.concatenate(covered) if covered else None,
        values=[value for each in values for value in each] if values else None,
    )


def joined(
    answers: Answers, n_parts: Sequence[int], split: Split | None, k: int
) -> Answers:
    """The answers of texts, of those of their parts.

    Args:
        answers: Of all parts, those of a text one after the other.
        n_parts: How many each text has, 1 or more.
        split: How they are joined.
        k: Number of labels.
    """
    if all(n == 1 for n in n_parts):
        return answers
    ends = np.cumsum(n_parts)
    pieces = [range(end - n, end) for n, end in zip(n_parts, ends, strict=True)]
    errors = [_first([answers.errors[i] for i in piece]) for piece in pieces]
    if answers.probs is None:
        found = answers.values or []
        return Answers(
            errors=errors,
            values=[
                None if error is not None else _most_frequent([found[i] for i in piece])
                for piece, error in zip(pieces, errors, strict=True)
            ],
        )
    probs = np.full((len(pieces), k), np.nan)
    coverage = np.full(len(pieces), np.nan)
    given = answers.coverage
    for u, piece in enumerate(pieces):
        if errors[u] is None and given is not None:
            rows = answers.probs[list(piece)]
            probs[u] = _shares(rows, k) if split == "majority" else rows.mean(axis=0)
            coverage[u] = given[list(piece)].mean()
    return Answers(errors=errors, probs=probs, coverage=coverage)


def _shares(rows: Floats, k: int) -> Floats:
    """Share of parts whose most probable label each is; a tie goes to the larger mean."""
    votes = np.bincount(rows.argmax(axis=1), minlength=k) / len(rows)
    top = np.flatnonzero(votes == votes.max())
    if len(rows) > 1 and len(top) > 1:
        best = top[rows.mean(axis=0)[top].argmax()]
        votes[best] = np.nextafter(votes[best], 2.0)
    return np.asarray(votes)


def _most_frequent(values: Sequence[Any]) -> Any:  # noqa: ANN401 - labels or fields
    """The first of the most frequent ones."""
    keys = [json.dumps(value, sort_keys=True) for value in values]
    return values[keys.index(max(keys, key=keys.count))]


def of_rows(answers: Answers, rows: Integers) -> Answers:
    """Answers of texts for the rows that have them.

    Args:
        answers: Of the unique texts.
        rows: For each row the place of its text, -1: it has none.
    """

    def spread(values: Floats) -> Floats:
        padded = np.concatenate([values, np.full((1, *values.shape[1:]), np.nan)])
        return np.asarray(padded[rows])  # place -1 is the last one

    at = rows.tolist()
    errors, found = answers.errors, answers.values
    return Answers(
        errors=[None if i < 0 else errors[i] for i in at],
        probs=None if answers.probs is None else spread(answers.probs),
        coverage=None if answers.coverage is None else spread(answers.coverage),
        values=None if found is None else [None if i < 0 else found[i] for i in at],
    )


_GREATEST = {"n_slots", "kv_cells_max", "n_ctx"}


def summed(parts: Sequence[Stats]) -> Stats:
    """Statistics of blocks as those of one call."""
    if len(parts) < 2:
        return parts[0] if parts else Stats()
    made: dict[str, Any] = {}
    for each in fields(Stats):
        if each.name == "actors":
            continue
        values = [getattr(part, each.name) for part in parts]
        made[each.name] = max(values) if each.name in _GREATEST else sum(values)
    made["actors"] = added(row for part in parts for row in part.actors)
    n_batches = max(1, made["n_batches"])
    weighted = sum(part.mean_batch_occupancy * part.n_batches for part in parts)
    made["mean_batch_occupancy"] = weighted / n_batches
    made["seed"] = parts[0].seed
    for what in ("prefill", "decode"):
        made[f"{what}_tokens_per_s"] = made[f"n_{what}_tokens"] / max(
            made[f"{what}_s"], 1e-9
        )
    return Stats(**made)
