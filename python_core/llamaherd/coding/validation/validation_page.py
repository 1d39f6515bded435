"""Text page of a validation for the terminal."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from llamaherd.coding.annotation.texts import same_rows
from llamaherd.coding.codes import are_alike
from llamaherd.coding.codes.coders import note_on_ties
from llamaherd.coding.statistics.accuracy import TITLES as ACCURACIES
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.coding.statistics.number_agreement import NUMBERS
from llamaherd.coding.statistics.representative import copied, label_check
from llamaherd.engine.core.phrases import (
    MOST_ROWS,
    count_of,
    decimals,
    first_rows,
    limits,
    percent,
    percents,
    verb,
)

if TYPE_CHECKING:
    from llamaherd.coding.validation.inputs import Codes, ModelLabels

Validation = Any  # avoids an import cycle: validation.py imports this module

_WIDTH = 88
_MOST_WRONG = 5
_MOST_NUMBERS = 12  # single numbers get no rows if a scale has more numbers
_WEIGHTS = {"inclusion": "inclusion probability", "survey": "survey weight"}


def page_of(found: Validation, name: str = "Validation", first: int = 0) -> str:
    """Return the page of a validation, with lines of at most 88 characters.

    Args:
        found: The validation.
        name: Name of the class to show.
        first: Number that the page shows for the text with index 0.
    """
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
    of = found.accuracy
    rows = [
        [
            "all labels right" if found.several else "accuracy",
            with_interval(of.accuracy),
        ],
        *(
            [ACCURACIES[name], with_interval(getattr(of, name))]
            for name in ("balanced_accuracy", "macro_f1")
        ),
    ]
    if of.majority_label is not None:
        title = f"always {of.majority_label!r}"
        rows.append([title, with_interval(of.majority_accuracy)])
    if found.ceiling is not None:
        rows += [
            ["two people agree", with_interval(found.ceiling.people)],
            ["model and one of them", with_interval(found.ceiling.model)],
        ]
    if found.brier is not None:
        rows.append(["Brier score", with_interval(found.brier)])
    if found.calibration is not None:
        rows.append(["calibration error", number(found.calibration.ece)])
        over = found.calibration.overconfidence
        rows.append(["confidence - accuracy", number(over)])
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


_FEW_OF_LABEL = 10
_FEW = 50
# Too low even for tentative conclusions: Krippendorff, Human Communication Research 30,
# 2004.
_LEAST_ALPHA = 0.667


def warnings_of(
    found: Validation, answers: ModelLabels, codes: Codes, n_ties: int
) -> tuple[str, ...]:
    """Return the warnings about a validation."""
    lines = [
        *_of_numbers(found),
        *_of_recall(found),
        *_of_codes(found, codes, n_ties),
        *_of_copies(answers, codes),
        *_of_picked(found, answers, codes),
        *_of_labels(found, answers, codes),
    ]
    return tuple(lines)


def _of_numbers(found: Validation) -> list[str]:
    lines = []
    measured = found.accuracy
    if measured.n == 0:
        return ["No text has both a label and a code: there is nothing to compare."]
    if measured.n < _FEW:
        lines.append(
            f"Only {count_of(measured.n, 'text')} {verb(measured.n, 'is', 'are')} "
            "compared: the intervals are wide."
        )
    few = [
        f"{scores.label} ({scores.n_gold})"
        for scores in measured.per_label
        if scores.n_gold < _FEW_OF_LABEL
    ]
    if few and found.scale not in ("interval", "ratio"):  # a scale has many numbers
        lines.append(
            f"Labels that people gave to fewer than {_FEW_OF_LABEL} texts, too few for "
            f"reliable results: {', '.join(few)}."
        )
    if measured.accuracy.low <= measured.majority_accuracy.value:
        lines.append(
            "The labels may be no better than always giving "
            f"{measured.majority_label!r}, the code of "
            f"{decimals(measured.majority_accuracy.value)} of the texts."
        )
    return lines


def _of_recall(found: Validation) -> list[str]:
    """Return warnings about recall that depends on few missed cases."""
    lines = []
    for scores in found.accuracy.per_label:
        unfound = scores.unfound
        if unfound is None:
            continue
        lines.append(
            f"Recall of {scores.label!r} may be as low as {decimals(scores.recall.low)}: "
            f"the model did not give it to {percents(unfound.share, 0)} of the texts, "
            f"and only {unfound.n_codes} of these texts "
            f"{verb(unfound.n_codes, 'is', 'are')} coded, "
            f"{unfound.n_cases} of them as {scores.label!r}. Code more of these texts."
        )
    return lines


def _of_codes(found: Validation, codes: Codes, n_ties: int) -> list[str]:
    lines = [f"{codes.left_out}."] if codes.left_out else []
    if codes.is_sample and codes.inclusion is None:
        lines.append(
            "The texts were drawn with unknown probabilities: the numbers describe "
            "only these texts."
        )
    if codes.n_without and not codes.is_by_label:
        lines.append(
            f"{count_of(codes.n_without, 'text')} of the sample "
            f"{verb(codes.n_without, 'has', 'have')} no code: the numbers are right "
            "only if these texts are like the coded ones."
        )
    lines += [f"{note[0].upper()}{note[1:]}." for note in codes.response]
    lines += [f"{note}." for note in note_on_ties(n_ties, len(codes.rows), codes.coders)]
    if len(codes.codes) == 1:
        lines.append(
            "Only one coder: inter-coder agreement, the ceiling for the model, cannot be "
            "computed."
        )
    alpha = next((a for a in found.coder_agreement if a.name == "alpha"), None)
    if alpha is not None and alpha.value < _LEAST_ALPHA:
        lines.append(
            f"People agree little among themselves (alpha {decimals(alpha.value)}): the "
            "codebook may be unclear, and accuracy means little."
        )
    return lines


def _of_copies(answers: ModelLabels, codes: Codes) -> list[str]:
    """Return a warning if somebody's codes may be a copy of the model's labels."""
    given = [answers.labels[row] for row in codes.rows]
    same = copied(given, codes.codes, codes.coders)
    if not same:
        return []
    line = (
        f"All codes of {', '.join(map(repr, same))} equal the model's labels. If they "
        "are a copy of the labels and not the codes of people, they show nothing about "
        "the errors of the labels."
    )
    return [line]


def _of_picked(found: Validation, answers: ModelLabels, codes: Codes) -> list[str]:
    """Return a warning if coded texts are probably not a simple random sample."""
    if codes.is_sample or found.several or found.scale in ("interval", "ratio"):
        return []
    labels = [None if each is None else str(each) for each in answers.labels]
    check = label_check(labels, [labels[row] for row in codes.rows])
    if not check.is_unlikely:
        return []
    line = (
        "Labels of the coded texts differ from those of all texts: the coded texts are "
        "hardly a simple sample, and the numbers describe only the coded texts: "
        f"{check}."
    )
    return [line]


def _of_labels(found: Validation, answers: ModelLabels, codes: Codes) -> list[str]:
    lines = []
    n_missing = sum(answers.labels[row] is None for row in codes.rows)
    if n_missing:
        lines.append(
            f"{count_of(n_missing, 'text')} with codes {verb(n_missing, 'has', 'have')} "
            f"no label and {verb(n_missing, 'is', 'are')} left out."
        )
    texts = [answers.texts[row] for row in codes.rows] if answers.texts else []
    n_examples = len(same_rows(texts, answers.examples))
    if n_examples:
        lines.append(
            f"{count_of(n_examples, 'text')} with codes {verb(n_examples, 'is', 'are')} "
            "examples of the codebook, whose labels "
            "the prompt contains: accuracy is too high, and estimates are not valid if "
            "the examples were chosen from this gold sample. Remove their codes, or use "
            "other examples."
        )
    given = {answers.labels[row] for row in codes.rows} - {None}
    people = {code for column in codes.codes for code in column} - {None}
    is_like = found.several or are_alike(given, people, answers.names)
    if found.accuracy.n and not is_like:
        lines.append(
            f"No code equals any label. Labels: {_listed(given)}; codes: "
            f"{_listed(people)}. Are they written in the same way?"
        )
    known = set(answers.names)
    single = {
        label
        for code in people
        for label in (code if isinstance(code, tuple) else (code,))
    }
    other = sorted(map(str, single - known)) if known else []
    if other:
        lines.append(
            f"People gave labels that the model cannot give: {', '.join(other)}."
        )
    return lines


def _listed(values: set[Any]) -> str:
    """Return up to five values, sorted as texts."""
    shown = sorted(map(str, values))
    more = [f"and {len(shown) - 5} more"] if len(shown) > 5 else []
    return ", ".join([*shown[:5], *more])
