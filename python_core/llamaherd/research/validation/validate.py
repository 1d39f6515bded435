"""Validation of model labels against human codes."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.core.words import setting
from llamaherd.research import frames
from llamaherd.research.coding.label_sets import has_several, scale_of
from llamaherd.research.coding.source import Source
from llamaherd.research.coding.survey import weights_of
from llamaherd.research.statistics import (
    accuracy_of,
    brier_score,
    calibration_error,
    cohen_kappa,
    coverage_curve,
    gwet_ac1,
    krippendorff_alpha,
    percent_agreement,
)
from llamaherd.research.statistics.intervals import Measure, level_of, mean, share
from llamaherd.research.statistics.ratings import SCALES
from llamaherd.research.validation import label_set_agreement as sets
from llamaherd.research.validation.inputs import (
    answers_of,
    codes_of,
    in_one_form,
    label_column_of,
)
from llamaherd.research.validation.numbers import compared_numbers, scale_of_numbers
from llamaherd.research.validation.validation import (
    Ceiling,
    PairAgreement,
    Validation,
    Wrong,
)
from llamaherd.research.validation.validation_warnings import warnings_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.research.codes import Code
    from llamaherd.research.statistics import (
        Agreement,
        CalibrationError,
        CoverageCurve,
    )
    from llamaherd.research.statistics.ratings import Flags, Floats, Scale
    from llamaherd.research.validation.inputs import Codes, ModelLabels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _How:
    """Settings that all coefficients use."""

    names: list[Hashable] | None
    scale: Scale
    w: Floats
    level: float
    n_bootstrap: int
    seed: int

    def kappas(self, codes: Sequence[Sequence[Code]]) -> tuple[Agreement, ...]:
        """Return percent agreement; for two coders also kappa."""
        found = [percent_agreement(codes, unit_weights=self.w, level=self.level)]
        kinds = ("none",) if self.scale == "nominal" else ("none", "quadratic")
        found += [
            cohen_kappa(
                *codes,
                weights=kind,
                levels=self.names,
                unit_weights=self.w,
                level=self.level,
            )
            for kind in kinds
            if len(codes) == 2
        ]
        return tuple(found)

    def coefficients(self, codes: Sequence[Sequence[Code]]) -> tuple[Agreement, ...]:
        """Return the coefficients of `kappas`, alpha and AC1."""
        alpha = krippendorff_alpha(
            codes,
            scale=self.scale,
            levels=self.names,
            unit_weights=self.w,
            level=self.level,
            n_bootstrap=self.n_bootstrap,
            seed=self.seed,
        )
        ac1 = gwet_ac1(codes, levels=self.names, unit_weights=self.w, level=self.level)
        return (*self.kappas(codes), alpha, ac1)


def validate(
    coded: Any,  # noqa: ANN401 - of many kinds
    gold: Any = None,  # noqa: ANN401 - of many kinds
    *,
    label: str | None = None,
    truth: str | Sequence[str] | None = None,
    prob: Any = None,  # noqa: ANN401 - of many kinds
    labels: Sequence[Hashable] | None = None,
    scale: Scale | None = None,
    level: float = 0.95,
    n_bootstrap: int = 2000,
    seed: int = 0,
    several: bool | None = None,
    weights: Any = None,  # noqa: ANN401 - a column, or numbers
) -> Validation:
    """Compare a model's labels with human codes.

    If several people coded a text, the majority code is taken as correct; texts on which
    people tie are left out of accuracy. Texts drawn with known probabilities are weighted
    by 1 / probability, so that all results describe all texts.

    Args:
        coded: Result of `annotate` or `classify_parallel`; a data frame with a column of
            labels; or n labels, None if a label is missing.
        gold: Gold sample with codes, from `gold_sample`; or codes of all n texts, None if
            a code is missing: a list for one person; a mapping by coder, a data frame, or
            a list of lists for several people.
        label: Column of labels of a data frame; None for the column that `gold` was drawn
            with, or "label".
        truth: Instead of `gold`: the column or columns of `coded` with human codes.
        prob: Confidence of the model: a column of `coded`, float[n], or float[n, k] with
            a column for each of `labels`. None to use the probabilities of `coded`, if
            any.
        labels: All labels, in their order; None for the labels of `coded`, or the labels
            that occur.
        scale: Scale of measurement: "nominal", "ordinal", "interval", "ratio". All but
            "nominal" add weighted kappa, with squared distances. By default (None)
            "ordinal" if the codebook, an ordered column or `gold` has ordered labels,
            "interval" for a scale of numbers and for labels with fractions or more than
            20 different numbers, otherwise "nominal". Ordered labels that are numbers are
            also compared as numbers, see `Validation.numbers`.
        level: Confidence level.
        n_bootstrap: Number of bootstrap draws for intervals that need them.
        seed: Seed of the bootstrap.
        several: True if a text may have several labels, joined by "; ", where "" or
            "none" means that no label applies. Each label is then scored as present or
            absent, and accuracy is the share of texts with exactly the right labels. None
            to use the setting of `coded` or `gold`.
        weights: Survey weights: a column of `coded`, or n numbers of at least 0. Each
            text has the weight survey weight / inclusion probability.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range, or arguments contradict each other.
    """
    level_of(level)
    label = label_column_of(coded, gold, label)
    are_sets = has_several(coded, gold) if several is None else several
    answers = answers_of(coded, label, prob, labels, several=are_sets)
    if scale is None:
        scale = scale_of_numbers(answers.labels, scale_of(coded, gold, label))
    checks.choice("scale", scale, SCALES)
    codes = codes_of(gold, truth, coded, answers)
    source = Source.of(answers.texts, answers.labels)
    if are_sets and scale != "nominal":
        raise ArgumentError(
            f"must be 'nominal' for several labels, not {scale!r}", argument="scale"
        )
    answers, codes = (sets.as_sets if are_sets else in_one_form)(answers, codes)
    names = sets.names_of(answers, codes) if are_sets else _names(answers, codes, scale)
    right, n_ties = (
        sets.majority_of(codes.codes, names or ()) if are_sets else _majority(codes.codes)
    )
    given = [answers.labels[row] for row in codes.rows]
    unit_weights = _unit_weights(coded, codes, weights, len(answers.labels))
    how = _How(
        names=[False, True] if are_sets else names,
        scale=scale,
        w=np.ones(len(given)) if unit_weights is None else unit_weights,
        level=level,
        n_bootstrap=n_bootstrap,
        seed=seed,
    )
    measured = accuracy_of(
        given,
        right,
        labels=names,
        unit_weights=unit_weights,
        level=level,
        n_bootstrap=n_bootstrap,
        seed=seed,
        several=are_sets,
    )
    judged = np.array(
        [a is not None and b is not None for a, b in zip(given, right, strict=True)],
        dtype=bool,
    )
    hits = np.array([a == b for a, b in zip(given, right, strict=True)], dtype=bool)
    calibration, coverage = _by_confidence(answers, codes, judged, hits, how)
    numbers, of_people = (
        (None, None)
        if are_sets
        else compared_numbers(answers, codes, scale, level, unit_weights)
    )
    found = Validation(
        n_texts=len(answers.labels),
        n_gold=len(codes.rows),
        coders=codes.coders,
        is_weighted=unit_weights is not None,
        design=codes.design,
        several=are_sets,
        scale=scale,
        level=level,
        accuracy=measured,
        **_agreements(given, right, codes, measured.labels if are_sets else None, how),
        ceiling=_ceiling(codes.codes, given, how.w, level),
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
        found = _in_words(found)
    return found.with_warnings(warnings_of(found, answers, codes, n_ties))


def _unit_weights(
    coded: Any,  # noqa: ANN401 - of many kinds
    codes: Codes,
    weights: Any,  # noqa: ANN401 - of many kinds
    n_texts: int,
) -> Floats | None:
    """Return survey weight / inclusion probability of coded texts; None if all are 1."""
    if weights is None:
        return None if codes.inclusion is None else 1 / codes.inclusion
    frame = getattr(coded, "frame", coded)
    frames.check_index(weights, frame, "weights")
    own = weights_of(frame, weights, n_texts)[codes.rows]
    return own if codes.inclusion is None else np.asarray(own / codes.inclusion)


def _agreements(
    given: Sequence[Code],
    right: Sequence[Code],
    codes: Codes,
    names: Sequence[Hashable] | None,
    how: _How,
) -> dict[str, Any]:
    """Return agreement fields; `names` are the labels if texts may have several."""
    pairs = _pairs(given, codes, names, how)
    if names is not None:
        of = sets.by_label(given, right, codes.codes, names, how.coefficients)
        return {
            "model_agreement": sets.mean_of([each.model for each in of]),
            "coder_agreement": sets.mean_of([each.people for each in of]),
            "label_agreement": of,
            "pairs": pairs,
        }
    several_people = len(codes.codes) > 1
    return {
        "model_agreement": how.coefficients([given, right]),
        "coder_agreement": how.coefficients(codes.codes) if several_people else (),
        "label_agreement": (),
        "pairs": pairs,
    }


def _pairs(
    given: Sequence[Code], codes: Codes, names: Sequence[Hashable] | None, how: _How
) -> tuple[PairAgreement, ...]:
    """Compare all pairs of coders, the model first; for `names` see `_agreements`."""
    if len(codes.codes) < 2:
        return ()
    columns = [("model", given), *zip(codes.coders, codes.codes, strict=True)]
    return tuple(
        PairAgreement(
            first=first,
            second=second,
            coefficients=how.kappas(both)
            if names is None
            else sets.mean_of([how.kappas(sets.yes_or_no(n, both)) for n in names]),
        )
        for (first, a), (second, b) in combinations(columns, 2)
        for both in [(a, b)]
    )


def _in_words(found: Validation) -> Validation:
    """Return the validation with joined labels instead of tuples of labels."""
    names = found.labels
    most = sets.label_text(found.accuracy.majority_label, names)
    return replace(
        found,
        accuracy=replace(found.accuracy, majority_label=most),
        wrong=tuple(
            replace(
                each,
                label=sets.label_text(each.label, names),
                truth=sets.label_text(each.truth, names),
            )
            for each in found.wrong
        ),
    )


def _names(answers: ModelLabels, codes: Codes, scale: Scale) -> list[Hashable] | None:
    """Return known labels, then other labels that occur; None if no label is known."""
    if not answers.names:
        return None
    known = list(answers.names)
    seen = dict.fromkeys(
        code for column in [answers.labels, *codes.codes] for code in column
    )
    other = [code for code in seen if code is not None and code not in set(known)]
    if other and scale == "ordinal":
        raise ArgumentError(
            f"must have all labels in their order, for {setting('scale', 'ordinal')}: "
            f"{other[:6]} are not there",
            argument="labels",
        )
    return known + sorted(other, key=str)


def _majority(codes: Sequence[Sequence[Code]]) -> tuple[list[Code], int]:
    """Return the majority code of each text, None for a tie, and the number of ties."""
    right: list[Code] = []
    n_ties = 0
    for given_codes in zip(*codes, strict=True):
        counted = Counter(code for code in given_codes if code is not None).most_common(2)
        is_tie = len(counted) == 2 and counted[0][1] == counted[1][1]
        n_ties += is_tie
        right.append(None if is_tie or not counted else counted[0][0])
    return right, n_ties


def _by_confidence(
    answers: ModelLabels, codes: Codes, judged: Flags, hits: Flags, how: _How
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


def _ceiling(
    codes: Sequence[Sequence[Code]], given: Sequence[Code], w: Floats, level: float
) -> Ceiling | None:
    """Return how often two people agree, and how often the model agrees with one."""
    people, model, weights = [], [], []
    for i, label in enumerate(given):
        given_codes = [column[i] for column in codes if column[i] is not None]
        m = len(given_codes)
        if label is None or m < 2:
            continue
        alike = sum(count * (count - 1) for count in Counter(given_codes).values())
        people.append(alike / (m * (m - 1)))
        model.append(given_codes.count(label) / m)
        weights.append(w[i])
    if not people:  # also if only one person coded
        return None
    a, b, v = np.array(people), np.array(model), np.array(weights)
    return Ceiling(
        people=share(a, v, level),
        model=share(b, v, level),
        difference=mean(b - a, v, level),
    )


def _brier(
    answers: ModelLabels, codes: Codes, right: list[Code], w: Floats, level: float
) -> Measure | None:
    if answers.probs is None or not (~np.isnan(answers.probs)).any():
        return None
    at = {name: j for j, name in enumerate(answers.names)}
    truth = [at.get(code, -1) for code in right]
    return brier_score(answers.probs[codes.rows], truth, unit_weights=w, level=level)


def _wrong(
    answers: ModelLabels,
    codes: Codes,
    right: list[Code],
    is_wrong: Any,  # noqa: ANN401 - bool[g]
) -> tuple[Wrong, ...]:
    """Return the errors of the model, the most confident first."""
    found = []
    for i in np.flatnonzero(is_wrong):
        row = codes.rows[i]
        sure = math.nan if answers.confidence is None else answers.confidence[row]
        found.append(
            Wrong(
                row=row,
                label=answers.labels[row],
                truth=right[i],
                prob=float(sure),
                text=None if answers.texts is None else answers.texts[row],
            )
        )
    found.sort(key=lambda each: (math.isnan(each.prob), -each.prob, each.row))
    return tuple(found)
