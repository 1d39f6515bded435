"""Warnings about a validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core.decimals import decimals, percents
from llamaherd.core.plurals import count_of, verb
from llamaherd.research.codes import are_alike
from llamaherd.research.codes.majority import note_on_ties
from llamaherd.research.coding.texts import same_rows
from llamaherd.research.statistics.representative import copied, label_check

if TYPE_CHECKING:
    from llamaherd.research.validation.inputs import Codes, ModelLabels
    from llamaherd.research.validation.validation import Validation

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
