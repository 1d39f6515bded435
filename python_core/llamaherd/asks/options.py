"""Options of the public calls: each is declared once, here or in `SamplingParams`.

A call collects its arguments in one object, which all functions of the call read. To
add an option, declare it as a field here, add it to the class of keyword arguments
below, and read it in the function that needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from llamaherd.asks.base import Options, flag, integer, one_of
from llamaherd.asks.chat_options import checked_variables
from llamaherd.asks.scores import NORMALIZE, Normalize
from llamaherd.core import checks
from llamaherd.core.declared import declared
from llamaherd.core.sampling import DEFAULT_SEED, SamplingParams, SamplingSettings
from llamaherd.core.thinking import checked_thinking
from llamaherd.model.tokens import PARSE_SPECIAL
from llamaherd.native import shim
from llamaherd.native.embedder import POOLING, Pooling

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Mapping, Sequence

    from llamaherd.core.thinking import ThinkingOption
    from llamaherd.model.tokens import ParseSpecial

    # True shows a bar; a function is called with each progress.
    Progress = bool | Callable[[Any], object]
    Path = str | os.PathLike[str]

OnError = Literal["continue", "return", "stop"]
ON_ERROR: tuple[OnError, ...] = ("continue", "return", "stop")
Space = bool | Literal["auto"]
SPACE: tuple[Space, ...] = ("auto", True, False)
Stream = bool | Literal["all"]
STREAM: tuple[Stream, ...] = (False, True, "all")
PoolingOption = Pooling | Literal["auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions(Options):
    """Options of every call that takes prompts or texts of a decoder.

    Attributes:
        parse_special: Treat the text of special tokens in prompts as these tokens.
            "auto" does so in prompts that start with a special token, such as prompts of
            chat templates.
        on_error: Action when a prompt fails. "continue" answers all other prompts,
            "return" finishes only the running prompts, "stop" ends at once and raises
            `GenerationError`.
        journal: Path of a file that stores results as they are finished. The file is
            created if it does not exist. After a crash or Ctrl-C the same call reuses the
            results in the file and computes the others; failed prompts are tried again.
            A result is identified by the content of the model's file, the prompt's
            tokens and the settings. A sampled result is also identified by the prompt's
            seed; with `seed=None` no sampled result is therefore reused. The file
            contains prompts and answers as plain text; `journal_read` reads the file.
        progress: Show a progress bar. A function is called with a `Progress` repeatedly,
            on the calling thread.
    """

    parse_special: ParseSpecial = field(default="auto", metadata=one_of(PARSE_SPECIAL))
    on_error: OnError = field(default="continue", metadata=one_of(ON_ERROR))
    journal: Path | None = None
    progress: Progress = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions(CallOptions):
    """Options of every call that takes prompts.

    Attributes:
        chat: Apply the model's chat template to each prompt. A prompt is then a message
            of the user, or a list of messages as in `apply_chat_template`. Special tokens
            in messages are read as plain text.
        system: Text of a system message before each prompt. Needs `chat`.
        thinking: Maximum number of tokens of a thought before the answer. Results have
            the thought and the answer in separate fields. True is 1,024 and False turns
            thinking off; a `Thinking` also sets markers and the message. None follows the
            model's template, with at most 1,024 tokens, and turns thinking off if answers
            have a schema, regex, grammar or choices, or are scored. Needs `chat`.
        variables: Further variables of the chat template, by name. Templates differ in
            their variables; `reasoning_effort` is an example. Needs `chat`.
        template: Jinja template to use in place of the model's chat template. Needs
            `chat`.
        prefix: Text that each answer starts with, written into the prompt. The prefix is
            not part of the answer in the results. Needs `chat`.
        merge_system: Put the system text into the first user message if the template
            refuses a system role. Needs `chat`.
    """

    chat: bool = flag()
    system: str | None = None
    thinking: ThinkingOption = field(default=None, metadata={"check": checked_thinking})
    variables: Mapping[str, object] | None = declared(None, checked_variables)
    template: str | None = declared(None, checks.text)
    prefix: str | None = declared(None, checks.text)
    merge_system: bool = flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions(PromptOptions):
    """Options of generation.

    Attributes:
        n: Number of samples per prompt. The prompt is computed once for all samples,
            which are in `samples` of the results. More than one sample needs a
            temperature above 0, because greedy samples would be equal.
        params: Sampling settings instead of single arguments: one object for all prompts,
            or one per prompt. If its max_tokens, stop or seed is None, the value of the
            call applies.
        strict: Refuse schemas with keywords that cannot be enforced during generation.
            The error names the keywords. Without `strict`, these keywords are checked
            after an answer has ended.
        show_schema: With `chat`, describe a schema in the last message of the user. Masks
            make the answer follow the schema, but do not show it to the model. The words
            are those of `structured.schema_prompt`; a prompt that contains them stays
            unchanged.
        retries: Maximum number of further tries for an answer that violates its schema.
            Each try has another seed. If all tries fail, the prompt fails, and `partial`
            has the last text.
        logprobs: Number of alternatives whose log-probabilities are returned for each
            generated token. 0 returns only the log-probabilities of the generated tokens,
            None returns no log-probabilities; see `Result.logprobs`.
        stream: Return the answer in pieces while it is generated. "all" also returns the
            pieces of the thought; each piece has a `kind`.
        priority: Priority of the prompt. A prompt with a higher priority starts first.
            If no slot is free, a running prompt with a lower priority is paused and
            resumes later.
        sampling: Sampling settings as keyword arguments, any field of `SamplingParams`. A
            schema, regex, grammar or choices may be a list with one element per prompt,
            None for no constraint.
    """

    n: int = integer(1, 1, 10_000)
    params: SamplingParams | Sequence[SamplingParams] | None = None
    strict: bool = flag()
    show_schema: bool = declared(True, checks.flag)
    retries: int = integer(2, 0, 100)
    logprobs: int | None = integer(None, 0, shim.MAX_LOGPROBS)
    stream: Stream = field(default=False, metadata=one_of(STREAM))
    priority: int = integer(0, -100, 100)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyOptions(PromptOptions):
    """Options of classification.

    Attributes:
        labels: Texts that may follow a prompt. In a mapping, each text that the model
            reads has a name; probabilities of texts with the same name are added.
        normalize: Method for comparing labels of different lengths. "sum" takes log
            P(label), "token" divides log P(label) by the number of the label's tokens,
            "byte" divides by the number of its bytes in UTF-8, and "pmi" subtracts log
            P(label) after `pmi_prompt`.
        pmi_prompt: For "pmi", the prompt without the text to classify. "" is the start of
            a text.
        space: Put a space between prompt and label. "auto" puts a space unless the
            prompt ends or the label starts with white space. With `chat` and no
            `prefix`, the model's template decides.
        n_thoughts: Number of thoughts before the labels are scored. Probabilities are
            means over the thoughts. Several thoughts are drawn at temperature 0.6 with
            top_p 0.95; a single thought takes the most likely tokens. Needs `thinking`.
        seed: Seed of the random numbers of thoughts. The seed has an effect only with
            several thoughts.
    """

    labels: Collection[str] | Mapping[str, str]
    normalize: Normalize = field(default="sum", metadata=one_of(NORMALIZE))
    pmi_prompt: str = declared("", checks.text)
    space: Space = field(default="auto", metadata=one_of(SPACE))
    n_thoughts: int = integer(1, 1, 1000)
    seed: int = integer(DEFAULT_SEED, 0, 2**32 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions(PromptOptions):
    """Options of scoring.

    Attributes:
        space: Put a space before each continuation. "auto" puts a space unless the
            prompt ends or the continuation starts with white space. With `chat`, the
            model's template decides.
    """

    space: Space = field(default=False, metadata=one_of(SPACE))


@dataclass(frozen=True, slots=True, kw_only=True)
class PerplexityOptions(CallOptions):
    """Options of perplexity.

    Attributes:
        parse_special: Treat the text of special tokens as these tokens.
    """

    parse_special: ParseSpecial = field(default=False, metadata=one_of(PARSE_SPECIAL))


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOptions(Options):
    """Options of embedding.

    Attributes:
        pooling: Pooling of a text's token vectors. "mean" averages them, "cls" takes the
            vector of the first token, "last" the vector of the last token. "auto" uses
            the pooling named in the model's file, or "mean" if the file names none.
        normalize: Scale vectors to length 1, so that products are cosines.
        truncate: Cut texts that are too long for the model, but keep the special tokens
            at their ends. If False, such texts fail.
        deterministic: Compute each text separately. The vector of a text then does not
            depend on the other texts of the call, not even in the last bit. Otherwise
            the other texts change the rounding, by about 1e-6 of the vector's length.
            The change is about 1e-3 with K-quants and other types whose kernels round
            differently for batches of another shape.
        n_threads: Number of threads. None uses the number of physical cores.
        progress: Show a progress bar. A function is called with an `EmbedProgress`
            repeatedly, on the calling thread.
    """

    pooling: PoolingOption = field(default="auto", metadata=one_of(("auto", *POOLING)))
    normalize: bool = declared(True, checks.flag)
    truncate: bool = flag()
    deterministic: bool = flag()
    n_threads: int | None = integer(None, 1, 1024)
    progress: Progress = False


# ---- keyword arguments, for type checkers; a test compares them with the fields ----


class _OfTemplate(TypedDict, total=False):
    thinking: ThinkingOption
    variables: Mapping[str, object] | None
    template: str | None
    prefix: str | None
    merge_system: bool


class _OfChat(_OfTemplate, total=False):
    chat: bool
    system: str | None


class _Asked(SamplingSettings, _OfChat, total=False):
    parse_special: ParseSpecial
    strict: bool
    show_schema: bool
    logprobs: int | None


class GenerateSettings(_Asked, total=False):
    """Keyword arguments of `generate_parallel`, see `GenerateOptions`."""

    n: int
    params: SamplingParams | Sequence[SamplingParams] | None
    on_error: OnError
    journal: Path | None
    retries: int


class PromptSettings(_Asked, total=False):
    """Keyword arguments of `generate`, see `GenerateOptions`."""

    params: SamplingParams | None
    retries: int


class SubmitSettings(_Asked, total=False):
    """Keyword arguments of `Context.submit`, see `GenerateOptions`."""

    params: SamplingParams | None
    priority: int


class ChatSettings(SamplingSettings, _OfTemplate, total=False):
    """Keyword arguments of `chat` and of its questions, see `GenerateOptions`."""

    strict: bool
    show_schema: bool
    logprobs: int | None
    priority: int


class PerplexitySettings(TypedDict, total=False):
    """Keyword arguments of `perplexity`, see `PerplexityOptions`."""

    parse_special: ParseSpecial
    on_error: OnError
    journal: Path | None


class ScoreSettings(PerplexitySettings, _OfChat, total=False):
    """Keyword arguments of `score_parallel`, see `ScoreOptions`."""

    space: Space


class ClassifySettings(ScoreSettings, total=False):
    """Keyword arguments of `classify_parallel`, see `ClassifyOptions`."""

    normalize: Normalize
    pmi_prompt: str
    n_thoughts: int
    seed: int


class PairSettings(_OfChat, total=False):
    """Keyword arguments of `compare_pairs`, see `ClassifyOptions`."""

    journal: Path | None
    n_thoughts: int
    seed: int


class EmbedSettings(TypedDict, total=False):
    """Keyword arguments of `embed_parallel`, see `EmbedOptions`."""

    pooling: PoolingOption
    normalize: bool
    truncate: bool
    deterministic: bool
    n_threads: int | None
