"""Answers of a model for texts, combined from parts, and quotes that support labels."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.asks.scores import (
    ClassifyResults,
    Thought,
    joined_thoughts,
    thought_of,
)
from llamaherd.calls.run.call import add_up
from llamaherd.calls.structured.quotable import Quoted, shift_positions
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.coding.annotation.texts import is_blank
from llamaherd.engine.core.errors import CANCELLED, ArgumentError, Failure
from llamaherd.engine.core.stats import Stats
from llamaherd.engine.core.table import reasons
from llamaherd.engine.core.words import name_of, setting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.calls.asks.annotate_options import Split
    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.annotation.settings import Settings
    from llamaherd.engine.core.arrays import Floats, Ints
    from llamaherd.engine.core.results import Results


BLANK = Failure("the text is empty", "empty")


@dataclass(slots=True, kw_only=True)
class Answers:
    """Answers for n texts or rows; None for what a coding does not have.

    Attributes:
        errors: n error messages; None for answered texts.
        probs: float64[n, k], label probabilities.
        raw: float64[n, k], probabilities before calibration.
        coverage: float64[n]: total probability of all labels.
        values: n labels or fields, if `probs` does not contain the answers.
        between: float64[n, k], standard deviation of probabilities between thoughts.
        thoughts: n thoughts.
        quotes: n quotes that support the labels.
        best: int64[n, k], part of each text that supports each label most.
        steps: n names of the steps that labelled the texts.
    """

    errors: list[str | None]
    probs: Floats | None = None
    raw: Floats | None = None
    coverage: Floats | None = None
    values: list[Any] | None = None
    between: Floats | None = None
    thoughts: list[Thought | None] | None = None
    quotes: list[Quoted | None] | None = None
    best: Ints | None = None
    steps: list[str | None] | None = None

    def __len__(self) -> int:
        return len(self.errors)

    def put(self, start: int, block: Answers) -> None:
        """Store the answers of a block of texts, which follow each other."""
        texts = slice(start, start + len(block))
        for field in fields(self):
            values, new = getattr(self, field.name), getattr(block, field.name)
            if values is not None and new is not None:
                values[texts] = new

    def take(self, at: Ints, others: Answers, step: str) -> None:
        """Store a step's answers to the texts `at`; texts that fail keep their label."""
        assert self.probs is not None  # noqa: S101 - see settings.py
        assert others.probs is not None  # noqa: S101
        assert self.steps is not None  # noqa: S101
        good = np.isfinite(others.probs).all(axis=1)
        had = np.isfinite(self.probs[at]).all(axis=1)
        for j in np.flatnonzero(~had | good).tolist():
            i = int(at[j])
            self.errors[i] = others.errors[j]
            if self.thoughts is not None and others.thoughts is not None:
                self.thoughts[i] = others.thoughts[j]
        for i in at[good].tolist():
            self.steps[i] = step
        for name in ("probs", "coverage", "between"):
            values, new = getattr(self, name), getattr(others, name)
            if values is not None and new is not None:
                values[at[good]] = new[good]


# Fields with a value for each row; `best` is needed only until quotes are asked.
_OF_ROWS = tuple(field.name for field in fields(Answers) if field.name != "best")


def answers_of_classes(
    results: ClassifyResults, n_asked: int, *, is_several: bool
) -> Answers:
    """Build answers from a classification call with `n_asked` prompts per text."""
    errors, thoughts = _with_probabilities(results), None
    groups = _groups(len(errors), n_asked)
    if results.thoughts is not None:
        thoughts = _join_thoughts(list(map(joined_thoughts, results.thoughts)), groups)

    def of_labels(values: Floats) -> Floats:
        """Return the values of "yes" for each label, with several labels per text."""
        return values[:, 0].reshape(len(groups), n_asked) if is_several else values

    return Answers(
        errors=_first_errors(errors, groups),
        probs=of_labels(results.probs),
        coverage=results.coverage.reshape(len(groups), n_asked).mean(axis=1),
        between=None if results.between is None else of_labels(results.between),
        thoughts=thoughts,
    )


def _with_probabilities(results: ClassifyResults) -> list[str | None]:
    """Return the errors, with one for each label of an engine without probabilities."""
    errors = reasons(results.errors, results.finish_reasons)
    if results.answers is None:
        return errors
    generate = setting("method", "generate")
    is_known = [not bool(np.isnan(row).any()) for row in results.probs]
    if not any(is_known) and any(results.answers):
        raise ArgumentError(
            "needs probabilities of labels, which this engine does not give: use "
            f"{generate}, which needs none",
            argument="method",
            code="elsewhere",
        )
    missing = Failure(f"the engine gave no probabilities; {generate} needs none")
    return [
        error or (None if known or answer is None else missing)
        for error, known, answer in zip(errors, is_known, results.answers, strict=True)
    ]


def _groups(n: int, size: int) -> list[slice]:
    """Return the prompts of each text, if each has `size` of them."""
    return [slice(start, start + size) for start in range(0, n, size)]


def _first_errors(
    errors: Sequence[str | None], groups: Sequence[slice]
) -> list[str | None]:
    """Return the first error of each group, or None."""
    return [next((e for e in errors[g] if e is not None), None) for g in groups]


def _join_thoughts(
    thoughts: Sequence[Thought | None], groups: Sequence[slice]
) -> list[Thought | None]:
    """Join the thoughts of each group."""
    return [joined_thoughts([t for t in thoughts[g] if t is not None]) for g in groups]


def answers_of_texts(
    results: Results, codebook: Codebook, offsets: Sequence[int] = ()
) -> Answers:
    """Build answers from a generation call."""
    answers = _of_texts(results, codebook, offsets)
    if results.has_thoughts:
        thoughts = list(map(thought_of, results))
        size = max(1, len(thoughts) // max(1, len(answers)))
        answers.thoughts = _join_thoughts(thoughts, _groups(len(thoughts), size))
    return answers


def _of_texts(results: Results, codebook: Codebook, offsets: Sequence[int]) -> Answers:
    errors = reasons(results.errors, results.finish_reasons)
    incomplete = f"the answer is incomplete: raise {name_of('max_tokens')}"
    if codebook.kind.is_generated:
        unread = [
            incomplete if e is None and v is None else e
            for e, v in zip(errors, results.parsed, strict=True)
        ]
        parsed = list(results.parsed)
        if any(offsets):
            parsed = [
                shift_positions(a, start)
                for a, start in zip(parsed, offsets, strict=True)
            ]
        return Answers(errors=unread, values=list(map(codebook.kind.read, parsed)))
    texts = [None if text is None else text.strip() for text in results.texts]
    for i, whole in enumerate(results.complete):
        if errors[i] is None and not whole:
            errors[i] = Failure(incomplete, "cut_off")
    if not codebook.kind.is_several:
        return Answers(errors=errors, values=list(texts))
    names, yes = codebook.names, codebook.fixed["yes"]
    groups = _groups(len(texts), len(names))
    values: list[Any] = [
        [name for name, text in zip(names, texts[group], strict=True) if text == yes]
        for group in groups
    ]
    return Answers(errors=_first_errors(errors, groups), values=values)


def answers_of_split(
    answers: Answers, n_parts: Sequence[int], split: Split | None, names: Sequence[str]
) -> Answers:
    """Combine the answers for parts into answers for texts."""
    if all(n == 1 for n in n_parts):
        return answers
    ends = np.cumsum(n_parts).tolist()
    pieces = [slice(end - n, end) for n, end in zip(n_parts, ends, strict=True)]
    errors = _first_errors(answers.errors, pieces)
    failed = [error is not None for error in errors]
    combined = Answers(errors=errors)
    if answers.thoughts is not None:
        combined.thoughts = _join_thoughts(answers.thoughts, pieces)
    if answers.probs is None:
        of_parts = [(answers.values or [])[piece] for piece in pieces]
        combine = _all_passages if split == "all" else _most_frequent
        combined.values = [
            None if is_failed else combine(values)
            for values, is_failed in zip(of_parts, failed, strict=True)
        ]
        best = [[_index(values, name) for name in names] for values in of_parts]
        combined.best = np.array(best, dtype=np.int64)
        return combined

    def of_texts_by(combine: Callable[[Floats], Any], values: Floats) -> Floats:
        rows = np.stack([combine(values[piece]) for piece in pieces])
        rows[failed] = np.nan
        return rows

    is_vote = split == "majority"
    combined.probs = of_texts_by(_shares if is_vote else _mean, answers.probs)
    combined.best = np.stack([answers.probs[piece].argmax(axis=0) for piece in pieces])
    if answers.coverage is not None:
        combined.coverage = of_texts_by(_mean, answers.coverage)
    if answers.between is not None:
        combined.between = of_texts_by(_mean, answers.between)
    return combined


def _mean(rows: Floats) -> Any:  # float64[k], or a number
    return rows.mean(axis=0)


def _index(values: list[Any], name: str) -> int:
    """Return the first part with a label; 0 if no part has it."""
    return values.index(name) if name in values else 0


def _shares(rows: Floats) -> Floats:
    """Return the share of parts in which each label is the most probable label.

    A single part keeps its own probabilities. On a tie of several labels, the share of
    the label with the largest mean probability is increased by a rounding error.
    """
    if len(rows) == 1:
        return np.asarray(rows[0])
    votes = np.bincount(rows.argmax(axis=1), minlength=rows.shape[1]) / len(rows)
    top = np.flatnonzero(votes == votes.max())
    if len(top) > 1:
        best = top[rows.mean(axis=0)[top].argmax()]
        votes[best] = np.nextafter(votes[best], 2.0)
    return np.asarray(votes)


def _most_frequent(values: Sequence[Any]) -> Any:  # labels or fields
    """Return the most frequent value; if several are tied, the first of them."""
    keys = [json.dumps(value, sort_keys=True) for value in values]
    return values[keys.index(max(keys, key=keys.count))]


def _all_passages(values: Sequence[Any]) -> dict[str, Any]:
    """Return the passages of all parts, in the order of the text."""
    return {SPANS: [passage for value in values for passage in value[SPANS]]}


def no_answers(n: int, k: int, settings: Settings) -> Answers:
    """Return answers of n texts that are not coded yet, as cancelled."""
    is_scored, has_quotes = settings.method == "classify", settings.evidence is not None
    return Answers(
        errors=[CANCELLED] * n,
        probs=np.full((n, k), np.nan) if is_scored else None,
        coverage=np.full(n, np.nan) if is_scored else None,
        values=None if is_scored else [None] * n,
        between=np.full((n, k), np.nan) if settings.n_thoughts > 1 else None,
        thoughts=[None] * n if settings.thinks else None,
        quotes=[None] * n if has_quotes else None,
        best=np.zeros((n, k), dtype=np.int64) if has_quotes else None,
        steps=[None] * n if settings.in_steps else None,
    )


def answers_of_rows(answers: Answers, rows: Ints, texts: Sequence[str | None]) -> Answers:
    """Expand the answers of unique texts to rows; rows of blank texts get an error.

    `rows` is int64[n], the index of the text of each row, -1 for rows without a text.
    """

    def of(values: Any) -> Any:
        if isinstance(values, np.ndarray):
            padded = np.concatenate([values, np.full((1, *values.shape[1:]), np.nan)])
            return padded[rows]  # index -1 selects the last row
        if values is None:
            return None
        return [None if i < 0 else values[i] for i in rows.tolist()]

    expanded = Answers(**{name: of(getattr(answers, name)) for name in _OF_ROWS})
    expanded.errors = [
        BLANK if is_blank(text) else error
        for text, error in zip(texts, expanded.errors, strict=True)
    ]
    return expanded


_GREATEST = {"n_slots", "kv_cells_max", "n_ctx"}


def sum_of_stats(parts: Sequence[Stats]) -> Stats:
    """Add up the statistics of blocks."""
    if len(parts) < 2:
        return parts[0] if parts else Stats()
    totals: dict[str, Any] = {}
    for field in fields(Stats):
        if field.name == "actors":
            continue
        values = [getattr(part, field.name) for part in parts]
        totals[field.name] = max(values) if field.name in _GREATEST else sum(values)
    totals["actors"] = add_up(row for part in parts for row in part.actors)
    n_batches = max(1, totals["n_batches"])
    weighted = sum(part.mean_batch_occupancy * part.n_batches for part in parts)
    totals["mean_batch_occupancy"] = weighted / n_batches
    totals["seed"] = parts[0].seed
    for what in ("prefill", "decode"):
        totals[f"{what}_tokens_per_s"] = totals[f"n_{what}_tokens"] / max(
            totals[f"{what}_s"], 1e-9
        )
    return Stats(**totals)
