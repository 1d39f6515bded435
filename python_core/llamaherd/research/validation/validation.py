"""What a validation found: numbers, tables, a page to read."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.research.statistics import Agreement, for_people
from llamaherd.research.validation.validation_page import page_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from llamaherd.research.codes import Code
    from llamaherd.research.coding.source import Source
    from llamaherd.research.statistics import (
        Accuracy,
        CalibrationError,
        CoverageCurve,
        Measure,
    )
    from llamaherd.research.statistics.ratings import Floats, Scale
    from llamaherd.research.validation.several import LabelAgreement

Row = tuple[str, str, str, float, float, float, int]
COLUMNS = ("part", "measure", "label", "value", "low", "high", "n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What a second person reaches, and the model, on texts of two codes or more.

    Attributes:
        people: How often two of the people say the same.
        model: How often the model says what one of them says.
        difference: The second less the first, with an interval by t.
    """

    people: Measure
    model: Measure
    difference: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAgreement:
    """How far two coders agree.

    Attributes:
        first: Its name; "model" for the model.
        second: The other one's.
        coefficients: Share alike and kappa, weighted too where labels have an order; of
            several labels their means over the labels.
    """

    first: str
    second: str
    coefficients: tuple[Agreement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A text that the model got wrong.

    Attributes:
        row: Its place among all texts, from 0.
        label: What the model said.
        truth: What people said.
        prob: How sure the model was; NaN: not known.
        text: The text; None: not known.
    """

    row: int
    label: Code
    truth: Code
    prob: float
    text: Any


@dataclass(frozen=True, kw_only=True, eq=False)
class Validation:
    """How far a model's labels can be believed. Its `repr` is a page to read.

    Attributes:
        n_texts: Texts that have labels, or should have.
        n_gold: Texts that people coded.
        coders: Names of these people.
        is_weighted: Whether texts count by 1 / inclusion probability.
        design: How the texts with codes were drawn, see `GoldSample`; None: not known.
        several: Whether texts may have several labels.
        scale: What distances between labels mean.
        level: Of the confidence intervals.
        accuracy: By labels and in all, with the majority class as the baseline.
        model_agreement: Coefficients between the model and what most people say; of
            several labels their means over the labels, as those below.
        coder_agreement: Those between the people; () of one.
        label_agreement: Of several labels those of each label; else ().
        pairs: Of each two coders, the model among them; () of one person.
        ceiling: What a second person reaches; None of one.
        brier: Brier score; None without probabilities of all labels.
        calibration: Calibration error; None if it is not known how sure the model is.
        coverage: Accuracy against coverage; None likewise.
        confidence: float64[n_texts], how sure the model is of each label; None.
        wrong: Texts that it got wrong, the surest first.
        warnings: What to think of before all that is believed.
        source: Texts and labels that it came from; None: of an earlier version.
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

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """All labels, in their order."""
        return self.accuracy.labels

    @property
    def coefficients(self) -> tuple[Agreement, ...]:
        """All of agreement, of several labels those of each."""
        if self.several:
            of = self.label_agreement
            return tuple(a for each in of for a in (*each.model, *each.people))
        return (*self.model_agreement, *self.coder_agreement)

    def with_warnings(self, warnings: tuple[str, ...]) -> Validation:
        """The same with these."""
        return dataclasses.replace(self, warnings=warnings)

    def for_people(self, accuracy: float, *, sure: bool = False) -> list[int]:
        """The texts to send to people, so that the model's other labels are accurate.

        Args:
            accuracy: Wanted of the labels that stay, in [0, 1].
            sure: Whether the lower end of its interval has to reach that; see
                `CoverageCurve.threshold_for`.

        Returns:
            Their places among all texts, the least sure first, also those without label.

        Raises:
            ValueError: It is not known how sure the model is, or `accuracy` is no share.
        """
        if self.coverage is None or self.confidence is None:
            raise ValueError("it is not known how sure the model is: validate with prob=")
        threshold = self.coverage.threshold_for(accuracy, sure=sure)
        return for_people(self.confidence, threshold)

    def rows(self) -> list[Row]:
        """All numbers as a long table of `COLUMNS`."""
        return [*_of_accuracy(self.accuracy), *_of_agreement(self), *_of_rest(self)]

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is optional
        """All numbers as a long data frame: part, measure, label, value, low, high, n.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # noqa: PLC0415 - optional

        return pd.DataFrame(self.rows(), columns=list(COLUMNS))

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can have it; None for what is not a number."""
        plain: dict[str, Any] = _plain(self)
        return plain

    def __repr__(self) -> str:
        return page_of(self)


def _row(part: str, measure: str, label: object, found: Measure | Agreement) -> Row:
    n = found.n_units if isinstance(found, Agreement) else found.n
    return (part, measure, str(label), found.value, found.low, found.high, n)


def _of_accuracy(found: Accuracy) -> list[Row]:
    named = (
        "accuracy",
        "balanced_accuracy",
        "macro_precision",
        "macro_recall",
        "macro_f1",
    )
    rows = [_row("accuracy", name, "", getattr(found, name)) for name in named]
    most = found.majority_label if found.majority_label is not None else ""
    rows.append(_row("baseline", "majority", most, found.majority_accuracy))
    for scores in found.per_label:
        for name in ("precision", "recall", "f1"):
            rows.append(_row("label", name, scores.label, getattr(scores, name)))  # noqa: PERF401 - two loops
    return rows


def _of_agreement(found: Validation) -> list[Row]:
    parts = [("", found.model_agreement, found.coder_agreement)]
    parts += [(str(of.label), of.model, of.people) for of in found.label_agreement]
    rows = [
        _row(part, each.name, label, each)
        for label, model, people in parts
        for part, of in (("model and people", model), ("between people", people))
        for each in of
    ]
    return rows + [
        _row("pair", each.name, f"{pair.first} / {pair.second}", each)
        for pair in found.pairs
        for each in pair.coefficients
    ]


def _of_rest(found: Validation) -> list[Row]:
    rows = []
    if found.ceiling is not None:
        for name in ("people", "model", "difference"):
            rows.append(_row("ceiling", name, "", getattr(found.ceiling, name)))  # noqa: PERF401 - as above
    if found.brier is not None:
        rows.append(_row("calibration", "brier", "", found.brier))
    if found.calibration is not None:
        nan, n = math.nan, found.calibration.n
        for name in ("ece", "overconfidence"):
            value = getattr(found.calibration, name)
            rows.append(("calibration", name, "", value, nan, nan, n))
    return rows


def _plain(value: Any) -> Any:  # noqa: ANN401 - a field's
    """What JSON has: no arrays, no tuples, no NaN."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
