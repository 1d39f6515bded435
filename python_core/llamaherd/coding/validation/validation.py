"""Result of a validation: numbers, tables and a readable page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.coding.annotation.record import plain
from llamaherd.coding.statistics.calibration import (
    CalibrationError,
    CoverageCurve,
    for_people,
)
from llamaherd.coding.validation.page import measures_of, page_of
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from llamaherd.coding.annotation.texts import Source
    from llamaherd.coding.codes import Code
    from llamaherd.coding.statistics.accuracy import Accuracy
    from llamaherd.coding.statistics.intervals import Measure
    from llamaherd.coding.statistics.number_agreement import NumberAgreement
    from llamaherd.coding.statistics.ratings import Agreement, Scale
    from llamaherd.coding.validation.agreement import (
        Ceiling,
        LabelAgreement,
        PairAgreement,
    )
    from llamaherd.engine.core.arrays import Floats

Row = tuple[str, str, str, float, float, float, int]
COLUMNS = ("part", "measure", "label", "value", "low", "high", "n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """Text with a wrong model label."""

    row: int  # Index among all texts, from 0
    label: Code
    truth: Code  # Label by the majority of people
    prob: float  # Confidence of the model; NaN if unknown
    text: Any  # None if unknown


@dataclass(frozen=True, kw_only=True, eq=False)
class Validation:
    """Validation of a model's labels. The `repr` of this class is a readable page.

    Attributes:
        n_texts: Number of texts, with and without a label.
        n_gold: Number of texts with human codes.
        coders: Names of the coders.
        is_weighted: True if texts are weighted, see `weighted_by`.
        design: Record of the draw of coded texts, see `GoldSample`; None if unknown.
        several: True if texts may have several labels.
        scale: Scale of measurement of the labels.
        level: Confidence level.
        accuracy: Accuracy by label and overall, with the majority class as the baseline.
        model_agreement: Coefficients between the model and the right codes. With
            several labels per text, these and the following coefficients are means over
            the labels.
        coder_agreement: Coefficients between the human coders; () for a single coder.
        label_agreement: With several labels per text, coefficients of each label;
            otherwise ().
        pairs: Agreement of each pair of coders, including the model; () if one person
            coded.
        ceiling: Agreement of people as the ceiling for the model; None if one person
            coded.
        brier: Brier score; None if the probabilities of all labels are unknown.
        calibration: Calibration error; None if the confidence is unknown.
        coverage: Accuracy against coverage; None if the confidence is unknown.
        confidence: float64[n_texts], confidence of the model in the label of each text;
            None if unknown.
        wrong: Texts with wrong labels, the most confident first.
        warnings: Warnings, to be read before the results are used.
        numbers: Agreement of the model with people if labels are ordered numbers, else
            None. The model's number is the expected value if the probabilities of all
            labels are known, else the label; the number by people is the mean of their
            codes.
        numbers_of_people: Agreement of the people's numbers; None if one person coded.
        source: Hashes of the texts and labels used; None if an earlier version made the
            result.
        weighted_by: Weights of the texts: "inclusion" (1 / inclusion probability),
            "survey" (survey weights), or both.
        n_without: Number of texts of the sample that nobody coded.
        is_by_label: True if coded texts stand for the texts without a code that have the
            same label; False if they stand for all texts without a code.
    """

    n_texts: int
    n_gold: int
    coders: tuple[str, ...]
    is_weighted: bool
    design: dict[str, Any] | None
    several: bool
    scale: Scale
    level: float
    accuracy: Accuracy
    model_agreement: tuple[Agreement, ...]
    coder_agreement: tuple[Agreement, ...]
    label_agreement: tuple[LabelAgreement, ...]
    pairs: tuple[PairAgreement, ...]
    ceiling: Ceiling | None
    brier: Measure | None
    calibration: CalibrationError | None
    coverage: CoverageCurve | None
    confidence: Floats | None
    wrong: tuple[Wrong, ...]
    warnings: tuple[str, ...]
    source: Source | None = None
    numbers: NumberAgreement | None = None
    numbers_of_people: NumberAgreement | None = None
    weighted_by: tuple[str, ...] = ()
    n_without: int = 0
    is_by_label: bool = False

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """All labels, in their order."""
        return self.accuracy.labels

    @property
    def coefficients(self) -> tuple[Agreement, ...]:
        """All coefficients of agreement, including the coefficients of each label."""
        if self.several:
            of = self.label_agreement
            return tuple(a for label in of for a in (*label.model, *label.people))
        return (*self.model_agreement, *self.coder_agreement)

    def for_people(self, accuracy: float, *, sure: bool = False) -> list[int]:
        """Return the texts that people should code so that the other labels are accurate.

        Args:
            accuracy: Requested accuracy of the other labels, in [0, 1].
            sure: True if the lower confidence limit must reach `accuracy`; see
                `CoverageCurve.threshold_for`.

        Returns:
            Indices of these texts among all texts, the least confident first; texts
            without a label are included.

        Raises:
            ValueError: The confidence is unknown, or `accuracy` is not in [0, 1].
        """
        if self.coverage is None or self.confidence is None:
            raise ArgumentError(
                "is needed: validate with the probabilities of the labels",
                argument="prob",
                code="missing",
            )
        threshold = self.coverage.threshold_for(accuracy, sure=sure)
        return for_people(self.confidence, threshold)

    def rows(self) -> list[Row]:
        """Return all numbers as a long table with the columns `COLUMNS`."""
        rows = []
        for part, name, label, _, measure in measures_of(self.to_dict()):
            numbers = [measure.get(key) for key in ("value", "low", "high")]
            value, low, high = (math.nan if x is None else x for x in numbers)
            n = measure["n_units"] if "n_units" in measure else measure["n"]
            rows.append((part, name, label, value, low, high, n))
        return rows

    def to_pandas(self) -> Any:  # pandas is optional
        """Return a long data frame: part, measure, label, value, low, high, n.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional

        return pd.DataFrame(self.rows(), columns=list(COLUMNS))

    def to_dict(self) -> dict[str, Any]:
        """Return the validation as JSON types; NaN becomes None."""
        fields: dict[str, Any] = plain(self)
        return fields

    def __repr__(self) -> str:
        return page_of(self)
