"""A value of each sampling setting, and a text as no user gives it."""

from __future__ import annotations


class Liar(str):
    """A text that writes itself in another way."""

    __slots__ = ()

    def __str__(self) -> str:
        return "lie"

    __repr__ = __str__

    def __format__(self, form: str) -> str:
        return "lie"


# A value of each setting, and other settings with which the value has an effect.
EFFECTIVE: dict[str, tuple[object, dict[str, object]]] = {
    "temperature": (0.7, {}),
    "top_k": (5, {"temperature": 1.0}),
    "top_p": (0.9, {"temperature": 1.0}),
    "min_p": (0.2, {"temperature": 1.0}),
    "typical_p": (0.9, {"temperature": 1.0}),
    "top_n_sigma": (1.0, {"temperature": 1.0}),
    "repeat_last_n": (5, {"penalty_repeat": 1.2}),
    "penalty_repeat": (1.2, {}),
    "penalty_freq": (0.5, {}),
    "penalty_present": (0.5, {}),
    "xtc_probability": (0.5, {"temperature": 1.0}),
    "xtc_threshold": (0.2, {"temperature": 1.0, "xtc_probability": 0.5}),
    "dry_multiplier": (0.8, {}),
    "dry_base": (2.0, {"dry_multiplier": 0.8}),
    "dry_allowed_length": (3, {"dry_multiplier": 0.8}),
    "dry_penalty_last_n": (9, {"dry_multiplier": 0.8}),
    "dry_breakers": ((";",), {"dry_multiplier": 0.8}),
    "dynatemp_range": (0.3, {"temperature": 1.0}),
    "dynatemp_exponent": (2.0, {"temperature": 1.0, "dynatemp_range": 0.3}),
    "mirostat": (2, {"temperature": 1.0}),
    "mirostat_tau": (3.0, {"temperature": 1.0, "mirostat": 2}),
    "mirostat_eta": (0.2, {"temperature": 1.0, "mirostat": 1}),
    "logit_bias": ({3: 1.0}, {}),
    "schema": ({"type": "integer"}, {}),
    "regex": ("[a-z]+", {}),
    "grammar": ('root ::= "a"', {}),
    "choices": (("a", "b"), {}),
    "quote_from": ("a b", {}),  # a call without quotes refuses this setting
    "ignore_eos": (True, {}),
    "min_tokens": (3, {}),
    "stop_token_ids": ((5,), {}),
    "max_tokens": (5, {}),
    "stop": ("x", {}),
    "seed": (5, {"temperature": 1.0}),
}
