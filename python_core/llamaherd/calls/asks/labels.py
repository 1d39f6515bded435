"""Labels: the texts that the model reads, their names in results, their probabilities."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.calls.asks.scores import (
    ClassifyResults,
    Normalize,
    Thought,
    softmax,
    thought_of,
)
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.values import MAX_CHOICES
from llamaherd.engine.core.words import name_of, setting, words

if TYPE_CHECKING:
    from llamaherd.calls.asks.scoring import ScoredPrompt
    from llamaherd.engine.core.arrays import Floats
    from llamaherd.engine.core.results import Result, Results
    from llamaherd.engine.core.stats import RequestStats, Stats


@dataclass(frozen=True, slots=True)
class Labels:
    """Checked labels: distinct texts, and for each of them the index of its name."""

    readings: tuple[str, ...]
    names: tuple[str, ...]
    name_of: tuple[int, ...]


def checked_labels(labels: object) -> Labels:
    """Check labels: texts, or a mapping from texts that the model reads to names."""
    labels = checks.column_as_list(labels)
    is_text = isinstance(labels, (str, bytes, bytearray))
    what = checks.no_list(labels)
    if what or is_text or not isinstance(labels, Collection):
        raise ArgumentTypeError(
            f"must be {words().many} of texts, or a mapping from texts that the model "
            f"reads to names, not {what or checks.brief(labels)}",
            argument="labels",
        )
    pairs = (
        list(labels.items())
        if isinstance(labels, Mapping)
        else [(label, label) for label in labels]
    )
    if not 1 <= len(pairs) <= MAX_CHOICES:
        raise ArgumentError(
            f"must be 1 to {MAX_CHOICES} texts, such as 'yes' and 'no', not {len(pairs)}",
            argument="labels",
            code="out_of_range",
        )
    names: dict[str, str] = {}  # of the texts that the model reads
    for i, (reading, name) in enumerate(pairs):
        where = Argument("labels", (i,))
        text = checks.text(where, reading)
        if not text.strip():
            raise ArgumentError(
                f"must not be empty: {text!r}", argument=where, code="empty"
            )
        if text in names:
            raise ArgumentError(
                f"is given twice: {checks.brief(text)}",
                argument=where,
                code="duplicate",
            )
        names[text] = checks.text(where.at(Field("name")), name)
    places = {name: j for j, name in enumerate(dict.fromkeys(names.values()))}
    name_of = tuple(places[name] for name in names.values())
    return Labels(tuple(names), tuple(places), name_of)


def check_different(
    labels: Labels, prompts: Sequence[ScoredPrompt], names: Sequence[str]
) -> None:
    """Check that no two labels have the same tokens, and so one probability."""
    for prompt, name in zip(prompts, names, strict=True):
        equal = None if prompt.tree is None else prompt.tree.equal
        if equal is not None:
            first, second = (checks.quoted(labels.readings[j]) for j in equal)
            raise ArgumentError(
                f"the labels {first} and {second} have the same tokens after {name}: "
                f"give only one of them ({setting('space', False)} puts no space "
                "before labels)",
                argument="labels",
                place=(equal[1],),
                code="duplicate",
                form="{problem}",
            )


def classify_results(
    results: Results,
    prompts: Sequence[ScoredPrompt],
    labels: Labels,
    normalize: Normalize,
    *,
    thinks: bool = False,
) -> ClassifyResults:
    """Convert the log-probabilities of continuations to probabilities of labels.

    `results` has a sample for each thought. With "pmi", the last result belongs to the
    prompt without a text; if it failed, no prompt has probabilities.
    """
    raw = _logprobs(results, prompts, len(labels.readings))
    worst = [min(samples, key=_severity) for samples in results.samples]
    errors = [result.error for result in worst]
    reasons, stats = [result.finish_reason for result in worst], results.stats
    scaled = _normalized_logprobs(raw, prompts, labels, normalize)
    if normalize == "pmi" and prompts:
        prior, error, reason = raw[:, -1:], errors.pop(), reasons.pop()
        raw = raw[:, :-1]
        if reason != "stop":
            raw = np.full_like(raw, np.nan)
            reasons = [reason if code == "stop" else code for code in reasons]
        if error is not None:
            reasons = ["error"] * len(reasons)
            failure = f"{name_of('pmi_prompt')} failed: {error}"
            errors = [problem or failure for problem in errors]
        scaled = raw - prior
        stats = _without_last(results, sum(problem is not None for problem in errors))
    probs = np.stack([softmax(by_name(row, labels)) for row in scaled])
    logs = np.stack([by_name(row, labels) for row in raw])
    m = len(raw)
    samples = results.samples[: len(errors)]
    return ClassifyResults(
        names=labels.names,
        probs=probs.mean(axis=0),
        logprobs=_mean_of_logs(logs),
        normalize=normalize,
        errors=errors,
        finish_reasons=reasons,
        stats=stats,
        requests=tuple(_cost(sample_results) for sample_results in samples),
        thoughts=tuple(_thoughts(sample_results) for sample_results in samples)
        if thinks
        else None,
        between=probs.std(axis=0, ddof=1) if m > 1 else None,
    )


def _mean_of_logs(logs: Floats) -> Floats:
    """Return the logarithm of the mean probability over thoughts."""
    with np.errstate(invalid="ignore"):  # rows of failed prompts are NaN
        return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)))


def _logprobs(results: Results, prompts: Sequence[ScoredPrompt], k: int) -> Floats:
    """Return the log-probability of each text in `readings`, by thought and prompt."""
    m = len(results.samples[0]) if results.samples else 1
    raw = np.full((m, len(prompts), k), np.nan)
    for i, (prompt, samples) in enumerate(zip(prompts, results.samples, strict=True)):
        for j, result in enumerate(samples):
            if prompt.tree is not None and result.scores is not None:
                raw[j, i] = [prompt.tree.logprob(c, result.scores) for c in range(k)]
    return raw


def _normalized_logprobs(
    raw: Floats, prompts: Sequence[ScoredPrompt], labels: Labels, normalize: Normalize
) -> Floats:
    """Return log-probabilities, divided by the lengths of labels if requested."""
    k = len(labels.readings)
    if normalize == "token":
        rows = ([len(tokens) for tokens in prompt.continuations] for prompt in prompts)
        lengths = np.array([row or [1] * k for row in rows]).reshape(-1, k)
        return np.asarray(raw / lengths)
    if normalize == "byte":
        return np.asarray(raw / [len(text.encode()) for text in labels.readings])
    return raw


def _severity(result: Result) -> int:
    """Order results: a failure is the result of its prompt, and then a cancellation."""
    return {"error": 0, "cancelled": 1}.get(result.finish_reason, 2)


def _cost(samples: Sequence[Result]) -> RequestStats | None:
    """Return the cost of a prompt with all its thoughts; None if it was not run."""
    known = [sample.stats for sample in samples if sample.stats is not None]
    return reduce(add, known) if known else None


def _thoughts(samples: Sequence[Result]) -> tuple[Thought, ...]:
    """Return the thoughts of a prompt; () unless all have ended."""
    thoughts = [thought_of(sample) for sample in samples if sample.scores is not None]
    known = tuple(thought for thought in thoughts if thought is not None)
    return known if len(known) == len(samples) else ()


def _without_last(results: Results, n_failed: int) -> Stats:
    """Return statistics with the cost of the last prompt, which is not counted itself."""
    *prompts, last = results
    stats = results.stats
    is_known = last.stats is None and last.finish_reason == "stop"
    is_copy = any(
        prompt.stats is not None and prompt.scores is last.scores for prompt in prompts
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


def by_name(logs: Floats, labels: Labels) -> Floats:
    """Add the probabilities of all texts with the same name; return logarithms."""
    out = np.full((len(logs), len(labels.names)), -np.inf)
    with np.errstate(invalid="ignore"):  # rows of failed prompts are NaN
        for reading, name in enumerate(labels.name_of):
            out[:, name] = np.logaddexp(out[:, name], logs[:, reading])
    return out
