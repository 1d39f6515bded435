"""Frozen choice of a candidate, and its evaluation on texts not used to choose."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, get_args

from llamaherd.coding.annotation.annotate import annotate_quietly
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.gold.codes import Codes, texts_with_code
from llamaherd.coding.gold.sample import SPLIT, GoldSample
from llamaherd.coding.selection.compare import check_codebook, check_model
from llamaherd.coding.selection.comparison import (
    CodebookComparison,
    hash_of,
    key_of_model,
    wrapped_notes,
)
from llamaherd.coding.selection.measures import (
    TITLES,
    SelectionMeasure,
    compare,
    is_of_numbers,
    note,
)
from llamaherd.coding.selection.parts import (
    PartCodes,
    check_storable,
    codes_of_part,
    opened_sample,
    record_of,
    store_record,
)
from llamaherd.coding.sentences import Notes
from llamaherd.coding.statistics.intervals import LEVEL, Measure
from llamaherd.coding.validation.validate import validate
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.keeping import keeping
from llamaherd.engine.core.phrases import with_commas
from llamaherd.engine.core.plain import from_stored, stored_json
from llamaherd.engine.core.words import call, name_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from llama_cpp import Llama

    from llamaherd.calls.run.host import Host
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.statistics.ratings import Scale
    from llamaherd.coding.validation.validation import Validation
    from llamaherd.engine.core.stats import ProgressOption

page = Notes("llamaherd.coding.selection", "pages.txt.j2")
Prefer = Literal["value", "speed"]
# Evaluations in this process, by the hash of the split. A sample object that was read
# before an evaluation does not contain its record.
_OPENED: dict[str, list[dict[str, Any]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodebookChoice:
    """Chosen codebook with its settings and model, and how it was chosen.

    Attributes:
        name: Name of the chosen candidate.
        hash: SHA-256 of codebook, settings and model.
        content: Content of the codebook.
        settings: Settings of the coding, as arguments of `annotate`.
        model: Record of the model file.
        measure: Measure by which the candidate was chosen.
        value: Value of this measure on "select". This value is too optimistic, because
            the best of several candidates was chosen by this value.
        level: Confidence level of the comparison.
        n_candidates: Number of candidates that were compared.
        tied: Names of the other candidates whose difference from the best is uncertain.
        codes_sha256: Hash of the texts and codes on which candidates were compared.
        split_sha256: Hash of the split.
        made: Time at which the choice was frozen.
    """

    name: str
    hash: str
    content: dict[str, Any]
    settings: dict[str, Any]
    model: dict[str, Any]
    measure: SelectionMeasure
    value: float
    level: float
    n_candidates: int
    tied: tuple[str, ...]
    codes_sha256: str
    split_sha256: str
    made: str

    @property
    def codebook(self) -> Codebook:
        """Codebook that was chosen."""
        return Codebook.from_dict(self.content)

    @property
    def run(self) -> dict[str, Any]:
        """Codebook, settings and model in the form of `Coded.run`."""
        return {
            "codebook": {"hash": self.codebook.hash, "content": self.content},
            "settings": self.settings,
            "model": self.model,
        }

    def __str__(self) -> str:
        return page(
            "choice",
            choice=self,
            short_hash=self.hash[:12],
            settings=json.dumps(self.settings, ensure_ascii=False),
            title=TITLES[self.measure],
            tied=with_commas(map(repr, self.tied)),
        )

    __repr__ = __str__

    def to_json(self) -> str:
        """Return the choice as JSON text, which `from_json` reads."""
        return stored_json("choice", self, indent=1)

    @classmethod
    def from_json(cls, text: str) -> CodebookChoice:
        """Read a choice that `to_json` wrote.

        Raises:
            ValueError: The text is not a stored choice, or the choice was changed.
        """

        def from_fields(fields: dict[str, Any]) -> tuple[CodebookChoice, str]:
            choice = cls(**{**fields, "tied": tuple(fields["tied"])})
            return choice, hash_of(choice.run)

        choice, hash_now = from_stored("choice", text, from_fields)
        if hash_now != choice.hash:
            raise ArgumentError(
                "codebook, settings or model of the stored choice were changed after it "
                "was frozen: compare again, and use the new choice",
                argument="choice",
                code="changed",
                form="{name}: {problem}",
            )
        return choice


def best_codebook(
    comparison: CodebookComparison, *, prefer: Prefer = "value", name: str | None = None
) -> CodebookChoice:
    """Choose a candidate, and freeze the choice so that it can be evaluated once.

    Args:
        comparison: Result of `compare_codebooks`.
        prefer: "value" chooses the candidate with the best value, and the fastest of
            several candidates with this value. "speed" first selects the best candidate
            and all candidates whose difference from it is uncertain, and then chooses the
            fastest of them.
        name: Name of a candidate to choose instead.

    Returns:
        Codebook, settings and model with their hash, for `evaluate_codebook`.

    Raises:
        TypeError: `comparison` is not the result of `compare_codebooks`.
        ValueError: There is no candidate of this name, or no value is defined.
    """
    expected = f"the result of {call('compare_codebooks')}"
    checks.instance("comparison", comparison, CodebookComparison, expected)
    checks.choice("prefer", prefer, get_args(Prefer))
    at = _choose(comparison, prefer, name)
    candidate = comparison.candidates[at]
    tied = comparison.tied if comparison.is_tied(at) else ()
    return CodebookChoice(
        name=candidate.name,
        hash=candidate.hash,
        content=candidate.codebook,
        settings=candidate.settings,
        model=candidate.model,
        measure=comparison.measure,
        value=candidate.value.value,
        level=comparison.level,
        n_candidates=len(comparison.candidates),
        tied=tuple(comparison.names[i] for i in tied if i != at),
        codes_sha256=comparison.codes_sha256,
        split_sha256=comparison.split_sha256,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _choose(comparison: CodebookComparison, prefer: Prefer, name: str | None) -> int:
    if name is not None:
        if name not in comparison.names:
            raise ArgumentError(
                f"must be one of {', '.join(map(checks.quoted, comparison.names))}, not "
                f"{checks.brief(name)}{checks.meant(name, comparison.names)}",
                argument="name",
                code="unknown_choice",
            )
        return comparison.names.index(name)
    if prefer == "value":
        return comparison.best
    times = {i: comparison.candidates[i].seconds for i in comparison.tied}
    known = [i for i, time in times.items() if not math.isnan(time)]
    if not known:
        raise ArgumentError(
            "'speed' needs seconds, but all answers came from a journal without times",
            argument="prefer",
            code="missing",
        )
    return min(known, key=times.__getitem__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Quality of a frozen choice on the texts of "evaluate".

    Attributes:
        choice: The choice.
        value: The measure of the choice on the texts of "evaluate", with its interval.
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
    value: Measure
    validation: Validation
    n: int
    n_failed: int
    opened: tuple[dict[str, Any], ...]
    gold: GoldSample
    notes: tuple[str, ...] = field(default=())

    @property
    def measure(self) -> SelectionMeasure:
        """Measure by which the candidate was chosen."""
        return self.choice.measure

    @property
    def is_first(self) -> bool:
        """True if "evaluate" was locked before."""
        return len(self.opened) == 1

    def __str__(self) -> str:
        title, of_numbers = TITLES[self.measure], is_of_numbers(self.measure)
        text = page("evaluation", evaluation=self, title=title, of_numbers=of_numbers)
        return "\n".join([text, *wrapped_notes(self.notes)])

    __repr__ = __str__


def evaluate_codebook(
    choice: CodebookChoice,
    gold: GoldSample | str | os.PathLike[str],
    context: Host | Llama | None = None,
    *,
    coded: Any = None,  # Coded, or what is like it
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
    made_by = f"the result of {call('best_codebook')}"
    checks.instance("choice", choice, CodebookChoice, made_by)
    _check_choice(choice, sample)
    codes = _codes(sample, "evaluate", choice)
    path = None if isinstance(gold, GoldSample) else check_storable(gold)
    if coded is not None:
        _, labels = codes.labelled(coded)
        _check_run(choice, coded.run)
    elif context is None:
        raise ArgumentTypeError(
            f"or {name_of('coded')} must be given: a context with the chosen model, or "
            "its labels",
            argument="context",
        )
    else:
        check_model(context, choice.model, "context", "must have the chosen model")
        labels = annotate_quietly(
            {"text": codes.texts}, "text", choice.codebook, context,
            journal=journal, progress=progress, **choice.settings,
        )  # fmt: skip
        with keeping(labels):
            _check_run(choice, labels.run)
    with keeping(labels if coded is None else coded):
        evaluation = evaluate_labels(
            choice, sample, codes, labels, level=level, path=path
        )
    with keeping(evaluation):
        warn_notes(evaluation.notes)
    return evaluation


def _codes(gold: GoldSample, part: str, choice: CodebookChoice) -> PartCodes:
    return codes_of_part(gold, part, as_numbers=is_of_numbers(choice.measure))


def _check_choice(choice: CodebookChoice, gold: GoldSample) -> None:
    """Check that a choice fits the sample."""
    if choice.split_sha256 != record_of(gold)["sha256"]:
        raise ArgumentError(
            "was made on another split of the sample, where texts of evaluate may have "
            "been used to choose. Compare again on this split",
            argument="choice",
            code="other_split",
        )
    check_codebook(choice.name, choice.codebook, gold)


def _check_run(choice: CodebookChoice, run: Mapping[str, Any]) -> None:
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
        f"choice {choice.name!r} ({choice.hash[:12]})",
        argument="coded",
        code="changed",
    )


def evaluate_labels(
    choice: CodebookChoice,
    gold: GoldSample,
    codes: PartCodes,
    labels: Coded,
    *,
    level: float,
    path: str | os.PathLike[str] | None,
) -> Evaluation:
    """Measure labels of the texts of "evaluate", and record the evaluation."""
    (value,) = compare([labels], codes, choice.measure, level=level).values
    record = record_of(gold)
    before, known = record["opened"], _OPENED.get(record["sha256"], [])
    before = [*before, *(opening for opening in known if opening not in before)]
    now = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "choice": choice.hash,
        "name": choice.name,
        "codes_sha256": codes.sha256,
        "measure": choice.measure,
        "value": value.value,
    }
    notes = _notes(before, now)
    if _codes(gold, "select", choice).sha256 != choice.codes_sha256:
        notes.append(note("select_changed"))
    opened = _OPENED[record["sha256"]] = [*before, now]
    new_record = {**record, "opened": opened}
    if path is not None:
        store_record(path, new_record)
    return Evaluation(
        choice=choice,
        value=value,
        validation=_validation(codes, labels, choice.measure, level),
        n=len(codes),
        n_failed=sum(label is None for label in labels.labels),
        opened=tuple(opened),
        gold=replace(gold, design={**gold.design, SPLIT: new_record}),
        notes=(*notes, *codes.notes),
    )


def _validation(
    codes: PartCodes, labels: Coded, measure: SelectionMeasure, level: float
) -> Validation:
    """Return all measures on the texts of "evaluate", from the codes of all coders."""
    coder_indices = [
        i for i, column in enumerate(codes.columns) if len(texts_with_code([column]))
    ]
    people = Codes(
        rows=codes.rows,
        probs=codes.probs,
        columns=[codes.columns[i] for i in coder_indices],
        coders=tuple(codes.coders[i] for i in coder_indices),
        design={},
    )
    is_ordinal = (codes.design or {}).get("scale") == "ordinal"
    scale: Scale | None = "ordinal" if is_ordinal else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the page shows the warnings
        return validate(
            labels,
            people,
            labels=labels.names or codes.names,
            level=level,
            several=codes.several,
            scale="interval" if is_of_numbers(measure) else scale,
        )


def _notes(before: Sequence[Mapping[str, Any]], now: Mapping[str, Any]) -> list[str]:
    """Return notes on earlier evaluations."""
    notes = []
    others = [opening for opening in before if opening["choice"] != now["choice"]]
    if others:
        notes.append(note("opened_for_another", evaluations=others[-3:]))
    elif before:
        notes.append(note("opened_for_this", at=before[0]["at"]))
    if any(opening["codes_sha256"] != now["codes_sha256"] for opening in before):
        notes.append(note("evaluate_changed"))
    return notes
