"""Labels and codes that are numbers, for the measures of a validation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.research.codes import are_measured, number_in, text_of
from llamaherd.research.statistics.number_agreement import number_agreement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.number_agreement import NumberAgreement
    from llamaherd.research.statistics.ratings import Floats, Scale
    from llamaherd.research.validation.inputs import Codes, ModelLabels

NUMBERS = {
    "pearson": "Pearson's correlation",
    "spearman": "Spearman's rank correlation",
    "icc": "ICC(2,1), absolute agreement",
    "alpha": "Krippendorff's alpha, interval",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "bias": "mean difference (bias)",
}


def scale_of_numbers(labels: Sequence[Any], scale: Scale) -> Scale:
    """Return "interval" if the labels are measurements, else the given scale."""
    return "interval" if scale == "nominal" and are_measured(labels) else scale


def compared_numbers(
    answers: ModelLabels,
    codes: Codes,
    scale: Scale,
    level: float,
    weights: Floats | None,
) -> tuple[NumberAgreement | None, NumberAgreement | None]:
    """Compare the model's numbers with people's numbers, and people with each other.

    The model's number is the expected value if the probabilities of all labels are known,
    else its label. The number that several people give a text is the mean of their codes.

    Returns:
        The comparison of the model with people, and the comparison of people with each
        other. Both comparisons are None for a nominal scale, or if a label or a code is
        not a number; the comparison of people is also None if fewer than two people
        coded.
    """
    if scale == "nominal":
        return None, None
    people = _numbers([code for column in codes.codes for code in column])
    model = _model_numbers(answers)
    if people is None or model is None:
        return None, None
    by_coder = people.reshape(len(codes.codes), -1)
    known = np.isfinite(by_coder)
    n_known = known.sum(axis=0)
    total = np.where(known, by_coder, 0).sum(axis=0)
    average = np.where(n_known > 0, total / np.maximum(n_known, 1), math.nan)
    found = number_agreement(
        np.stack([model[codes.rows], average]), unit_weights=weights, level=level
    )
    if len(by_coder) < 2:
        return found, None
    return found, number_agreement(by_coder, unit_weights=weights, level=level)


def _model_numbers(answers: ModelLabels) -> Floats | None:
    """Return the model's number for each text; None if a label is not a number."""
    if answers.expected is not None:
        return answers.expected
    names = _numbers(answers.names) if answers.names else None
    if answers.probs is not None and names is not None:
        return np.asarray(answers.probs @ names)
    return _numbers(answers.labels)


def _numbers(values: Sequence[Any]) -> Floats | None:
    """Return values as numbers, NaN for None; None if a value is not a number."""
    found = []
    for value in values:
        if value is None:
            found.append(math.nan)
            continue
        if isinstance(value, (bool, np.bool_)):
            return None
        number = number_in(str(text_of(value)))
        if number is None:
            return None
        found.append(float(number))
    return np.array(found, dtype=np.float64)
