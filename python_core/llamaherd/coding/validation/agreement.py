"""Agreement of the model with people, and of people with each other."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.annotation.label_sets import (
    joined_labels,
    labels_in,
    none_of,
)
from llamaherd.coding.codes import Code, check_comparable, check_names, names_of
from llamaherd.coding.codes.coders import majority_of_sets
from llamaherd.coding.sentences import number
from llamaherd.coding.statistics.agreement import CoefficientSettings, cohen_kappa
from llamaherd.coding.statistics.intervals import Measure, share
from llamaherd.coding.statistics.many_coders import pairs_alike
from llamaherd.coding.statistics.ratings import (
    SCALES,
    Agreement,
    CodesByCoder,
    ModelAndPerson,
    Scale,
    codes_of_coders,
    ratings_of,
)
from llamaherd.coding.statistics.uncertainty import mean
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, limits

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.coding.gold.codes import Codes
    from llamaherd.engine.core.arrays import Floats


def agreements_of(
    labels: Sequence[Code],
    right: Sequence[Code],
    codes: Codes,
    names: Sequence[Hashable] | None,
    how: CoefficientSettings,
) -> dict[str, Any]:
    """Return agreement fields; `names`: all labels, if a text may have several."""
    pairs = _pairs(labels, codes, names, how)
    if names is not None:
        label_agreement = by_label(labels, right, codes.columns, names, how)
        return {
            "model_agreement": mean_of([label.model for label in label_agreement]),
            "coder_agreement": mean_of([label.people for label in label_agreement]),
            "label_agreement": label_agreement,
            "pairs": pairs,
        }
    people = CodesByCoder(codes.columns)
    return {
        "model_agreement": how.of(ModelAndPerson([labels, right])),
        "coder_agreement": how.of(people) if len(people) > 1 else (),
        "label_agreement": (),
        "pairs": pairs,
    }


def _pairs(
    labels: Sequence[Code],
    codes: Codes,
    names: Sequence[Hashable] | None,
    how: CoefficientSettings,
) -> tuple[PairAgreement, ...]:
    """Compare all pairs of coders, the model first; for `names` see `agreements_of`."""
    if len(codes.columns) < 2:
        return ()
    columns = [("model", labels), *zip(codes.coders, codes.columns, strict=True)]
    return tuple(
        PairAgreement(
            first=first,
            second=second,
            coefficients=how.of(form((a, b)), of_pairs=True)
            if names is None
            else mean_of(
                [how.of(form(yes_or_no(name, (a, b))), of_pairs=True) for name in names]
            ),
        )
        for i, ((first, a), (second, b)) in enumerate(combinations(columns, 2))
        for form in [ModelAndPerson if i < len(codes.columns) else CodesByCoder]
    )


def ceiling_of(
    codes: Sequence[Sequence[Code]], labels: Sequence[Code], w: Floats, level: float
) -> Ceiling | None:
    """Return how often two people agree, and how often the model and a person agree."""
    ratings = ratings_of(CodesByCoder([labels, *codes]))
    label, people = ratings.indices[0], replace(ratings, indices=ratings.indices[1:])
    counts = people.counts
    used = (label >= 0) & (counts.sum(axis=1) >= 2)
    if not used.any():  # also None if only one person coded
        return None
    counts, label, w = counts[used], label[used], w[used]
    alike = pairs_alike(counts)
    like_model = counts[np.arange(len(label)), label] / counts.sum(axis=1)
    return Ceiling(
        people=share(alike, w, level),
        model=share(like_model, w, level),
        difference=mean(like_model - alike, w, level),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """Agreement of people with each other and with the model, on the same texts.

    Attributes:
        people: Share of texts on which two people agree.
        model: Share of texts on which the model agrees with one person.
        difference: `model` minus `people`, with a t interval.
    """

    people: Measure
    model: Measure
    difference: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAgreement:
    """Agreement of two coders."""

    first: str  # Name of the first coder; the model is called "model"
    second: str
    # Percent agreement and kappa; weighted kappa for ordered labels. With several labels
    # per text, means over the labels
    coefficients: tuple[Agreement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAgreement:
    """Agreement on whether texts have a label."""

    label: Hashable
    model: tuple[Agreement, ...]  # Between the model and the human majority
    people: tuple[Agreement, ...]  # Between the human coders; () for a single coder


def majority_of(codes: Sequence[Any], names: Sequence[Any]) -> tuple[list[Code], int]:
    """Return the labels of each text by the majority, and the number of ties."""
    decided = [majority_of_sets(label_sets) for label_sets in zip(*codes, strict=True)]
    right: list[Code] = [
        None if labels is None else labels_in(joined_labels(labels), names)
        for labels, _ in decided
    ]
    return right, sum(is_tie for _, is_tie in decided)


def label_text(label: Any, names: Sequence[Any]) -> Any:  # a tuple, or None
    """Return a tuple of labels as text."""
    return None if label is None else joined_labels(label) or none_of(map(str, names))


def yes_or_no(name: Hashable, codes: Sequence[Any]) -> list[list[Code]]:
    """Return codes of one label: for each coder and text, True if it was given."""
    return [
        [None if labels is None else name in labels for labels in row] for row in codes
    ]


def by_label(
    labels: Sequence[Any],
    right: Sequence[Any],
    people: Sequence[Any],
    names: Sequence[Hashable],
    how: CoefficientSettings,
) -> tuple[LabelAgreement, ...]:
    """Return the agreement of coders for each label."""
    return tuple(
        LabelAgreement(
            label=name,
            model=how.of(ModelAndPerson(yes_or_no(name, [labels, right]))),
            people=how.of(CodesByCoder(yes_or_no(name, people)))
            if len(people) > 1
            else (),
        )
        for name in names
    )


def mean_of(coefficients: Sequence[tuple[Agreement, ...]]) -> tuple[Agreement, ...]:
    """Return the mean of each coefficient over labels for which it is defined.

    The mean has no interval.
    """
    means = []
    for of_labels in zip(*coefficients, strict=True):
        known = [of_label for of_label in of_labels if not math.isnan(of_label.value)]
        value, observed, expected = (
            float(np.mean([getattr(of_label, name) for of_label in known]))
            if known
            else math.nan
            for name in ("value", "observed", "expected")
        )
        means.append(
            Agreement(
                name=of_labels[0].name,
                value=value,
                observed=observed,
                expected=expected,
                n_units=of_labels[0].n_units,
                n_coders=of_labels[0].n_coders,
                interval="none, the mean over labels",
            )
        )
    return tuple(means)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoderAgreement:
    """Coefficients of agreement."""

    coefficients: tuple[Agreement, ...]
    level: float  # Confidence level of their intervals
    scale: str
    is_weighted: bool  # True if units have different weights

    def __str__(self) -> str:
        n = max((coefficient.n_units for coefficient in self.coefficients), default=0)
        most = max((coefficient.n_coders for coefficient in self.coefficients), default=0)
        coders = count_of(most, "coder")
        head = f"{count_of(n, 'unit')} with two codes or more, {coders}, {self.scale}"
        wide = max(
            (len(coefficient.name) for coefficient in self.coefficients), default=0
        )
        values = [number(coefficient.value, 3, "NA") for coefficient in self.coefficients]
        room = max(map(len, values), default=0)
        lines = [f"<Agreement: {head}{', weighted' if self.is_weighted else ''}>"]
        for coefficient, value in zip(self.coefficients, values, strict=True):
            ends = (
                ""
                if math.isnan(coefficient.low)
                else limits(coefficient.low, coefficient.high, 3)
            )
            lines.append(f"{coefficient.name:{wide}} {value:>{room}} {ends}".rstrip())
        return "\n".join(lines)


def coder_agreement(
    codes: Sequence[Sequence[Code]],
    *,
    scale: Scale | None,
    levels: Sequence[Hashable] | None,
    known: Sequence[Sequence[Hashable]],
    weights: Any,  # numbers, or None
    kappa_weights: Any,  # see `cohen_kappa`
    level: float,
    coders: Sequence[str] = (),
) -> CoderAgreement:
    """Compute the coefficients of codes; kappa only for two coders.

    Args:
        codes: For each coder, a list of codes; None for missing codes.
        scale: Scale; None for "nominal".
        levels: All codes in their order; None for those that occur.
        known: Levels of categorical codes, which may include further levels.
        weights: Weights of units.
        kappa_weights: Weights of a further weighted kappa.
        level: Confidence level.
        coders: Names of the coders, "" for a coder without a name; () without names.
    """
    scale = scale or "nominal"
    checks.choice("scale", scale, SCALES)
    coders = coders or [""] * len(codes)
    check_names(coders, "codes")
    codes, names = codes_of_coders(
        codes, names_of(known) or None if levels is None else levels
    )
    check_comparable(
        codes, coders, names or (), are_measures=scale in ("interval", "ratio")
    )
    if levels is None and names is not None:
        names = _with_others(names, codes, scale)
    how = CoefficientSettings(names=names, scale=scale, w=weights, level=level)
    if weights is not None and not any(weights):
        raise ArgumentError(
            "must not all be 0", argument="unit_weights", code="out_of_range"
        )
    kappas = [
        replace(
            cohen_kappa(codes, weights=of_kappa, levels=names, **how.common), name=name
        )
        for name, of_kappa in {
            "linear kappa": None if scale == "nominal" else "linear",
            "quadratic kappa": None if scale == "nominal" else "quadratic",
            "weighted kappa": kappa_weights,
        }.items()
        if len(codes) == 2 and of_kappa is not None
    ]
    return CoderAgreement(
        coefficients=tuple(
            row
            for coefficient in how.of(codes)
            if coefficient.name != "weighted kappa"  # here "quadratic kappa"
            for row in (coefficient, *(kappas if coefficient.name == "kappa" else ()))
        ),
        level=level,
        scale=scale,
        is_weighted=weights is not None and len(set(weights)) > 1,
    )


def _with_others(
    names: tuple[Hashable, ...], codes: CodesByCoder, scale: Scale
) -> tuple[Hashable, ...]:
    """Return known levels in their order, then the other codes; none if it is a scale."""
    seen = {code for column in codes for code in column}
    other = seen.difference(names, [None])
    if other and scale != "nominal":
        raise ArgumentError(
            f"has the code {checks.brief(min(other, key=str))}, which is not among "
            f"the ordered labels {', '.join(map(str, names))}",
            argument="codes",
            code="unknown_choice",
        )
    return (*names, *sorted(other, key=str))
