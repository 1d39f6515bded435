"""Calibration of classifiers: what a model prefers before it has read a text, taken away.

Both ways divide by the probabilities that the labels have without a text, or on average,
and share out anew: with p the probabilities of one text and q those of the prior,

    calibrated_j = (p_j / q_j) / sum_i (p_i / q_i)

Sources: Zhao, Wallace, Feng, Klein, Singh, "Calibrate Before Use", 2021 (arXiv
2102.09690), with W the inverse of diag(q) and b = 0; Zhou, Wan, Proleev, Mincu, Chen,
Heller, Roy, "Batch Calibration", 2023 (arXiv 2309.17249).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    Floats = np.ndarray[Any, np.dtype[np.float64]]

Method = Literal["contextual", "batch"]
METHODS: tuple[Method, ...] = ("contextual", "batch")
_LEAST = 1e-12  # of a prior probability: nothing is divided by zero


class Classified(Protocol):
    """Probabilities of labels: `ClassifyResults`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The labels."""
        ...

    @property
    def probs(self) -> Floats:
        """float64[n, k]."""
        ...

    @property
    def calibration(self) -> Calibration | None:
        """What they were calibrated with."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A calibration that was fitted: to be stored, and applied to texts to come.

    Attributes:
        names: The labels that it is for; () if it was fitted to a bare matrix.
        prior: Probability of each label without a text, or on average.
        method: "contextual" or "batch".
        n: Texts that it was fitted to.
    """

    names: tuple[str, ...]
    prior: tuple[float, ...]
    method: Method
    n: int

    def apply(self, probs: Floats) -> Floats:
        """Calibrates float64[n, k]; rows with a NaN stay NaN.

        Raises:
            ValueError: The number of columns is another one.
        """
        values = _matrix(probs)
        if values.shape[1] != len(self.prior):
            raise ValueError(
                f"probs must have {len(self.prior)} columns, as the calibration has, not "
                f"{values.shape[1]}"
            )
        shares = values / np.maximum(np.array(self.prior), _LEAST)
        sums = shares.sum(axis=1, keepdims=True)
        return np.asarray(shares / np.where(sums > 0, sums, 1.0))

    def check_names(self, names: Sequence[str]) -> None:
        """Checks that it is for these labels.

        Raises:
            ValueError: It is for others, or for another number of them.
        """
        if self.names and tuple(names) != self.names:
            raise ValueError(
                f"the calibration is for the labels {list(self.names)}, not {list(names)}"
            )
        if len(names) != len(self.prior):
            raise ValueError(
                f"the calibration is for {len(self.prior)} labels, not {len(names)}"
            )

    def to_json(self) -> str:
        """All of it as a text, for `from_json`."""
        return json.dumps(
            {
                "names": self.names,
                "prior": self.prior,
                "method": self.method,
                "n": self.n,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """A calibration that was stored.

        Raises:
            ValueError: The text is none.
        """
        try:
            stored = json.loads(text)
            made = cls(
                names=tuple(map(str, stored["names"])),
                prior=tuple(map(float, stored["prior"])),
                method=stored["method"],
                n=int(stored["n"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"text is no stored calibration: {error!r}") from error
        is_good = made.method in METHODS and all(0 <= p <= 1 for p in made.prior)
        if not is_good or (made.names and len(made.names) != len(made.prior)):
            raise ValueError("text is no stored calibration: its values do not fit")
        return made


def calibrate_contextual(content_free: Classified | Floats) -> Calibration:
    """Fits a calibration to prompts without content, such as "N/A" in a text's place.

    Args:
        content_free: What `classify_parallel` said of these prompts, or float64[n, k]
            probabilities; their mean is the prior.

    Raises:
        ValueError: There is no row without NaN.
    """
    return _fitted(content_free, "contextual")


def calibrate_batch(results: Classified | Floats) -> Calibration:
    """Fits a calibration to the texts themselves: their mean probabilities are the prior.

    That takes the labels to be about equally frequent in them. Fit it once, to all texts,
    and store it: another batch has another mixture, and would be calibrated to that.

    Args:
        results: What `classify_parallel` said, or float64[n, k] probabilities.

    Raises:
        ValueError: There is no row without NaN.
    """
    return _fitted(results, "batch")


def _fitted(results: Classified | Floats, method: Method) -> Calibration:
    names: tuple[str, ...] = getattr(results, "names", ())
    if getattr(results, "calibration", None) is not None:
        raise ValueError("the results are calibrated already")
    values = _matrix(getattr(results, "probs", results))
    rows = values[~np.isnan(values).any(axis=1)]
    if len(rows) == 0:
        raise ValueError("there is no row of probabilities to fit a calibration to")
    prior = tuple(float(p) for p in rows.mean(axis=0))
    return Calibration(names=names, prior=prior, method=method, n=len(rows))


def _matrix(probs: Any) -> Floats:  # noqa: ANN401 - whatever numpy makes an array of
    values = np.asarray(probs, dtype=np.float64)
    if values.ndim != 2:
        raise ValueError(
            f"probs must be a matrix with a row for each text, not have {values.ndim} "
            "dimensions"
        )
    return values
