"""Probabilities of labels, from the tokens of an answer that is one of them."""

from __future__ import annotations

import json
import math
from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from llamaherd.calls.asks.labels import Labels, by_name
from llamaherd.calls.asks.scores import ClassifyResults, softmax
from llamaherd.engine.core.phrases import part_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.asks.options import ClassifyOptions
    from llamaherd.engine.core.arrays import Floats
    from llamaherd.engine.core.results import Results

# Largest share of the labels' probability that alternatives may have which continue to
# several labels. With more, the probabilities of these labels are not known.
_MOST_SHARED = 0.01


class AnswerToken(NamedTuple):
    """A token of an answer."""

    token: str
    logprob: float
    # Most likely tokens at this place with their log-probabilities.
    others: Sequence[tuple[str, float]]


def label_scores(
    written: str, labels: Sequence[str], label: str, pieces: Sequence[AnswerToken]
) -> array[float]:
    """Return scores of labels: log-probabilities, then 1 for the label of the answer.

    The answer is walked token by token. An alternative of a token that continues to one
    other label only gives this label the probability of the answer so far, times its own.
    A label that no alternative leads to has the log-probability -inf.

    Returns:
        float64[2 k]: the log-probability of each of the k labels, all NaN if they cannot
        be known; then 1 for the label of the answer and 0 for the others.
    """
    k = len(labels)
    mark = array("d", [float(name == label) for name in labels])
    n_before, answers = _whole_answers(written, labels, label)
    logs = _logprobs(answers, labels.index(label), pieces, n_before)
    return array("d", [math.nan] * k if logs is None else logs) + mark


def _whole_answers(
    written: str, labels: Sequence[str], label: str
) -> tuple[int, list[str]]:
    """Return where the label begins, and the answer with each label in its place."""
    quoted = json.dumps(label, ensure_ascii=False)
    is_json = written.lstrip().startswith("{") and quoted in written
    if is_json:
        before, _, after = written.rpartition(quoted)
        quoted_labels = (json.dumps(name, ensure_ascii=False) for name in labels)
        return len(before) + 1, [f"{before}{text}{after}" for text in quoted_labels]
    before, _, after = written.partition(label)
    return len(before), [f"{before}{text}{after}" for text in labels]


def _logprobs(
    answers: Sequence[str], chosen: int, pieces: Sequence[AnswerToken], n_before: int
) -> list[float] | None:
    """Return the log-probability of each answer; None if they cannot be known."""
    logprobs = [-math.inf] * len(answers)
    prefix, pieces = _without_form(pieces, n_before)
    path, shared = 0.0, -math.inf
    alive = _fitting(answers, range(len(answers)), "")
    for piece in pieces:
        if len(alive) == 1:
            break
        for token, logprob in piece.others:
            if token == piece.token or not token:
                continue
            fits = _fitting(answers, alive, prefix + token)
            if len(fits) == 1:
                logprobs[fits[0]] = float(np.logaddexp(logprobs[fits[0]], path + logprob))
            elif fits:
                shared = float(np.logaddexp(shared, path + logprob))
        path += piece.logprob
        prefix += piece.token
        before, alive = alive, _fitting(answers, alive, prefix)
        if chosen not in alive or (len(before) > len(alive) and not piece.others):
            return None
    if len(alive) > 1:  # a longer label starts with the answer, and its share is unknown
        return None
    logprobs[chosen] = float(np.logaddexp(logprobs[chosen], path))
    total = np.logaddexp.reduce([*logprobs, shared])
    is_known = shared - total <= math.log(_MOST_SHARED)
    return logprobs if is_known else None


def _without_form(
    pieces: Sequence[AnswerToken], n_before: int
) -> tuple[str, Sequence[AnswerToken]]:
    """Return the text of the tokens before the label, and the other tokens."""
    text = ""
    for i, piece in enumerate(pieces):
        if len(text + piece.token) > n_before:
            return text, pieces[i:]
        text += piece.token
    return text, ()


def _fitting(answers: Sequence[str], alive: Sequence[int], prefix: str) -> list[int]:
    """Return the answers that start with a text."""
    return [j for j in alive if answers[j].startswith(prefix)]


def classify_answers(
    results: Results, labels: Labels, options: ClassifyOptions, *, is_by_name: bool
) -> ClassifyResults:
    """Convert the scores of prompts to the result of a classification."""
    k = len(labels.names if is_by_name else labels.readings)
    scores = np.full((len(results), 2 * k), np.nan)
    for i, result in enumerate(results):
        if result.scores is not None:
            scores[i] = result.scores
    logs, probs = scores[:, :k], scores[:, k:]
    answers = None
    if not is_by_name:
        answers = tuple(
            None if np.isnan(row).any() else labels.names[labels.name_of[row.argmax()]]
            for row in probs
        )
        logs = by_name(logs, labels)
        probs = softmax(logs)
        if not np.isnan(logs[[answer is not None for answer in answers]]).any():
            answers = None
    return ClassifyResults(
        names=labels.names,
        probs=probs,
        logprobs=logs,
        normalize=options.normalize,
        errors=[result.error for result in results],
        finish_reasons=[result.finish_reason for result in results],
        stats=results.stats,
        requests=tuple(result.stats for result in results),
        answers=answers,
        notes=() if is_by_name else _notes(answers, logs),
    )


def _notes(answers: Sequence[str | None] | None, logs: Floats) -> tuple[str, ...]:
    """Return the notes on labels whose probabilities are not or not fully known."""
    notes = [] if answers is None else [_unknown_answers(answers, logs)]
    n_unlisted = sum(bool(np.isneginf(row).any()) for row in logs)
    if n_unlisted:
        notes.append(
            f"{part_of(n_unlisted, len(logs), 'prompt')} labels that are not among the "
            "most likely tokens that the engine lists: their probability is shown as 0"
        )
    return tuple(notes)


def _unknown_answers(answers: Sequence[str | None], probs: Floats) -> str:
    n_bare = sum(
        answer is not None and bool(np.isnan(row).any())
        for answer, row in zip(answers, probs, strict=True)
    )
    return (
        f"{part_of(n_bare, len(answers), 'prompt')} a label without "
        "probabilities, which are NaN: the engine gave no log-probabilities that tell "
        "labels apart"
    )
