"""Probabilities of continuations and of texts, from `score_parallel`, `perplexity`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from llamaherd.calls.asks.scores import OfPrompts, Thought
from llamaherd.engine.core.results import KINDS
from llamaherd.engine.core.table import in_pandas, reasons, with_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Continuation:
    """A continuation of a prompt with its probability.

    Attributes:
        text: Continuation as given.
        tokens: Tokens after the prompt.
        token_logprobs: float64[n_tokens], natural logarithm of the probability of each
            token, given the prompt and the tokens before it.
    """

    text: str
    tokens: list[int]
    token_logprobs: Floats

    @property
    def logprob(self) -> float:
        """Log-probability of the whole continuation: the sum over its tokens."""
        return float(self.token_logprobs.sum())


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScoreResults(OfPrompts):
    """Probabilities of given continuations.

    Attributes:
        continuations: For each of n prompts its continuations, at least one; None for a
            failed or cancelled prompt.
        n_given: Number of continuations of each prompt.
        thoughts: Thought before the continuations of each prompt; None for a failed
            prompt. Without thinking the whole attribute is None.
    """

    continuations: list[list[Continuation] | None]
    n_given: list[int]
    thoughts: tuple[Thought | None, ...] | None = None

    @property
    def logprob(self) -> list[list[float] | None]:
        """Log-probability of each continuation, by prompt."""
        return [
            None if continuation is None else [c.logprob for c in continuation]
            for continuation in self.continuations
        ]

    @property
    def token_logprobs(self) -> list[list[Floats] | None]:
        """float64[n_tokens] for each continuation, by prompt."""
        return [
            None if continuation is None else [c.token_logprobs for c in continuation]
            for continuation in self.continuations
        ]

    def to_pandas(self) -> Any:  # pandas is optional
        """Return a data frame with a row per continuation; a failed prompt has one row.

        With thinking, it also has the columns thinking, n_thinking_tokens,
        thinking_complete.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional dependency

        rows: list[tuple[Any, ...]] = []
        why = reasons(self.errors, self.finish_reasons)
        for i, continuation in enumerate(self.continuations):
            if continuation is None:
                rows.append((i, None, np.nan, 0, why[i]))
            rows += [
                (i, c.text, c.logprob, len(c.tokens), None) for c in continuation or ()
            ]
        at, texts, logprobs, n_tokens, errors = (
            zip(*rows, strict=True) if rows else [()] * 5
        )
        cells: dict[str, Any] = {
            "prompt": np.array(at, dtype=np.int64),
            "continuation": texts,
            "logprob": np.array(logprobs, dtype=float),
            "n_tokens": np.array(n_tokens, dtype=np.int64),
            **self.further(at),
            "error": errors,
        }
        frame = pd.DataFrame(in_pandas(cells, {**KINDS, "continuation": "string"}))
        index = self.index_of_prompts
        return with_index(frame, None if index is None else index.take(list(at)))

    def further(self, prompts: Sequence[int]) -> dict[str, list[Any]]:
        """Return the columns about thoughts, with a row for each of the given prompts."""
        if self.thoughts is None:
            return {}
        thoughts = [self.thoughts[i] for i in prompts]
        return {
            "thinking": [t and t.text for t in thoughts],
            "n_thinking_tokens": [t and t.n_tokens for t in thoughts],
            "thinking_complete": [t and t.is_complete for t in thoughts],
        }


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PerplexityResults(OfPrompts):
    """Perplexities of texts.

    Attributes:
        tokens: Tokens of each of n texts; the first token is not predicted.
        token_logprobs: For each text float64[n_tokens - 1], natural logarithms of
            probabilities; None for a failed or cancelled text.
    """

    tokens: list[list[int]]
    token_logprobs: list[Floats | None]

    _unit: ClassVar[str] = "text"

    @property
    def n_tokens(self) -> list[int]:
        """Number of predicted tokens of each text."""
        return [0 if values is None else len(values) for values in self.token_logprobs]

    @property
    def logprob(self) -> Floats:
        """float64[n], log-probability of all predicted tokens; NaN for a failed text."""
        return np.array(
            [np.nan if values is None else values.sum() for values in self.token_logprobs]
        )

    @property
    def perplexity(self) -> Floats:
        """float64[n], exp of the mean negative log-probability; NaN for a failed text."""
        n = np.maximum(np.array(self.n_tokens, dtype=float), 1)
        return np.asarray(np.exp(-self.logprob / n))

    def to_pandas(self) -> Any:  # pandas is optional
        """Return a data frame with perplexity, logprob, n_tokens and error.

        Raises:
            ImportError: pandas is not installed.
        """
        cells = {
            "perplexity": self.perplexity,
            "logprob": self.logprob,
            "n_tokens": self.n_tokens,
        }
        return self._frame(cells)
