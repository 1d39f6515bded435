"""Validation of model labels against human codes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.label_sets import has_several, scale_of
from llamaherd.coding.annotation.texts import Source
from llamaherd.coding.codes import Code, are_measured, check_declared, number_in, text_of
from llamaherd.coding.codes.coders import REMOVED_CONSENSUS, majority_codes
from llamaherd.coding.frames import Input, weights_of
from llamaherd.coding.statistics.accuracy import accuracy_of
from llamaherd.coding.statistics.agreement import CoefficientSettings
from llamaherd.coding.statistics.calibration import (
    CalibrationError,
    CoverageCurve,
    brier_score,
    calibration_error,
    coverage_curve,
)
from llamaherd.coding.statistics.intervals import (
    LEVEL,
    REMOVED_BOOTSTRAP,
    Measure,
    level_of,
)
from llamaherd.coding.statistics.number_agreement import NumberAgreement, number_agreement
from llamaherd.coding.statistics.ratings import SCALES, Scale
from llamaherd.coding.validation.agreement import (
    agreements_of,
    ceiling_of,
    label_text,
    majority_of,
)
from llamaherd.coding.validation.inputs import (
    ModelLabels,
    answers_of,
    codes_of,
    in_one_form,
    label_column_of,
)
from llamaherd.coding.validation.notes import warnings_of
from llamaherd.coding.validation.validation import Validation, Wrong
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import removed_arguments
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.coding.gold.codes import Codes
    from llamaherd.engine.core.arrays import Flags, Floats


@removed_arguments(**REMOVED_CONSENSUS, **REMOVED_BOOTSTRAP)
def validate(
    coded: Any,
    gold: Any = None,
    *,
    label: str | None = None,
    truth: str | Sequence[str] | None = None,
    prob: Any = None,
    labels: Sequence[Hashable] | None = None,
    scale: Scale | None = None,
    level: float = LEVEL,
    several: bool | None = None,
    weights: Any = None,  # a column, or numbers
) -> Validation:
    """Compare a model's labels with human codes.

    If several people coded a text, the most frequent code is taken as correct, and on a
    tie the code of the first of the tied coders. Texts drawn with known probabilities are
    weighted by 1 / probability, so that all results describe all texts.

    Args:
        coded: Result of `annotate` or `classify_parallel`; a data frame with a column of
            labels; or n labels, None if a label is missing.
        gold: Gold sample with codes, from `gold_sample`; or codes of all n texts, None if
            a code is missing: a list for one person; a mapping by coder, a data frame, or
            a list of lists for several people. Or the name of a column of `coded`, as
            `truth`.
        label: Column of labels of a data frame; None for the column that `gold` was drawn
            with, or "label".
        truth: Instead of `gold`: the column or columns of `coded` with human codes.
        prob: Confidence of the model: a column of `coded`, float[n], or float[n, k] with
            a column for each of `labels`. None to use the probabilities of `coded`, if
            any.
        labels: All labels, in their order; None for the labels of `coded`, or the labels
            that occur.
        scale: Scale of measurement: "nominal", "ordinal", "interval", "ratio". All scales
            except "nominal" add weighted kappa, with squared distances. None selects
            "ordinal" if the codebook, an ordered column or `gold` has ordered labels;
            "interval" for a scale of numbers, and for labels with fractions or more than
            20 different numbers; otherwise "nominal". Ordered labels that are numbers are
            also compared as numbers, see `Validation.numbers`.
        level: Confidence level.
        several: True if a text may have several labels, joined by "; ", where "" or
            "none" means that no label applies. Each label is then scored as present or
            absent, and accuracy is the share of texts with exactly the right labels. None
            to use the setting of `coded` or `gold`.
        weights: Survey weights: a column of `coded`, or n numbers of at least 0. The
            weight of a text is its survey weight divided by its inclusion probability.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range, or arguments contradict each other.
    """
    level_of(level)
    label = label_column_of(coded, gold, label)
    _check_people(coded, gold, truth, label)
    are_sets = has_several(coded, gold) if several is None else several
    answers = answers_of(coded, label, prob, labels, gold=gold, several=are_sets)
    if scale is None:
        scale = scale_of(coded, gold, label)
        if scale == "nominal" and are_measured(answers.labels):
            scale = "interval"
    checks.choice("scale", scale, SCALES)
    codes = codes_of(gold, truth, coded, answers)
    source = Source.of(answers.texts, answers.labels)
    if are_sets and scale != "nominal":
        raise ArgumentError(
            f"must be 'nominal' for several labels, not {checks.quoted(scale)}",
            argument="scale",
        )
    answers, codes = in_one_form(answers, codes, several=are_sets)
    if answers.labels and not len(codes.rows):
        raise ArgumentError(
            "has no codes: all are missing", argument="gold", code="no_codes"
        )
    names = _names(answers, codes, scale, several=are_sets, is_given=labels is not None)
    model_labels = [answers.labels[row] for row in codes.rows]
    unit_weights = _unit_weights(coded, codes, weights, len(answers.labels))
    if are_sets:
        right, n_ties = majority_of(codes.columns, names or ())
    else:
        right, n_ties = majority_codes(codes.columns)
    how = CoefficientSettings(
        names=[False, True] if are_sets else names,
        scale=scale,
        w=np.ones(len(model_labels)) if unit_weights is None else unit_weights,
        level=level,
    )
    measured = accuracy_of(
        model_labels,
        right,
        labels=names,
        unit_weights=unit_weights,
        level=level,
        several=are_sets,
    )
    pairs = list(zip(model_labels, right, strict=True))
    judged = np.array([None not in pair for pair in pairs], dtype=bool)
    hits = np.array([label == truth for label, truth in pairs], dtype=bool)
    calibration, coverage = _by_confidence(answers, codes, judged, hits, how)
    numbers, of_people = (
        (None, None)
        if are_sets
        else compared_numbers(answers, codes, scale, level, unit_weights)
    )
    validation = Validation(
        n_texts=len(answers.labels),
        n_gold=len(codes.rows),
        coders=codes.coders,
        is_weighted=unit_weights is not None,
        weighted_by=(
            *(() if codes.design is None else ("inclusion",)),
            *(() if weights is None else ("survey",)),
        ),
        n_without=codes.n_without,
        is_by_label=codes.is_by_label,
        design=dict(codes.design) if codes.design else None,
        several=are_sets,
        scale=scale,
        level=level,
        accuracy=measured,
        **agreements_of(
            model_labels, right, codes, measured.labels if are_sets else None, how
        ),
        ceiling=ceiling_of(codes.columns, model_labels, how.w, level),
        brier=_brier(answers, codes, right, how.w, level),
        calibration=calibration,
        coverage=coverage,
        confidence=answers.confidence,
        wrong=_wrong(answers, codes, right, judged & ~hits),
        warnings=(),
        source=source,
        numbers=numbers,
        numbers_of_people=of_people,
    )
    if are_sets:
        validation = _in_words(validation)
    warnings = warnings_of(validation, answers, codes, n_ties)
    return replace(validation, warnings=warnings)


def _check_people(coded: Input, gold: Input, truth: Input, label: str | None) -> None:
    """Refuse the column of the model's labels as codes of people."""
    columns = getattr(coded, "columns", None)
    if label is None and isinstance(columns, dict):
        label = columns.get("label")
    if not isinstance(label, str):
        return
    for name, people in (("gold", gold), ("truth", truth)):
        named = [people] if isinstance(people, str) else people
        is_named = isinstance(named, (list, tuple)) and label in named
        if is_named and (name == "truth" or people == label):
            raise ArgumentError(
                f"must be codes of people: {checks.quoted(label)} is the column of "
                "the model's labels",
                argument=name,
            )


def _unit_weights(
    coded: Input, codes: Codes, weights: Input, n_texts: int
) -> Floats | None:
    """Return survey weight / inclusion probability of coded texts; None if all are 1."""
    if weights is None:
        return None if codes.design is None else 1 / codes.probs
    frame = getattr(coded, "frame", coded)
    frames.check_index(weights, frame, "weights")
    survey_weights = weights_of(frame, weights, n_texts)[codes.rows]
    return np.asarray(survey_weights / codes.probs)


def _in_words(validation: Validation) -> Validation:
    """Return the validation with joined labels instead of tuples of labels."""
    names = validation.labels
    most = label_text(validation.accuracy.majority_label, names)
    return replace(
        validation,
        accuracy=replace(validation.accuracy, majority_label=most),
        wrong=tuple(
            replace(
                error,
                label=label_text(error.label, names),
                truth=label_text(error.truth, names),
            )
            for error in validation.wrong
        ),
    )


def _names(
    answers: ModelLabels, codes: Codes, scale: Scale, *, several: bool, is_given: bool
) -> list[Hashable] | None:
    """Return known labels, then other labels that occur; None if no label is known.

    A gold sample contains the order of labels, which a column of texts does not contain.
    """
    known = list(answers.names)
    columns: Any = [answers.labels, *codes.columns]
    seen = [
        {label for labels in column for label in labels or ()} if several else set(column)
        for column in columns
    ]
    if not known and scale == "ordinal":
        known = list(codes.names)
        if not any(isinstance(label, str) for labels in seen for label in labels):
            # the sample has texts
            numbers: list[Hashable] = [number_in(str(name)) for name in known]
            known = known if None in numbers else numbers
    if not (known or several):
        return None
    if is_given or scale == "ordinal":  # people may know labels that the model does not
        check_declared(known, seen if scale == "ordinal" else seen[:1], "labels")
    return known + sorted(set().union(*seen).difference(known, {None}), key=str)


def _by_confidence(
    answers: ModelLabels,
    codes: Codes,
    judged: Flags,
    hits: Flags,
    how: CoefficientSettings,
) -> tuple[CalibrationError | None, CoverageCurve | None]:
    """Return calibration error and coverage; None for both without confidence."""
    if answers.confidence is None:
        return None, None
    sure = answers.confidence[codes.rows][judged]
    if np.isnan(sure).all():
        return None, None
    right, w = hits[judged], how.w[judged]
    return (
        calibration_error(sure, right, unit_weights=w, level=how.level),
        coverage_curve(sure, right, unit_weights=w, level=how.level),
    )


def _brier(
    answers: ModelLabels, codes: Codes, right: Sequence[Code], w: Floats, level: float
) -> Measure | None:
    if answers.probs is None or not (~np.isnan(answers.probs)).any():
        return None
    at = {name: j for j, name in enumerate(answers.names)}
    labels = [at.get(code, -1) for code in right]
    return brier_score(answers.probs[codes.rows], labels, unit_weights=w, level=level)


def _wrong(
    answers: ModelLabels, codes: Codes, right: list[Code], is_wrong: Input
) -> tuple[Wrong, ...]:
    """Return the errors of the model, the most confident first."""
    errors = []
    for i in np.flatnonzero(is_wrong):
        row = int(codes.rows[i])
        sure = math.nan if answers.confidence is None else answers.confidence[row]
        errors.append(
            Wrong(
                row=row,
                label=answers.labels[row],
                truth=right[i],
                prob=float(sure),
                text=None if answers.texts is None else answers.texts[row],
            )
        )
    errors.sort(key=lambda error: (math.isnan(error.prob), -error.prob, error.row))
    return tuple(errors)


def compared_numbers(
    answers: ModelLabels, codes: Codes, scale: Scale, level: float, weights: Floats | None
) -> tuple[NumberAgreement | None, NumberAgreement | None]:
    """Compare the model's numbers with people's numbers, and people with each other.

    The model's number is the expected value if the probabilities of all labels are known,
    else its label. The number that several people give a text is the mean of their codes.
    """
    if scale == "nominal":
        return None, None
    people = _numbers([code for column in codes.columns for code in column])
    model = _model_numbers(answers)
    if people is None or model is None:
        return None, None
    by_coder = people.reshape(len(codes.columns), -1)
    known = np.isfinite(by_coder)
    n_known = known.sum(axis=0)
    total = np.where(known, by_coder, 0).sum(axis=0)
    average = np.where(n_known > 0, total / np.maximum(n_known, 1), math.nan)
    agreement = number_agreement(
        np.stack([model[codes.rows], average]), unit_weights=weights, level=level
    )
    if len(by_coder) < 2:
        return agreement, None
    return agreement, number_agreement(by_coder, unit_weights=weights, level=level)


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
    numbers = []
    for value in values:
        if value is None:
            numbers.append(math.nan)
            continue
        if isinstance(value, (bool, np.bool_)):
            return None
        number = number_in(str(text_of(value)))
        if number is None:
            return None
        numbers.append(float(number))
    return np.array(numbers, dtype=np.float64)
