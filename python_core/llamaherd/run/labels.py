"""Labels: what a model reads, what a caller gets, and what scores say of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core import checks
from llamaherd.core.scores import ClassifyResults, Normalize, softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.calibration import Floats
    from llamaherd.core.results import Results
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
    if is_text or not isinstance(labels, Collection):
        raise TypeError(
            "labels must be a list of texts, or map what the model reads to what you "
            f"get, not be {checks.shown(labels)}"
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


def classified(
    results: Results,
    each: Sequence[Continuations | None],
    n_tokens: Sequence[Sequence[int]],
    labels: Labels,
    normalize: Normalize,
) -> ClassifyResults:
    """What the scores of prompts say of labels.

    Args:
        results: Of the prompts; with "pmi" that of a prompt without a text comes last.
        each: Their continuations, None where a prompt failed.
        n_tokens: For each prompt the tokens of each reading.
        labels: They are.
        normalize: See `classify_parallel`.
    """
    k = len(labels.readings)
    raw = np.full((len(each), k), np.nan)
    for i, continuations in enumerate(each):
        if i < len(results):  # else none has begun
            scores = results[i].scores
            if continuations is not None and scores is not None:
                raw[i] = [continuations.logprob(j, scores) for j in range(k)]
    errors = results.errors
    scaled = raw
    if normalize == "token":
        scaled = raw / np.array([row or [1] * k for row in n_tokens]).reshape(-1, k)
    elif normalize == "byte":
        scaled = raw / np.array([len(text.encode()) for text in labels.readings])
    elif normalize == "pmi":
        prior, error = raw[-1], errors[-1] if errors else None
        raw, errors = raw[:-1], errors[:-1]
        scaled = raw - prior
        if error is not None:
            errors = [each or f"pmi_prompt failed: {error}" for each in errors]
    return ClassifyResults(
        names=labels.names,
        probs=softmax(_by_name(scaled, labels)),
        logprobs=_by_name(raw, labels),
        normalize=normalize,
        errors=errors,
        finish_reasons=results.finish_reasons[: len(errors)],
        stats=results.stats,
        requests=tuple(result.stats for result in results)[: len(errors)],
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
