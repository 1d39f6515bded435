"""Coding of a column of texts with a codebook; the result is a data frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from llamaherd.calls.api.running import note_slow_file, open_context, run_to_end, start
from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.keywords import CodingSettings
from llamaherd.calls.asks.settings import takes
from llamaherd.calls.chat.chat import chat_date, writes_date
from llamaherd.calls.journal.file import first_day
from llamaherd.calls.run.host import Elsewhere, Host
from llamaherd.coding import frames
from llamaherd.coding.annotation.codebook import Codebook, checked_codebook
from llamaherd.coding.annotation.coding import Coding
from llamaherd.coding.annotation.columns import names_of_columns, types_of
from llamaherd.coding.annotation.settings import (
    CodingWork,
    checked_settings,
    idle_settings,
)
from llamaherd.coding.annotation.steps import StepModels
from llamaherd.coding.annotation.texts import checked_texts
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.keeping import keeping
from llamaherd.engine.core.progress import say
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from llama_cpp import Llama

    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.job import Job
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.engine.core.stats import ProgressOption


@takes(AnnotateOptions, CodingSettings)
def annotate(
    frame: Any,  # a data frame of any kind
    text: str,
    codebook: Codebook,
    context: Host | Llama,
    *,
    progress: ProgressOption = False,
    **settings: Unpack[CodingSettings],
) -> Coded:
    """Code the texts of a column with a codebook.

    If each text gets one label, the model scores all labels and returns their
    probabilities (`classify_parallel`). If a text may get several labels, the model
    answers a yes-no question for each label, and each label has its own probability.
    Fields are generated according to their schema. Equal texts are computed once; a
    missing text gets neither label nor error.

    Args:
        frame: A data frame of pandas, polars or pyarrow, or a dict of lists.
        text: Name of the column of texts.
        codebook: Codebook: question, labels or fields, examples.
        context: Context to run in; a `llama_cpp.Llama` gets its own context.
        progress: As in `generate_parallel`.
        **settings: Options of annotation, see `AnnotateOptions`.

    Returns:
        The data frame with the new columns, and their provenance. Columns for one label:
        "label", "prob", "margin", "entropy", "coverage", "p_<label>", "error". An ordinal
        scale also has the column "mean", before "p_<label>": the expected
        number; if labels are not numbers, the expected rank, where the lowest label has
        rank 1. Columns for a scale of numbers: "label" (the most probable number), "mean"
        (the expected value), "sd", "prob", "margin", "entropy", "coverage", "p_<number>"
        (only with `distribution`), "error". Columns for several labels: "label" (labels
        with probability above 0.5, joined by "; "), "coverage" (the mean over labels),
        "p_<label>", "error". Columns for fields: one column for each field, and "error".
        Generated labels and fields have no probabilities. With `until` or `larger` there
        is also "step", before "error". This column names the step that made the label:
        "model" for the first labels by the model, "head" for labels by a classifier on
        embeddings (head), "unsure" for texts that were labelled again.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range; a column does not exist; a new column has
            the name of an existing column.
        Interrupted: Ctrl-C was pressed; `results` is a `Coded` with the finished texts.
        GenerationError: A text failed and `on_error` is "stop"; `results` is a `Coded`
            with the finished texts.
        ContextClosedError: The context was closed.
        ContextError: Memory is insufficient.
        ChatTemplateError: The model has no chat template.
        JournalError: The journal cannot be used, or is damaged.

    Warns:
        JournalWarning: As `generate_parallel`.
        UserWarning: Labels contain little information about the texts, see `Coded.notes`.
    """
    coded = annotate_quietly(
        frame, text, codebook, context, progress=progress, **settings
    )
    with keeping(coded):
        warn_notes(coded.notes)
    return coded


def annotate_quietly(
    frame: Any,  # a data frame of any kind
    text: str,
    codebook: Codebook,
    context: Host | Llama,
    *,
    progress: ProgressOption = False,
    **settings: Unpack[CodingSettings],
) -> Coded:
    """Run `annotate` without warnings from notes."""
    coding = prepare_coding(frame, text, codebook, context, settings, prints_journal=True)
    return run_to_end(lambda: coding, progress, nothing=lambda _: coding.nothing())


@takes(AnnotateOptions, CodingSettings)
def start_annotate(
    frame: Any,  # a data frame of any kind
    text: str,
    codebook: Codebook,
    context: Host | Llama,
    **settings: Unpack[CodingSettings],
) -> Job[Coded]:
    """Start `annotate` in the background and return its job; same arguments."""
    coding = prepare_coding(frame, text, codebook, context, settings, prints_journal=True)
    return start(lambda: coding)


def prepare_coding(
    frame: object,
    text: str,
    codebook: Codebook,
    ctx: Host | Llama,
    options: CodingSettings,
    *,
    is_piece: bool = False,
    journal: Journal | None = None,
    prints_journal: bool = False,
) -> Coding:
    """Build the coding that `annotate` runs."""
    checked_codebook(codebook)
    versions = options.get("versions") or {}
    if not isinstance(versions, Mapping):
        raise ArgumentTypeError(
            f"must map names to versions, not {checks.brief(versions)}",
            argument="versions",
        )
    idle = () if is_piece else idle_settings(codebook, options)
    why = f"has no effect: only {setting('method', 'generate')} generates tokens"
    warn_notes([f"{name} {why}" for name in idle])
    context = open_context(ctx)
    settings = checked_settings(codebook, context.file_stem, options)
    is_elsewhere = isinstance(context, Elsewhere)
    if is_elsewhere and settings.split is not None:
        raise ArgumentError(
            "cannot be used with an engine elsewhere, whose tokens are not known here: "
            "cut long texts before",
            argument="split",
            code="elsewhere",
        )
    if (
        settings.chat
        and not is_elsewhere
        and writes_date(context.model, settings.template)
    ):
        known = settings.date or (settings.journal and first_day(settings.journal))
        with chat_date(known or None) as day:
            settings = replace(settings, date=day.isoformat())
    texts = checked_texts(frames.column(frame, text, "text"), text)
    note_slow_file(context, len(texts))
    roles = list(types_of(codebook, settings))
    work = CodingWork(
        frame=frame,
        text=text,
        texts=texts,
        codebook=codebook,
        settings=settings,
        columns=names_of_columns(roles, options.get("columns"), frames.names(frame)),
        versions=dict(versions),
        is_piece=is_piece,
    )
    models = StepModels(options.get("embeddings"), options.get("larger"))
    coding = Coding(context, work, models, journal)
    with chat_date(settings.date):
        coding.check()
    if prints_journal and options.get("journal") is True:
        path = Path(str(settings.journal)).absolute()
        say(f"llamaherd: the journal is {path}")
    return coding
