"""Measures of a validation, in one order and with one title each, and its text page."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.coding.sentences import number, shorten_names, table, with_interval
from llamaherd.coding.statistics.accuracy import TITLES as ACCURACIES
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.coding.statistics.number_agreement import NUMBERS
from llamaherd.engine.core.phrases import MOST_ROWS, count_of, first_rows, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Values = Mapping[tuple[str, str, str], str]  # texts by part, measure and label


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
    """Measure of a validation."""

    part: str  # Part of the validation, such as "accuracy" or "between people"
    measure: str
    label: str  # Label or pair of coders; "" for a measure of all labels
    title: str  # In a table; "" for measures of one label or one pair of coders
    # Mapping with "value" and, if known, "low", "high" and "n" or "n_units"
    number: Mapping[str, Any]


def measures_of(fields: Mapping[str, Any]) -> Iterator[MeasureRow]:
    """Yield all measures of a validation; `fields` is its `to_dict`."""
    for part, measure, label, value in (*_of_labels(fields), *_of_rest(fields)):
        title = "" if label else TITLES.get((part, measure), "")
        if part == "baseline" and label:
            title = f"always '{label}'"
        elif part == measure == "accuracy" and fields.get("several"):
            title = "all labels right"
        yield MeasureRow(part, measure, label, title, value)


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
            of = fields["calibration"]
            yield "calibration", name, "", {"value": of[name], "n": of["n"]}


Validation = Any  # avoids an import cycle: validation.py imports this module

_WIDTH = 88
_NARROW = 80  # characters of a line in R's console, which puts other columns below
_TITLE = 40  # characters of a title of the first table
_WRONG = 25  # characters of a label of a wrong text
_LEAST_LABEL = 12  # characters of a label that is cut
_MOST_WRONG = 5
_MOST_NUMBERS = 12  # single numbers get no rows if a scale has more numbers
_WEIGHTS = {"inclusion": "inclusion probability", "survey": "survey weight"}
_SUMMARY = ("accuracy", "baseline", "ceiling", "calibration")  # parts at the top


def page_of(validation: Validation, name: str = "Validation", first: int = 0) -> str:
    """Return the page of a validation, with lines of at most 88 characters."""
    people = len(validation.coders)
    who = count_of(people, "person")
    words = [_WEIGHTS[weights] for weights in validation.weighted_by]
    counted = f"; weighted by {' and '.join(words)}" if words else ""
    coded = f"{validation.n_gold:,} of {count_of(validation.n_texts, 'text')}"
    rows = list(measures_of(validation.to_dict()))
    values = {row[:3]: with_interval(row.number) for row in rows}
    parts = [
        [
            f"<{name}> {coded} coded by {who}",
            f"[{percent(validation.level)} confidence intervals{counted}]",
        ],
        table(
            [
                [shorten_names([row.title], _TITLE)[0], values[row[:3]]]
                for row in rows
                if row.title and row.part in _SUMMARY
            ],
            left=2,
        ),
        _numbers(validation, values),
        _labels(validation, values),
        _agreement(validation, values),
        _by_label(validation, values),
        _pairs(validation, rows),
        _confusion(validation),
        _wrong(validation, first),
        [line for warning in validation.warnings for line in _wrap_warning(warning)],
    ]
    return "\n\n".join("\n".join(_cut_lines(part)) for part in parts if part)


def _compare_measures(
    title: str,
    rows: Mapping[str, tuple[str, str]],
    values: Values,
    parts: tuple[str, str] = (MODEL, PEOPLE),
) -> list[str]:
    """Compare the measures of model and people with those between people, if there are.

    Args:
        rows: Measure and label by the title of a row.
    """
    columns = [part for part in parts if any(key[0] == part for key in values)]
    names_by_key = {
        name: key
        for name, key in rows.items()
        if any((part, *key) in values for part in columns)
    }
    heads = dict(zip(parts, (MODEL, PEOPLE), strict=True))
    return _fit_table(
        [[title, *(heads[part] for part in columns)]]
        + [
            [name, *(values.get((part, *key), "-") for part in columns)]
            for name, key in names_by_key.items()
        ]
    )


def _numbers(validation: Validation, values: Values) -> list[str]:
    """Return lines that compare labels as numbers; [] if they are not numbers."""
    if validation.numbers is None:
        return []
    rows = {title: (name, "") for name, title in NUMBERS.items()}
    lines = _compare_measures(
        "as numbers", rows, values, ("numbers", "numbers of people")
    )
    low, high = validation.numbers.limits or (math.nan, math.nan)
    return [*lines, f"limits of agreement: {number(low)} to {number(high)}"]


def _labels(validation: Validation, values: Values) -> list[str]:
    if validation.numbers is not None and len(validation.labels) > _MOST_NUMBERS:
        return []
    rows = [["label", "people", "model", "precision", "recall", "F1"]]
    for scores in validation.accuracy.per_label:
        label, counts = str(scores.label), (scores.n_gold, scores.n_predicted)
        shares = [values["label", name, label] for name in ("precision", "recall", "f1")]
        rows.append([label, *(f"{n:,}" for n in counts), *shares])
    return first_rows(_fit_table(rows), MOST_ROWS + 1)


def _agreement(validation: Validation, values: Values) -> list[str]:
    title = "mean over labels" if validation.several else f"agreement, {validation.scale}"
    rows = {coefficient.title: (name, "") for name, coefficient in COEFFICIENTS.items()}
    return _compare_measures(title, rows, values)


def _by_label(validation: Validation, values: Values) -> list[str]:
    """Return lines with alpha for each of several labels."""
    labels = [str(agreement.label) for agreement in validation.label_agreement]
    rows = {label: ("alpha", label) for label in labels}
    lines = _compare_measures(COEFFICIENTS["alpha"].title, rows, values)
    return first_rows(lines, MOST_ROWS + 1) if labels else []


def _pairs(validation: Validation, rows: Sequence[MeasureRow]) -> list[str]:
    """Return lines with kappa of each pair of coders, including the model."""
    if len(validation.coders) < 3:
        return []
    if len(validation.coders) > MOST_ROWS:
        return [f"kappa of {len(validation.pairs):,} pairs of coders: see `pairs`"]
    name = validation.pairs[0].coefficients[-1].name
    kappa = {row.label: row.number for row in rows if row[:2] == ("pair", name)}
    for cell in (with_interval, lambda validation: number(validation["value"])):
        cells = [[COEFFICIENTS[name].title, *validation.coders]]
        for first in ("model", *validation.coders[:-1]):
            pairs = [kappa.get(f"{first} / {second}") for second in validation.coders]
            cells.append(
                [first, *("" if measure is None else cell(measure) for measure in pairs)]
            )
        lines = table(cells)
        if max(map(len, lines)) <= _WIDTH:
            break
    return lines


def _confusion(validation: Validation) -> list[str]:
    names = [str(label) for label in validation.labels]
    if not names or len(names) > 8 or validation.several:
        return []
    counts = [
        [f"{count:,}" for count in row] for row in validation.accuracy.confusion.tolist()
    ]
    longest = min(max(*map(len, names), _LEAST_LABEL), _WIDTH)
    for room in range(longest, _LEAST_LABEL - 1, -1):
        short = shorten_names(names, room)
        rows = [["model \\ people", *short]]
        rows += [[name, *row] for name, row in zip(short, counts, strict=True)]
        lines = table(rows)
        if max(map(len, lines)) <= _WIDTH:
            return lines
    # Numbers stand for labels that are too long, or too many.
    numbers = [f"({i})" for i in range(1, len(names) + 1)]
    legend = [f"{i} {name}" for i, name in zip(numbers, names, strict=True)]
    rows = [["model \\ people", *numbers]]
    rows += [[name, *row] for name, row in zip(numbers, counts, strict=True)]
    return table(rows) + legend


def _wrong(validation: Validation, first_row: int) -> list[str]:
    wrong = validation.wrong[:_MOST_WRONG]
    if not wrong or math.isnan(wrong[0].prob):
        return []
    lines = [f"wrong and most sure ({len(wrong)} of {len(validation.wrong)})"]
    rows = [
        [
            str(text.row + first_row),
            number(text.prob),
            ", people: ".join(shorten_names([str(text.label), str(text.truth)], _WRONG)),
            "" if text.text is None else " ".join(str(text.text).split()),
        ]
        for text in wrong
    ]
    return lines + _cut_lines(table(rows, left=4), _NARROW)


def _wrap_warning(warning: str) -> list[str]:
    return textwrap.wrap(warning, _WIDTH, initial_indent="! ", subsequent_indent="  ")


def _fit_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table whose first column is cut so that all numbers fit."""
    lines = table(rows)
    wide = max(len(row[0]) for row in rows)
    over = max(map(len, lines)) - _WIDTH
    if over <= 0:
        return lines
    head, *others = rows
    names = shorten_names([row[0] for row in others], max(wide - over, _LEAST_LABEL))
    cut = [[name, *row[1:]] for name, row in zip(names, others, strict=True)]
    return table([head, *cut])


def _cut_lines(lines: list[str], width: int = _WIDTH) -> list[str]:
    return [
        line
        if len(line) <= width or line.startswith("! ")
        else line[: width - 3].rstrip(" .") + "..."
        for line in lines
    ]
