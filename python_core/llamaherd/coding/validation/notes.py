"""Warnings about a validation: few texts, texts that are no sample, strange codes.

`templates/notes.txt.j2` has the sentences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.annotation.texts import same_rows
from llamaherd.coding.codes import are_alike
from llamaherd.coding.codes.coders import note_on_ties
from llamaherd.coding.sentences import Notes
from llamaherd.coding.statistics.sampling import coders_like_model, label_check
from llamaherd.engine.core.phrases import with_commas

if TYPE_CHECKING:
    from llamaherd.coding.gold.codes import Codes
    from llamaherd.coding.validation.inputs import ModelLabels
    from llamaherd.coding.validation.validation import Validation

note = Notes("llamaherd.coding.validation")
_FEW_OF_LABEL = 10
_FEW = 50
_FEW_STEPS = 3  # texts; nearly all intervals that miss weighted kappa have fewer
# Too low even for tentative conclusions: Krippendorff, Human Communication Research 30,
# 2004.
_LEAST_ALPHA = 0.667


def warnings_of(
    validation: Validation, answers: ModelLabels, codes: Codes, n_ties: int
) -> tuple[str, ...]:
    """Return the warnings about a validation."""
    return (
        *_of_numbers(validation),
        *_of_codes(validation, codes, n_ties),
        *_of_sample(validation, answers, codes),
        *_of_labels(validation, answers, codes),
    )


def _of_numbers(validation: Validation) -> list[str]:
    """Return warnings about few texts, rare labels and a recall by few missed cases."""
    accuracy = validation.accuracy
    if accuracy.n == 0:
        return [note("nothing")]
    lines = [note("few_texts", n=accuracy.n)] if accuracy.n < _FEW else []
    few = [
        f"{scores.label} ({scores.n_gold})"
        for scores in accuracy.per_label
        if scores.n_gold < _FEW_OF_LABEL
    ]
    # a scale has many numbers
    if few and validation.scale not in ("interval", "ratio"):
        lines.append(note("rare_labels", labels=few, least=_FEW_OF_LABEL))
    lines += _of_steps(validation)
    share = accuracy.majority_accuracy.value
    if accuracy.accuracy.low <= share:
        lines.append(note("no_better", label=accuracy.majority_label, share=share))
    return lines + [
        note("low_recall", scores=scores)
        for scores in accuracy.per_label
        if scores.unfound is not None
    ]


def _of_steps(validation: Validation) -> list[str]:
    """Return a warning if few texts differ by two steps of a scale or more."""
    counts = validation.accuracy.confusion
    apart = np.abs(np.subtract.outer(*[np.arange(len(counts))] * 2))
    near, far = (int(counts[which].sum()) for which in (apart == 1, apart > 1))
    is_few = 0 < near < _FEW and far < _FEW_STEPS
    has_steps = validation.scale != "nominal" and len(counts) > 2
    return [note("few_steps", n=far)] if has_steps and is_few else []


def _of_codes(validation: Validation, codes: Codes, n_ties: int) -> list[str]:
    lines = []
    if codes.n_without and not codes.is_by_label:
        lines.append(note("without_code", n=codes.n_without))
    lines += [f"{text[0].upper()}{text[1:]}." for text in codes.notes]
    ties = note_on_ties(n_ties, len(codes.rows), codes.coders)
    lines += [f"{text}." for text in ties]
    if len(codes.columns) == 1:
        lines.append(note("one_coder"))
    alpha = next((a for a in validation.coder_agreement if a.name == "alpha"), None)
    if alpha is not None and alpha.value < _LEAST_ALPHA:
        lines.append(note("low_alpha", alpha=alpha.value))
    return lines


def _of_sample(validation: Validation, answers: ModelLabels, codes: Codes) -> list[str]:
    """Return warnings about copied codes, and texts that are no simple sample."""
    labels = [answers.labels[row] for row in codes.rows]
    copiers = coders_like_model(labels, codes.columns, codes.coders)
    lines = [note("same_codes", coders=copiers)] if copiers else []
    is_scale = validation.scale in ("interval", "ratio")
    is_drawn = codes.design is not None
    if not (is_drawn or validation.several or is_scale):
        of_all = [None if label is None else str(label) for label in answers.labels]
        check = label_check(of_all, [of_all[row] for row in codes.rows])
        lines += [note("not_simple", check=check)] if check.is_unlikely else []
    return lines


def _of_labels(validation: Validation, answers: ModelLabels, codes: Codes) -> list[str]:
    lines = []
    labels = [answers.labels[row] for row in codes.rows]
    n_missing = labels.count(None)
    if n_missing:
        lines.append(note("no_label", n=n_missing))
    texts = [answers.texts[row] for row in codes.rows] if answers.texts else []
    n_examples = len(same_rows(texts, answers.examples))
    if n_examples:
        lines.append(note("examples", n=n_examples))
    model = {*labels} - {None}
    people = {code for column in codes.columns for code in column} - {None}
    is_like = validation.several or are_alike(model, people, answers.names)
    if validation.accuracy.n and not is_like:
        lines.append(note("none_alike", labels=_some(model), codes=_some(people)))
    single = {
        label
        for code in people
        for label in (code if isinstance(code, tuple) else (code,))
    }
    other = sorted(map(str, single.difference(answers.names))) if answers.names else []
    return lines + ([note("unknown_labels", labels=other)] if other else [])


def _some(values: set[Any]) -> str:
    """Return up to five values, sorted as texts."""
    return with_commas(sorted(map(str, values)), 5)
