"""Settings of calls: signatures that list them, and what each prompt gets of them."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from inspect import Parameter
from typing import TYPE_CHECKING, Any, TypeVar

from llamaherd.calls.asks.rendering import quotable_text, with_schemas
from llamaherd.calls.chat.conversations import prompts_or_refusals, refusal_of
from llamaherd.calls.structured.quoting import text_has_quotes
from llamaherd.calls.structured.shape import Shape, schema_text, shape_of
from llamaherd.calls.structured.subschemas import costly_rule
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.declaration import (
    Options,
    entries_of,
    options_of,
    unknown_argument,
)
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError, Failure
from llamaherd.engine.core.sampling import (
    CONSTRAINTS,
    DEFAULT_SEED,
    OF_CHOICES,
    OF_REQUEST,
    PER_PROMPT,
    SamplingParams,
    changed_fields,
)
from llamaherd.engine.core.words import name_of
from llamaherd.engine.native.shim import derive_seed

if TYPE_CHECKING:
    from llamaherd.calls.asks.options import GenerateOptions

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


def idle_settings(options: Options) -> dict[str, str]:
    """Return a reason for each changed option that has no effect, by name."""
    reasons: dict[str, str] = {}
    for name in options.changed():
        if getattr(options, name) != ():
            for idle in options.declared[name].idle:
                if idle.holds(options):
                    reasons.setdefault(name, idle.why)
    return reasons


def is_constrained(sampling: SamplingParams) -> bool:
    """Return whether answers with these settings are constrained."""
    return any(getattr(sampling, name) not in (None, "") for name in CONSTRAINTS)


def shape_with(
    params: SamplingParams,
    make: Callable[[str], object] | None = None,
    *,
    is_strict: bool = False,
) -> Shape | None:
    """Return the prepared schema of an answer, which `make` converts; None without one.

    Raises:
        ValueError: The schema, or one in a grammar, cannot be used.
    """
    if params.grammar and costly_rule(params.grammar):
        raise ArgumentError(
            "a %json rule has too many patterns for one text: leave out patterns, or "
            "write them as one pattern",
            argument="grammar",
            code="too_many",
            form="{name}: {problem}",
        )
    if not isinstance(params.schema, str):
        return None
    shape = replace(_closed_shape(params.schema), make=make)
    if is_strict and shape.unenforced:
        raise ArgumentError(
            f"masks cannot enforce {', '.join(shape.unenforced)} of the schema",
            argument="strict",
            code="conflict",
            form="{name}: {problem}",
        )
    if not shape.has_quotes or params.quote_from is None:
        return shape
    return shape.quoting(params.quote_from)


@lru_cache(maxsize=256)
def _closed_shape(schema: str) -> Shape:
    return shape_of(schema, closes=True)


# Settings that only apply to the answer, not to the thought before it.
_OF_ANSWER: dict[str, Any] = {
    **dict.fromkeys((*PER_PROMPT, *OF_REQUEST)),
    "logit_bias": (),
    "ignore_eos": False,
    "min_tokens": 0,
    "stop_token_ids": (),
}


class Setting:
    """Settings that prompts of a call share, with what follows from them alone.

    `limit` is the `max_tokens` that the caller set, or None. `refusal` is the reason why
    the constraint cannot be compiled, set by whoever tries with a model.
    """

    def __init__(
        self,
        sampling: SamplingParams,
        of_call: SamplingParams,
        make: Callable[[str], object] | None = None,
        *,
        is_strict: bool = False,
    ) -> None:
        self.sampling = sampling
        self.limit = sampling.max_tokens or of_call.max_tokens
        self.stop = tuple((of_call if sampling.stop is None else sampling).stop or ())
        self.refusal = ""
        self._of_call, self._make, self._is_strict = of_call, make, is_strict

    def quoting(self, text: str) -> Setting:
        """Return a copy for a prompt whose answer quotes from a text."""
        sampling = self.sampling.replaced(quote_from=text)
        return Setting(sampling, self._of_call, self._make, is_strict=self._is_strict)

    @cached_property
    def constraint(self) -> SamplingParams:
        """The constraint alone; equal constraints are equal."""
        values = vars(self.sampling)
        return SamplingParams(**{k: values[k] for k in PER_PROMPT if k in values})

    @cached_property
    def of_thought(self) -> SamplingParams:
        """Settings of a thought before the answer."""
        return self.sampling.replaced(**_OF_ANSWER)

    @cached_property
    def is_constrained(self) -> bool:
        """Whether answers are constrained."""
        return is_constrained(self.sampling)

    @property
    def shape(self) -> Shape | None:
        """Prepared schema; None without one, or if it cannot be used."""
        return self.shape_or_problem[0]

    @property
    def problem(self) -> str:
        """Reason why all prompts with these settings fail; "" without one."""
        return self.shape_or_problem[1] or self.refusal or self.least_problem

    @cached_property
    def shape_or_problem(self) -> tuple[Shape | None, str]:
        """Prepared schema, and the reason why it cannot be used."""
        try:
            return shape_with(self.sampling, self._make, is_strict=self._is_strict), ""
        except ValueError as error:
            argument = getattr(error, "argument", "") or "schema"
            return None, Failure(str(error), "constraint", argument)

    @cached_property
    def least_problem(self) -> str:
        """Error message if `min_tokens` exceeds `max_tokens`; "" otherwise."""
        most = self.limit or self.sampling.n_answer
        if self.sampling.min_tokens <= most:
            return ""
        return Failure(
            f"{name_of('min_tokens')} is {self.sampling.min_tokens}, but an answer may "
            f"have up to {most} tokens",
            "constraint",
            "min_tokens",
        )

    @cached_property
    def stop_problem(self) -> str:
        """Error message if a stop text is part of a choice; "" otherwise."""
        choices = self.sampling.choices or ()
        for text in self.stop if choices else ():
            choice = next((choice for choice in choices if text in choice), None)
            if choice is not None:
                return Failure(
                    f"{name_of('stop')} has {checks.quoted(text)}, which is part of the "
                    f"choice {checks.quoted(choice)} and would cut it: leave it out, an "
                    "answer with choices ends with its choice",
                    "constraint",
                    "stop",
                )
        return ""


@dataclass(frozen=True, slots=True)
class Asked:
    """Checked arguments of a call that do not depend on a model.

    Chats in `prompts` describe schemas; prompts with the same settings share a `Setting`.
    """

    prompts: Sequence[object]
    settings: Sequence[Setting]
    base: int

    @property
    def different(self) -> list[Setting]:
        """Each setting once."""
        return list(dict.fromkeys(self.settings))

    def seed(self, i: int, place: int) -> int:
        """Return the seed of prompt i, whose index in the whole call is `place`."""
        seed = self.settings[i].sampling.seed
        return derive_seed(self.base if seed is None else _base_seed(seed), place)

    def warn_idle(self, options: GenerateOptions) -> None:
        """Warn of settings without effect, once per setting and reason."""
        different = self.different
        reasons = {
            pair: None
            for values in (options, *(setting.sampling for setting in different))
            for pair in idle_settings(values).items()
        }
        if any(one.sampling.choices is not None and one.stop for one in different):
            reasons["stop", OF_CHOICES.why] = None
        for name, why in reasons:
            warn_caller(f"{name_of(name)} has no effect: {why}")


def asked_of(prompts: object, options: GenerateOptions) -> Asked:
    """Check the prompts and sampling settings of a call, apart from the model."""
    of_call, make, columns = _divide_settings(options.sampling)
    prompt_list = prompts_or_refusals(prompts)
    n = len(prompt_list)
    params = _params_of_prompts(of_call, options.params)
    base = of_call.seed
    if isinstance(params, SamplingParams):
        base = base if params.seed is None else params.seed
        params = [params.replaced(seed=None)] * n
    columns["params"] = _checked_params(params)
    for name, column in columns.items():
        if len(column) != n:
            raise ArgumentError(
                f"must have one element per prompt ({n}), not {len(column)}",
                argument=name,
                code="wrong_length",
            )
    sources = columns.get("quote_from", [])
    for i, source in enumerate(sources):
        refusal = None if source is None else refusal_of(source, "quote_from")
        if refusal is not None:
            prompt_list[i], sources[i] = refusal, None
    known: dict[tuple[int, ...], Setting] = {}  # usually few distinct objects

    def setting(row: tuple[Any, ...]) -> Setting:
        key = tuple(map(id, row))
        if key not in known:
            values = dict(zip(columns, row, strict=True))
            sampling, own_make = values.pop("params"), values.pop("make", make)
            if values:
                sampling = sampling.replaced(**values)
            known[key] = Setting(sampling, of_call, own_make, is_strict=options.strict)
        return known[key]

    settings = list(map(setting, zip(*columns.values(), strict=True)))
    _check_samples(options.n, known.values())
    settings = _with_sources(settings, prompt_list)
    if options.chat and options.show_schema:
        prompt_list = with_schemas(prompt_list, [one.sampling.schema for one in settings])
    return Asked(prompt_list, settings, _base_seed(base))


def schemas_of(options: GenerateOptions) -> tuple[str, ...]:
    """Return the JSON Schema of all prompts of a call; () if they have none."""
    of_call, _, _ = _divide_settings(options.sampling)
    schema = getattr(_params_of_prompts(of_call, options.params), "schema", None)
    return (schema,) if isinstance(schema, str) else ()


def _divide_settings(
    settings: Mapping[str, Any],
) -> tuple[SamplingParams, Callable[[str], object] | None, dict[str, list[Any]]]:
    """Return the settings of all prompts, and lists with an element per prompt."""
    columns = {
        name: list(value) for name, value in settings.items() if _is_each(name, value)
    }
    common = {name: value for name, value in settings.items() if name not in columns}
    make = None
    if common.get("schema") is not None:
        common["schema"], make = schema_text(common["schema"])
    if "schema" in columns:
        schemas = columns["schema"]
        read = {id(schema): schema for schema in schemas if schema is not None}
        read_texts = {key: schema_text(schema) for key, schema in read.items()}
        pairs = [read_texts.get(id(schema), (None, None)) for schema in schemas]
        columns["schema"] = [text for text, _ in pairs]
        columns["make"] = [make for _, make in pairs]
    for name in common:
        if name not in SamplingParams.declared:
            raise unknown_argument(name, SamplingParams.declared)
    return SamplingParams(**{"seed": DEFAULT_SEED, **common}), make, columns


def _is_each(name: str, value: object) -> bool:
    """Check whether a constraint is a list with one element per prompt."""
    if name not in PER_PROMPT or not isinstance(value, Sequence):
        return False
    if isinstance(value, (str, bytes, bytearray)):
        return False
    return name != "choices" or any(
        one is None or (isinstance(one, Sequence) and not isinstance(one, str))
        for one in value
    )


def _params_of_prompts(
    of_call: SamplingParams, params: SamplingParams | Sequence[SamplingParams] | None
) -> SamplingParams | Sequence[SamplingParams]:
    """Return the settings of the prompts, from `params` or else from the call."""
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


def _checked_params(params: object) -> list[SamplingParams]:
    if not isinstance(params, Sequence):
        raise ArgumentTypeError(
            f"must be SamplingParams, or one for each prompt, not {params!r}",
            argument="params",
        )
    return [
        checks.instance(Argument("params", (i,)), one, SamplingParams, "SamplingParams")
        for i, one in enumerate(params)
    ]


def _check_samples(n: int, settings: Iterable[Setting]) -> None:
    for setting in settings if n > 1 else ():
        if setting.sampling.is_greedy:
            raise ArgumentError(
                f"is {n}, but with temperature {setting.sampling.temperature:g} a "
                "prompt's samples would all be the same: set temperature above 0",
                argument="n",
            )


def _with_sources(settings: list[Setting], prompts: Sequence[object]) -> list[Setting]:
    """Return the settings of prompts, with the text to quote from for quotes."""
    quoting = {
        setting: isinstance(setting.sampling.schema, str)
        and text_has_quotes(setting.sampling.schema)
        for setting in dict.fromkeys(settings)
    }
    if not any(quoting.values()):
        if any(setting.sampling.quote_from is not None for setting in quoting):
            raise ArgumentError(
                "needs a schema with a quote", argument="quote_from", code="conflict"
            )
        return settings
    return [
        setting.quoting(quotable_text(prompt, i))
        if quoting[setting] and setting.sampling.quote_from is None
        else setting
        for i, (setting, prompt) in enumerate(zip(settings, prompts, strict=True))
    ]


def _base_seed(seed: int | None) -> int:
    """Return the seed as a uint32; None and negative numbers yield a random seed."""
    return secrets.randbits(32) if seed is None or seed < 0 else seed
