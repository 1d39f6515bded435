"""Result of `recalibrate`: coded texts with labels and probabilities by a head."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from llamaherd.core.decimals import decimals, limits
from llamaherd.core.plurals import percent
from llamaherd.core.table import free_name
from llamaherd.research import frames
from llamaherd.research.coding.coded import Coded, row_indices
from llamaherd.research.coding.columns import (
    EACH,
    as_results,
    label_column,
    spread_of,
    values_of,
)
from llamaherd.research.coding.joins import RAW
from llamaherd.research.statistics.accuracy import accuracy_of
from llamaherd.research.statistics.calibration import brier_score, calibration_error
from llamaherd.research.statistics.intervals import Measure, mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.sampling import Floats, Ints


NO_BETTER = "the codes do not show that the head says more"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbabilityScores:
    """Scores of label probabilities against codes, weighted by 1 / inclusion probability.

    Attributes:
        accuracy: Share of texts whose most probable label is the code.
        brier: Brier score over all labels, from 0 (perfect) to 2 (certain, but wrong).
        ece: Expected calibration error of the most probable label.
    """

    accuracy: Measure
    brier: Measure
    ece: float

    @classmethod
    def of(
        cls, probs: Floats, codes: Ints, weights: Floats, level: float
    ) -> ProbabilityScores:
        """Compute the scores.

        Args:
            probs: float64[n, k], probabilities.
            codes: int64[n], codes as indices of label columns.
            weights: float64[n], 1 / inclusion probability.
            level: Confidence level.
        """
        given = probs.argmax(axis=1)
        accuracy = accuracy_of(
            given.tolist(),
            codes.tolist(),
            labels=range(probs.shape[1]),
            unit_weights=weights,
            level=level,
        ).accuracy
        error = calibration_error(
            probs.max(axis=1), given == codes, unit_weights=weights, level=level
        )
        brier = brier_score(probs, codes, unit_weights=weights, level=level)
        return cls(accuracy=accuracy, brier=brier, ece=error.ece)

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as JSON types."""
        return {
            name: {"value": each.value, "low": each.low, "high": each.high, "n": each.n}
            for name, each in (("accuracy", self.accuracy), ("brier", self.brier))
        } | {"ece": self.ece}


@dataclass(frozen=True, kw_only=True, eq=False)
class Recalibrated(Coded):
    """Data frame of n texts with labels and probabilities by a head.

    This result can be used wherever a result of `annotate` is accepted. The data
    frame also has the model's original columns, renamed with the prefix "raw_", and the
    column "fold" (see `folds`).

    Attributes:
        original: Coding by the model.
        folds: n fold numbers, from 1; None for texts without a code.
        raw: Scores of the model's probabilities on the codes.
        cross_validated: Scores of the head's probabilities; each text was predicted
            without its own code.
        gain: Accuracy of the head minus accuracy of the model on the same texts.
        constant: Scores of a constant, the shares of the codes of the other folds.
        gain_on_constant: Brier score of the constant minus that of the head.
    """

    original: Coded
    folds: list[int | None]
    raw: ProbabilityScores
    cross_validated: ProbabilityScores
    gain: Measure
    constant: ProbabilityScores
    gain_on_constant: Measure

    def __getitem__(self, rows: slice | Sequence[int] | Sequence[bool]) -> Recalibrated:
        """Return some rows; see `Coded.__getitem__`. Scores still describe all rows."""
        indices = row_indices(rows, len(self))
        part = super().__getitem__(indices)
        folds = [self.folds[i] for i in indices]
        return replace(
            cast("Recalibrated", part), original=self.original[indices], folds=folds
        )

    def summary(self) -> str:
        """Return sentences on the scores before and after recalibration."""
        found = self.run["recalibration"]
        level = percent(found["level"])

        def shown(each: Measure) -> str:
            return f"{decimals(each.value, 3)} {limits(each.low, each.high, 3)}"

        return (
            f"Recalibrated by {' and '.join(found['features'])} on {found['n_codes']} "
            f"codes, {found['n_folds']} folds.\n"
            f"Accuracy, {level} intervals: model {shown(self.raw.accuracy)}, "
            f"recalibrated, by cross-validation {shown(self.cross_validated.accuracy)}; "
            f"difference {decimals(self.gain.value, 3, sign='+')} "
            f"{limits(self.gain.low, self.gain.high, 3, sign='+')}.\n"
            f"Brier score: {decimals(self.raw.brier.value, 3)}, then "
            f"{decimals(self.cross_validated.brier.value, 3)}. Calibration error: "
            f"{decimals(self.raw.ece, 3)}, then {decimals(self.cross_validated.ece, 3)}."
            f"\nA constant, the shares of the codes, has an accuracy of "
            f"{decimals(self.constant.accuracy.value, 3)} and a Brier score of "
            f"{decimals(self.constant.brier.value, 3)}"
            + ("." if self.gain_on_constant.low > 0 else f": {NO_BETTER}.")
        )

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), self.summary()])


def gain_of(
    before: Floats, after: Floats, codes: Ints, weights: Floats, level: float
) -> Measure:
    """Return the difference of two accuracies on the same texts, with a t interval.

    Args:
        before: float64[n, k], probabilities.
        after: float64[n, k], probabilities to compare.
        codes: int64[n], codes as indices of label columns.
        weights: float64[n], 1 / inclusion probability.
        level: Confidence level.
    """
    right = [
        np.asarray(probs.argmax(axis=1) == codes, float) for probs in (before, after)
    ]
    return mean(right[1] - right[0], weights, level)


def constant_probs(columns: Ints, weights: Floats, folds: Ints, k: int) -> Floats:
    """Return the weighted shares of the codes of all other folds, float64[n, k]."""
    given = np.eye(k)[columns] * weights[:, None]
    sums = np.zeros((int(folds.max()) + 1, k))
    np.add.at(sums, folds, given)
    others = given.sum(axis=0) - sums
    return np.asarray((others / others.sum(axis=1, keepdims=True))[folds])


def brier_gain(
    before: Floats, after: Floats, codes: Ints, weights: Floats, level: float
) -> Measure:
    """Return the difference of two Brier scores; for the arguments see `gain_of`."""
    given = np.eye(before.shape[1])[codes]
    scores = [((probs - given) ** 2).sum(axis=1) for probs in (before, after)]
    return mean(scores[0] - scores[1], weights, level)


def with_new_columns(
    model: Coded, probs: Floats, folds: list[int | None]
) -> tuple[Any, list[str | None]]:
    """Return the data frame with the new columns, and the new labels.

    Args:
        model: Coding by the model.
        probs: float64[n, k], probabilities by the head.
        folds: n folds.
    """
    results = as_results(probs, model.names)
    values: dict[str, Any] = {
        "label": label_column(results.labels, model.codebook),
        "prob": results.prob,
        "margin": results.margin,
        "entropy": results.entropy,
    }
    if model.codebook.kind.is_ordered:
        numbers = values_of(model.names)
        values["mean"], values["sd"] = probs @ numbers, spread_of(probs, numbers)
    values |= {f"{EACH}{name}": probs[:, j] for j, name in enumerate(model.names)}
    there = {role: name for role, name in model.columns.items() if role in values}
    existing = frames.names(model.frame)
    old = {
        RAW + name: _kept_type(model, role, name)
        for role, name in there.items()
        if role == "label" or role.startswith(EACH)
    }
    new = {name: values[role] for role, name in there.items()}
    fold = free_name("fold", dict.fromkeys([*existing, *old]))
    frame = frames.with_columns(model.frame, {**new, **old, fold: folds})
    return frame, results.labels


def _kept_type(model: Coded, role: str, name: str) -> Any:  # noqa: ANN401 - of the caller's kind
    """Return a column of the model's coding; labels become categories."""
    values = frames.column(model.frame, name, role)
    if role != "label":
        return np.array(values, dtype=np.float64)
    return label_column(list(model.labels), model.codebook)
