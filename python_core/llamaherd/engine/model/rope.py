"""Settings of rotary position embeddings, as in llama.h."""

from __future__ import annotations

from struct import pack, unpack
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.engine.core import checks

if TYPE_CHECKING:
    from collections.abc import Mapping

ScalingType = Literal["none", "linear", "yarn", "longrope"]
TYPES: dict[ScalingType, int] = {"none": 0, "linear": 1, "yarn": 2, "longrope": 3}

_TINY, _HUGE = 1e-9, 1e30
# For each name, the value that means the model's own setting, and the range of values
# that users may set.
NUMBERS = {
    "rope_freq_base": (0.0, _TINY, _HUGE),
    "rope_freq_scale": (0.0, _TINY, _HUGE),
    "yarn_ext_factor": (-1.0, 0.0, _HUGE),
    "yarn_attn_factor": (-1.0, 0.0, _HUGE),
    "yarn_beta_fast": (-1.0, 0.0, _HUGE),
    "yarn_beta_slow": (-1.0, 0.0, _HUGE),
}
NAMES = ("rope_scaling_type", *NUMBERS, "yarn_orig_ctx")


def checked(given: Mapping[str, object]) -> dict[str, Any]:
    """Check the settings that are not None, and round numbers to the types of C.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is out of range.
    """
    settings: dict[str, Any] = {}
    for name in NAMES:
        value = given.get(name)
        if value is None:
            continue
        if name == "rope_scaling_type":
            settings[name] = checks.choice(name, value, tuple(TYPES))
        elif name == "yarn_orig_ctx":
            settings[name] = checks.integer(name, value, 1)
        else:
            _, low, high = NUMBERS[name]
            settings[name] = as_float32(checks.real(name, value, low, high))
    return settings


def as_float32(value: float) -> float:
    """Round a number to float32."""
    number: float = unpack("f", pack("f", value))[0]
    return number


def engine_params(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the result of `checked` to fields of `lh_engine_params`."""
    kind = settings.get("rope_scaling_type")
    own = {name: default for name, (default, *_) in NUMBERS.items()}
    params: dict[str, Any] = {**own, "yarn_orig_ctx": 0, **settings}
    return {**params, "rope_scaling_type": -1 if kind is None else TYPES[kind]}
