"""Labels: what a model reads, what a caller gets, and what scores say of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core import checks
from llamaherd.core.scores import ClassifyResults, Normalize, softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.calibration import Floats
    from llamaherd.core.results import Results
    from llamaherd.core.stats import Stats
    from llamaherd.run.trees import Continuations

MAX_LABELS = 100_000


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels that were checked.

    Attributes:
        readings: Texts that the model reads, all different.
        names: What the caller gets, all different.
        name_of: For each reading the place of its name.
    """

    readings: tuple[str, ...]
    names: tuple[str, ...]
    name_of: tuple[int, ...]


def checked_labels(labels: object) -> Labels:
    """Labels as a caller gives them: texts, or a mapping of readings to names.

    Raises:
        TypeError: They are something else.
        ValueError: There are none, or too many; one is empty, or is there twice.
    """
    is_text = isinstance(labels, (str, bytes, bytearray))
    what = checks.no_list(labels)
    if what or is_text or not isinstance(labels, Collection):
        raise TypeError(
            "labels must be a list of texts, or map what the model reads to what you "
            f"get, not be {what or checks.shown(labels)}"
        )
    pairs = (
        list(labels.items())
        if isinstance(labels, Mapping)
        else [(label, label) for label in labels]
    )
    if not 1 <= len(pairs) <= MAX_LABELS:
        raise ValueError(
            f"labels must be 1 to {MAX_LABELS} texts, such as ['yes', 'no'], not "
            f"{len(pairs)}"
        )
    readings = tuple(checks.text(f"labels[{i}]", r) for i, (r, _) in enumerate(pairs))
    for i, reading in enumerate(readings):
        if not reading.strip():
            raise ValueError(f"labels[{i}] must not be empty, as {reading!r} is")
    first: dict[str, int] = {}
    for i, reading in enumerate(readings):
        if first.setdefault(reading, i) != i:
            raise ValueError(
                f"labels[{i}] is there twice: {checks.shown(reading)}; give each label "
                "once"
            )
    names = [checks.text(f"name of labels[{i}]", n) for i, (_, n) in enumerate(pairs)]
    unique = tuple(dict.fromkeys(names))
    place = {name: j for j, name in enumerate(unique)}
    return Labels(readings, unique, tuple(place[name] for name in names))


def check_different(
    labels: Labels, each: Sequence[Continuations | None], names: Sequence[str]
) -> None:
    """Checks that labels are different tokens behind each prompt.

    Two that are not would both get the probability of the one that they are.

    Args:
        labels: They are.
        each: For each prompt its continuations, None if it failed.
        names: What messages call these prompts.

    Raises:
        ValueError: Two are the same.
    """
    for i, continuations in enumerate(each):
        equal = None if continuations is None else continuations.equal
        if equal is not None:
            first, second = (checks.quoted(labels.readings[j]) for j in equal)
            raise ValueError(
                f"the labels {first} and {second} are the same tokens behind {names[i]}: "
                "give one of them (space=False puts no space before labels)"
            )


def classified(
    results: Results,
    each: Sequence[Continuations | None],
    n_tokens: Sequence[Sequence[int]],
    labels: Labels,
    normalize: Normalize,
) -> ClassifyResults:
    """What the scores of prompts say of labels.

    Args:
        results: Of the prompts; with "pmi" that of a prompt without a text comes last,
            without which nothing can be said of any.
        each: Their continuations, None where a prompt failed.
        n_tokens: For each prompt the tokens of each reading.
        labels: They are.
        normalize: See `classify_parallel`.
    """
    k = len(labels.readings)
    raw = np.full((len(each), k), np.nan)
    for row, continuations, result in zip(raw, each, results, strict=True):
        if continuations is not None and result.scores is not None:
            row[:] = [continuations.logprob(j, result.scores) for j in range(k)]
    errors, reasons, stats = results.errors, results.finish_reasons, results.stats
    scaled = raw
    if normalize == "token":
        scaled = raw / np.array([row or [1] * k for row in n_tokens]).reshape(-1, k)
    elif normalize == "byte":
        scaled = raw / np.array([len(text.encode()) for text in labels.readings])
    elif normalize == "pmi" and each:
        prior, error, reason = raw[-1], errors.pop(), reasons.pop()
        raw = raw[:-1]
        if reason != "stop":
            raw = np.full_like(raw, np.nan)
            reasons = [reason if each == "stop" else each for each in reasons]
        if error is not None:
            reasons = ["error"] * len(reasons)
            errors = [each or f"pmi_prompt failed: {error}" for each in errors]
        scaled = raw - prior
        stats = _without_last(results, sum(each is not None for each in errors))
    return ClassifyResults(
        names=labels.names,
        probs=softmax(_by_name(scaled, labels)),
        logprobs=_by_name(raw, labels),
        normalize=normalize,
        errors=errors,
        finish_reasons=reasons,
        stats=stats,
        requests=tuple(result.stats for result in results)[: len(errors)],
    )


def _without_last(results: Results, n_failed: int) -> Stats:
    """Statistics that count all prompts but the last; what it took stays in them."""
    *prompts, last = results
    stats = results.stats
    is_known = last.stats is None and last.finish_reason == "stop"
    is_copy = any(
        each.stats is not None and each.scores is last.scores for each in prompts
    )
    return replace(
        stats,
        n_prompts=len(prompts),
        n_samples=len(prompts),
        n_failed=n_failed,
        n_prompt_tokens=stats.n_prompt_tokens - last.n_prompt_tokens,
        n_reused_tokens=stats.n_reused_tokens - last.n_reused_tokens,
        n_copied=stats.n_copied - (is_known and is_copy),
        n_journal=stats.n_journal - (is_known and not is_copy),
    )


def _by_name(logs: Floats, labels: Labels) -> Floats:
    """Logarithms of sums over the readings of each name."""
    if len(labels.names) == len(labels.readings):
        return logs
    out = np.full((len(logs), len(labels.names)), -np.inf)
    with np.errstate(invalid="ignore"):  # rows of prompts that failed are NaN
        for reading, name in enumerate(labels.name_of):
            out[:, name] = np.logaddexp(out[:, name], logs[:, reading])
    return out
