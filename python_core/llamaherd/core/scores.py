"""What calls return that score: labels, continuations, texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd.core.table import reasons

if TYPE_CHECKING:
    from llamaherd.core.calibration import Calibration, Floats
    from llamaherd.core.results import FinishReason
    from llamaherd.core.stats import RequestStats, Stats

Normalize = Literal["sum", "token", "byte", "pmi"]
NORMALIZE: tuple[Normalize, ...] = ("sum", "token", "byte", "pmi")


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassifyResults:
    """Probabilities of labels: a row for each of n prompts, a column for each label.

    Rows of prompts that failed, or were cancelled, are NaN.

    Attributes:
        names: The k labels, as the caller gets them.
        probs: float64[n, k], each row sums to 1: the softmax of what `normalize` makes of
            `logprobs`, after a calibration if there was one.
        logprobs: float64[n, k], natural logarithm of the probability that the model
            itself gives each label as the continuation of the prompt; not normalized.
        normalize: How labels were made comparable: "sum", "token", "byte" or "pmi".
        errors: n reasons; None where nothing went wrong.
        finish_reasons: n times "stop", or "cancelled" or "error".
        stats: What the call did.
        calibration: What `probs` were calibrated with; None: they were not.
        requests: What each prompt took, n of them; None: it was not run. Empty where
            they come from no call.
    """

    names: tuple[str, ...]
    probs: Floats
    logprobs: Floats
    normalize: Normalize
    errors: list[str | None]
    finish_reasons: list[FinishReason]
    stats: Stats
    calibration: Calibration | None = None
    requests: tuple[RequestStats | None, ...] = ()

    def __len__(self) -> int:
        return len(self.errors)

    @property
    def labels(self) -> list[str | None]:
        """The most probable label of each prompt, the first of equals; None: failed."""
        return [
            None if np.isnan(row).any() else self.names[int(row.argmax())]
            for row in self.probs
        ]

    @property
    def prob(self) -> Floats:
        """float64[n]: probability of the most probable label."""
        return _of_rows(self.probs, lambda rows: rows.max(axis=1))

    @property
    def margin(self) -> Floats:
        """float64[n]: that less the second largest probability; 1 with one label."""
        if self.probs.shape[1] == 1:
            return self.prob

        def between(rows: Floats) -> Floats:
            two = np.partition(rows, -2, axis=1)[:, -2:]
            return np.asarray(two[:, 1] - two[:, 0])

        return _of_rows(self.probs, between)

    @property
    def entropy(self) -> Floats:
        """float64[n]: entropy of the probabilities, nats; log(k) where all are equal."""

        def of(rows: Floats) -> Floats:
            logs = np.log(rows, out=np.zeros_like(rows), where=rows > 0)
            return np.asarray(np.maximum(-(rows * logs).sum(axis=1), 0.0))

        return _of_rows(self.probs, of)

    @property
    def coverage(self) -> Floats:
        """float64[n]: probability of all labels together, before it is shared out.

        How much the model wanted to answer with one of them at all.
        """
        return np.asarray(np.exp(self.logprobs).sum(axis=1))

    def calibrated(self, calibration: Calibration) -> ClassifyResults:
        """The same with probabilities that a calibration was applied to.

        Raises:
            ValueError: It was fitted for other labels, or these are calibrated already.
        """
        if self.calibration is not None:
            raise ValueError("these results are calibrated already")
        calibration.check_names(self.names)
        probs = calibration.apply(self.probs)
        return replace(self, probs=probs, calibration=calibration)

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is optional
        """A data frame: label, prob, margin, entropy, coverage, error, `p_<label>` each.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # noqa: PLC0415 - optional

        columns: dict[str, object] = {
            "label": pd.Categorical(self.labels, categories=list(self.names)),
            "prob": self.prob,
            "margin": self.margin,
            "entropy": self.entropy,
            "coverage": self.coverage,
            "error": reasons(self.errors, self.finish_reasons),
        }
        for j, name in enumerate(self.names):
            columns[f"p_{name}"] = self.probs[:, j]
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        n_failed = sum(error is not None for error in self.errors)
        return (
            f"<ClassifyResults: {len(self)} prompts, {len(self.names)} labels, "
            f"{n_failed} failed>"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Continuation:
    """A continuation of a prompt and its probability.

    Attributes:
        text: As it was given.
        tokens: Its tokens behind the prompt.
        token_logprobs: float64[n_tokens], natural logarithms: of each token after the
            prompt and the tokens before it.
    """

    text: str
    tokens: list[int]
    token_logprobs: Floats

    @property
    def logprob(self) -> float:
        """Of all of it: the sum."""
        return float(self.token_logprobs.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreResults:
    """Probabilities of given continuations.

    Attributes:
        continuations: For each of n prompts its continuations, one or more; None where it
            failed or was cancelled.
        n_given: How many each has.
        errors: n reasons; None where nothing went wrong.
        finish_reasons: n times "stop", or "cancelled" or "error".
        stats: What the call did.
    """

    continuations: list[list[Continuation] | None]
    n_given: list[int]
    errors: list[str | None]
    finish_reasons: list[FinishReason]
    stats: Stats

    def __len__(self) -> int:
        return len(self.errors)

    @property
    def logprob(self) -> list[list[float] | None]:
        """For each prompt the log-probability of each of its continuations."""
        return [
            None if each is None else [c.logprob for c in each]
            for each in self.continuations
        ]

    @property
    def token_logprobs(self) -> list[list[Floats] | None]:
        """For each prompt and continuation float64[n_tokens]."""
        return [
            None if each is None else [c.token_logprobs for c in each]
            for each in self.continuations
        ]

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is optional
        """A data frame with a row for each continuation; one for a prompt that failed.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # noqa: PLC0415 - optional

        rows: list[tuple[object, ...]] = []
        why = reasons(self.errors, self.finish_reasons)
        for i, each in enumerate(self.continuations):
            if each is None:
                rows.append((i, None, np.nan, 0, why[i]))
            rows += [(i, c.text, c.logprob, len(c.tokens), None) for c in each or ()]
        names = ["prompt", "continuation", "logprob", "n_tokens", "error"]
        return pd.DataFrame(rows, columns=names)

    def __repr__(self) -> str:
        n_failed = sum(error is not None for error in self.errors)
        return f"<ScoreResults: {len(self)} prompts, {n_failed} failed>"


@dataclass(frozen=True, kw_only=True, eq=False)
class PerplexityResults:
    """How well a model predicts texts.

    Attributes:
        tokens: Of each of n texts; the first one is not predicted.
        token_logprobs: For each text float64[n_tokens - 1], natural logarithms; None
            where it failed or was cancelled.
        errors: n reasons; None where nothing went wrong.
        finish_reasons: n times "stop", or "cancelled" or "error".
        stats: What the call did.
    """

    tokens: list[list[int]]
    token_logprobs: list[Floats | None]
    errors: list[str | None]
    finish_reasons: list[FinishReason]
    stats: Stats

    def __len__(self) -> int:
        return len(self.errors)

    @property
    def n_tokens(self) -> list[int]:
        """Predicted tokens of each text."""
        return [0 if each is None else len(each) for each in self.token_logprobs]

    @property
    def logprob(self) -> Floats:
        """float64[n]: of all predicted tokens of a text; NaN where it failed."""
        return np.array(
            [np.nan if each is None else each.sum() for each in self.token_logprobs]
        )

    @property
    def perplexity(self) -> Floats:
        """float64[n]: exp of the mean negative log-probability; NaN where it failed."""
        n = np.maximum(np.array(self.n_tokens, dtype=float), 1)
        return np.asarray(np.exp(-self.logprob / n))

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is optional
        """A data frame: perplexity, logprob, n_tokens, error.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # noqa: PLC0415 - optional

        return pd.DataFrame(
            {
                "perplexity": self.perplexity,
                "logprob": self.logprob,
                "n_tokens": self.n_tokens,
                "error": reasons(self.errors, self.finish_reasons),
            }
        )

    def __repr__(self) -> str:
        n_failed = sum(error is not None for error in self.errors)
        return f"<PerplexityResults: {len(self)} texts, {n_failed} failed>"


def softmax(scores: Floats) -> Floats:
    """Rows of float64[n, k] as probabilities; rows with a NaN are NaN."""
    if scores.size == 0:
        return scores
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def _of_rows(probs: Floats, function: Any) -> Floats:  # noqa: ANN401 - of Floats
    """A number for each row; NaN where it has one."""
    out = np.full(len(probs), np.nan)
    good = ~np.isnan(probs).any(axis=1)
    if good.any():
        out[good] = function(probs[good])
    return out
