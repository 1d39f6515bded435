"""Sampling settings in requests of OpenAI's API, with fields of vLLM and llama-server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.core.argument import Argument, Id
from llamaherd.core.declaration import options_of
from llamaherd.core.sampling import MAX_TOKENS_OF_CHAT, SamplingParams
from llamaherd.server.errors import bad_field, renamed
from llamaherd.server.generate import temperature_of, token_bias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.server.answer_form import AnswerForm

MAX_TOKENS_OF_COMPLETION = 16  # OpenAI's API has these defaults
_DEFAULTS: dict[str, object] = {"temperature": 1.0, "seed": -1}  # draws anew each time
DEFAULTS: dict[str, dict[str, object]] = {
    "completions": {**_DEFAULTS, "max_tokens": MAX_TOKENS_OF_COMPLETION},
    "chats": {**_DEFAULTS, "max_tokens": MAX_TOKENS_OF_CHAT},
}
# Settings under the names that OpenAI's API and vLLM give them.
OPENAI_NAMES = {
    name: each.openai
    for name, each in SamplingParams.declared.items()
    if each.openai != name
}
# Names of llama-server for fields that have another name here.
ALIASES = {
    "repeat_penalty": "repetition_penalty",
    "dry_sequence_breakers": "dry_breakers",
}
_MOST_PENALTY = 2.0  # OpenAI's range is -2 to 2
_PENALTIES = ("presence_penalty", "frequency_penalty")
# Settings whose fields are handled separately below.
_OWN = frozenset({"temperature", "top_p", "max_tokens", "stop", "seed", "logit_bias"})


# Library settings of the request fields that are passed on unchanged.
_SETTINGS = {
    field: each.name
    for field, each in options_of(SamplingParams, "completions").items()
    if field not in _OWN
}


def alias_names(given: Mapping[str, object]) -> dict[str, str]:
    """Map settings of the library to the alias under which a request has them."""
    return {
        _SETTINGS[name]: alias
        for alias, name in ALIASES.items()
        if alias in given and name not in given
    }


def sampling_of(
    given: Mapping[str, object], max_tokens: int, form: AnswerForm
) -> SamplingParams:
    """Return sampling settings, with OpenAI's defaults or else the library's defaults.

    Args:
        given: Fields of the request that are not null.
        max_tokens: Maximum number of tokens of the answer.
        form: Constraint of the answer.

    Raises:
        ApiError: A field is invalid.
        TypeError: A field has the wrong type.
        ValueError: A field is out of range.
    """
    seed = -1  # a random seed
    if "seed" in given:
        # The seed is mapped to the supported range; equal seeds remain equal.
        number = checks.integer("seed", given["seed"], -(1 << 63), (1 << 63) - 1)
        seed = number & 0xFFFFFFFF
    for name in _PENALTIES:
        if name in given:
            checks.real(name, given[name], -_MOST_PENALTY, _MOST_PENALTY)
    with renamed({**OPENAI_NAMES, **form.names, **alias_names(given)}):
        return SamplingParams(
            temperature=temperature_of(given.get("temperature", 1.0)),
            top_p=checks.real("top_p", given.get("top_p", 1.0), 0.0, 1.0),
            max_tokens=max_tokens,
            stop=checks.stop_texts("stop", given.get("stop")),
            seed=seed,
            logit_bias=_bias(given.get("logit_bias", {})),
            **form.settings,
            **_further(given),
        )


def _further(given: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings that OpenAI's API lacks, or that have another name there."""
    own = dict(given)
    for alias, name in ALIASES.items():
        if alias in own and own.setdefault(name, own[alias]) != own[alias]:
            raise bad_field(alias, f"{alias} and {name} differ")
    return {name: own[field] for field, name in _SETTINGS.items() if field in own}


def _bias(value: object) -> Mapping[int, float]:
    if not isinstance(value, dict):
        raise bad_field("logit_bias", "logit_bias must map token ids to numbers")
    return {
        token: checks.real(Argument("logit_bias", (Id(token),)), number, -100.0, 100.0)
        for token, number in token_bias(value).items()
    }
