"""Signatures and help of public calls, derived from the declared options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import TYPE_CHECKING, Any, TypeVar

from llamaherd.engine.core.declaration import entries_of, options_of, unknown_argument
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.sampling import (
    DEFAULT_SEED,
    OF_REQUEST,
    SamplingParams,
    changed_fields,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.engine.core.declaration import Options

_F = TypeVar("_F", bound=Callable[..., object])
_PLACEHOLDER = "**settings:"


def takes(
    options: type[Options], names: type, own_defaults: Mapping[str, Any] | None = None
) -> Callable[[_F], _F]:
    """Decorate a function with `**settings`: its signature and help list the options."""
    defaults = own_defaults or {}
    kinds = {
        name: getattr(kind, "__forward_arg__", kind)
        for name, kind in names.__annotations__.items()
    }
    declared = {n: option for n, option in options_of(options).items() if n in kinds}
    settings = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=defaults.get(name, option.default),
            annotation=kinds[name],
        )
        for name, option in declared.items()
    ]
    docs = {name: option.doc for name, option in declared.items()}

    def decorated(function: _F) -> _F:
        signature = inspect.signature(function)
        parameters = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not Parameter.VAR_KEYWORD
        ]
        is_named = [parameter.kind is Parameter.KEYWORD_ONLY for parameter in parameters]
        first = [*is_named, True].index(True)
        parameters[first:first] = settings
        as_any: Any = function
        as_any.__signature__ = signature.replace(parameters=parameters)
        if function.__doc__:
            as_any.__doc__ = _with_entries(inspect.cleandoc(function.__doc__), docs)
        return function

    return decorated


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
    lines[first:end] = entries_of(docs.items()).splitlines()
    return "\n".join(lines)


def params_of_call(settings: Mapping[str, Any]) -> SamplingParams:
    """Return the sampling settings of a call, with its defaults."""
    for name in settings:
        if name not in SamplingParams.declared:
            raise unknown_argument(name, SamplingParams.declared)
    return SamplingParams(**{"seed": DEFAULT_SEED, **settings})


def params_of_prompts(
    of_call: SamplingParams, params: SamplingParams | Sequence[SamplingParams] | None
) -> SamplingParams | Sequence[SamplingParams]:
    """Return the settings of each prompt, taken from `params` or else from the call."""
    if params is None:
        return of_call.replaced(max_tokens=None, stop=None, seed=None)
    for name in changed_fields(of_call):
        if name not in OF_REQUEST:
            raise ArgumentError(
                "is given in addition to params; set it in params instead",
                argument=name,
                code="conflict",
            )
    return params
