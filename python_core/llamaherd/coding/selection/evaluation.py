"""Evaluation of a frozen choice on texts that were not used to choose."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.coding.annotation.annotate import annotate_quietly
from llamaherd.coding.gold.codes import Codes, texts_with_code
from llamaherd.coding.gold.sample import SPLIT, GoldSample, sidecar
from llamaherd.coding.selection.candidates import (
    CodebookChoice,
    check_codebook,
    check_model,
    hash_of,
    key_of_model,
)
from llamaherd.coding.selection.comparison import wrapped_notes
from llamaherd.coding.selection.measures import TITLES, compare, is_of_numbers
from llamaherd.coding.selection.part_codes import codes_of_part
from llamaherd.coding.selection.split import (
    opened_sample,
    record_of,
    store_record,
)
from llamaherd.coding.sentences import Notes
from llamaherd.coding.statistics.intervals import LEVEL
from llamaherd.coding.validation.validate import validate
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.files import why_unwritable
from llamaherd.engine.core.keeping import keeping
from llamaherd.engine.core.phrases import count_of, decimals, limits, verb
from llamaherd.engine.core.words import call, name_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from llama_cpp import Llama

    from llamaherd.calls.run.host import Host
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.selection.measures import SelectionMeasure
    from llamaherd.coding.selection.part_codes import PartCodes
    from llamaherd.coding.statistics.intervals import Measure
    from llamaherd.coding.validation.validation import Validation
    from llamaherd.engine.core.stats import ProgressOption

note = Notes("llamaherd.coding.selection")
# Evaluations in this process, by the hash of the split. A sample object that was read
# before an evaluation does not contain its record.
_OPENED: dict[str, list[dict[str, Any]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Quality of a frozen choice on the texts of "evaluate".

    Attributes:
        choice: The choice.
        measure: Measure by which the candidate was chosen.
        value: This measure on the texts of "evaluate", with its interval.
        validation: All measures on these texts, see `validate`.
        n: Number of texts.
        n_failed: Number of texts without a label; `value` counts them as wrong.
        opened: One record for each evaluation on these texts; the last record is of this
            evaluation.
        gold: The sample with these records. Store this sample; the sample that you passed
            has no record of this evaluation.
        notes: Notes on earlier evaluations, and on changes since the choice.
    """

    choice: CodebookChoice
    measure: SelectionMeasure
    value: Measure
    validation: Validation
    n: int
    n_failed: int
    opened: tuple[dict[str, Any], ...]
    gold: GoldSample
    notes: tuple[str, ...] = field(default=())

    @property
    def is_first(self) -> bool:
        """True if "evaluate" was locked before."""
        return len(self.opened) == 1

    def __str__(self) -> str:
        title, choice = TITLES[self.measure], self.choice
        interval = limits(self.value.low, self.value.high)
        head = f"<Evaluation: {choice.name!r} ({choice.hash[:12]}), "
        head += f"{count_of(self.n, 'text')} of evaluate>"
        on_select = f"{'on select':<18} {decimals(choice.value)}, "
        on_select += f"of {count_of(choice.n_candidates, 'candidate')}, used to choose"
        lines = [
            head,
            f"{title:<18} {decimals(self.value.value)} {interval}, not used to choose",
            on_select,
        ]
        if self.n_failed:
            end = "the wrong end of the scale" if is_of_numbers(self.measure) else "wrong"
            lines.append(
                f"{count_of(self.n_failed, 'text')} {verb(self.n_failed, 'has', 'have')} "
                f"no label and {verb(self.n_failed, 'is', 'are')} treated as {end}"
            )
        first = self.opened[0]
        if self.is_first:
            lines.append(f"evaluate was opened for the first time, {first['at']}")
        return "\n".join([*lines, *wrapped_notes(self.notes)])

    __repr__ = __str__


def evaluate_codebook(
    choice: CodebookChoice,
    gold: GoldSample | str | os.PathLike[str],
    context: Host | Llama | None = None,
    *,
    coded: Any = None,  # noqa: ANN401 - Coded, or what is like it
    level: float = LEVEL,
    journal: str | os.PathLike[str] | None = None,
    progress: ProgressOption = False,
) -> Evaluation:
    """Measure a frozen choice on the texts of "evaluate", and record this evaluation.

    No choice used these texts, so the first evaluation is unbiased. The evaluation
    unlocks "evaluate" and records the time and the choice. A further evaluation, or codes
    that changed since the choice, cause warnings.

    Args:
        choice: Result of `best_codebook`.
        gold: The split sample, or the path of its CSV file. With a path, the evaluation
            is also recorded in the design file next to the CSV file.
        context: Context on the chosen model.
        coded: Labels that `annotate` made with the chosen codebook, settings and model,
            and that include all texts of "evaluate". These labels are then evaluated, and
            no text is coded again.
        level: Confidence level.
        journal: As in `compare_codebooks`.
        progress: As in `annotate`.

    Returns:
        The value and all further measures; the field `gold` is the sample with the
        record.

    Raises:
        TypeError: An argument has the wrong type, or context and coded are both missing.
        ValueError: The choice was made on another split, or its examples are texts of
            "evaluate"; the context has another model; `coded` was made with another
            codebook, model or settings; or see `annotate`.
        OSError: The record cannot be stored.

    Warns:
        UserWarning: "evaluate" was unlocked before, or codes changed since the choice.
    """
    sample = opened_sample(gold)
    path = None if isinstance(gold, GoldSample) else gold
    wanted = f"the result of {call('best_codebook')}"
    checks.instance("choice", choice, CodebookChoice, wanted)
    codes = codes_to_evaluate(choice, sample)
    if path is not None:
        _check_writable(sidecar(path))
    if coded is not None:
        _, labels = codes.labelled(coded)
        check_run(choice, coded.run)
    elif context is None:
        raise ArgumentTypeError(
            f"or {name_of('coded')} must be given: a context with the chosen model, or "
            "its labels",
            argument="context",
        )
    else:
        coded = labels = _coded_now(choice, codes, context, journal, progress)
    with keeping(coded):
        evaluation = evaluate_labels(
            choice, sample, codes, labels, level=level, path=path
        )
    with keeping(evaluation):
        warn_notes(evaluation.notes)
    return evaluation


def codes_to_evaluate(choice: CodebookChoice, gold: GoldSample) -> PartCodes:
    """Check that a choice fits the sample, and return the codes of "evaluate"."""
    record = record_of(gold)
    if choice.split_sha256 != record["sha256"]:
        raise ArgumentError(
            "was made on another split of the sample, where texts of evaluate may have "
            "been used to choose. Compare again on this split",
            argument="choice",
            code="other_split",
        )
    if hash_of(choice.run) != choice.hash:
        raise ArgumentError(
            "was changed after it was frozen: codebook, settings or model do not "
            "match its hash",
            argument="choice",
            code="changed",
        )
    check_codebook(choice.name, choice.codebook, gold)
    return _codes(gold, "evaluate", choice)


def _codes(gold: GoldSample, part: str, choice: CodebookChoice) -> PartCodes:
    return codes_of_part(gold, part, as_numbers=is_of_numbers(choice.measure))


def check_run(choice: CodebookChoice, run: Mapping[str, Any]) -> None:
    """Check that labels were made by the chosen codebook, settings and model."""
    if hash_of(run) == choice.hash:
        return
    parts = {
        "codebook or examples": run["codebook"]["hash"] != choice.codebook.hash,
        "settings": run["settings"] != choice.settings,
        "model": key_of_model(run["model"]) != key_of_model(choice.model),
    }
    other = " and ".join(name for name, differs in parts.items() if differs)
    raise ArgumentError(
        f"has labels that were made with other {other or 'adapters'} than those of the "
        f"choice {choice.name!r} "
        f"({choice.hash[:12]})",
        argument="coded",
        code="changed",
    )


def evaluate_labels(
    choice: CodebookChoice,
    gold: GoldSample,
    codes: PartCodes,
    labels: Coded,
    *,
    level: float = LEVEL,
    path: str | os.PathLike[str] | None = None,
) -> Evaluation:
    """Measure labels of the texts of "evaluate", and record the evaluation."""
    (value,) = compare([labels], codes, choice.measure, level=level).values
    record = record_of(gold)
    before = _merged(record["opened"], _OPENED.get(record["sha256"], []))
    now = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "choice": choice.hash,
        "name": choice.name,
        "codes_sha256": codes.sha256,
        "measure": choice.measure,
        "value": value.value,
    }
    changed = _codes(gold, "select", choice).sha256 != choice.codes_sha256
    opened = [*before, now]
    _OPENED[record["sha256"]] = opened
    new_record = {**record, "opened": opened}
    if path is not None:
        store_record(path, new_record)
    return Evaluation(
        choice=choice,
        measure=choice.measure,
        value=value,
        validation=_validation(gold, codes, labels, choice.measure, level),
        n=len(codes),
        n_failed=sum(label is None for label in labels.labels),
        opened=tuple(opened),
        gold=replace(gold, design={**gold.design, SPLIT: new_record}),
        notes=(*_notes(before, now, changed=changed), *codes.notes),
    )


def _coded_now(
    choice: CodebookChoice,
    codes: PartCodes,
    context: Host | Llama,
    journal: str | os.PathLike[str] | None,
    progress: ProgressOption,
) -> Coded:
    """Code the texts of "evaluate" with the chosen codebook, settings and model."""
    check_model(context, choice.model, "context", "must have the chosen model")
    coded: Coded = annotate_quietly(
        {"text": codes.texts}, "text", choice.codebook, context,
        journal=journal, progress=progress, **choice.settings,
    )  # fmt: skip
    with keeping(coded):
        check_run(choice, coded.run)
    return coded


def _validation(
    gold: GoldSample,
    codes: PartCodes,
    labels: Coded,
    measure: SelectionMeasure,
    level: float,
) -> Validation:
    """Return all measures on the texts of "evaluate", from the codes of all coders."""
    coders, columns = codes.people.coders, codes.people.columns
    coded = [i for i, column in enumerate(columns) if len(texts_with_code([column]))]
    people = Codes(
        rows=codes.people.rows,
        probs=codes.people.probs,
        columns=[columns[i] for i in coded],
        coders=tuple(coders[i] for i in coded),
        design={},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the page shows the warnings
        return validate(
            labels,
            people,
            labels=labels.names or codes.names,
            level=level,
            several=codes.several,
            scale="interval" if is_of_numbers(measure) else _scale(gold),
        )


def _scale(gold: GoldSample) -> Literal["ordinal"] | None:
    return "ordinal" if gold.design.get("scale") == "ordinal" else None


def _notes(
    before: Sequence[Mapping[str, Any]], now: Mapping[str, Any], *, changed: bool
) -> list[str]:
    """Return notes on earlier evaluations and on codes that changed."""
    notes = []
    others = [opening for opening in before if opening["choice"] != now["choice"]]
    if others:
        notes.append(note("opened_for_another", evaluations=others[-3:]))
    elif before:
        notes.append(note("opened_for_this", at=before[0]["at"]))
    if any(opening["codes_sha256"] != now["codes_sha256"] for opening in before):
        notes.append(note("evaluate_changed"))
    if changed:
        notes.append(note("select_changed"))
    return notes


def _merged(
    stored: Sequence[dict[str, Any]], known: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the records of a sample and of this process, without duplicates."""
    openings = list(stored)
    return openings + [opening for opening in known if opening not in openings]


def _check_writable(path: Path) -> None:
    """Raise an error, before "evaluate" is unlocked, if no record can be stored."""
    reason = why_unwritable(path.parent) or why_unwritable(path)
    if reason:
        raise PermissionError(
            f"{path} cannot be written: {reason}; the evaluation could not be recorded"
        )
