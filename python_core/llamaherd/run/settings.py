"""Settings of sampling as arguments of the public calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from inspect import Parameter
from typing import TYPE_CHECKING, TypeVar

from llamaherd.core import checks
from llamaherd.core.sampling import (
    DEFAULT_SEED,
    OF_REQUEST,
    SamplingParams,
    SamplingSettings,
    changed_fields,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_F = TypeVar("_F", bound=Callable[..., object])
_OF_CALL = {"seed": DEFAULT_SEED}  # defaults that differ from those of SamplingParams


def shows(settings: Sequence[Parameter]) -> Callable[[_F], _F]:
    """Has `help` and `inspect` show these where a function says `**settings`."""

    def shown(function: _F) -> _F:
        signature = inspect.signature(function)
        own = [
            each
            for each in signature.parameters.values()
            if each.kind is not Parameter.VAR_KEYWORD
        ]
        is_named = [each.kind is Parameter.KEYWORD_ONLY for each in own]
        first = [*is_named, True].index(True)
        own[first:first] = settings
        function.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return function

    return shown


shows_settings = shows(
    [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=_OF_CALL.get(each.name, each.default),
            annotation=each.type,
        )
        for each in fields(SamplingParams)
    ]
)


def params_of_call(settings: SamplingSettings) -> SamplingParams:
    """The settings that a call was given, with its defaults.

    Raises:
        TypeError: There is no such setting, or one has the wrong type.
        ValueError: One is out of range.
    """
    names = [each.name for each in fields(SamplingParams)]
    for name in settings:
        if name not in names:
            hint = checks.meant(name, names) or "; llamaherd.SamplingParams has them all"
            raise TypeError(f"there is no argument {name!r}{hint}")
    if "seed" not in settings:
        settings = {**settings, "seed": DEFAULT_SEED}
    return SamplingParams(**settings)


def params_of_prompts(
    of_call: SamplingParams, params: SamplingParams | Sequence[SamplingParams] | None
) -> SamplingParams | Sequence[SamplingParams]:
    """The settings of sampling: those of the call or `params`, but not both.

    Raises:
        ValueError: Both are given.
    """
    if params is None:
        return replace(of_call, max_tokens=None, stop=None, seed=None)
    for name in changed_fields(of_call):
        if name not in OF_REQUEST:
            raise ValueError(f"{name} is given beside params; set it in params instead")
    return params
