"""Sampling settings of a prompt: `SamplingParams`."""

from __future__ import annotations

# At run time, for typing.get_type_hints.
from collections.abc import Collection, Mapping, Sequence  # noqa: TC003
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import Idle, Options, declares, option
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.values import (
    Checked,
    Flag,
    Real,
    Whole,
    checked_bias,
    checked_breakers,
    checked_choices,
    checked_schema,
    checked_tokens,
)
from llamaherd.engine.core.words import name_of

if TYPE_CHECKING:
    from llamaherd.engine.core.values import Schema

DEFAULT_MAX_TOKENS = 100
DEFAULT_SEED = 1234  # default seed of a call
MAX_TOKENS_OF_SCHEMA = 512  # default of max_tokens with a schema
MAX_TOKENS_OF_CHAT = 1024  # a chat model ends its answers by itself

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_TOKENS: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_BIAS: Schema = {
    "type": "object",
    "propertyNames": {"pattern": "^[0-9]{1,10}$"},
    "additionalProperties": {"type": "number"},
}
_SHARE = Real(0.0, 1.0)
_FACTOR = Real(0.0, 1e6)
_ANY = Real(-1e6, 1e6)
_COUNT = Whole(0)
_GREEDY = Idle(
    lambda params: params.is_greedy,
    "temperature is 0 or less, which takes the most likely token; set it above 0",
)
_BY_MIROSTAT = Idle(
    lambda params: params.mirostat != 0, "mirostat replaces it; set mirostat to 0"
)
_FILTER = (_GREEDY, _BY_MIROSTAT)


def _if_zero(name: str, advice: str) -> Idle:
    """Return the condition that an option needs another option, which is 0."""
    return Idle(lambda params: getattr(params, name) == 0, f"{name} is 0{advice}")


_NO_MIROSTAT = _if_zero("mirostat", "; set it to 1 or 2")
_PENALTY = (
    _if_zero("repeat_last_n", ", so it looks at no token; set it to 64, or -1 for all"),
)
_DRY = (_if_zero("dry_multiplier", "; set it above 0, 0.8 for example"),)
# With choices, the answer ends where its choice ends.
OF_CHOICES = Idle(
    lambda params: params.choices is not None,
    "an answer with choices ends with its choice; leave it out",
)
# Requests of OpenAI's API have constraints in fields of their own.
_LIBRARY = ("many", "single", "submit", "chat", "rows", "http")


@declares
class SamplingParams(Options):
    """Sampling settings of one prompt, and conditions that end its answer.

    The order is llama.cpp's: logit bias, penalties, DRY, top-n-sigma, top-k, typical-p,
    top-p, min-p, XTC, temperature, draw.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A field is out of range; the message names field, value and range.
    """

    temperature: float = option(
        _ANY,
        default=0.0,
        native=True,
        flag="Default 0: always the most likely token.",
        doc="Sampling temperature. Higher values give more varied answers; 0 or less "
        "takes the most likely token after bias, penalties and grammar.",
    )
    top_k: int = option(
        Whole(-(2**31)),
        default=40,
        native=True,
        idle=_FILTER,
        doc="Number of most likely tokens to draw from. 0 or less draws from all.",
    )
    top_p: float = option(
        _SHARE,
        default=1.0,
        native=True,
        idle=_FILTER,
        doc="Cumulative probability of the most likely tokens to draw from. 1 draws "
        "from all.",
    )
    min_p: float = option(
        _SHARE,
        default=0.05,
        native=True,
        idle=_FILTER,
        doc="Minimum probability of a token to draw, relative to the most likely token. "
        "0 draws from all.",
    )
    typical_p: float = option(
        _SHARE,
        default=1.0,
        native=True,
        idle=_FILTER,
        doc="Cumulative probability of the locally typical tokens to draw from. 1 draws "
        "from all (arXiv 2202.00666).",
    )
    top_n_sigma: float = option(
        _ANY,
        default=-1.0,
        native=True,
        idle=_FILTER,
        doc="Maximum distance of a token's logit from the largest logit, in standard "
        "deviations of the logits. 0 or less draws from all.",
    )
    repeat_last_n: int = option(
        Whole(-1),
        default=64,
        native=True,
        idle=(
            Idle(
                lambda params: not params.has_penalty,
                "no penalty is set; set penalty_repeat, penalty_freq or penalty_present",
            ),
        ),
        doc="Number of last tokens, including prompt tokens, that the penalties "
        "consider. 0 considers no tokens, -1 considers all tokens.",
    )
    penalty_repeat: float = option(
        Real(1e-6, 1e6),
        default=1.0,
        native=True,
        openai="repetition_penalty",
        idle=_PENALTY,
        doc="Repetition penalty that divides the logits of seen tokens. 1 turns it off.",
    )
    penalty_freq: float = option(
        _ANY,
        default=0.0,
        native=True,
        openai="frequency_penalty",
        idle=_PENALTY,
        doc="Frequency penalty, subtracted from a token's logit once per occurrence. "
        "Considers the last `repeat_last_n` tokens. 0 turns it off.",
    )
    penalty_present: float = option(
        _ANY,
        default=0.0,
        native=True,
        openai="presence_penalty",
        idle=_PENALTY,
        doc="Presence penalty, subtracted once from the logit of a token that occurred. "
        "Considers the last `repeat_last_n` tokens. 0 turns it off.",
    )
    xtc_probability: float = option(
        _SHARE,
        default=0.0,
        native=True,
        idle=(
            *_FILTER,
            Idle(
                lambda params: params.xtc_threshold > 0.5,
                "xtc_threshold is above 0.5, which two tokens cannot both reach; lower "
                "it",
            ),
        ),
        doc="Probability that XTC removes the most likely tokens. These are all tokens "
        "with at least the probability `xtc_threshold`, except the least likely of "
        "them. 0 turns it off.",
    )
    xtc_threshold: float = option(
        _SHARE,
        default=0.1,
        native=True,
        idle=(*_FILTER, _if_zero("xtc_probability", "; set it above 0")),
        doc="Minimum probability of a token that XTC removes.",
    )
    dry_multiplier: float = option(
        _FACTOR,
        default=0.0,
        native=True,
        idle=(
            _if_zero(
                "dry_penalty_last_n", ", so it looks at no token; set it to -1 for all"
            ),
        ),
        doc="Strength of the DRY repetition penalty. 0 turns it off.",
    )
    dry_base: float = option(
        Real(1.0, 1e6),
        default=1.75,
        native=True,
        idle=_DRY,
        doc="Base of the DRY penalty's growth per repeated token.",
    )
    dry_allowed_length: int = option(
        _COUNT,
        default=2,
        native=True,
        idle=_DRY,
        doc="Number of tokens that may be repeated without DRY penalty.",
    )
    dry_penalty_last_n: int = option(
        Whole(-1),
        default=-1,
        native=True,
        idle=_DRY,
        doc="Number of last tokens that DRY considers. 0 considers no tokens, -1 "
        "considers all tokens.",
    )
    dry_breakers: Sequence[str] = option(
        Checked(checked_breakers, _TEXTS, "texts"),
        default=("\n", ":", '"', "*"),
        idle=_DRY,
        doc="Texts that end a repetition for DRY.",
    )
    dynatemp_range: float = option(
        _FACTOR,
        default=0.0,
        native=True,
        idle=_FILTER,
        doc="Largest difference between the temperature of a token and `temperature`. "
        "The temperature of a token grows with the entropy of the probabilities, from "
        "`temperature` minus this number, but at least 0.001, to `temperature` plus "
        "this number. 0 turns it off (arXiv 2309.02772).",
    )
    dynatemp_exponent: float = option(
        _FACTOR,
        default=1.0,
        native=True,
        idle=(*_FILTER, _if_zero("dynatemp_range", "; set it above 0")),
        doc="Exponent of the normalized entropy, from which `dynatemp_range` computes "
        "the temperature of a token. Larger values keep more tokens at low temperatures.",
    )
    mirostat: int = option(
        Whole(0, 2),
        default=0,
        native=True,
        idle=(_GREEDY,),
        doc="Version of Mirostat, 1 or 2, that replaces the filters. 0 turns it off "
        "(arXiv 2007.14966).",
    )
    mirostat_tau: float = option(
        _FACTOR,
        default=5.0,
        native=True,
        idle=(_GREEDY, _NO_MIROSTAT),
        doc="Target surprise of Mirostat.",
    )
    mirostat_eta: float = option(
        _FACTOR,
        default=0.1,
        native=True,
        idle=(_GREEDY, _NO_MIROSTAT),
        doc="Learning rate of Mirostat.",
    )
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]] = option(
        Checked(checked_bias, _BIAS, "bias"),
        default=(),
        r_doc="Numbers to add to the logits of tokens: a numeric vector with token ids "
        "as names, such as ``c(`42` = -Inf)`` to forbid token 42. NULL adds nothing.",
        doc="Numbers to add to the logits of tokens, by token id. -inf forbids a token.",
    )
    schema: str | Mapping[str, object] | type[object] | None = option(
        Checked(checked_schema, {"type": ["object", "boolean", "string"]}, "schema"),
        default=None,
        interfaces=_LIBRARY,
        flag="The fields of the schema become columns.",
        metavar="FILE",
        doc="JSON Schema that each answer follows. A dict or JSON text, in a call also "
        "the path of a file, a pydantic model, a dataclass or a TypedDict. The answer "
        "is compact JSON, with properties in the schema's order.",
    )
    regex: str | None = option(
        Checked(checks.not_blank, _TEXT, "strings"),
        default=None,
        interfaces=_LIBRARY,
        doc="Regular expression that the whole answer matches. Its notation is the "
        "notation of Rust's crate regex, without lookarounds.",
    )
    grammar: str | None = option(
        Checked(checks.not_blank, _TEXT, "strings"),
        default=None,
        interfaces=_LIBRARY,
        doc="Grammar that each answer follows. Either GBNF text with a rule `root`, or "
        "a Lark grammar in llguidance's notation, which begins with `%llguidance`.",
    )
    choices: Collection[str] | None = option(
        Checked(checked_choices, {**_TEXTS, "minItems": 1}, "choices"),
        default=None,
        interfaces=_LIBRARY,
        flag="Or a file with one label per line.",
        flag_name="--labels",
        metavar="A,B,C",
        doc="Texts; each answer is exactly one of them. With temperature 0 the answer "
        "is the most probable choice. An answer never starts with a space. If a longer "
        "choice starts with a shorter choice, the shorter choice is the answer unless "
        "the model continues to the longer choice. Only one of schema, regex, grammar "
        "and choices can be given.",
    )
    quote_from: str | None = option(
        Checked(checks.text, _TEXT, "sources"),
        default=None,
        # A row quotes its prompt, a request of OpenAI's API the last message of the user.
        interfaces=("many", "single", "submit", "chat", "http"),
        doc="Text from which the quotes of a schema are copied. In a call it may be a "
        "list with one text per prompt. None uses the prompt, or with `chat` the last "
        "message of the user. See `structured.type_quote`.",
    )
    ignore_eos: bool = option(
        Flag(),
        default=False,
        native=True,
        idle=(OF_CHOICES,),
        doc="Continue until `max_tokens`, ignoring the model's end token.",
    )
    min_tokens: int = option(
        _COUNT,
        default=0,
        native=True,
        doc="Minimum number of tokens of an answer. Until the answer has this many "
        "tokens, no token that ends an answer is drawn, and stop texts do not end the "
        "answer. The number is at most `max_tokens`. 0 sets no minimum. The option "
        "cannot be combined with schema, regex, grammar or choices.",
    )
    stop_token_ids: Collection[int] = option(
        Checked(checked_tokens, _TOKENS, "tokens"),
        default=(),
        idle=(OF_CHOICES,),
        doc="Tokens that end an answer, in addition to the model's end tokens, and are "
        "not part of the answer. With a schema, regex or grammar, these tokens end the "
        "answer only where the constraint allows its end. The tokens also end answers "
        "with `ignore_eos`.",
    )
    max_tokens: int | None = option(
        Whole(1, r="limit"),
        default=None,
        flag=f"Default {DEFAULT_MAX_TOKENS}, with chat {MAX_TOKENS_OF_CHAT:,}, with a "
        f"schema {MAX_TOKENS_OF_SCHEMA}.",
        doc="Maximum number of tokens to generate per prompt. None uses the value of "
        "the call. If the call sets none either, the maximum is 512 with a schema, "
        "enough for the longest choice with choices, and otherwise 100; with `chat` "
        "1,024, or as many as fit into the context.",
    )
    stop: str | Sequence[str] | None = option(
        Checked(
            checks.some_texts, {"anyOf": [_TEXT, {**_TEXTS, "maxItems": 1024}]}, "texts"
        ),
        default=None,
        idle=(OF_CHOICES,),
        doc="Texts that end an answer and are not part of the answer. None uses the "
        "stop texts of the call.",
    )
    seed: int | None = option(
        Whole(-(2**31), 2**32 - 1, r="seed"),
        default=None,
        flag=f"Needs a temperature. Default {DEFAULT_SEED}.",
        doc="Seed of the random numbers. Each prompt draws with its own seed, derived "
        "from this seed and the prompt's index. None uses the seed of the call. If the "
        "call has no seed either, or if the seed is negative, a new seed is drawn, and "
        "the statistics report the new seed.",
    )

    def __post_init__(self) -> None:
        constraints = [name for name in CONSTRAINTS if name in self.__dict__]
        if len(constraints) > 1:
            others = " and ".join(map(name_of, constraints[1:]))
            raise ArgumentError(
                "cannot be given together: an answer follows one of them",
                argument=constraints[0],
                code="conflict",
                form=f"{{name}} and {others} {{problem}}",
            )
        if self.min_tokens > 0 and constraints:
            raise ArgumentError(
                "cannot be given together: the constraint decides where an answer ends",
                argument=constraints[0],
                code="conflict",
                form=f"{name_of('min_tokens')} and {{name}} {{problem}}",
            )

    @property
    def constraint(self) -> str:
        """Name of the setting that constrains answers; "" without one."""
        return next((name for name in CONSTRAINTS if getattr(self, name) is not None), "")

    @property
    def n_answer(self) -> int:
        """Maximum number of tokens of the answer, used if `max_tokens` is not set."""
        if self.schema is not None:
            return MAX_TOKENS_OF_SCHEMA
        if self.choices is None:
            return DEFAULT_MAX_TOKENS
        # A token has at least one byte, and a space may come before the choice.
        return 1 + max(len(text.encode()) for text in self.choices)

    @property
    def has_penalty(self) -> bool:
        """Test whether a setting penalizes seen tokens."""
        return any(name in self.__dict__ for name in PENALTIES)

    @property
    def is_greedy(self) -> bool:
        """Whether equal prompts always produce equal answers."""
        return self.temperature <= 0.0


_DECLARED = SamplingParams.declared
# Fields whose values are passed to the native library unchanged.
PLAIN_SETTINGS = tuple(name for name, spec in _DECLARED.items() if spec.native)
PENALTIES = ("penalty_repeat", "penalty_freq", "penalty_present")
# Fields that constrain answers.
CONSTRAINTS = ("schema", "regex", "grammar", "choices")
# Fields that may be lists with one element per prompt.
PER_PROMPT = (*CONSTRAINTS, "quote_from")
# Fields that `Request` also has; None means the value of the call.
OF_REQUEST = ("max_tokens", "stop", "seed")


def changed_fields(params: SamplingParams) -> list[str]:
    """Return the names of the fields that differ from the defaults.

    With a penalty, `repeat_last_n` is one: its default was 0 in journals of old versions.
    """
    changed = params.changed()
    is_window = params.has_penalty and "repeat_last_n" not in changed
    return [*changed, "repeat_last_n"] if is_window else changed
