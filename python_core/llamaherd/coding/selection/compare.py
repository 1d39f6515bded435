"""Candidates, and their comparison on the texts of "select".

Candidates are codebooks with a context and settings, which code the same texts in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from llamaherd.calls.api.running import open_context
from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.coding import frames
from llamaherd.coding.annotation.annotate import annotate_quietly
from llamaherd.coding.annotation.codebook import Codebook, checked_codebook
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.record import model_record
from llamaherd.coding.annotation.settings import journal_path
from llamaherd.coding.annotation.texts import checked_texts, same_rows
from llamaherd.coding.gold.forms import listed_ids
from llamaherd.coding.gold.joins import Join
from llamaherd.coding.selection.comparison import (
    CodebookComparison,
    ComparedCandidate,
    key_of_model,
)
from llamaherd.coding.selection.measures import (
    ADJUST,
    Adjust,
    SelectionMeasure,
    checked_measure,
    compare,
    is_of_numbers,
    note,
)
from llamaherd.coding.selection.parts import (
    PARTS,
    PartCodes,
    codes_of_part,
    opened_sample,
    record_of,
)
from llamaherd.coding.statistics.intervals import LEVEL, level_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.keeping import keep_made, keeping
from llamaherd.engine.core.progress import reporter
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    import os

    from llama_cpp import Llama

    from llamaherd.calls.asks.keywords import CodingSettings
    from llamaherd.calls.run.host import Host
    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.engine.core.stats import Progress, ProgressOption

    Given: TypeAlias = "Codebook | CodebookCandidate"

# Arguments of `annotate` that a candidate may set.
_SETTINGS = tuple(
    name
    for name, option in AnnotateOptions.declared.items()
    if not option.facts.get("of_call", False)
)
_COMPARED = ("label", "ordinal", "scale", "multiple")  # types of codebooks
_CLOSED = ("select", "evaluate")  # parts that must not contain examples


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodebookCandidate:
    """Codebook with a context and settings, to be compared with other candidates.

    Attributes:
        codebook: The codebook.
        context: Context to use; None for the context of the comparison.
        settings: Arguments of `annotate`. These arguments replace the settings of the
            comparison.
    """

    codebook: Codebook
    context: Host | Llama | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def candidate(
    codebook: Codebook,
    context: Host | Llama | None = None,
    **settings: Unpack[CodingSettings],
) -> CodebookCandidate:
    """Describe a candidate for `compare_codebooks`.

    Args:
        codebook: Codebook, with its examples.
        context: Context on the candidate's model; None for the context of the comparison.
        **settings: Arguments of `annotate` such as `calibrate`, `thinking`, `chat`,
            `method` and `temperature`.

    Raises:
        TypeError: An argument has the wrong type, or is not a setting of a candidate.
    """
    return CodebookCandidate(
        codebook=checked_codebook(codebook),
        context=context,
        settings=checked_names(settings),
    )


def checked_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check the names of a candidate's settings."""
    for name in settings:
        if name not in _SETTINGS:
            hint = checks.meant(name, _SETTINGS) or f"; it has {', '.join(_SETTINGS)}"
            raise ArgumentTypeError(
                f"is not a setting of a candidate{hint}",
                argument=name,
                code="unknown_argument",
            )
    return dict(settings)


def by_name(
    argument: str,
    values: Any,
    kinds: type | tuple[type, ...],
    expected: str,
) -> dict[str, Any]:
    """Return values by name; values in a list, or a single one, are named 1, 2 and so on.

    `expected` names the types `kinds` in words.
    """
    if not isinstance(values, Mapping):
        several = values if isinstance(values, (list, tuple)) else [values]
        values = {str(i): value for i, value in enumerate(several, start=1)}
    if not values:
        raise ArgumentError("must not be empty", argument=argument, code="out_of_range")
    for i, (name, value) in enumerate(values.items()):
        if not isinstance(name, str) or not name.strip():
            raise ArgumentError(
                f"must have names, not {checks.brief(name)}", argument=argument
            )
        checks.instance(Argument(argument, (i,)), value, kinds, expected)
    return dict(values)


def check_codebook(name: str, codebook: Codebook, gold: GoldSample) -> None:
    """Check that a codebook has the sample's labels, and no examples of closed parts."""
    where = Argument("candidates", (name,))
    if not codebook.names or codebook.type not in _COMPARED:
        raise ArgumentError(
            f"has the type {checks.quoted(codebook.type)}, but only labels of whole "
            "texts can be compared with codes",
            argument=where,
            code="no_labels",
        )
    if (codebook.type == "multiple") != gold.several:
        has = "several labels per text" if gold.several else "one label per text"
        raise ArgumentError(
            f"has the type {checks.quoted(codebook.type)}, but gold was drawn for {has}",
            argument=where,
            code="conflict",
        )
    if gold.names and set(codebook.names) != set(gold.names):
        raise ArgumentError(
            f"has the labels {', '.join(codebook.names)}, but gold has "
            f"{', '.join(gold.names)}",
            argument=where,
            code="other_labels",
        )
    parts = record_of(gold)["parts"]
    rows = same_rows(gold.texts, [example.text for example in codebook.examples])
    closed = [i for i in rows if parts[i] in _CLOSED]
    if closed:
        in_parts = [part for part in PARTS if part in {parts[i] for i in closed}]
        raise ArgumentError(
            f"has examples that are texts of {' and '.join(in_parts)} (ids "
            f"{listed_ids(gold.ids, closed)}): the prompt would contain codes with "
            "which its accuracy is measured. Take examples from 'explore', as "
            f"{call('choose_examples')} does",
            argument=where,
            code="closed_examples",
        )


def check_model(
    context: Host | Llama, recorded: Mapping[str, Any], argument: str, must: str
) -> None:
    """Check that a context has the recorded model, before any text is coded."""
    loaded = model_record(open_context(context).model)
    if key_of_model(loaded) != key_of_model(recorded):
        raise ArgumentError(
            f"{must}, {recorded.get('file')}, not {loaded['file']}",
            argument=argument,
            code="other_model",
        )


def code_in_turns(
    frame: Mapping[str, Sequence[str | None]],
    candidates: Mapping[str, CodebookCandidate],
    progress: ProgressOption,
    result: Callable[[Mapping[str, Coded]], object],
) -> dict[str, Coded]:
    """Code a column of texts by several candidates in turn, with the progress of all.

    The error of a coding keeps the `result` of the earlier ones, if there are any.
    """
    (text,) = frame
    coded: dict[str, Coded] = {}
    with reporter(progress) as report:
        for i, (name, one) in enumerate(candidates.items()):
            context: Any = one.context  # checked by `annotate`
            show = partial(_show_all, report, i, len(candidates)) if progress else False
            try:
                coded[name] = annotate_quietly(
                    frame, text, one.codebook, context, progress=show,
                    **one.settings,
                )  # fmt: skip
            except BaseException as error:
                if coded:
                    keep_made(error, partial(result, coded), converted=False)
                raise
    return coded


def _show_all(report: Any, i: int, n: int, progress: Progress) -> None:
    """Report the progress of coding i as part of n codings of the same texts."""
    n_done = i * progress.n_total + progress.n_done
    report(replace(progress, n_done=n_done, n_total=n * progress.n_total))


def compare_codebooks(
    data: Any,  # a data frame of any kind, Coded, or None
    candidates: Mapping[str, Given] | Sequence[Given] | Given,
    gold: GoldSample | str | os.PathLike[str],
    context: Host | Llama | None = None,
    *,
    text: str | None = None,
    measure: SelectionMeasure | None = None,
    level: float = LEVEL,
    adjust: Adjust = "bonferroni",
    journal: bool | str | os.PathLike[str] | None = None,
    progress: ProgressOption = False,
    **settings: Any,  # those of annotate
) -> CodebookComparison:
    """Code the texts of "select" with several codebooks, and compare labels with codes.

    All candidates code the same texts. Measures are weighted by 1 / inclusion
    probability, so that they describe all texts. If a candidate fails on a text,
    this counts as a wrong label; for numbers, it counts as the lowest or the highest
    number of the scale, whichever differs more from the code. Differences are paired,
    text by text.

    Args:
        data: Data frame from which the sample was drawn, to check that it has not
            changed; or a result of `annotate`. None skips this check and
            uses the texts in the sample.
        candidates: Codebooks, or results of `candidate`, by name.
        gold: Sample with codes, split by `gold_split`; or the path of its CSV file.
        context: Context of the candidates that have no context of their own.
        text: Column of texts in `data`; None for the column of the sample.
        measure: "accuracy", "balanced_accuracy", "macro_f1" or "kappa". For labels that
            are numbers: "mae", the mean absolute difference of the expected values from
            the mean of the coders' numbers. None: "mae" for the type "scale", else
            "accuracy".
        level: Confidence level.
        adjust: "bonferroni" gives simultaneous intervals: those of all differences
            together contain the true differences with probability `level`. The
            intervals are valid even if you choose the best candidate by them. "none":
            each interval alone has this level.
        journal: Path of a file that stores all answers, so that a later comparison
            computes only new answers. True uses a file in the working directory.
        progress: As in `annotate`; reports the progress over all candidates.
        **settings: Further arguments of `annotate`, for all candidates that do not set
            them.

    Returns:
        The value of each candidate, and its difference from the best candidate.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The sample has no split or too few codes; a codebook has other labels,
            or its examples are texts of "select" or "evaluate"; or see `annotate`.
        Interrupted: Ctrl-C was pressed; `results` compares the finished candidates, and
            `inner_results` is the `Coded` of the candidate that was running. If no
            candidate is finished, this `Coded` is in `results`.
    """
    sample = opened_sample(gold)
    _check_data(data, sample, text)
    kinds = (Codebook, CodebookCandidate)
    expected = f"a Codebook, or made by {call('candidate')}"
    shared = checked_names(settings)
    tried: dict[str, CodebookCandidate] = {}
    for name, value in by_name("candidates", candidates, kinds, expected).items():
        one = CodebookCandidate(codebook=value) if isinstance(value, Codebook) else value
        check_codebook(name, one.codebook, sample)
        host = context if one.context is None else one.context
        if host is None:
            raise ArgumentTypeError(
                f"is missing, but candidate {checks.quoted(name)} has no own context",
                argument="context",
            )
        tried[name] = replace(one, context=open_context(host))
    level_of(level)
    checks.choice("adjust", adjust, ADJUST)
    measure = checked_measure(measure, [one.codebook for one in tried.values()])
    codes = codes_of_part(sample, "select", as_numbers=is_of_numbers(measure))
    path = journal_of(journal, sample)
    whole = {
        name: replace(one, settings={"journal": path, **shared, **one.settings})
        for name, one in tried.items()
    }

    def result(coded: Mapping[str, Coded]) -> CodebookComparison:
        return _compare_candidates(
            coded, codes, path, measure=measure, level=level, adjust=adjust
        )

    coded = code_in_turns({"text": codes.texts}, whole, progress, result)
    with keeping(coded):
        return result(coded)


def _compare_candidates(
    coded: Mapping[str, Coded],
    codes: PartCodes,
    journal: str | None,
    *,
    measure: SelectionMeasure,
    level: float,
    adjust: Adjust,
) -> CodebookComparison:
    """Compare labels of candidates with codes."""
    paired = compare(list(coded.values()), codes, measure, level=level, adjust=adjust)
    measured = zip(coded.items(), paired.values, strict=True)
    candidates = tuple(
        ComparedCandidate.of(name, labels, value, journal)
        for (name, labels), value in measured
    )
    assert codes.design is not None  # noqa: S101 - a part has a design
    return CodebookComparison(
        candidates=candidates,
        differences=paired.differences,
        measure=measure,
        level=level,
        adjust=adjust,
        n=len(codes),
        ids=tuple(codes.ids),
        codes_sha256=codes.sha256,
        split_sha256=codes.design["split_sha256"],
        notes=(*codes.notes, *_notes(candidates, of_numbers=is_of_numbers(measure))),
    )


def _notes(candidates: Sequence[ComparedCandidate], *, of_numbers: bool) -> list[str]:
    """Return notes on failed texts and on identical candidates."""
    notes = []
    first: dict[str, str] = {}
    for one in candidates:
        if one.n_failed:
            counts = {"n": one.n_failed, "n_labels": len(one.labels)}
            notes.append(note("failed", name=one.name, of_numbers=of_numbers, **counts))
        name = first.setdefault(one.hash, one.name)
        if name != one.name:
            notes.append(note("same_candidates", first=name, other=one.name))
    return notes


def _check_data(data: Any, gold: GoldSample, text: str | None) -> None:
    """Check that a sample was drawn from a data frame, if one is given."""
    if data is None:
        return
    frame = data.frame if isinstance(data, Coded) else data
    name = text or (data.text if isinstance(data, Coded) else gold.design.get("text"))
    if name is None:
        raise ArgumentError(
            "must name the column of texts", argument="text", code="missing"
        )
    texts = checked_texts(frames.column(frame, name, "text"), name)
    _ = Join.of(gold, frame, len(texts), texts=texts).rows  # checks the texts


def journal_of(journal: object, gold: GoldSample) -> str | None:
    """Return the path of a comparison's journal; None if there is no journal."""
    return journal_path(journal, f"comparison-{record_of(gold)['sha256'][:12]}.journal")
