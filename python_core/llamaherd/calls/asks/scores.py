"""Results of `classify_parallel`, and votes on samples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from llamaherd.calls.asks.calibration import Calibration, checked_calibration
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError, codes_of
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.results import (
    KINDS,
    FinishReason,
    Result,
    Results,
    thought_cells,
)
from llamaherd.engine.core.table import Framed, in_pandas, reasons, with_index

if TYPE_CHECKING:
    from llamaherd.engine.core.arrays import Floats
    from llamaherd.engine.core.stats import RequestStats, Stats


Normalize = Literal["sum", "token", "byte", "pmi"]
NORMALIZE: tuple[Normalize, ...] = get_args(Normalize)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """Thought before labels were scored; `is_complete` if the model itself ended it."""

    text: str
    n_tokens: int
    is_complete: bool


def thought_of(result: Result) -> Thought | None:
    """Return the thought of a result; None without a thought."""
    if result.thinking is None:
        return None
    return Thought(
        text=result.thinking,
        n_tokens=result.n_thinking_tokens,
        is_complete=bool(result.thinking_complete),
    )


def joined_thoughts(thoughts: Sequence[Thought]) -> Thought | None:
    """Combine thoughts: the first text, the sum of tokens; complete if all are."""
    if not thoughts:
        return None
    return Thought(
        text=thoughts[0].text,
        n_tokens=sum(thought.n_tokens for thought in thoughts),
        is_complete=all(thought.is_complete for thought in thoughts),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class OfPrompts(Framed):
    """Base class: results of n prompts, some of which may have failed.

    Attributes:
        errors: Reason why each of the n prompts failed; None for the others.
        finish_reasons: n values "stop", "cancelled" or "error".
        stats: Statistics of the call.
        index_of_prompts: Index of the pandas Series of prompts; None for other prompts.
    """

    errors: list[str | None]
    finish_reasons: list[FinishReason]
    stats: Stats
    index_of_prompts: Any = None

    _unit: ClassVar[str] = "prompt"

    @property
    def error_codes(self) -> list[str | None]:
        """Code of each failure, such as "too_long"; None if the prompt did not fail."""
        return codes_of(reasons(self.errors, self.finish_reasons))

    def __len__(self) -> int:
        return len(self.errors)

    def __repr__(self) -> str:
        n_failed = sum(error is not None for error in self.errors)
        return f"<{type(self).__name__}: {self._size}, {n_failed} failed>"

    @property
    def _size(self) -> str:
        return count_of(len(self), self._unit)

    def _frame(self, cells: Mapping[str, Any]) -> Any:  # pandas is optional
        """Return a data frame with a row per prompt, and the reason of each failure."""
        import pandas as pd  # optional dependency

        why = reasons(self.errors, self.finish_reasons)
        frame = pd.DataFrame(in_pandas({**cells, "error": why}, KINDS))
        return with_index(frame, self.index_of_prompts)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClassifyResults(OfPrompts):
    """Probabilities of k labels for n prompts.

    Rows of failed or cancelled prompts are NaN.

    Attributes:
        names: The k labels as given.
        probs: float64[n, k], probabilities; each row sums to 1. The probabilities are the
            softmax of `logprobs` after the normalization `normalize`; a calibration, if
            any, is applied last.
        logprobs: float64[n, k], natural logarithm of the probability of each label as the
            continuation of the prompt; not normalized.
        normalize: Normalization by the length of labels: "sum", "token", "byte" or "pmi".
        calibration: Calibration of `probs`; None if they are not calibrated.
        requests: Statistics of each of the n prompts; None for a prompt that was not run.
            Empty if the results do not come from a call.
        notes: Reasons why the probabilities may contain little information, such as a
            low coverage.
        thoughts: For each prompt the thoughts before its labels; () for a failed
            prompt. Without thinking the whole attribute is None. `probs` and exp of
            `logprobs` are means over the thoughts.
        between: float64[n, k], standard deviation of each probability between the
            thoughts of a prompt, before a calibration; None without several thoughts.
        answers: Label of each prompt as an engine elsewhere generated it, which gave no
            probabilities of labels for some prompts; their rows in `probs` are NaN. None
            if all probabilities are known.
    """

    names: tuple[str, ...]
    probs: Floats
    logprobs: Floats
    normalize: Normalize
    calibration: Calibration | None = None
    requests: tuple[RequestStats | None, ...] = ()
    notes: tuple[str, ...] = ()
    thoughts: tuple[tuple[Thought, ...], ...] | None = None
    between: Floats | None = None
    answers: tuple[str | None, ...] | None = None

    @property
    def labels(self) -> list[str | None]:
        """Most probable label of each prompt, in a tie the first; None if it failed.

        Without probabilities, it is the label in `answers`.
        """
        answers = self.answers or (None,) * len(self.probs)
        return [
            answer if np.isnan(row).any() else self.names[int(row.argmax())]
            for row, answer in zip(self.probs, answers, strict=True)
        ]

    @property
    def prob(self) -> Floats:
        """float64[n], probability of the most probable label."""
        return _of_rows(self.probs, lambda rows: rows.max(axis=1))

    @property
    def margin(self) -> Floats:
        """float64[n], difference of the two largest probabilities; 1 with one label."""
        if self.probs.shape[1] == 1:
            return self.prob

        def between(rows: Floats) -> Floats:
            two = np.partition(rows, -2, axis=1)[:, -2:]
            return np.asarray(two[:, 1] - two[:, 0])

        return _of_rows(self.probs, between)

    @property
    def entropy(self) -> Floats:
        """float64[n], entropy of the probabilities in nats; log(k) if all are equal."""

        def of(rows: Floats) -> Floats:
            logs = np.log(rows, out=np.zeros_like(rows), where=rows > 0)
            return np.asarray(np.maximum(-(rows * logs).sum(axis=1), 0.0))

        return _of_rows(self.probs, of)

    @property
    def coverage(self) -> Floats:
        """float64[n], total probability of all labels before normalization.

        A low value means that the model would answer with another text. `notes` reports a
        median below 0.05.
        """
        return np.asarray(np.exp(self.logprobs).sum(axis=1))

    @property
    def thinking(self) -> list[str | None]:
        """Text of the first thought of each prompt; None without a thought."""
        return [None if samples is None else samples.text for samples in self._thoughts]

    @property
    def n_thinking_tokens(self) -> list[int]:
        """Number of tokens of all thoughts of each prompt; 0 without a thought."""
        return [0 if samples is None else samples.n_tokens for samples in self._thoughts]

    @property
    def thinking_complete(self) -> list[bool | None]:
        """Whether the model ended all thoughts of each prompt; None without a thought."""
        return [
            None if samples is None else samples.is_complete for samples in self._thoughts
        ]

    @property
    def _thoughts(self) -> list[Thought | None]:
        return [
            joined_thoughts(samples) for samples in self.thoughts or ((),) * len(self)
        ]

    @property
    def label_between(self) -> Floats | None:
        """float64[n], `between` of the most probable label; None without `between`."""
        return None if self.between is None else of_best(self.probs, self.between)

    def further(self) -> dict[str, Any]:
        """Return a dict of the columns about thoughts; empty without thoughts."""
        columns: dict[str, Any] = {}
        if self.label_between is not None:
            columns["between"] = self.label_between
        if self.thoughts is not None:
            columns |= thought_cells(self)
        return columns

    def calibrated(self, calibration: Calibration) -> ClassifyResults:
        """Return the results with calibrated probabilities.

        Raises:
            ValueError: The calibration has other labels, or the results are already
                calibrated.
        """
        if self.calibration is not None:
            raise ArgumentError(
                "these results are calibrated already",
                argument="calibration",
                code="conflict",
                form="{problem}",
            )
        probs = checked_calibration(calibration, self.names).apply(self.probs)
        return replace(self, probs=probs, calibration=calibration)

    def to_pandas(self) -> Any:  # pandas is optional
        """Return a data frame with label, probabilities, measures and error.

        The columns are label, prob, margin, entropy, coverage, `p_<label>`, error. With
        thinking, the columns thinking, n_thinking_tokens and thinking_complete come
        before error, and with several thoughts also `between` of the label.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional dependency

        columns: dict[str, object] = {
            "label": pd.Categorical(self.labels, categories=list(self.names)),
            "prob": self.prob,
            "margin": self.margin,
            "entropy": self.entropy,
            "coverage": self.coverage,
        }
        for j, name in enumerate(self.names):
            columns[f"p_{name}"] = self.probs[:, j]
        return self._frame({**columns, **self.further()})

    @property
    def _size(self) -> str:
        return f"{super()._size}, {count_of(len(self.names), 'label')}"


def softmax(scores: Floats) -> Floats:
    """Return the softmax of each row of float64[n, k]; a row with a NaN becomes NaN."""
    if scores.size == 0:
        return scores
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def of_best(probs: Floats, values: Floats) -> Floats:
    """Return the values of the most probable labels, float64[n]; both are [n, k]."""
    best = np.where(np.isnan(probs), -1, probs).argmax(axis=1)
    return np.asarray(np.take_along_axis(values, best[:, None], axis=1)[:, 0])


def _of_rows(probs: Floats, function: Any) -> Floats:  # a function of Floats
    """Apply a function to each row; return NaN for a row with a NaN."""
    out = np.full(len(probs), np.nan)
    good = ~np.isnan(probs).any(axis=1)
    if good.any():
        out[good] = function(probs[good])
    return out


Key = Callable[[Result], Hashable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Majority label of one prompt's samples, and the shares of all labels.

    Attributes:
        majority: Most frequent label; None if no sample has a label.
        agreement: Share of the votes for the majority; NaN without votes.
        shares: Share of each label, the most frequent label first, equally frequent
            labels in the order of the samples. The shares add up to 1.
        n_votes: Number of samples with a label.
        n_failed: Number of samples without a label: they failed, were cancelled, or `key`
            returned None. Shares exclude them.
        is_tie: Whether another label is as frequent as `majority`. In a tie, `majority`
            is the label that occurs first among the samples.
    """

    majority: Hashable
    agreement: float
    shares: Mapping[Hashable, float]
    n_votes: int
    n_failed: int
    is_tie: bool


def _stripped_text(result: Result) -> str:
    return (result.text or "").strip()


def vote(results: Results, key: Key = _stripped_text) -> list[Vote]:
    """Take a majority vote among the samples of each prompt (self-consistency).

    Args:
        results: Results of a call with several samples per prompt, see `n` of
            `generate_parallel`.
        key: Function that returns the label of an answered sample, or None for no vote.
            The default returns the text without surrounding white space. To leave out
            answers that were cut off:
            `lambda result: result.text if result.complete else None`.

    Returns:
        One vote per prompt, in the order of the prompts.

    Raises:
        ArgumentTypeError: `results` is not a `Results`, or `key` not a function.
        TypeError: A label cannot be hashed.

    Source: Wang et al. (2022), arXiv 2203.11171.
    """
    if not isinstance(results, Results):
        raise ArgumentTypeError(
            f"must be Results, not {type(results).__name__}", argument="results"
        )
    if not callable(key):
        raise ArgumentTypeError(
            f"must be a function of a result, not {checks.brief(key)}", argument="key"
        )
    return [
        count_votes([key(sample) if sample.is_finished else None for sample in samples])
        for samples in results.samples
    ]


def count_votes(labels: Sequence[Hashable]) -> Vote:
    """Count the labels of one prompt's samples; None means that a sample has no label."""
    counts = Counter(label for label in labels if label is not None)
    n_votes = counts.total()
    ranked = counts.most_common()  # equal counts in order of first occurrence
    return Vote(
        majority=ranked[0][0] if ranked else None,
        agreement=ranked[0][1] / n_votes if ranked else math.nan,
        shares={label: count / n_votes for label, count in ranked},
        n_votes=n_votes,
        n_failed=len(labels) - n_votes,
        is_tie=len(ranked) > 1 and ranked[0][1] == ranked[1][1],
    )
