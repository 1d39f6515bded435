"""How far a model's labels can be believed, by the codes of people."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.research.coding.label_sets import has_several, scale_of
from llamaherd.research.coding.source import Source
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
from llamaherd.research.validation import several as sets
from llamaherd.research.validation.compared import answers_of, codes_of, in_one_form
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
    from llamaherd.research.validation.compared import Answers, Codes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _How:
    """What all coefficients are told."""

    names: list[Hashable] | None
    scale: Scale
    w: Floats
    level: float
    n_bootstrap: int
    seed: int

    def kappas(self, codes: Sequence[Sequence[Code]]) -> tuple[Agreement, ...]:
        """Share alike, and kappa where there are two coders."""
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
        """These, alpha and AC1."""
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
) -> Validation:
    """Compares a model's labels with the codes of people.

    Where several people coded a text, what most of them say is right; where two labels
    have as many, the text does not count for accuracy. Texts that were drawn with known
    probabilities count by 1 / probability, so that all numbers are of all texts.

    Args:
        coded: What `annotate` or `classify_parallel` returned; a data frame with the
            labels in column `label`; or n labels, None where there is none.
        gold: What `gold_sample` made, with codes; or codes of all n texts, None where
            there is none: of one person a list, of several a mapping by coder, a data
            frame, or a list of lists.
        label: Name of the column of labels.
        truth: In place of `gold`: the column of `coded` that has people's codes, or
            several columns.
        prob: How sure the model is: a column of `coded`, float[n], or float[n, k] with a
            column for each of `labels`. None: what `coded` has of it.
        labels: All labels, in their order; None: those of `coded`, or that occur.
        scale: What distances between labels mean: "nominal", "ordinal", "interval",
            "ratio"; all but the first add weighted kappa, by squared distances. None:
            "ordinal" if the codebook, an ordered column or `gold` tells so, else
            "nominal".
        level: Of the confidence intervals.
        n_bootstrap: Draws for those intervals that need them.
        seed: Of the draws.
        several: Whether a text may have several labels, joined by "; ", "" or "none" for
            none of them. Each is measured as a yes or no of its own, and accuracy is the
            share of texts with exactly the right ones. None: as `coded` or `gold` know.

    Raises:
        TypeError: An argument is of another type.
        ValueError: An argument has no such value, or they do not fit to each other.
    """
    level_of(level)
    if scale is None:
        scale = scale_of(coded, gold, label)
    checks.choice("scale", scale, SCALES)
    are_sets = has_several(coded, gold) if several is None else several
    answers = answers_of(coded, label, prob, labels, several=are_sets)
    codes = codes_of(gold, truth, coded, answers)
    source = Source.of(answers.texts, answers.labels)
    if are_sets and scale != "nominal":
        raise ValueError(f"scale must be 'nominal' of several labels, not {scale!r}")
    answers, codes = (sets.as_sets if are_sets else in_one_form)(answers, codes)
    names = sets.names_of(answers, codes) if are_sets else _names(answers, codes, scale)
    right, n_ties = (
        sets.majority_of(codes.codes, names or ()) if are_sets else _majority(codes.codes)
    )
    given = [answers.labels[row] for row in codes.rows]
    weights = None if codes.inclusion is None else 1 / codes.inclusion
    how = _How(
        names=[False, True] if are_sets else names,
        scale=scale,
        w=np.ones(len(given)) if weights is None else weights,
        level=level,
        n_bootstrap=n_bootstrap,
        seed=seed,
    )
    measured = accuracy_of(
        given,
        right,
        labels=names,
        unit_weights=weights,
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
    found = Validation(
        n_texts=len(answers.labels),
        n_gold=len(codes.rows),
        coders=codes.coders,
        is_weighted=weights is not None,
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
    )
    if are_sets:
        found = _in_words(found)
    return found.with_warnings(warnings_of(found, answers, codes, n_ties))


def _agreements(
    given: Sequence[Code],
    right: Sequence[Code],
    codes: Codes,
    names: Sequence[Hashable] | None,
    how: _How,
) -> dict[str, Any]:
    """Fields of a validation; `names` are the labels where a text may have several."""
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
    """Of each two coders, the model first; `names` as above."""
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
    """The same with texts for tuples of labels."""
    names = found.labels
    most = sets.told(found.accuracy.majority_label, names)
    return replace(
        found,
        accuracy=replace(found.accuracy, majority_label=most),
        wrong=tuple(
            replace(
                each,
                label=sets.told(each.label, names),
                truth=sets.told(each.truth, names),
            )
            for each in found.wrong
        ),
    )


def _names(answers: Answers, codes: Codes, scale: Scale) -> list[Hashable] | None:
    """All labels: the known ones, then others that occur; None: none is known."""
    if not answers.names:
        return None
    known = list(answers.names)
    seen = dict.fromkeys(
        code for column in [answers.labels, *codes.codes] for code in column
    )
    other = [code for code in seen if code is not None and code not in set(known)]
    if other and scale == "ordinal":
        raise ValueError(
            "labels must have all labels in their order, for scale='ordinal': "
            f"{other[:6]} are not there"
        )
    return known + sorted(other, key=str)


def _majority(codes: Sequence[Sequence[Code]]) -> tuple[list[Code], int]:
    """What most coders say of each text; None where it is a tie, and how many are."""
    right: list[Code] = []
    n_ties = 0
    for said in zip(*codes, strict=True):
        counted = Counter(code for code in said if code is not None).most_common(2)
        is_tie = len(counted) == 2 and counted[0][1] == counted[1][1]
        n_ties += is_tie
        right.append(None if is_tie or not counted else counted[0][0])
    return right, n_ties


def _by_confidence(
    answers: Answers, codes: Codes, judged: Flags, hits: Flags, how: _How
) -> tuple[CalibrationError | None, CoverageCurve | None]:
    """None where it is not known how sure the model is."""
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
    """How often two people agree, and the model with one of them, on the same texts."""
    people, model, weights = [], [], []
    for i, label in enumerate(given):
        said = [column[i] for column in codes if column[i] is not None]
        m = len(said)
        if label is None or m < 2:
            continue
        alike = sum(count * (count - 1) for count in Counter(said).values())
        people.append(alike / (m * (m - 1)))
        model.append(said.count(label) / m)
        weights.append(w[i])
    if not people:  # also where one person coded
        return None
    a, b, v = np.array(people), np.array(model), np.array(weights)
    return Ceiling(
        people=share(a, v, level),
        model=share(b, v, level),
        difference=mean(b - a, v, level),
    )


def _brier(
    answers: Answers, codes: Codes, right: list[Code], w: Floats, level: float
) -> Measure | None:
    if answers.probs is None or not (~np.isnan(answers.probs)).any():
        return None
    at = {name: j for j, name in enumerate(answers.names)}
    truth = [at.get(code, -1) for code in right]
    return brier_score(answers.probs[codes.rows], truth, unit_weights=w, level=level)


def _wrong(
    answers: Answers,
    codes: Codes,
    right: list[Code],
    is_wrong: Any,  # noqa: ANN401 - bool[g]
) -> tuple[Wrong, ...]:
    """Those that the model got wrong, the surest first."""
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
