"""How a next token is chosen: `SamplingParams`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, TypedDict, TypeVar

from llamaherd.core import checks

DEFAULT_MAX_TOKENS = 100
DEFAULT_SEED = 1234  # of a call
MAX_TOKENS_OF_SCHEMA = 512  # where no other number is given
MAX_SCHEMA = 4_000_000  # characters

_T = TypeVar("_T")
_Check = Callable[[str, Any], object]


def _c_string(name: str, value: object) -> str:
    text = checks.text(name, value)
    if "\0" in text:
        raise ValueError(f"{name} must not contain a NUL character")
    return text


def _checked_breakers(name: str, breakers: object) -> tuple[str, ...]:
    texts = checks.stop_texts(name, breakers)
    for i, text in enumerate(texts):
        _c_string(f"{name}[{i}]", text)
    return texts


class _Texts(tuple[str, ...]):  # noqa: SLOT001 - tuples can have no slot with a value
    """Checked texts. There can be thousands of them in each of very many settings."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash

    def __reduce__(self) -> tuple[type[_Texts], tuple[tuple[str, ...]]]:
        return _Texts, (tuple(self),)  # in another process texts have other hashes


def _checked_choices(name: str, choices: object) -> _Texts:
    """Each once and sorted: equal settings compare equal, whatever came first."""
    if isinstance(choices, _Texts):
        return choices
    if isinstance(choices, (str, bytes, bytearray, Mapping)) or not isinstance(
        choices, Collection
    ):
        raise TypeError(f"{name} must be a list of str, not {checks.shown(choices)}")
    texts = list(choices)
    if not texts:
        raise ValueError(f"{name} must have at least one text")
    for i, text in enumerate(texts):
        _c_string(f"{name}[{i}]", text)
        if not text:
            raise ValueError(f"{name}[{i}] must not be empty")
    return _Texts(sorted({str(text) for text in texts}))


def checked_schema(name: str, schema: object) -> str:
    """A JSON Schema as compact JSON: equal ones compare equal. The order stays."""
    if isinstance(schema, (str, bytes, bytearray)):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{name} is no JSON: {error}") from None
    if not isinstance(schema, (Mapping, bool)):
        raise TypeError(
            f"{name} must be a JSON Schema, as a dict or JSON, not {checks.shown(schema)}"
        )
    try:
        text = json.dumps(
            schema, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{name} cannot be written as JSON: {error}") from None
    if len(text) > MAX_SCHEMA:
        raise ValueError(
            f"{name} has {len(text)} characters as JSON, more than {MAX_SCHEMA}"
        )
    return _c_string(name, text)


def _checked_bias(name: str, bias: object) -> tuple[tuple[int, float], ...]:
    """Pairs sorted by token: equal settings compare equal, and can be hashed."""
    if isinstance(bias, Mapping):
        bias = tuple(bias.items())
    if not isinstance(bias, (list, tuple)):
        raise TypeError(
            f"{name} must map token ids to numbers, not be of type {type(bias).__name__}"
        )
    pairs = {}
    for pair in bias:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"{name} must hold pairs of a token id and a number, not "
                f"{checks.shown(pair)}"
            )
        token, value = pair
        forbidden = isinstance(value, float) and value == -math.inf
        number = (
            value if forbidden else checks.real(f"{name}[{token!r}]", value, -1e30, 1e30)
        )
        pairs[checks.integer(f"{name}'s token", token, 0)] = number
    return tuple(sorted(pairs.items()))


def _checked(default: _T, check: _Check, *, is_plain: bool = False) -> _T:
    """A field that is checked and brought into one form; None only if that is default."""
    return field(default=default, metadata={"check": check, "is_plain": is_plain})


def _real(default: float, low: float, high: float) -> float:
    return _checked(default, partial(checks.real, low=low, high=high), is_plain=True)


def _integer(default: int, low: int, high: int = checks.INT32_MAX) -> int:
    return _checked(default, partial(checks.integer, low=low, high=high), is_plain=True)


def _of_call(low: int, high: int) -> int | None:
    return _checked(None, partial(checks.integer, low=low, high=high))


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Settings of one prompt's sampler chain, and of where its answer ends.

    The order is llama.cpp's: logit bias, penalties, DRY, top-n-sigma, top-k, typical-p,
    top-p, min-p, XTC, temperature, draw.

    Attributes:
        temperature: <= 0 takes the most likely token after bias, penalties and grammar.
        top_k: Tokens to keep; <= 0: all.
        top_p: Probability mass to keep; 1: all.
        min_p: Least probability, relative to the most likely token; 0: off.
        typical_p: Mass of locally typical tokens to keep; 1: all (arXiv 2202.00666).
        top_n_sigma: Standard deviations below the largest logit to keep; <= 0: off.
        repeat_last_n: Tokens, prompt included, that the penalties look at, if one is
            set; 0: none; -1: all.
        penalty_repeat: Divides the logits of seen tokens; 1: off.
        penalty_freq: Subtracted once for each time that a token was seen; 0: off.
        penalty_present: Subtracted once for a token that was seen; 0: off.
        xtc_probability: Chance that XTC takes the most likely tokens away; 0: off.
        xtc_threshold: Least probability of a token that XTC takes away.
        dry_multiplier: Strength of the DRY repetition penalty; 0: off.
        dry_base: Growth of that penalty per repeated token.
        dry_allowed_length: Tokens that may be repeated without penalty.
        dry_penalty_last_n: Tokens that DRY looks at; 0: none; -1: all.
        dry_breakers: Texts that end a repetition.
        mirostat: 1 or 2 replaces the filters by Mirostat; 0: off (arXiv 2007.14966).
        mirostat_tau: Surprise to aim at.
        mirostat_eta: Learning rate.
        logit_bias: Token id to a number that is added to its logit; -inf forbids it.
        schema: JSON Schema that the answer must follow, as a dict or JSON text; the
            answer is compact JSON, with properties in the schema's order.
        regex: Regular expression that the whole answer must match, in the notation of
            Rust's crate regex, without lookarounds.
        grammar: What the answer must follow: GBNF text with a rule `root`, or a Lark
            grammar as llguidance has them, which begins with `%llguidance`.
        choices: Texts of which the answer is one, exactly: with temperature 0 the most
            probable one. A space before it is left out. One that a longer one starts with
            is the answer where the model goes on in any other way than to that.
            Of schema, regex, grammar and choices there can be one.
        ignore_eos: Never end before `max_tokens`.
        max_tokens: Tokens to generate at most; None: that of the call, or if that is
            None, too, with choices as many as any of them can take, with a schema 512,
            otherwise 100.
        stop: Texts that end the answer and are not part of it; None: those of the call.
        seed: Base of the prompt's own seed; None: that of the call; negative: fresh.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A field is out of range; the message names field, value and range.
    """

    temperature: float = _real(0.0, -1e6, 1e6)
    top_k: int = _integer(40, -(2**31))
    top_p: float = _real(1.0, 0.0, 1.0)
    min_p: float = _real(0.05, 0.0, 1.0)
    typical_p: float = _real(1.0, 0.0, 1.0)
    top_n_sigma: float = _real(-1.0, -1e6, 1e6)
    repeat_last_n: int = _integer(64, -1)
    penalty_repeat: float = _real(1.0, 1e-6, 1e6)
    penalty_freq: float = _real(0.0, -1e6, 1e6)
    penalty_present: float = _real(0.0, -1e6, 1e6)
    xtc_probability: float = _real(0.0, 0.0, 1.0)
    xtc_threshold: float = _real(0.1, 0.0, 1.0)
    dry_multiplier: float = _real(0.0, 0.0, 1e6)
    dry_base: float = _real(1.75, 1.0, 1e6)
    dry_allowed_length: int = _integer(2, 0)
    dry_penalty_last_n: int = _integer(-1, -1)
    dry_breakers: Sequence[str] = _checked(("\n", ":", '"', "*"), _checked_breakers)
    mirostat: int = _integer(0, 0, 2)
    mirostat_tau: float = _real(5.0, 0.0, 1e6)
    mirostat_eta: float = _real(0.1, 0.0, 1e6)
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]] = _checked(
        (), _checked_bias
    )
    schema: str | Mapping[str, object] | None = _checked(None, checked_schema)
    regex: str | None = _checked(None, _c_string)
    grammar: str | None = _checked(None, _c_string)
    choices: Collection[str] | None = _checked(None, _checked_choices)
    ignore_eos: bool = _checked(False, checks.flag, is_plain=True)
    max_tokens: int | None = _of_call(1, checks.INT32_MAX)
    stop: str | Sequence[str] | None = _checked(None, checks.stop_texts)
    seed: int | None = _of_call(-(2**31), 2**32 - 1)

    def __post_init__(self) -> None:
        for each in _FIELDS:
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                checked = each.metadata["check"](each.name, value)
                object.__setattr__(self, each.name, checked)
        given = [name for name in CONSTRAINTS if getattr(self, name) not in (None, "")]
        if len(given) > 1:
            raise ValueError(
                f"{' and '.join(given)} cannot be given together: an answer follows one "
                "of them"
            )

    @property
    def n_answer(self) -> int:
        """Tokens that an answer can take where no `max_tokens` is given."""
        if self.schema is not None:
            return MAX_TOKENS_OF_SCHEMA
        if self.choices is None:
            return DEFAULT_MAX_TOKENS
        # A token has a byte at least, and one may be a space before the choice.
        return 1 + max(len(text.encode()) for text in self.choices)

    @property
    def has_penalty(self) -> bool:
        """Test for settings that penalize seen tokens."""
        return any(getattr(self, name) != _DEFAULTS[name] for name in PENALTIES)

    @property
    def is_greedy(self) -> bool:
        """Whether equal prompts are bound to get equal answers."""
        return self.temperature <= 0.0


_FIELDS = fields(SamplingParams)
# Those that the shim takes as they are.
PLAIN_SETTINGS = tuple(each.name for each in _FIELDS if each.metadata["is_plain"])
_DEFAULTS = {each.name: each.default for each in _FIELDS}
PENALTIES = ("penalty_repeat", "penalty_freq", "penalty_present")
# Those that say what an answer has to follow.
CONSTRAINTS = ("schema", "regex", "grammar", "choices")
# Worked into a `Request`; None: those of the call.
OF_REQUEST = ("max_tokens", "stop", "seed")


class SamplingSettings(TypedDict, total=False):
    """The fields of `SamplingParams`, as arguments of calls."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    top_n_sigma: float
    repeat_last_n: int
    penalty_repeat: float
    penalty_freq: float
    penalty_present: float
    xtc_probability: float
    xtc_threshold: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_breakers: Sequence[str]
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]]
    schema: str | Mapping[str, object] | None
    regex: str | None
    grammar: str | None
    choices: Collection[str] | None
    ignore_eos: bool
    max_tokens: int | None
    stop: str | Sequence[str] | None
    seed: int | None


def changed_fields(params: SamplingParams) -> list[str]:
    """Names of the fields that differ from the defaults.

    With a penalty its window is among them: it was 0 by default once, and journals have
    answers of that time, which no penalty changed.
    """
    changed = [name for name in _DEFAULTS if getattr(params, name) != _DEFAULTS[name]]
    is_window = params.has_penalty and "repeat_last_n" not in changed
    return [*changed, "repeat_last_n"] if is_window else changed
