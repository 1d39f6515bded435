"""All measures of a validation, in one order and with one title each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.coding.statistics.accuracy import TITLES as ACCURACIES
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.coding.statistics.number_agreement import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MODEL, PEOPLE = "model and people", "between people"
_COEFFICIENTS = {name: coefficient.title for name, coefficient in COEFFICIENTS.items()}
_ACCURACIES = (
    *("accuracy", "balanced_accuracy"),
    *("macro_precision", "macro_recall", "macro_f1"),
)
# Titles of measures, by part and measure.
TITLES: dict[tuple[str, str], str] = {
    (part, name): title
    for part, titles in (
        ("accuracy", ACCURACIES),
        (MODEL, _COEFFICIENTS),
        (PEOPLE, _COEFFICIENTS),
        ("numbers", NUMBERS),
        ("numbers of people", NUMBERS),
        ("ceiling", {"people": "two people agree", "model": "model and one of them"}),
        ("calibration", {"brier": "Brier score", "ece": "calibration error"}),
        ("calibration", {"overconfidence": "confidence - accuracy"}),
    )
    for name, title in titles.items()
}


class MeasureRow(NamedTuple):
    """Measure of a validation.

    Attributes:
        part: Part of the validation, such as "accuracy" or "between people".
        measure: Name of the measure.
        label: Label or pair of coders; "" for a measure of all labels.
        title: Title in a table; "" for measures of one label or one pair of coders.
        number: Mapping with "value" and, if known, "low", "high" and "n" or "n_units".
    """

    part: str
    measure: str
    label: str
    title: str
    number: Mapping[str, Any]


def measures_of(fields: Mapping[str, Any]) -> Iterator[MeasureRow]:
    """Yield all measures of a validation; `fields` is its `to_dict`."""
    for part, measure, label, number in (*_of_labels(fields), *_of_rest(fields)):
        title = "" if label else TITLES.get((part, measure), "")
        if part == "baseline" and label:
            title = f"always '{label}'"
        elif part == measure == "accuracy" and fields.get("several"):
            title = "all labels right"
        yield MeasureRow(part, measure, label, title, number)


_Number = tuple[str, str, str, "Mapping[str, Any]"]


def _of_labels(fields: Mapping[str, Any]) -> Iterator[_Number]:
    """Yield part, measure, label and number of accuracy and of agreement."""
    of = fields["accuracy"]
    for name in _ACCURACIES:
        yield "accuracy", name, "", of[name]
    most = "" if of["majority_label"] is None else str(of["majority_label"])
    yield "baseline", "majority", most, of["majority_accuracy"]
    for scores in of["per_label"]:
        for name in ("precision", "recall", "f1"):
            yield "label", name, str(scores["label"]), scores[name]
    agreements = [("", fields["model_agreement"], fields["coder_agreement"])]
    agreements += [
        (str(agreement["label"]), agreement["model"], agreement["people"])
        for agreement in fields.get("label_agreement") or ()
    ]
    for label, *both in agreements:
        for part, coefficients in zip((MODEL, PEOPLE), both, strict=True):
            for coefficient in coefficients or ():
                yield part, coefficient["name"], label, coefficient
    for pair in fields.get("pairs") or ():
        for coefficient in pair["coefficients"]:
            coders = f"{pair['first']} / {pair['second']}"
            yield "pair", coefficient["name"], coders, coefficient


def _of_rest(fields: Mapping[str, Any]) -> Iterator[_Number]:
    """Yield rows of numbers, of the ceiling and of calibration, as `_of_labels` does."""
    for part in ("numbers", "numbers of people"):
        numbers = fields.get(part.replace(" ", "_")) or {}
        for name in NUMBERS:
            if numbers.get(name) is not None:
                yield part, name, "", numbers[name]
    if fields["ceiling"] is not None:
        for name in ("people", "model", "difference"):
            yield "ceiling", name, "", fields["ceiling"][name]
    if fields["brier"] is not None:
        yield "calibration", "brier", "", fields["brier"]
    if fields["calibration"] is not None:
        for name in ("ece", "overconfidence"):
            number = {
                "value": fields["calibration"][name],
                "n": fields["calibration"]["n"],
            }
            yield "calibration", name, "", number
