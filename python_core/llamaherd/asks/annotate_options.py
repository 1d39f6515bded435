"""Options of annotation, and their keyword arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from llamaherd.asks.base import Options, one_of
from llamaherd.asks.chat_options import checked_variables
from llamaherd.asks.options import ON_ERROR, OnError
from llamaherd.asks.scores import NORMALIZE, Normalize
from llamaherd.core import checks
from llamaherd.core.declared import declared
from llamaherd.core.sampling import DEFAULT_SEED, MAX_TOKENS_OF_SCHEMA
from llamaherd.core.thinking import checked_thinking
from llamaherd.structured.quoting import checked_evidence

if TYPE_CHECKING:
    import datetime as dt
    import os
    from collections.abc import Mapping

    from llamaherd.core.stats import ProgressOption
    from llamaherd.core.thinking import ThinkingOption

    # A model for embeddings, as an object of one of these types, or as a path.
    Embedder = Any  # Model | Host | Llama | str | os.PathLike[str]
    Larger = Any  # Host | Llama | str | os.PathLike[str]

Method = Literal["classify", "generate"]
Split = Literal["first", "last", "majority", "mean"]
Calibrate = Literal["batch", "contextual"]
METHODS: tuple[Method | Literal["auto"], ...] = ("auto", "classify", "generate")
SPLITS: tuple[Split | None, ...] = (None, "first", "last", "majority", "mean")
CALIBRATE: tuple[Calibrate | None, ...] = (None, "batch", "contextual")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotateOptions(Options):
    """Options of annotation.

    Attributes:
        method: Method of coding. "classify" computes probabilities of labels.
            "generate" generates the label under a constraint that allows only the
            labels. "auto" generates if the codebook has fields; otherwise it
            classifies.
        columns: Names of the new columns. Either a prefix for all names, or a mapping
            from "label", "prob" and so on to names; None leaves the column out. The key
            "p_" sets the prefix of the columns with the labels' probabilities.
        calibrate: Correction of the probabilities for the model's preference for some
            labels. "batch" fits the correction to these rows and assumes that all labels
            are about equally frequent: rare labels get too many texts. "contextual" fits
            it to prompts without content. See `Calibration`.
        normalize: Method for comparing labels of different lengths, see
            `classify_parallel`.
        chat: Apply the model's chat template to each prompt.
        thinking: Maximum number of tokens of a thought before the answer. True is 1,024;
            a `Thinking` also sets markers and the message. With None and False, texts
            are coded without a thought; with None, a warning is issued once if the
            model would think. Needs `chat`.
        n_thoughts: Number of thoughts for each text. Probabilities are means over the
            thoughts, see `ClassifyOptions`. The option has an effect only with the method
            "classify". Needs `thinking`.
        variables: Further variables of the chat template, by name. The variables are
            recorded, so JSON must be able to represent their values. Needs `chat`.
        template: Jinja template to use in place of the model's chat template. Needs
            `chat`.
        merge_system: Put the system text into the first user message if the
            template refuses a system role. Needs `chat`.
        date: Day that the chat template writes into prompts, as `datetime.date` or
            "2026-01-31". The templates of Llama 3.2, gpt-oss and Granite write the day.
            None uses the day of the first result in the journal, or else today. The day
            is recorded, so that `reproduce` uses it again.
        distribution: Add a column for the probability of each number of a scale,
            "p_<number>". The option applies only to codebooks of type "scale"; for other
            codebooks the columns of probabilities are always added.
        split: Treatment of texts that are too long. None reports an error in their
            rows. The other values divide texts into parts of similar length. "first" and
            "last" code only the first or last part. "majority" takes the label of most
            parts, in a tie the label with the larger mean probability. "mean" takes the
            mean of the parts' probabilities.
        part_tokens: Maximum number of tokens of a part. None uses 2,048, or fewer if
            the context has fewer cells. A text that fits is not divided.
        journal: Path of a file that stores results as they are finished. See
            `generate_parallel`. True creates a file in the working directory, named after
            the codebook's hash and the model's file, and prints its path to stderr.
        evidence: Let the model quote the text that supports each label. The columns are
            "quote", "start" and "end". With True a quote has 3 to 40 words;
            `structured.type_quote` sets other lengths. The quote is a verbatim part of
            the text, written after the label.
        until: Number of texts, drawn at random, that the model labels. A classifier on
            `embeddings` (head) is fitted to their probabilities and labels all other
            texts; the model then labels the texts with the head's lowest probabilities,
            see `unsure`. The column "step" has the step that labelled each text. `until`
            requires one label per text and the method "classify".
        embeddings: Model for the embeddings of texts, for `until`. A `Model`, or the path
            of a model file.
        unsure: Share of the texts that are labelled a second time. The texts with the
            lowest probability are labelled again. With `larger`, the larger model labels
            these texts; with only `until`, the model itself labels them.
        larger: Second model, which labels the texts with the lowest probabilities in the
            first step, see `unsure`. A context, or the path of a model file. `larger`
            can be used without `until`.
        on_error: Action when a text fails. "continue" codes all other texts, "return"
            finishes only the running texts, "stop" ends at once and raises
            `GenerationError`.
        seed: Seed of the random numbers. The seed has an effect only with the method
            "generate" and with several thoughts.
        temperature: Sampling temperature. The option has an effect only with the method
            "generate"; 0 takes the most likely tokens.
        max_tokens: Maximum number of tokens to generate per text. The option has an
            effect only with the method "generate".
        versions: Further versions for the record, such as the version of R.
        progress: Show a progress bar. A function is called with a `Progress` repeatedly,
            on the calling thread.
    """

    method: Method | Literal["auto"] = field(default="auto", metadata=one_of(METHODS))
    columns: str | Mapping[str, str | None] | None = None
    calibrate: Calibrate | None = field(default=None, metadata=one_of(CALIBRATE))
    normalize: Normalize = field(default="sum", metadata=one_of(NORMALIZE))
    chat: bool = declared(False, checks.flag)
    thinking: ThinkingOption = field(default=None, metadata={"check": checked_thinking})
    n_thoughts: int = declared(1, partial(checks.integer, low=1, high=1000))
    variables: Mapping[str, object] | None = declared(None, checked_variables)
    template: str | None = declared(None, checks.text)
    merge_system: bool = declared(False, checks.flag)
    date: dt.date | str | None = None
    distribution: bool = declared(False, checks.flag)
    split: Split | None = field(default=None, metadata=one_of(SPLITS))
    part_tokens: int | None = declared(None, partial(checks.integer, low=1))
    journal: bool | str | os.PathLike[str] | None = None
    evidence: bool | Mapping[str, Any] = declared(False, checked_evidence)
    until: int | None = declared(None, partial(checks.integer, low=50))
    embeddings: Embedder | None = None
    unsure: float = declared(0.1, partial(checks.real, low=0, high=1))
    larger: Larger | None = None
    on_error: OnError = field(default="continue", metadata=one_of(ON_ERROR))
    seed: int = declared(DEFAULT_SEED, partial(checks.integer, low=0, high=2**32 - 1))
    temperature: float = declared(0.0, partial(checks.real, low=0, high=100))
    # Answers with fields follow a schema; all other answers are labels.
    max_tokens: int = declared(MAX_TOKENS_OF_SCHEMA, partial(checks.integer, low=1))
    versions: Mapping[str, str] | None = None
    progress: ProgressOption = False


class CodingSettings(TypedDict, total=False):
    """Keyword arguments of `annotate`, see `AnnotateOptions`."""

    method: Method | Literal["auto"]
    columns: str | Mapping[str, str | None] | None
    calibrate: Calibrate | None
    normalize: Normalize
    chat: bool
    thinking: ThinkingOption
    n_thoughts: int
    variables: Mapping[str, object] | None
    template: str | None
    merge_system: bool
    date: dt.date | str | None
    distribution: bool
    split: Split | None
    part_tokens: int | None
    journal: bool | str | os.PathLike[str] | None
    evidence: bool | Mapping[str, Any]
    until: int | None
    embeddings: Embedder | None
    unsure: float
    larger: Larger | None
    on_error: OnError
    seed: int
    temperature: float
    max_tokens: int
    versions: Mapping[str, str] | None
