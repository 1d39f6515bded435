"""How a next token is chosen: `SamplingParams`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields

from llamaherd.core import checks

DEFAULT_MAX_TOKENS = 100

_REALS = {
    "temperature": (-1e6, 1e6),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "typical_p": (0.0, 1.0),
    "top_n_sigma": (-1e6, 1e6),
    "penalty_repeat": (1e-6, 1e6),
    "penalty_freq": (-1e6, 1e6),
    "penalty_present": (-1e6, 1e6),
    "xtc_probability": (0.0, 1.0),
    "xtc_threshold": (0.0, 1.0),
    "dry_multiplier": (0.0, 1e6),
    "dry_base": (1.0, 1e6),
    "mirostat_tau": (0.0, 1e6),
    "mirostat_eta": (0.0, 1e6),
}
_INTEGERS = {
    "top_k": (-(2**31), checks.INT32_MAX),
    "repeat_last_n": (-1, checks.INT32_MAX),
    "dry_allowed_length": (0, checks.INT32_MAX),
    "dry_penalty_last_n": (-1, checks.INT32_MAX),
    "mirostat": (0, 2),
}
_OPTIONAL_INTEGERS = {
    "max_tokens": (1, checks.INT32_MAX),
    "seed": (-(2**31), 2**32 - 1),
}


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
        repeat_last_n: Tokens, prompt included, that the penalties look at; 0: none;
            -1: all.
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
        grammar: GBNF text with a rule `root` that the answer must follow.
        choices: Texts of which the answer is one, exactly; not beside a grammar. A space
            that the model puts before it is left out. If a longer one starts with it, it
            is the answer where the model goes on in any other way than to the longer one.
        ignore_eos: Never end before `max_tokens`.
        max_tokens: Tokens to generate at most; None: that of the call, or if that is
            None, too, with choices as many as any of them can take, otherwise 100.
        stop: Texts that end the answer and are not part of it; None: those of the call.
        seed: Base of the prompt's own seed; None: that of the call; negative: fresh.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A field is out of range; the message names field, value and range.
    """

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 1.0
    min_p: float = 0.05
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    repeat_last_n: int = 0
    penalty_repeat: float = 1.0
    penalty_freq: float = 0.0
    penalty_present: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_breakers: Sequence[str] = ("\n", ":", '"', "*")
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]] = ()
    grammar: str | None = None
    choices: Collection[str] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = None
    stop: str | Sequence[str] | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, (low, high) in _REALS.items():
            self._set(name, checks.real(name, getattr(self, name), low, high))
        for name, (least, most) in _INTEGERS.items():
            self._set(name, checks.integer(name, getattr(self, name), least, most))
        for name, (least, most) in _OPTIONAL_INTEGERS.items():
            if getattr(self, name) is not None:
                self._set(name, checks.integer(name, getattr(self, name), least, most))
        checks.flag("ignore_eos", self.ignore_eos)
        if self.grammar is not None:
            _check_c_string("grammar", self.grammar)
        if self.choices is not None:
            self._set("choices", _checked_choices(self.choices))
            if self.grammar:
                raise ValueError(
                    "grammar and choices cannot be given together: choices make a "
                    "grammar of their own"
                )
        if self.stop is not None:
            self._set("stop", checks.stop_texts("stop", self.stop))
        self._set("dry_breakers", checks.stop_texts("dry_breakers", self.dry_breakers))
        for i, breaker in enumerate(self.dry_breakers):
            _check_c_string(f"dry_breakers[{i}]", breaker)
        self._set("logit_bias", _checked_bias(self.logit_bias))

    @property
    def n_answer(self) -> int:
        """Tokens that an answer can take where no `max_tokens` is given."""
        if self.choices is None:
            return DEFAULT_MAX_TOKENS
        # A token has a byte at least, and one may be a space before the choice.
        return 1 + max(len(text.encode()) for text in self.choices)

    @property
    def is_greedy(self) -> bool:
        """Whether equal prompts are bound to get equal answers."""
        return self.temperature <= 0.0

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def changed_fields(params: SamplingParams) -> list[str]:
    """Names of the fields that differ from the defaults."""
    default = SamplingParams()
    return [
        field.name
        for field in fields(params)
        if getattr(params, field.name) != getattr(default, field.name)
    ]


def _check_c_string(name: str, value: str) -> None:
    if "\0" in checks.text(name, value):
        raise ValueError(f"{name} must not contain a NUL character")


class _Texts(tuple[str, ...]):  # noqa: SLOT001 - tuples can have no slot with a value
    """Checked texts. There can be thousands of them in each of very many settings."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash

    def __reduce__(self) -> tuple[type[_Texts], tuple[tuple[str, ...]]]:
        return _Texts, (tuple(self),)  # in another process texts have other hashes


def _checked_choices(choices: object) -> _Texts:
    """Each once and sorted: equal settings compare equal, whatever came first."""
    if isinstance(choices, _Texts):
        return choices
    if isinstance(choices, (str, bytes, bytearray, Mapping)) or not isinstance(
        choices, Collection
    ):
        raise TypeError(f"choices must be a list of str, not {checks.shown(choices)}")
    texts = list(choices)
    if not texts:
        raise ValueError("choices must have at least one text")
    for i, text in enumerate(texts):
        _check_c_string(f"choices[{i}]", text)
        if not text:
            raise ValueError(f"choices[{i}] must not be empty")
    return _Texts(sorted({str(text) for text in texts}))


def _checked_bias(bias: object) -> tuple[tuple[int, float], ...]:
    """Pairs sorted by token: equal settings compare equal, and can be hashed."""
    if isinstance(bias, Mapping):
        bias = tuple(bias.items())
    if not isinstance(bias, (list, tuple)):
        raise TypeError(
            "logit_bias must map token ids to numbers, not be of type "
            f"{type(bias).__name__}"
        )
    pairs = {}
    for pair in bias:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                "logit_bias must hold pairs of a token id and a number, not "
                f"{checks.shown(pair)}"
            )
        token, value = pair
        name = f"logit_bias[{token!r}]"
        forbidden = isinstance(value, float) and value == -math.inf
        number = value if forbidden else checks.real(name, value, -1e30, 1e30)
        pairs[checks.integer("logit_bias's token", token, 0)] = number
    return tuple(sorted(pairs.items()))
