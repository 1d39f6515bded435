"""Options of annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from llamaherd.calls.asks.options import (
    MANY,
    CallOptions,
    ClassifyOptions,
    OnError,
    PromptOptions,
)
from llamaherd.calls.structured.quoting import checked_evidence
from llamaherd.engine.core.declaration import Options, declares, inherit_option, option
from llamaherd.engine.core.sampling import DEFAULT_SEED, MAX_TOKENS_OF_SCHEMA
from llamaherd.engine.core.values import (
    Checked,
    Choice,
    Flag,
    Real,
    Unchecked,
    Whole,
)

if TYPE_CHECKING:
    import datetime as dt
    import os
    from collections.abc import Mapping

    from llamaherd.calls.asks.scores import Normalize
    from llamaherd.engine.core.stats import ProgressOption
    from llamaherd.engine.core.thinking import ThinkingOption

    # A model for embeddings, as an object of one of these types, or as a path.
    Embedder = Any  # Model | Host | Llama | str | os.PathLike[str]
    Larger = Any  # Host | Llama | str | os.PathLike[str]

Method = Literal["classify", "generate"]
Split = Literal["first", "last", "majority", "mean", "all"]
Calibrate = Literal["batch", "contextual"]
METHODS: tuple[Method | Literal["auto"], ...] = ("auto", *get_args(Method))
SPLITS: tuple[Split | None, ...] = (None, *get_args(Split))
CALIBRATE: tuple[Calibrate | None, ...] = (None, *get_args(Calibrate))
_TEXT = {"type": "string"}
_MODEL = Unchecked(_TEXT, "model")
_LOCAL = ("many", "rows")  # a request loads no model


@declares
class AnnotateOptions(Options):
    """Options of annotation.

    The fact `recorded` says when a report and a journal's record contain the option:
    "always"; "changed", if it differs from its default; "classify", with this method;
    "drawn", if tokens are drawn; "" never. `reproduce` sets what is recorded. An option
    with `of_call=True` belongs to a whole call, so that candidates of a comparison cannot
    set it.
    """

    method: Method | Literal["auto"] = option(
        Choice(METHODS),
        default="auto",
        recorded="always",
        flag="Default auto: only fields are generated.",
        doc='Method of coding. "classify" computes probabilities of labels. "generate" '
        'generates the label under a constraint that allows only the labels. "auto" '
        "generates if the codebook has fields; otherwise it classifies.",
    )
    columns: str | Mapping[str, str | None] | None = option(
        Unchecked({"type": ["string", "object"]}, "columns"),
        default=None,
        interfaces=MANY,
        recorded="",
        of_call=True,
        r_doc="Names of the new columns: a prefix for all names, or a named vector such "
        'as `c(label = "topic", prob = NA)`, with NA for columns to leave out. The name '
        "`p_` in the vector `columns` sets the prefix of the columns with the "
        "probabilities of all labels.",
        doc="Names of the new columns. Either a prefix for all names, or a mapping from "
        '"label", "prob" and so on to names; None leaves the column out. The key "p_" '
        "sets the prefix of the columns with the labels' probabilities.",
    )
    calibrate: Calibrate | None = option(
        Choice(CALIBRATE),
        default=None,
        recorded="classify",
        flag="batch needs all rows in one run.",
        doc="Correction of the probabilities for the model's preference for some "
        'labels. "batch" fits the correction to these rows and assumes that all labels '
        'are about equally frequent: rare labels get too many texts. "contextual" fits '
        "it to prompts without content. See `Calibration`.",
    )
    normalize: Normalize = inherit_option(
        ClassifyOptions,
        "normalize",
        flag=None,
        recorded="classify",
        doc="Method for comparing labels of different lengths, see `classify_parallel`.",
    )
    chat: bool = inherit_option(
        PromptOptions,
        "chat",
        recorded="always",
        doc="Apply the model's chat template to each prompt.",
    )
    thinking: ThinkingOption = inherit_option(
        PromptOptions,
        "thinking",
        doc="Maximum number of tokens of a thought before the answer. True is 1,024; a "
        "`Thinking` also sets markers and the message. With None and False, texts are "
        "coded without a thought; with None, a warning is issued once if the model "
        "would think. Needs `chat`.",
    )
    n_thoughts: int = inherit_option(
        ClassifyOptions,
        "n_thoughts",
        doc="Number of thoughts for each text. Probabilities are means over the "
        "thoughts, see `ClassifyOptions`. The option has an effect only with the method "
        '"classify". Needs `thinking`.',
    )
    variables: Mapping[str, object] | None = inherit_option(
        PromptOptions,
        "variables",
        doc="Further variables of the chat template, by name. The variables are "
        "recorded, so JSON must be able to represent their values. Needs `chat`.",
    )
    template: str | None = inherit_option(PromptOptions, "template", interfaces=_LOCAL)
    merge_system: bool = inherit_option(PromptOptions, "merge_system")
    date: dt.date | str | None = option(
        Unchecked({"type": "string", "format": "date"}, "date"),
        default=None,
        r_doc="Day that the chat template writes into prompts, a Date or "
        '`"2026-01-31"`. NULL uses the day of the first result in the journal. Without '
        "such a result, NULL uses the date of [with_chat_date()], and outside of "
        "`with_chat_date()` today.",
        doc="Day that the chat template writes into prompts, as `datetime.date` or "
        '"2026-01-31". The templates of Llama 3.2, gpt-oss and Granite write the day. '
        "None uses the day of the first result in the journal, or else today. The day "
        "is recorded, so that `reproduce` uses it again.",
    )
    distribution: bool = option(
        Flag(),
        default=False,
        recorded="",
        flag="",
        doc='Add a column for the probability of each number of a scale, "p_<number>". '
        'The option applies only to codebooks of type "scale"; for other codebooks the '
        "columns of probabilities are always added.",
    )
    split: Split | None = option(
        Choice(SPLITS),
        default=None,
        recorded="always",
        flag="Default: rows with such texts fail.",
        doc="Treatment of texts that are too long. None reports an error in their rows. "
        'The other values divide texts into parts of similar length. "first" and "last" '
        'code only the first or last part. "majority" takes the label of most parts, in '
        'a tie the label with the larger mean probability. "mean" takes the mean of the '
        "parts' probabilities. "
        '"all" takes the passages of all parts, for codebooks of type "spans". A quote '
        "(`evidence`) is from the part that supports the label most.",
    )
    part_tokens: int | None = option(
        Whole(1),
        default=None,
        recorded="always",
        doc="Maximum number of tokens of a part. None uses 2,048, or fewer if the "
        "context has fewer cells. A text that fits is not divided.",
    )
    journal: bool | str | os.PathLike[str] | None = inherit_option(
        CallOptions,
        "journal",
        interfaces=_LOCAL,
        recorded="",
        of_call=True,
        doc="Path of a file that stores results as they are finished. See "
        "`generate_parallel`. True creates a file in the working directory, named after "
        "the codebook's hash and the model's file, and prints its path to stderr.",
    )
    evidence: bool | Mapping[str, Any] = option(
        Checked(checked_evidence, {"type": ["boolean", "object"]}, "evidence"),
        default=False,
        flag="Adds the columns quote, start, end.",
        doc="Let the model quote the text that supports each label. The columns are "
        '"quote", "start" and "end". With True a quote has 3 to 40 words; '
        "`structured.type_quote` sets other lengths. The quote is a verbatim part of "
        "the text, written after the label.",
    )
    until: int | None = option(
        Whole(50),
        default=None,
        interfaces=_LOCAL,
        recorded="",
        flag="Needs --embedding-model.",
        section="steps",
        doc="Number of texts, drawn at random, that the model labels. A classifier on "
        "`embeddings` (head) is fitted to their probabilities and labels all other "
        "texts; the model then labels the texts with the head's lowest probabilities, "
        'see `unsure`. The column "step" has the step that labelled each text. `until` '
        'requires one label per text and the method "classify".',
    )
    embeddings: Embedder | None = option(
        _MODEL,
        default=None,
        interfaces=_LOCAL,
        recorded="",
        flag="",
        section="steps",
        metavar="MODEL",
        flag_name="--embedding-model",
        r_doc="Model for the embeddings of texts, for `until`: a model from "
        "[model_load()], or the path of its file.",
        doc="Model for the embeddings of texts, for `until`. A `Model`, or the path of "
        "a model file.",
    )
    unsure: float = option(
        Real(0, 1),
        default=0.1,
        interfaces=_LOCAL,
        recorded="",
        flag="Default 0.1.",
        section="steps",
        doc="Share of the texts that are labelled a second time. The texts with the "
        "lowest probability are labelled again. With `larger`, the larger model labels "
        "these texts; with only `until`, the model itself labels them.",
    )
    larger: Larger | None = option(
        _MODEL,
        default=None,
        interfaces=_LOCAL,
        recorded="",
        flag="",
        section="steps",
        metavar="MODEL",
        r_doc="Second model, which labels again the texts whose label from the first "
        "step has a low probability, see `unsure`: a context from [context_create()], "
        "or the path of a model file. You can use `larger` with or without `until`.",
        doc="Second model, which labels the texts with the lowest probabilities in the "
        "first step, see `unsure`. A context, or the path of a model file. `larger` can "
        "be used without `until`.",
    )
    on_error: OnError = inherit_option(
        CallOptions,
        "on_error",
        interfaces=MANY,
        recorded="",
        of_call=True,
        doc='Action when a text fails. "continue" codes all other texts, "return" '
        'finishes only the running texts, "stop" ends at once and raises '
        "`GenerationError`.",
    )
    seed: int = inherit_option(
        ClassifyOptions,
        "seed",
        recorded="drawn",
        flag=f"Needs a temperature or several thoughts. Default {DEFAULT_SEED}.",
        doc="Seed of the random numbers. The seed has an effect only with the method "
        '"generate" and with several thoughts.',
    )
    temperature: float = option(
        Real(0, 100),
        default=0.0,
        recorded="drawn",
        flag="Default 0: always the most likely token.",
        doc="Sampling temperature. The option has an effect only with the method "
        '"generate"; 0 takes the most likely tokens.',
    )
    max_tokens: int = option(
        Whole(1),
        default=MAX_TOKENS_OF_SCHEMA,
        recorded="drawn",
        flag=f"Default {MAX_TOKENS_OF_SCHEMA}.",
        doc="Maximum number of tokens to generate per text. The option has an effect "
        'only with the method "generate".',
    )
    versions: Mapping[str, str] | None = option(
        Unchecked({"type": "object"}),
        default=None,
        interfaces=MANY,
        recorded="",
        of_call=True,
        doc="Further versions for the record, such as the version of R.",
    )
    progress: ProgressOption = inherit_option(
        CallOptions, "progress", interfaces=MANY, recorded="", of_call=True
    )
