"""Text page of a validation for the terminal."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from llamaherd.coding.sentences import number, table, with_interval
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.coding.statistics.number_agreement import NUMBERS
from llamaherd.coding.validation.measures import MODEL, PEOPLE, measures_of
from llamaherd.engine.core.phrases import MOST_ROWS, count_of, first_rows, percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.validation.measures import MeasureRow

    Values = Mapping[tuple[str, str, str], str]  # texts by part, measure and label

Validation = Any  # avoids an import cycle: validation.py imports this module

_WIDTH = 88
_MOST_WRONG = 5
_MOST_NUMBERS = 12  # single numbers get no rows if a scale has more numbers
_WEIGHTS = {"inclusion": "inclusion probability", "survey": "survey weight"}
_SUMMARY = ("accuracy", "baseline", "ceiling", "calibration")  # parts at the top


def page_of(found: Validation, name: str = "Validation", first: int = 0) -> str:
    """Return the page of a validation, with lines of at most 88 characters."""
    people = len(found.coders)
    who = count_of(people, "person")
    words = [_WEIGHTS[each] for each in found.weighted_by]
    counted = f"; weighted by {' and '.join(words)}" if words else ""
    coded = f"{found.n_gold:,} of {count_of(found.n_texts, 'text')}"
    rows = list(measures_of(found.to_dict()))
    values = {row[:3]: with_interval(row.number) for row in rows}
    parts = [
        [
            f"<{name}> {coded} coded by {who}",
            f"[{percent(found.level)} confidence intervals{counted}]",
        ],
        table(
            [
                [row.title, values[row[:3]]]
                for row in rows
                if row.title and row.part in _SUMMARY
            ],
            left=2,
        ),
        _numbers(found, values),
        _labels(found, values),
        _agreement(found, values),
        _by_label(found, values),
        _pairs(found, rows),
        _confusion(found),
        _wrong(found, first),
        [line for warning in found.warnings for line in _wrapped(warning)],
    ]
    return "\n\n".join("\n".join(_cut(part)) for part in parts if part)


def _compared(
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
    there = {
        name: key
        for name, key in rows.items()
        if any((part, *key) in values for part in columns)
    }
    heads = dict(zip(parts, (MODEL, PEOPLE), strict=True))
    return table(
        [[title, *(heads[part] for part in columns)]]
        + [
            [name, *(values.get((part, *key), "-") for part in columns)]
            for name, key in there.items()
        ]
    )


def _numbers(found: Validation, values: Values) -> list[str]:
    """Return lines that compare labels as numbers; [] if they are not numbers."""
    if found.numbers is None:
        return []
    rows = {title: (name, "") for name, title in NUMBERS.items()}
    lines = _compared("as numbers", rows, values, ("numbers", "numbers of people"))
    low, high = found.numbers.limits or (math.nan, math.nan)
    return [*lines, f"limits of agreement: {number(low)} to {number(high)}"]


def _labels(found: Validation, values: Values) -> list[str]:
    if found.numbers is not None and len(found.labels) > _MOST_NUMBERS:
        return []
    rows = [["label", "people", "model", "precision", "recall", "F1"]]
    for scores in found.accuracy.per_label:
        label, counts = str(scores.label), (scores.n_gold, scores.n_predicted)
        shares = [values["label", name, label] for name in ("precision", "recall", "f1")]
        rows.append([label, *(f"{n:,}" for n in counts), *shares])
    return first_rows(table(rows), MOST_ROWS + 1)


def _agreement(found: Validation, values: Values) -> list[str]:
    title = "mean over labels" if found.several else f"agreement, {found.scale}"
    rows = {each.title: (name, "") for name, each in COEFFICIENTS.items()}
    return _compared(title, rows, values)


def _by_label(found: Validation, values: Values) -> list[str]:
    """Return lines with alpha for each of several labels."""
    labels = [str(each.label) for each in found.label_agreement]
    rows = {label: ("alpha", label) for label in labels}
    shown = _compared(COEFFICIENTS["alpha"].title, rows, values)
    return first_rows(shown, MOST_ROWS + 1) if labels else []


def _pairs(found: Validation, rows: Sequence[MeasureRow]) -> list[str]:
    """Return lines with kappa of each pair of coders, including the model."""
    if len(found.coders) < 3:
        return []
    if len(found.coders) > MOST_ROWS:
        return [f"kappa of {len(found.pairs):,} pairs of coders: see `pairs`"]
    name = found.pairs[0].coefficients[-1].name
    kappa = {row.label: row.number for row in rows if row[:2] == ("pair", name)}
    for cell in (with_interval, lambda found: number(found["value"])):
        cells = [[COEFFICIENTS[name].title, *found.coders]]
        for first in ("model", *found.coders[:-1]):
            pairs = [kappa.get(f"{first} / {second}") for second in found.coders]
            cells.append([first, *("" if each is None else cell(each) for each in pairs)])
        lines = table(cells)
        if max(map(len, lines)) <= _WIDTH:
            break
    return lines


def _confusion(found: Validation) -> list[str]:
    names = [str(label) for label in found.labels]
    if not names or len(names) > 8 or found.several:
        return []
    rows = [["model \\ people", *names]]
    rows += [
        [name, *(f"{count:,}" for count in counts)]
        for name, counts in zip(names, found.accuracy.confusion.tolist(), strict=True)
    ]
    return table(rows)


def _wrong(found: Validation, first: int) -> list[str]:
    shown = found.wrong[:_MOST_WRONG]
    if not shown or math.isnan(shown[0].prob):
        return []
    lines = [f"wrong and most sure ({len(shown)} of {len(found.wrong)})"]
    rows = [
        [
            str(each.row + first),
            number(each.prob),
            f"{each.label}, people: {each.truth}",
            "" if each.text is None else " ".join(str(each.text).split()),
        ]
        for each in shown
    ]
    return lines + table(rows, left=4)


def _wrapped(warning: str) -> list[str]:
    return textwrap.wrap(warning, _WIDTH, initial_indent="! ", subsequent_indent="  ")


def _cut(lines: list[str]) -> list[str]:
    return [
        line
        if len(line) <= _WIDTH or line.startswith("! ")
        else line[: _WIDTH - 3] + "..."
        for line in lines
    ]
