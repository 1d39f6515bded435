"""Options of calls: chats, generation, labels, scores, embeddings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from llamaherd.calls.asks.scores import NORMALIZE, Normalize
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import Idle, Options, declares, option
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.sampling import (
    DEFAULT_SEED,
    MAX_TOKENS_OF_CHAT,
    SamplingParams,
)
from llamaherd.engine.core.thinking import (
    MOST_TOKENS,
    Thinking,
    ThinkingOption,
    checked_thinking,
)
from llamaherd.engine.core.values import Checked, Choice, Flag, TextKind, Unchecked, Whole
from llamaherd.engine.core.words import setting
from llamaherd.engine.model.tokens import PARSE_SPECIAL, ParseSpecial
from llamaherd.engine.native import shim
from llamaherd.engine.native.embedder import POOLING, Pooling

if TYPE_CHECKING:
    import os

    from llamaherd.engine.core.argument import Name


# Options that have no effect without a chat template.
_OF_CHAT = ("system", "thinking", "variables", "template", "prefix", "merge_system")


def checked_variables(name: Name, value: object) -> dict[str, object]:
    """Check variables of a chat template: a mapping from names to values."""
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(
            f"must be a mapping of names to values, not {checks.brief(value)}",
            argument=name,
        )
    for key in value:
        if not isinstance(key, str):
            raise ArgumentTypeError(
                f"must have texts as names, not {checks.brief(key)}", argument=name
            )
    variables: dict[str, object] = checks.tree(name, dict(value))
    return variables


def check_no_chat(options: Options) -> None:
    """Check that a call without `chat` has no option that needs `chat`."""
    for name in _OF_CHAT:
        value = getattr(options, name)
        if value not in (None, False):  # thinking needs a chat template
            # The class of a thought's settings is not how every caller gave them.
            what = "" if isinstance(value, Thinking) else f" for {checks.brief(value)}"
            raise ArgumentError(
                f"needs {setting('chat', True)}; without it there is no chat "
                f"template{what}",
                argument=name,
                code="missing",
            )


def check_n_thoughts(thinking: object, n_thoughts: int) -> None:
    """Check that several thoughts are asked for only with thinking."""
    if n_thoughts > 1 and not isinstance(thinking, Thinking):
        raise ArgumentError(
            f"is {n_thoughts}, but without thinking there are no thoughts: add "
            f"{setting('thinking', 256)}",
            argument="n_thoughts",
            code="missing",
        )


if TYPE_CHECKING:
    # True shows a bar; a function is called with each progress.
    Progress = bool | Callable[[Any], object]
    Path = str | os.PathLike[str]

OnError = Literal["continue", "return", "stop"]
ON_ERROR: tuple[OnError, ...] = get_args(OnError)
Space = bool | Literal["auto"]
SPACE: tuple[Space, ...] = ("auto", True, False)
Stream = bool | Literal["all"]
STREAM: tuple[Stream, ...] = (False, True, "all")
PoolingOption = Pooling | Literal["auto"]

_NO_SCHEMA = Idle(
    lambda options: options.params is None and options.sampling.get("schema") is None,
    "no answer has a schema, and a prompt that fails is not repeated; leave it out",
)
# Defaults of `chat`; by its priority, a question starts before prompts of other calls.
CHAT_DEFAULTS = {"max_tokens": MAX_TOKENS_OF_CHAT, "priority": 1}
THINKING = Checked(
    checked_thinking,
    {
        "anyOf": [
            {"type": "boolean"},
            {"type": "integer", "minimum": 0, "maximum": MOST_TOKENS},
            {"type": "object"},
        ]
    },
    "thinking",
)
VARIABLES = Checked(checked_variables, {"type": "object"}, "variables")
_LABELS = {
    "anyOf": [
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"type": "string"},
        },
    ]
}
# Interfaces by what they have in common. The failure of a single prompt is an error, its
# answer is not stored and its progress is not known. The owner of a server sets the
# template, which is a program.
MANY = ("many",)
_STORED = ("many", "pairs", "rows")
_PROMPTS = ("many", "single", "submit", "pairs", "rows", "http")
_RENDERED = (*_PROMPTS, "chat")
_IN_PROCESS = ("many", "single", "submit", "chat", "rows")


@declares
class CallOptions(Options):
    """Options of every call that takes prompts or texts of a decoder."""

    parse_special: ParseSpecial = option(
        Choice(PARSE_SPECIAL, "auto_flag"),
        default="auto",
        interfaces=("many", "single", "submit", "http"),
        doc='Treat the text of special tokens in prompts as these tokens. "auto" does '
        "so in prompts that start with a special token, such as prompts of chat "
        "templates.",
    )
    on_error: OnError = option(
        Choice(ON_ERROR),
        default="continue",
        interfaces=MANY,
        doc='Action when a prompt fails. "continue" answers all other prompts, "return" '
        'finishes only the running prompts, "stop" ends at once and raises '
        "`GenerationError`.",
    )
    journal: Path | None = option(
        Unchecked({"type": "string"}, "path"),
        default=None,
        interfaces=_STORED,
        doc="Path of a file that stores results as they are finished. The file is "
        "created if it does not exist. After a crash or Ctrl-C the same call reuses the "
        "results in the file and computes the others; failed prompts are tried again. A "
        "result is identified by the content of the model's file, the prompt's tokens "
        "and the settings. A sampled result is also identified by the prompt's seed; "
        "with `seed=None` no sampled result is therefore reused. The file contains "
        "prompts and answers as plain text; `journal_read` reads the file.",
    )
    progress: Progress = option(
        Unchecked({"type": "boolean"}, "flag"),
        default=False,
        interfaces=MANY,
        doc="Show a progress bar. A function is called with a `Progress` repeatedly, on "
        "the calling thread.",
    )


@declares
class PromptOptions(CallOptions):
    """Options of every call that takes prompts."""

    chat: bool = option(
        Flag(),
        default=False,
        interfaces=_PROMPTS,
        doc="Apply the model's chat template to each prompt. A prompt is then a message "
        "of the user, or a list of messages as in `apply_chat_template`. Special tokens "
        "in messages are read as plain text.",
    )
    system: str | None = option(
        TextKind(),
        default=None,
        interfaces=_PROMPTS,
        doc="Text of a system message before each prompt. Needs `chat`.",
    )
    thinking: ThinkingOption = option(
        THINKING,
        default=None,
        interfaces=(*_RENDERED, "chats"),
        doc="Maximum number of tokens of a thought before the answer. Results have the "
        "thought and the answer in separate fields. True is 1,024 and False turns "
        "thinking off; a `Thinking` also sets markers and the message. None follows the "
        "model's template, with at most 1,024 tokens, and turns thinking off if answers "
        "have a schema, regex, grammar or choices, or are scored. Needs `chat`.",
    )
    variables: Mapping[str, object] | None = option(
        VARIABLES,
        default=None,
        interfaces=(*_RENDERED, "chats"),
        openai="chat_template_kwargs",
        doc="Further variables of the chat template, by name. Templates differ in their "
        "variables; `reasoning_effort` is an example. Needs `chat`.",
    )
    template: str | None = option(
        TextKind(),
        default=None,
        interfaces=(*_IN_PROCESS, "pairs"),
        key="chat_template",
        doc="Jinja template to use in place of the model's chat template. Needs `chat`.",
    )
    prefix: str | None = option(
        TextKind(),
        default=None,
        interfaces=_RENDERED,
        key="answer_prefix",
        doc="Text that each answer starts with, written into the prompt. The prefix is "
        "not part of the answer in the results. Needs `chat`.",
    )
    merge_system: bool = option(
        Flag(),
        default=False,
        interfaces=_RENDERED,
        doc="Put the system text into the first user message if the template refuses a "
        "system role. Needs `chat`.",
    )


@declares
class GenerateOptions(PromptOptions):
    """Options of generation."""

    n: int = option(
        Whole(1, 10_000),
        default=1,
        interfaces=MANY,
        doc="Number of samples per prompt. The prompt is computed once for all samples, "
        "which are in `samples` of the results. More than one sample needs a "
        "temperature above 0, because greedy samples would be equal.",
    )
    params: SamplingParams | Sequence[SamplingParams] | None = option(
        Unchecked({"type": "object"}),
        default=None,
        interfaces=("many", "single", "submit"),
        doc="Sampling settings instead of single arguments: one object for all prompts, "
        "or one per prompt. If its max_tokens, stop or seed is None, the value of the "
        "call applies.",
    )
    strict: bool = option(
        Flag(),
        default=False,
        interfaces=_IN_PROCESS,
        doc="Refuse schemas with keywords that cannot be enforced during generation. "
        "The error names the keywords. Without `strict`, these keywords are checked "
        "after an answer has ended.",
    )
    show_schema: bool = option(
        Flag(),
        default=True,
        interfaces=(*_IN_PROCESS, "http", "chats"),
        doc="With `chat`, describe a schema in the last message of the user. Masks make "
        "the answer follow the schema, but do not show it to the model. The words are "
        "those of `structured.schema_prompt`; a prompt that contains them stays "
        "unchanged.",
    )
    retries: int = option(
        Whole(0, 100),
        default=2,
        idle=(_NO_SCHEMA,),
        interfaces=("many", "single", "rows"),  # pieces may have been read already
        doc="Maximum number of further tries for an answer that violates its schema. "
        "Each try has another seed. If all tries fail, the prompt fails, and `partial` "
        "has the last text.",
    )
    logprobs: int | None = option(
        Whole(0, shim.MAX_LOGPROBS),
        default=None,
        interfaces=("many", "single", "submit", "chat", "completions", "chats"),
        doc="Number of alternatives whose log-probabilities are returned for each "
        "generated token. 0 returns only the log-probabilities of the generated tokens, "
        "None returns no log-probabilities; see `Result.logprobs`.",
    )
    stream: Stream = option(
        Choice(STREAM),
        default=False,
        interfaces=("single", "submit", "http", "completions", "chats"),
        doc='Return the answer in pieces while it is generated. "all" also returns the '
        "pieces of the thought; each piece has a `kind`.",
    )
    priority: int = option(
        Whole(-100, 100),
        default=0,
        interfaces=("submit", "chat", "http"),
        doc="Priority of the prompt. A prompt with a higher priority starts first. If "
        "no slot is free, a running prompt with a lower priority is paused and resumes "
        "later.",
    )
    sampling: Mapping[str, Any] = option(
        Unchecked({"type": "object"}),
        default_factory=dict,
        group=SamplingParams,
        defaults={"seed": DEFAULT_SEED},
        doc="Sampling settings as keyword arguments, any field of `SamplingParams`. A "
        "schema, regex, grammar or choices may be a list with one element per prompt, "
        "None for no constraint.",
    )


@declares
class ClassifyOptions(PromptOptions):
    """Options of classification."""

    labels: Collection[str] | Mapping[str, str] = option(
        Unchecked(_LABELS),
        flag="Or a file with one label per line.",
        metavar="A,B,C",
        doc="Texts that may follow a prompt. In a mapping, each text that the model "
        "reads has a name; probabilities of texts with the same name are added.",
    )
    normalize: Normalize = option(
        Choice(NORMALIZE),
        default="sum",
        interfaces=("many", "rows", "http"),
        flag="Default sum.",
        doc='Method for comparing labels of different lengths. "sum" takes log '
        'P(label), "token" divides log P(label) by the number of the label\'s tokens, '
        '"byte" divides by the number of its bytes in UTF-8, and "pmi" subtracts log '
        "P(label) after `pmi_prompt`.",
    )
    pmi_prompt: str = option(
        TextKind(),
        default="",
        interfaces=("many", "rows", "http"),
        doc='Prompt without the text to classify. "" is the start of a text. Needs '
        '`normalize="pmi"`.',
    )
    space: Space = option(
        Choice(SPACE, "auto_flag"),
        default="auto",
        interfaces=("many", "rows", "http"),
        doc='Put a space between prompt and label. "auto" puts a space unless the '
        "prompt ends or the label starts with white space. With `chat` and no `prefix`, "
        "the model's template decides.",
    )
    n_thoughts: int = option(
        Whole(1, 1000),
        default=1,
        flag="Probabilities are means over thoughts. Needs --thinking. Default 1.",
        doc="Number of thoughts before the labels are scored. Probabilities are means "
        "over the thoughts. Several thoughts are drawn at temperature 0.6 with top_p "
        "0.95; a single thought takes the most likely tokens. Needs `thinking`.",
    )
    seed: int = option(
        Whole(0, 2**32 - 1),
        default=DEFAULT_SEED,
        flag=f"Used with several thoughts. Default {DEFAULT_SEED}.",
        doc="Seed of the random numbers of thoughts. The seed has an effect only with "
        "several thoughts.",
    )

    def __post_init__(self) -> None:
        check_n_thoughts(self.thinking, self.n_thoughts)
        if self.pmi_prompt and self.normalize != "pmi":
            problem = f"needs {setting('normalize', 'pmi')}"
            raise ArgumentError(problem, argument="pmi_prompt", code="missing")
        if isinstance(self.thinking, Thinking) and self.normalize == "pmi":
            raise ArgumentError(
                "subtracts the log-probability without a text, but without a text the "
                "model has nothing to think about: use another normalization, or no "
                "thinking",
                argument="normalize",
                code="conflict",
                form=f"{setting('normalize', 'pmi')} {{problem}}",
            )


@declares
class ScoreOptions(PromptOptions):
    """Options of scoring."""

    space: Space = option(
        Choice(SPACE, "auto_flag"),
        default=False,
        doc='Put a space before each continuation. "auto" puts a space unless the '
        "prompt ends or the continuation starts with white space. With `chat`, the "
        "model's template decides.",
    )


@declares
class PerplexityOptions(CallOptions):
    """Options of perplexity."""

    parse_special: ParseSpecial = option(
        Choice(PARSE_SPECIAL, "auto_flag"),
        default=False,
        doc="Treat the text of special tokens as these tokens.",
    )


@declares
class EmbedOptions(Options):
    """Options of embedding."""

    pooling: PoolingOption = option(
        Choice(("auto", *POOLING)),
        default="auto",
        flag="Default: as in the model's file.",
        doc='Pooling of a text\'s token vectors. "mean" averages them, "cls" takes '
        'the vector of the first token, "last" the vector of the last token. "auto" '
        'uses the pooling named in the model\'s file, or "mean" if the file names none.',
    )
    normalize: bool = option(
        Flag(),
        default=True,
        doc="Scale vectors to length 1, so that products are cosines.",
    )
    truncate: bool = option(
        Flag(),
        default=False,
        flag="Without this option, rows with such texts fail.",
        doc="Cut texts that are too long for the model, but keep the special tokens at "
        "their ends. If False, such texts fail.",
    )
    deterministic: bool = option(
        Flag(),
        default=False,
        doc="Compute each text separately. The vector of a text then does not depend on "
        "the other texts of the call, not even in the last bit. Otherwise the other "
        "texts change the rounding, by about 1e-6 of the vector's length. The change is "
        "about 1e-3 with K-quants and other types whose kernels round differently for "
        "batches of another shape.",
    )
    n_threads: int | None = option(
        Whole(1, 1024),
        default=None,
        interfaces=("many", "rows"),  # the owner of a server sets it
        doc="Number of threads. None uses the number of physical cores.",
    )
    progress: Progress = option(
        Unchecked({"type": "boolean"}, "flag"),
        default=False,
        interfaces=MANY,
        doc="Show a progress bar. A function is called with an `EmbedProgress` "
        "repeatedly, on the calling thread.",
    )
