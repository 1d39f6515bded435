"""Comparison of codebooks, models and settings on the texts of "select"."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.coding import frames
from llamaherd.coding.annotation.annotate import annotate_quietly
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.settings import journal_path
from llamaherd.coding.annotation.texts import checked_texts
from llamaherd.coding.gold.joins import SampleRows, current_rows
from llamaherd.coding.selection.candidates import (
    CodebookCandidate,
    check_codebook,
    checked_candidates,
    checked_names,
    hash_of,
)
from llamaherd.coding.selection.comparison import CodebookComparison, ComparedCandidate
from llamaherd.coding.selection.measures import (
    ADJUST,
    checked_measure,
    compare,
    is_of_numbers,
)
from llamaherd.coding.selection.part_codes import codes_of_part
from llamaherd.coding.selection.split import opened_sample, record_of
from llamaherd.coding.sentences import Notes
from llamaherd.coding.statistics.intervals import LEVEL, level_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.files import write_whole
from llamaherd.engine.core.keeping import keep_made, keeping
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.engine.core.progress import reporter

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from llama_cpp import Llama

    from llamaherd.calls.run.host import Host
    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.coding.selection.measures import Adjust, SelectionMeasure
    from llamaherd.coding.selection.part_codes import PartCodes
    from llamaherd.engine.core.stats import Progress, ProgressOption

    Given = Codebook | CodebookCandidate

note = Notes("llamaherd.coding.selection")
_AFTERWARDS = ("calibrate", "normalize")  # settings that cost no computing time
_LEAST = 0.5  # a time is stored if at least this share of prompts was computed


def seconds_per_text(run: Mapping[str, Any], journal: str | None) -> float:
    """Return the computing time per text in seconds, without answers from the journal.

    It is stored if at least half of the prompts were computed, else read.
    """
    n_prompts, n_journal = run.get("n_prompts", 0), run.get("n_journal", 0)
    share = (n_prompts - n_journal) / n_prompts if n_prompts else 0.0
    seconds = math.nan
    if share > 0:
        seconds = float(run["seconds"]) / (share * max(1, run["n_texts"]))
    if journal is None:
        return seconds
    key = hash_of(run, without=_AFTERWARDS)
    path = Path(f"{journal}.times.json")
    stored = _read(path)
    if stored is None:  # a file of the user
        return seconds
    if share < _LEAST:
        return float(stored.get(key, seconds))
    write_whole(path, json.dumps({**stored, key: seconds}, indent=1).encode())
    return seconds


def _read(path: Path) -> dict[str, float] | None:
    """Return stored times; {} without a file, None for a file of another kind."""
    if not path.exists():
        return {}
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        is_own = all(isinstance(value, (int, float)) for value in stored.values())
        return {key: float(value) for key, value in stored.items()} if is_own else None
    except (OSError, OverflowError, *DAMAGED):
        return None


def compare_codebooks(
    data: Any,  # noqa: ANN401 - a data frame of any kind, Coded, or None
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
    **settings: Any,  # noqa: ANN401 - those of annotate
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
    check_data(data, sample, text)
    tried = checked_candidates(candidates)
    shared = checked_names(dict(settings))
    for name, candidate in tried.items():
        check_codebook(name, candidate.codebook, sample)
        if candidate.context is None and context is None:
            raise ArgumentTypeError(
                f"is missing, but candidate {checks.quoted(name)} has no own context",
                argument="context",
            )
    level_of(level)
    checks.choice("adjust", adjust, ADJUST)
    chosen_measure = checked_measure(
        measure, [candidate.codebook for candidate in tried.values()]
    )
    codes = codes_of_part(sample, "select", as_numbers=is_of_numbers(chosen_measure))
    kept = journal_of(journal, sample)

    def result(labels: Sequence[Coded]) -> CodebookComparison:
        return compared(
            sample, codes, list(tried)[: len(labels)], labels, measure=chosen_measure,
            level=level, adjust=adjust, journal=kept,
        )  # fmt: skip

    whole = [
        CodebookCandidate(
            codebook=candidate.codebook,
            context=context if candidate.context is None else candidate.context,
            settings={"journal": kept, **shared, **candidate.settings},
        )
        for candidate in tried.values()
    ]
    labels = code_in_turns({"text": codes.texts}, "text", whole, progress, result)
    with keeping(dict(zip(tried, labels, strict=True))):
        return result(labels)


def compared(
    gold: GoldSample,
    codes: PartCodes,
    names: Sequence[str],
    labels: Sequence[Coded],
    *,
    measure: SelectionMeasure,
    level: float,
    adjust: Adjust,
    journal: str | None = None,
) -> CodebookComparison:
    """Compare labels of candidates with codes."""
    runs = [labels_of_one.run for labels_of_one in labels]
    paired = compare(labels, codes, measure, level=level, adjust=adjust)
    candidates = []
    for i, name in enumerate(names):
        key = hash_of(runs[i])
        candidates.append(
            ComparedCandidate(
                name=name,
                hash=key,
                codebook=dict(runs[i]["codebook"]["content"]),
                settings=dict(runs[i]["settings"]),
                model=dict(runs[i]["model"]),
                labels=tuple(labels[i].labels),
                value=paired.values[i],
                seconds=seconds_per_text(runs[i], journal),
            )
        )
    return CodebookComparison(
        candidates=tuple(candidates),
        differences=paired.differences,
        measure=measure,
        level=level,
        adjust=adjust,
        n=len(codes),
        ids=tuple(codes.ids),
        codes_sha256=codes.sha256,
        split_sha256=record_of(gold)["sha256"],
        notes=(*codes.notes, *_notes(candidates, is_of_numbers(measure))),
    )


def _notes(candidates: Sequence[ComparedCandidate], of_numbers: bool) -> list[str]:
    """Return notes on failed texts and on identical candidates."""
    notes = [
        note(
            "failed",
            n=candidate.n_failed,
            n_labels=len(candidate.labels),
            name=candidate.name,
            of_numbers=of_numbers,
        )
        for candidate in candidates
        if candidate.n_failed
    ]
    first: dict[str, str] = {}
    for candidate in candidates:
        if candidate.hash in first:
            notes.append(
                note("same_candidates", first=first[candidate.hash], other=candidate.name)
            )
        first.setdefault(candidate.hash, candidate.name)
    return notes


def check_data(data: Any, gold: GoldSample, text: str | None) -> None:  # noqa: ANN401
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
    rows = SampleRows.of(gold, frame, len(texts), texts=texts, labels=None)
    current_rows(gold, rows)


def journal_of(journal: object, gold: GoldSample) -> str | None:
    """Return the path of a comparison's journal; None if there is no journal."""
    return journal_path(journal, f"comparison-{record_of(gold)['sha256'][:12]}.journal")


def code_in_turns(
    frame: Mapping[str, Any],
    text: str,
    candidates: Sequence[CodebookCandidate],
    progress: ProgressOption,
    result: Callable[[Sequence[Coded]], object],
) -> list[Coded]:
    """Code the same texts by several candidates in turn, with the progress of all.

    The error of a coding keeps the `result` of the earlier ones, if there are any.
    """
    codings: list[Coded] = []
    with reporter(progress) as report:
        for i, candidate in enumerate(candidates):
            context: Any = candidate.context  # checked by `annotate`
            show = partial(_show_all, report, i, len(candidates)) if progress else False
            try:
                coded = annotate_quietly(
                    frame, text, candidate.codebook, context, progress=show,
                    **candidate.settings,
                )  # fmt: skip
            except BaseException as error:
                if codings:
                    keep_made(error, partial(result, codings), converted=False)
                raise
            codings.append(coded)
    return codings


def _show_all(report: Any, i: int, n: int, progress: Progress) -> None:  # noqa: ANN401
    """Report the progress of coding i as part of n codings of the same texts."""
    n_done = i * progress.n_total + progress.n_done
    report(replace(progress, n_done=n_done, n_total=n * progress.n_total))
