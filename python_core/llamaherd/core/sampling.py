"""Sampling settings of a prompt: `SamplingParams`."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from llamaherd.core import checks
from llamaherd.core.argument import Argument, Id, argument_of
from llamaherd.core.declared import check_fields, declared, suggests_names
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.json_text import DuplicateKeyError, read_json
from llamaherd.core.plain import plain_tree
from llamaherd.core.words import words

if TYPE_CHECKING:
    from llamaherd.core.argument import Name

DEFAULT_MAX_TOKENS = 100
DEFAULT_SEED = 1234  # default seed of a call
MAX_TOKENS_OF_SCHEMA = 512  # default of max_tokens with a schema
MAX_TOKENS_OF_CHAT = 1024  # a chat model ends its answers by itself
MAX_CHOICES = 100_000  # also of labels
MAX_SCHEMA = 2_000_000  # characters, see also capi_shim/constraint/llguidance.cpp

_T = TypeVar("_T")
_Check = Callable[[str, Any], object]


def _c_string(name: Name, value: object) -> str:
    text = checks.text(name, value)
    if "\0" in text:
        raise ArgumentError("must not contain a NUL character", argument=name)
    return text


def _pattern(name: Name, value: object) -> str:
    """Return the text of a constraint; refuse "", which would constrain no answer."""
    text = _c_string(name, value)
    if not text.strip():
        raise ArgumentError("must not be empty", argument=name, code="empty")
    return text


def _checked_breakers(name: str, breakers: object) -> tuple[str, ...]:
    texts = checks.stop_texts(name, breakers)
    for i, text in enumerate(texts):
        _c_string(argument_of(name).at(i), text)
    return texts


class _Texts(tuple[str, ...]):  # noqa: SLOT001 - tuples can have no slot with a value
    """Checked texts whose hash is cached, because a call may have thousands of texts."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash

    def __reduce__(self) -> tuple[type[_Texts], tuple[tuple[str, ...]]]:
        return _Texts, (tuple(self),)  # hashes of texts differ between processes


def _checked_choices(name: str, choices: object) -> _Texts:
    """Return sorted choices without duplicates, so that equal settings compare equal."""
    if isinstance(choices, _Texts):
        return choices
    choices = checks.column_as_list(choices)
    what = "" if isinstance(choices, AbstractSet) else checks.no_list(choices)
    is_one = isinstance(choices, (str, bytes, bytearray, Mapping))
    if what or is_one or not isinstance(choices, Collection):
        raise ArgumentTypeError(
            f"must be {words().texts}, not {what or checks.shown(choices)}",
            argument=name,
        )
    where = argument_of(name)
    if len(choices) > MAX_CHOICES:
        raise ArgumentError(
            f"must have at most {MAX_CHOICES} texts, not {len(choices)}",
            argument=name,
            code="too_many",
        )
    texts = [_c_string(where.at(i), text) for i, text in enumerate(choices)]
    if not texts:
        raise ArgumentError("must have at least one text", argument=name, code="empty")
    for i, text in enumerate(texts):
        if not text:
            raise ArgumentError("must not be empty", argument=where.at(i), code="empty")
    return _Texts(sorted(set(texts)))


def checked_schema(name: str, schema: object) -> str:
    """Return a JSON Schema as compact JSON, in the order of its keys."""
    if isinstance(schema, (str, bytes, bytearray)):
        try:
            schema = read_json(schema)
        except DuplicateKeyError as error:
            raise ArgumentError(
                f"cannot be used: {error}", argument=name, code="duplicate"
            ) from None
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"is not valid JSON: {error}", argument=name) from None
    if not isinstance(schema, (Mapping, bool)):
        raise ArgumentTypeError(
            f"must be a JSON Schema, as {words().mapping} or JSON, not "
            f"{checks.shown(schema)}",
            argument=name,
        )
    try:
        text = json.dumps(
            plain_tree(schema),
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(
            f"cannot be written as JSON: {error}", argument=name
        ) from None
    if len(text) > MAX_SCHEMA:
        raise ArgumentError(
            f"has {len(text)} characters as JSON, more than {MAX_SCHEMA}",
            argument=name,
            code="too_many",
        )
    return _c_string(name, text)


def _checked_bias(name: str, bias: object) -> tuple[tuple[int, float], ...]:
    """Return hashable pairs (token, bias), sorted by token."""
    if isinstance(bias, Mapping):
        bias = tuple(bias.items())
    if not isinstance(bias, (list, tuple)):
        raise ArgumentTypeError(
            f"must map token ids to numbers, not be {checks.shown(bias)}",
            argument=name,
        )
    pairs: dict[int, float] = {}
    for pair in bias:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ArgumentTypeError(
                f"must hold pairs of a token id and a number, not {checks.shown(pair)}",
                argument=name,
            )
        token, value = pair
        step = Id(token) if isinstance(token, int) else str(token)
        where = argument_of(name).at(step)
        forbidden = isinstance(value, float) and value == -math.inf
        number = -math.inf if forbidden else checks.real(where, value, -1e30, 1e30)
        number_of_token = _checked_token(where, token)
        if pairs.get(number_of_token, number) != number:
            raise ArgumentError("is given twice, with different numbers", argument=where)
        pairs[number_of_token] = number
    return tuple(sorted(pairs.items()))


def _checked_tokens(name: str, tokens: object) -> tuple[int, ...]:
    """Return sorted token ids without duplicates, so that equal settings are equal."""
    if isinstance(tokens, (str, bytes, bytearray, Mapping)) or not isinstance(
        tokens, Collection
    ):
        raise ArgumentTypeError(
            f"must be a list of token ids, not {checks.shown(tokens)}", argument=name
        )
    where = argument_of(name)
    found = {_checked_token(where.at(i), token) for i, token in enumerate(tokens)}
    return tuple(sorted(found))


def _checked_token(where: Argument, token: object) -> int:
    """Convert a key of a mapping to a token id."""
    problem = "is not for a token id, which is an integer of at least 0"
    if isinstance(token, bool) or not hasattr(token, "__index__"):
        raise ArgumentTypeError(problem, argument=where)
    if operator.index(token) < 0:
        raise ArgumentError(problem, argument=where, code="out_of_range")
    return checks.integer(where, token, 0)


def _checked(default: _T, check: _Check, *, is_plain: bool = False) -> _T:
    """Declare a checked field.

    `is_plain`: the native library receives the value unchanged.
    """
    return declared(default, check, is_plain=is_plain)


def _real(default: float, low: float, high: float) -> float:
    return _checked(default, partial(checks.real, low=low, high=high), is_plain=True)


def _integer(default: int, low: int, high: int = checks.INT32_MAX) -> int:
    return _checked(default, partial(checks.integer, low=low, high=high), is_plain=True)


def _of_call(low: int, high: int) -> int | None:
    return _checked(None, partial(checks.integer, low=low, high=high))


@suggests_names
@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Sampling settings of one prompt, and conditions that end its answer.

    The order is llama.cpp's: logit bias, penalties, DRY, top-n-sigma, top-k, typical-p,
    top-p, min-p, XTC, temperature, draw.

    Attributes:
        temperature: Sampling temperature. Higher values give more varied answers; 0 or
            less takes the most likely token after bias, penalties and grammar.
        top_k: Number of most likely tokens to draw from. 0 or less draws from all.
        top_p: Cumulative probability of the most likely tokens to draw from. 1 draws from
            all.
        min_p: Minimum probability of a token to draw, relative to the most likely token.
            0 draws from all.
        typical_p: Cumulative probability of the locally typical tokens to draw from. 1
            draws from all (arXiv 2202.00666).
        top_n_sigma: Maximum distance of a token's logit from the largest logit, in
            standard deviations of the logits. 0 or less draws from all.
        repeat_last_n: Number of last tokens, including prompt tokens, that the penalties
            consider. 0 considers no tokens, -1 considers all tokens.
        penalty_repeat: Repetition penalty that divides the logits of seen tokens. 1 turns
            it off.
        penalty_freq: Frequency penalty, subtracted once per occurrence of a token. 0
            turns it off.
        penalty_present: Presence penalty, subtracted once from each token that occurred.
            0 turns it off.
        xtc_probability: Probability that XTC removes the most likely tokens. 0 turns it
            off.
        xtc_threshold: Minimum probability of a token that XTC removes.
        dry_multiplier: Strength of the DRY repetition penalty. 0 turns it off.
        dry_base: Base of the DRY penalty's growth per repeated token.
        dry_allowed_length: Number of tokens that may be repeated without DRY penalty.
        dry_penalty_last_n: Number of last tokens that DRY considers. 0 considers no
            tokens, -1 considers all tokens.
        dry_breakers: Texts that end a repetition for DRY.
        mirostat: Version of Mirostat, 1 or 2, that replaces the filters. 0 turns it off
            (arXiv 2007.14966).
        mirostat_tau: Target surprise of Mirostat.
        mirostat_eta: Learning rate of Mirostat.
        logit_bias: Numbers to add to the logits of tokens, by token id. -inf forbids a
            token.
        schema: JSON Schema that each answer follows. A dict or JSON text, in a call also
            the path of a file, a pydantic model, a dataclass or a TypedDict. The answer
            is compact JSON, with properties in the schema's order.
        regex: Regular expression that the whole answer matches. Its notation is the
            notation of Rust's crate regex, without lookarounds.
        grammar: Grammar that each answer follows. Either GBNF text with a rule `root`, or
            a Lark grammar in llguidance's notation, which begins with `%llguidance`.
        choices: Texts; each answer is exactly one of them. With temperature 0 the answer
            is the most probable choice. An answer never starts with a space. If a longer
            choice starts with a shorter choice, the shorter choice is the answer unless
            the model continues to the longer choice. Only one of schema, regex, grammar
            and choices can be given.
        quote_from: Text from which the quotes of a schema are copied. In a call it may
            be a list with one text per prompt. None uses the prompt, or with `chat` the
            last message of the user. See `structured.type_quote`.
        ignore_eos: Continue until `max_tokens`, ignoring the model's end token.
        min_tokens: Minimum number of tokens of an answer. Until the answer has this
            many tokens, no token that ends an answer is drawn, and stop texts do not
            end the answer. The number is at most `max_tokens`. 0 sets no minimum. The
            option cannot be combined with schema, regex, grammar or choices.
        stop_token_ids: Tokens that end an answer, in addition to the model's end
            tokens, and are not part of the answer. With a schema, regex or grammar, these
            tokens end the answer only where the constraint allows its end. The tokens
            also end answers with `ignore_eos`.
        max_tokens: Maximum number of tokens to generate per prompt. None uses the value
            of the call. If the call sets none either, the maximum is 512 with a schema,
            enough for the longest choice with choices, and otherwise 100; with `chat`
            1,024, or as many as fit into the context.
        stop: Texts that end an answer and are not part of the answer. None uses the
            stop texts of the call.
        seed: Seed of the random numbers. Each prompt draws with its own seed, derived
            from this seed and the prompt's index. None uses the seed of the call. If the
            call has no seed either, or if the seed is negative, a new seed is drawn, and
            the statistics report the new seed.

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
    regex: str | None = _checked(None, _pattern)
    grammar: str | None = _checked(None, _pattern)
    choices: Collection[str] | None = _checked(None, _checked_choices)
    quote_from: str | None = _checked(None, checks.text)
    ignore_eos: bool = _checked(False, checks.flag, is_plain=True)
    min_tokens: int = _integer(0, 0)
    stop_token_ids: Collection[int] = _checked((), _checked_tokens)
    max_tokens: int | None = _of_call(1, checks.INT32_MAX)
    stop: str | Sequence[str] | None = _checked(None, checks.stop_texts)
    seed: int | None = _of_call(-(2**31), 2**32 - 1)

    def __post_init__(self) -> None:
        check_fields(self)
        given = [name for name in CONSTRAINTS if getattr(self, name) not in (None, "")]
        if len(given) > 1:
            raise ArgumentError(
                "cannot be given together: an answer follows one of them",
                argument=given[0],
                code="conflict",
                form=f"{{name}} and {' and '.join(given[1:])} {{problem}}",
            )
        if self.min_tokens > 0 and given:
            raise ArgumentError(
                "cannot be given together: the constraint decides where an answer ends",
                argument=given[0],
                code="conflict",
                form="min_tokens and {name} {problem}",
            )

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
        return any(getattr(self, name) != _DEFAULTS[name] for name in PENALTIES)

    @property
    def is_greedy(self) -> bool:
        """Whether equal prompts always produce equal answers."""
        return self.temperature <= 0.0


_FIELDS = fields(SamplingParams)
# Fields whose values are passed to the native library unchanged.
PLAIN_SETTINGS = tuple(each.name for each in _FIELDS if each.metadata["is_plain"])
_DEFAULTS = {each.name: each.default for each in _FIELDS}
PENALTIES = ("penalty_repeat", "penalty_freq", "penalty_present")
# Fields that constrain answers.
CONSTRAINTS = ("schema", "regex", "grammar", "choices")
# Fields that may be lists with one element per prompt.
PER_PROMPT = (*CONSTRAINTS, "quote_from")
# Fields that `Request` also has; None means the value of the call.
OF_REQUEST = ("max_tokens", "stop", "seed")


class SamplingSettings(TypedDict, total=False):
    """Fields of `SamplingParams`, as arguments of calls."""

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
    quote_from: str | None
    ignore_eos: bool
    min_tokens: int
    stop_token_ids: Collection[int]
    max_tokens: int | None
    stop: str | Sequence[str] | None
    seed: int | None


def changed_fields(params: SamplingParams) -> list[str]:
    """Return the names of the fields that differ from the defaults.

    If a penalty is set, `repeat_last_n` is always included. Its default was 0 in an
    earlier version, so journals of that version have answers without the effect of the
    penalty.
    """
    changed = [name for name in _DEFAULTS if getattr(params, name) != _DEFAULTS[name]]
    is_window = params.has_penalty and "repeat_last_n" not in changed
    return [*changed, "repeat_last_n"] if is_window else changed
