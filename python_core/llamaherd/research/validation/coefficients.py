"""Agreement of the model with people, and of people with each other."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.research.statistics.intervals import mean, share
from llamaherd.research.statistics.ratings import CodesByCoder, ModelAndPerson
from llamaherd.research.validation import label_set_agreement as sets
from llamaherd.research.validation.validation import (
    Ceiling,
    PairAgreement,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.research.codes import Code
    from llamaherd.research.statistics.coefficients import CoefficientSettings
    from llamaherd.research.statistics.ratings import Floats
    from llamaherd.research.validation.inputs import Codes


def agreements_of(
    given: Sequence[Code],
    right: Sequence[Code],
    codes: Codes,
    names: Sequence[Hashable] | None,
    how: CoefficientSettings,
) -> dict[str, Any]:
    """Return agreement fields; `names`: the labels if a text may have several labels."""
    pairs = _pairs(given, codes, names, how)
    if names is not None:
        of = sets.by_label(given, right, codes.codes, names, how)
        return {
            "model_agreement": sets.mean_of([each.model for each in of]),
            "coder_agreement": sets.mean_of([each.people for each in of]),
            "label_agreement": of,
            "pairs": pairs,
        }
    people = CodesByCoder(codes.codes)
    return {
        "model_agreement": how.of(ModelAndPerson([given, right])),
        "coder_agreement": how.of(people) if len(people) > 1 else (),
        "label_agreement": (),
        "pairs": pairs,
    }


def _pairs(
    given: Sequence[Code],
    codes: Codes,
    names: Sequence[Hashable] | None,
    how: CoefficientSettings,
) -> tuple[PairAgreement, ...]:
    """Compare all pairs of coders, the model first; for `names` see `agreements_of`."""
    if len(codes.codes) < 2:
        return ()
    columns = [("model", given), *zip(codes.coders, codes.codes, strict=True)]
    return tuple(
        PairAgreement(
            first=first,
            second=second,
            coefficients=how.of(form((a, b)), of_pairs=True)
            if names is None
            else sets.mean_of(
                [
                    how.of(form(sets.yes_or_no(name, (a, b))), of_pairs=True)
                    for name in names
                ]
            ),
        )
        for i, ((first, a), (second, b)) in enumerate(combinations(columns, 2))
        for form in [ModelAndPerson if i < len(codes.codes) else CodesByCoder]
    )


def ceiling_of(
    codes: Sequence[Sequence[Code]], given: Sequence[Code], w: Floats, level: float
) -> Ceiling | None:
    """Return how often two people agree, and how often the model and a person agree."""
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
    if not people:  # also None if only one person coded
        return None
    a, b, v = np.array(people), np.array(model), np.array(weights)
    return Ceiling(
        people=share(a, v, level),
        model=share(b, v, level),
        difference=mean(b - a, v, level),
    )
