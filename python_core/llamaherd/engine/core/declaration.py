"""Declaration of options: one field of a class states everything about an option.

A field states name, type, kind (the range of values), default, documentation, the
interfaces that accept it, and what else depends on it. Checks, signatures, help, keys of
run files, flags, fields of requests and R's arguments are derived from the field; see
"Worked example: a sampling option" in docs/architecture.md.
"""

from __future__ import annotations

import textwrap
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache, wraps
from inspect import signature
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Self,
    TypeVar,
    cast,
    dataclass_transform,
)

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentTypeError, BadArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from llamaherd.engine.core.values import OptionKind

_T = TypeVar("_T")
_Options = TypeVar("_Options", bound="Options")

# Interfaces that accept options. "many": calls with many prompts, in Python and R;
# "single": `generate`; "pairs": `compare_pairs`; "rows": run files; "http": requests in
# the library's own format; "completions", "chats": requests of OpenAI's API.
INTERFACES = (
    *("many", "single", "submit", "chat", "pairs", "rows"),
    *("http", "completions", "chats"),
)
REQUIRED = MISSING  # default of an option that must be given


@dataclass(frozen=True, slots=True)
class Idle:
    """Condition on other options under which one has no effect, and why."""

    holds: Callable[[Any], bool]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Everything about an option; its default must be declared in normalized form.

    Attributes:
        doc: Documentation. The first sentence is also the help of flags and fields.
        native: True if the native library receives the value unchanged, under this name.
        flag: Words that the help of a command adds; None if no command has a flag for it.
        facts: Further facts, for the code of one task.
    """

    name: str
    type: str
    kind: OptionKind
    default: Any
    doc: str
    interfaces: frozenset[str]
    native: bool
    key: str
    openai: str
    idle: tuple[Idle, ...]
    flag: str | None
    facts: Mapping[str, Any]

    @property
    def sentence(self) -> str:
        """First sentence of the documentation."""
        head, end, _ = self.doc.partition(". ")
        return f"{head}." if end else self.doc

    def name_in(self, interface: str) -> str:
        """Return the name of the option in an interface."""
        names = {"rows": self.key, "completions": self.openai, "chats": self.openai}
        return names.get(interface, self.name)


def option(
    kind: OptionKind,
    *,
    default: _T | Any = REQUIRED,  # of the option's type
    default_factory: Callable[[], _T] | None = None,
    doc: str,
    interfaces: Iterable[str] = INTERFACES,
    native: bool = False,
    key: str = "",
    openai: str = "",
    idle: tuple[Idle, ...] = (),
    flag: str | None = None,
    **facts: object,
) -> Any:  # of the option's type
    """Declare an option, a field of a class decorated with `declares`; see `Option`."""
    known: dict[str, object] = {
        "kind": kind,
        "doc": doc,
        "interfaces": frozenset(interfaces),
        "native": native,
        "key": key,
        "openai": openai,
        "idle": idle,
        "flag": flag,
        "facts": facts,
    }
    if default_factory is not None:
        return field(default_factory=default_factory, metadata=known)
    return field(default=default, metadata=known)


def inherit_option(options: type[Options], name: str, **changes: Any) -> Any:
    """Declare an option as another class does, with changes and its own interfaces."""
    declared = options.declared[name]
    facts = {fact: getattr(declared, fact) for fact in ("kind", "default", "doc", "key")}
    return option(**{**facts, "flag": declared.flag, **declared.facts, **changes})


class Options:
    """Base of immutable classes that declare options.

    An instance stores only values that differ from the defaults, so that its creation
    takes a time that depends on the number of given options only.
    """

    __slots__ = ("__dict__", "_hash")

    if TYPE_CHECKING:  # so that typing.get_type_hints finds options only
        # Options, functions that make defaults, and required options, by name.
        declared: ClassVar[Mapping[str, Option]]
        factories: ClassVar[Mapping[str, Callable[[], Any]]]
        needed: ClassVar[tuple[str, ...]]
        _hash: int

    def __init__(self, **arguments: Any) -> None:
        declared, stored = self.declared, self.__dict__
        for name, value in arguments.items():
            try:
                spec = declared[name]
            except KeyError:
                raise unknown_field(type(self), name, declared) from None
            if value is spec.default:
                continue
            try:
                value = spec.kind.check(name, value)  # noqa: PLW2901 - normalized
            except BadArgumentError as error:
                error.value = arguments[name]
                raise
            if type(value) is not type(spec.default) or value != spec.default:
                stored[name] = value
        for name, make in self.factories.items():
            if name not in stored:
                stored[name] = make()
        for name in self.needed:
            if name not in stored:
                raise ArgumentTypeError("is missing", argument=name, code="missing")
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check options that depend on each other."""

    @classmethod
    def of(
        cls,
        names: type,
        arguments: Mapping[str, Any],
        **more: Any,  # of fields
    ) -> Self:
        """Create options from the keyword arguments of a call."""
        known = names.__annotations__
        options: dict[str, Any] = {}
        sampling: dict[str, Any] = {}
        for name, value in arguments.items():
            if name not in known:
                raise unknown_argument(name, known)
            (options if name in cls.declared else sampling)[name] = value
        if sampling:
            options["sampling"] = sampling
        return cls(**options, **more)

    def replaced(self, **arguments: Any) -> Self:
        """Return options with other values; fast, unlike `dataclasses.replace`."""
        return type(self)(**{**self.__dict__, **arguments})

    def changed(self) -> list[str]:
        """Return the names of options that differ from their defaults, as declared."""
        stored = self.__dict__
        return [name for name in self.declared if name in stored]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            digest = hash(frozenset(self.__dict__.items()))
            object.__setattr__(self, "_hash", digest)
            return digest

    def __repr__(self) -> str:
        values = (f"{name}={getattr(self, name)!r}" for name in self.changed())
        return f"{type(self).__name__}({', '.join(values)})"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__  # hashes of texts differ between processes


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(option,)
)
def declares(kind: type[_Options]) -> type[_Options]:
    """Decorate a class whose fields are made by `option`."""
    doc = kind.__doc__
    decorated = dataclass(frozen=True, kw_only=True, init=False, eq=False, repr=False)(
        kind
    )
    declared = {member.name: _option(member) for member in fields(cast("Any", decorated))}
    decorated.declared = declared
    decorated.factories = {
        member.name: member.default_factory
        for member in fields(cast("Any", decorated))
        if member.default_factory is not MISSING
    }
    decorated.needed = tuple(
        name
        for name, spec in declared.items()
        if spec.default is REQUIRED and name not in decorated.factories
    )
    if doc:  # `python -OO` removes docstrings
        entries = entries_of((name, spec.doc) for name, spec in declared.items())
        decorated.__doc__ = f"{textwrap.dedent(doc).strip()}\n\nAttributes:\n{entries}"
    return decorated


def _option(declared: Field[Any]) -> Option:
    known: dict[str, Any] = {**declared.metadata}
    known["key"] = known["key"] or declared.name
    known["openai"] = known["openai"] or declared.name
    return Option(
        name=declared.name, type=str(declared.type), default=declared.default, **known
    )


def options_of(kind: type[Options], interface: str | None = None) -> dict[str, Option]:
    """Return the options of a class, including the options of its groups."""
    options: dict[str, Option] = {}
    for name, spec in kind.declared.items():
        group = spec.facts.get("group")
        if group is None:
            options[name] = spec
        else:
            defaults = spec.facts["defaults"]
            for inner in group.declared.values():
                default = defaults.get(inner.name, inner.default)
                options[inner.name] = replace(inner, default=default)
    if interface is None:
        return options
    return {
        spec.name_in(interface): spec
        for spec in options.values()
        if interface in spec.interfaces
    }


def suggests_names(kind: type[_T]) -> type[_T]:
    """Let the constructor of a class suggest a name for a misspelt argument."""
    create = kind.__init__
    known = dict(list(signature(create).parameters.items())[1:])  # without self

    @wraps(create)
    def init(self: object, *args: object, **arguments: object) -> None:
        for name in arguments:
            if name not in known:
                raise unknown_field(kind, name, known)
        create(self, *args, **arguments)

    kind.__init__ = init  # type: ignore[method-assign]
    return kind


def entries_of(docs: Iterable[tuple[str, str]]) -> str:
    """Return lines for a docstring, from names with their documentation."""
    return "\n".join(_entry(name, doc) for name, doc in docs)


@cache
def _entry(name: str, doc: str) -> str:
    return textwrap.fill(
        f"{name}: {doc}", 88, initial_indent="    ", subsequent_indent="        "
    )


def unknown_field(
    kind: Callable[..., Any], name: str, known: Mapping[str, Any]
) -> ArgumentTypeError:
    """Return the error about an argument that a class does not have."""
    hint = checks.meant(name, known) or f"; it has {', '.join(known)}"
    return ArgumentTypeError(
        f"is not an argument of {kind.__name__}{hint}",
        argument=name,
        code="unknown_argument",
    )


def unknown_argument(name: str, known: Mapping[str, Any]) -> ArgumentTypeError:
    """Return the error about an argument that a call does not have."""
    others = "its sampling settings are fields of llamaherd.SamplingParams"
    if "top_k" not in known:
        others = f"there are {', '.join(known)}"
    hint = checks.meant(name, known) or f"; {others}"
    return ArgumentTypeError(
        f"there is no argument {name!r}{hint}",
        argument=name,
        code="unknown_argument",
        form="{problem}",
    )
