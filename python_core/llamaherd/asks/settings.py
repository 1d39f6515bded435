"""Signatures and documentation of public calls, generated from the declared options."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import fields, replace
from inspect import Parameter
from typing import TYPE_CHECKING, Any, TypeVar

from llamaherd.core import checks
from llamaherd.core.declared import defaults_of, docs_of, first_sentence
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.sampling import (
    DEFAULT_SEED,
    OF_REQUEST,
    SamplingParams,
    SamplingSettings,
    changed_fields,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_F = TypeVar("_F", bound=Callable[..., object])
# Defaults of a call: the defaults of SamplingParams, with a fixed seed.
SAMPLING_DEFAULTS = {**defaults_of(SamplingParams), "seed": DEFAULT_SEED}
_PLACEHOLDER = "**settings:"


def docs_of_options(options: type) -> dict[str, str]:
    """Return the documentation of each option of a class, including sampling."""
    has_sampling = "sampling" in options.__annotations__
    return {**(docs_of(SamplingParams) if has_sampling else {}), **docs_of(options)}


def help_of(options: type, name: str, more: str = "") -> str:
    """Return one line about an option, for the help of a command.

    Args:
        options: Class that declares the option.
        name: Name of the option.
        more: Text that the command line appends.
    """
    return f"{first_sentence(docs_of_options(options).get(name, ''))} {more}".strip()


def takes(
    options: type, names: type, own_defaults: Mapping[str, Any] | None = None
) -> Callable[[_F], _F]:
    """Decorate a function that has `**settings`: add its options to signature and help.

    `inspect.signature` lists each option with its type and default. In the docstring the
    entry `**settings` under "Args:" is replaced by an entry for each option.

    Args:
        options: Dataclass that declares the options.
        names: Class of the keyword arguments, for their names and types.
        own_defaults: Defaults of the function that differ from the declared defaults.
    """
    sampling = SAMPLING_DEFAULTS if "sampling" in options.__annotations__ else {}
    defaults = {**sampling, **defaults_of(options), **(own_defaults or {})}
    docs = docs_of_options(options)
    kinds = names.__annotations__
    own = sorted(kinds, key=lambda name: name in sampling)  # sampling settings last
    return shows(
        [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=defaults[name],
                annotation=getattr(kinds[name], "__forward_arg__", kinds[name]),
            )
            for name in own
        ],
        {name: docs[name] for name in own if name in docs},
    )


def shows(
    settings: Sequence[Parameter], docs: Mapping[str, str] | None = None
) -> Callable[[_F], _F]:
    """Decorate a function: replace `**settings` in signature and help by parameters.

    Args:
        settings: Parameters.
        docs: Documentation of each parameter, for the docstring.
    """

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
        as_any: Any = function
        as_any.__signature__ = signature.replace(parameters=own)
        if function.__doc__ and docs:
            as_any.__doc__ = _with_entries(inspect.cleandoc(function.__doc__), docs)
        return function

    return shown


def _with_entries(docstring: str, docs: Mapping[str, str]) -> str:
    """Replace the entry `**settings` of a docstring by an entry for each parameter."""
    lines = docstring.splitlines()
    starts = [i for i, line in enumerate(lines) if line.strip().startswith(_PLACEHOLDER)]
    if not starts:
        return docstring
    first = starts[0]
    end = first + 1
    while end < len(lines) and lines[end].startswith(" " * 8):
        end += 1
    lines[first:end] = [
        textwrap.fill(
            f"{name}: {doc}", 88, initial_indent="    ", subsequent_indent="        "
        )
        for name, doc in docs.items()
    ]
    return "\n".join(lines)


def params_of_call(settings: SamplingSettings) -> SamplingParams:
    """Return the sampling settings of a call, with its defaults.

    Raises:
        TypeError: A setting is unknown or has the wrong type.
        ValueError: A setting is out of range.
    """
    names = [each.name for each in fields(SamplingParams)]
    for name in settings:
        if name not in names:
            hint = checks.meant(name, names) or "; llamaherd.SamplingParams has them all"
            raise ArgumentTypeError(
                f"there is no argument {name!r}{hint}",
                argument=name,
                code="unknown_argument",
                form="{problem}",
            )
    if "seed" not in settings:
        settings = {**settings, "seed": DEFAULT_SEED}
    return SamplingParams(**settings)


def params_of_prompts(
    of_call: SamplingParams, params: SamplingParams | Sequence[SamplingParams] | None
) -> SamplingParams | Sequence[SamplingParams]:
    """Return the settings of each prompt, taken from `params` or else from the call.

    Raises:
        ValueError: Both are given.
    """
    if params is None:
        return replace(of_call, max_tokens=None, stop=None, seed=None)
    for name in changed_fields(of_call):
        if name not in OF_REQUEST:
            raise ArgumentError(
                "is given in addition to params; set it in params instead",
                argument=name,
                code="conflict",
            )
    return params
