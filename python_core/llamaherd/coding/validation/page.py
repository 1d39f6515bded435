"""Text page of a validation for the terminal."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from llamaherd.coding.statistics.accuracy import TITLES as ACCURACIES
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.coding.statistics.number_agreement import NUMBERS
from llamaherd.engine.core.phrases import (
    MOST_ROWS,
    count_of,
    decimals,
    first_rows,
    limits,
    percent,
)

Validation = Any  # avoids an import cycle: validation.py imports this module

_WIDTH = 88
_MOST_WRONG = 5
_MOST_NUMBERS = 12  # single numbers get no rows if a scale has more numbers
_WEIGHTS = {"inclusion": "inclusion probability", "survey": "survey weight"}


def page_of(found: Validation, name: str = "Validation", first: int = 0) -> str:
    """Return the page of a validation, with lines of at most 88 characters."""
    people = len(found.coders)
    who = count_of(people, "person")
    words = [_WEIGHTS[each] for each in found.weighted_by]
    counted = f"; weighted by {' and '.join(words)}" if words else ""
    coded = f"{found.n_gold:,} of {count_of(found.n_texts, 'text')}"
    parts = [
        [
            f"<{name}> {coded} coded by {who}",
            f"[{percent(found.level)} confidence intervals{counted}]",
        ],
        _summary(found),
        _numbers(found),
        _labels(found),
        _agreement(found),
        _by_label(found),
        _pairs(found),
        _confusion(found),
        _wrong(found, first),
        [line for warning in found.warnings for line in _wrapped(warning)],
    ]
    return "\n\n".join("\n".join(_cut(part)) for part in parts if part)


def number(value: float) -> str:
    """Format a number with two digits; NaN becomes a dash."""
    return "-" if math.isnan(value) else decimals(value)


def with_interval(found: Any) -> str:  # noqa: ANN401 - Measure or Agreement
    """Format a number with its interval, such as 0.74 [0.67, 0.80]."""
    if math.isnan(found.low) or math.isnan(found.value):
        return number(found.value)
    return f"{decimals(found.value)} {limits(found.low, found.high)}"


def table(rows: list[list[str]], left: int = 1) -> list[str]:
    """Align columns: the first `left` columns to the left, the others to the right."""
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if j < left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _summary(found: Validation) -> list[str]:
    of, ceiling, calibration = found.accuracy, found.ceiling, found.calibration
    shown = [("all labels right" if found.several else "accuracy", of.accuracy)]
    names = ("balanced_accuracy", "macro_f1")
    shown += [(ACCURACIES[name], getattr(of, name)) for name in names]
    if of.majority_label is not None:
        shown.append((f"always {of.majority_label!r}", of.majority_accuracy))
    if ceiling is not None:
        shown.append(("two people agree", ceiling.people))
        shown.append(("model and one of them", ceiling.model))
    if found.brier is not None:
        shown.append(("Brier score", found.brier))
    rows = [[title, with_interval(each)] for title, each in shown]
    if calibration is not None:
        rows.append(["calibration error", number(calibration.ece)])
        rows.append(["confidence - accuracy", number(calibration.overconfidence)])
    return table(rows, left=2)


def _numbers(found: Validation) -> list[str]:
    """Return lines that compare labels as numbers; [] if they are not numbers."""
    if found.numbers is None:
        return []
    people = found.numbers_of_people
    of_people = {} if people is None else people.measures
    titles = ["as numbers", "model and people", "between people"]
    rows = [titles if of_people else titles[:2]]
    for name, measure in found.numbers.measures.items():
        cells = [NUMBERS[name], with_interval(measure)]
        if of_people:
            cells.append(with_interval(of_people[name]) if name in of_people else "-")
        rows.append(cells)
    low, high = found.numbers.limits or (math.nan, math.nan)
    limits = [f"limits of agreement: {number(low)} to {number(high)}"]
    return table(rows) + limits


def _labels(found: Validation) -> list[str]:
    if found.numbers is not None and len(found.labels) > _MOST_NUMBERS:
        return []
    rows = [["label", "people", "model", "precision", "recall", "F1"]]
    rows += [
        [
            str(scores.label),
            f"{scores.n_gold:,}",
            f"{scores.n_predicted:,}",
            *(with_interval(m) for m in (scores.precision, scores.recall, scores.f1)),
        ]
        for scores in found.accuracy.per_label
    ]
    return first_rows(table(rows), MOST_ROWS + 1)


def _agreement(found: Validation) -> list[str]:
    model = {a.name: a for a in found.model_agreement}
    people = {a.name: a for a in found.coder_agreement}
    title = "mean over labels" if found.several else f"agreement, {found.scale}"
    rows = [[title, "model and people", *(["between people"] if people else [])]]
    for name, coefficient in COEFFICIENTS.items():
        if name in model or name in people:
            cells = [
                with_interval(of[name]) if name in of else "-" for of in (model, people)
            ]
            rows.append([coefficient.title, *cells[: len(rows[0]) - 1]])
    return table(rows)


def _by_label(found: Validation) -> list[str]:
    """Return lines with alpha for each of several labels."""
    rows = [[COEFFICIENTS["alpha"].title, "model and people", "between people"]]
    for of in found.label_agreement:
        alphas = [
            {a.name: a for a in each}.get("alpha") for each in (of.model, of.people)
        ]
        rows.append(
            [str(of.label), *(with_interval(each) if each else "-" for each in alphas)]
        )
    if len(rows) == 1:
        return []
    shown = table(rows if found.coder_agreement else [row[:2] for row in rows])
    return first_rows(shown, MOST_ROWS + 1)


def _pairs(found: Validation) -> list[str]:
    """Return lines with kappa of each pair of coders, including the model."""
    if len(found.coders) < 3:
        return []
    if len(found.coders) > MOST_ROWS:
        return [f"kappa of {len(found.pairs):,} pairs of coders: see `pairs`"]
    kappa = {(pair.first, pair.second): pair.coefficients[-1] for pair in found.pairs}
    title = COEFFICIENTS[found.pairs[0].coefficients[-1].name].title
    for cell in (with_interval, lambda each: number(each.value)):
        rows = [[title, *found.coders]]
        for first in ("model", *found.coders[:-1]):
            pairs = [kappa.get((first, second)) for second in found.coders]
            rows.append([first, *("" if each is None else cell(each) for each in pairs)])
        lines = table(rows)
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
