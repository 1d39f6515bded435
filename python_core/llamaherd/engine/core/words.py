"""Terms of messages that differ between Python and R: constants, settings, functions.

The code that checks an argument creates the message for users of both languages: "must be
true or false", followed in Python by "not None (NoneType)", in R by "not NULL". `words()`
returns the terms of the current caller's language. Calls from `_r` use the terms of R, by
`spoken_in`; jobs keep the terms of the caller that started them.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OF_LANGUAGES = " of Python or R"  # for functions that commands and servers lack


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageTerms:
    """Words of one language; defaults are of the command line and of Python.

    Attributes:
        first: Index of the first of several elements.
        frame: A table of data in memory, without an article.
        truth: The two values of a flag.
        missing: The value of a cell without a value.
        many: Several values in an argument, with an article.
        functions: Pairs of the name of a function, and of what does its work here.
        elsewhere: Words after a function that nothing here does the work of.
        fetch, fetched: Advice to download a model, before and after the model's name.
        pages: Names of the pages that differ from those in docs/, by these.
        memory: Setting of the memory of a server's models.
        names: Advice about a name that a server of one model does not know.
    """

    language: str
    scale: str
    quote: str
    chat: str
    thinking: str
    markers: str
    template: str
    first: int = 0
    frame: str = "data frame"
    truth: str = "true or false"
    many: str = "a list"
    missing: str = "None"
    categories: str = "a categorical column its categories"
    let_code: str = (
        "write it to a file, let people code it, and read the file with read_gold()"
    )
    functions: tuple[tuple[str, str], ...] = ()
    elsewhere: str = ""
    pages: tuple[tuple[str, str], ...] = ()
    fetch: str = "`llamaherd models download "
    fetched: str = "` downloads it"
    memory: str = "--memory"
    names: str = "see --alias and --any-model"

    def faster(self, path: str) -> str:
        """Return how the caller lets a faster file of a model be written."""
        return f"{self.call('model_optimize').removesuffix('()')}({json.dumps(path)})"

    def model(self, model: object) -> str:
        """Return the name by which messages call a model."""
        return repr(model)

    def call(self, function: str) -> str:
        """Return how the caller does the work of a function, such as "validate()"."""
        return dict(self.functions).get(function, f"{function}(){self.elsewhere}")

    def page(self, name: str) -> str:
        """Return where the caller finds a page of the documentation."""
        return dict(self.pages).get(name, f"docs/{name}.md")

    def name(self, argument: str) -> str:
        """Return the name of an argument as messages show it."""
        return argument

    def argument(self, function: str, name: str) -> str:
        """Return the statement that a function has an argument."""
        return f"{self.call(function)} has the argument {self.name(name)}"

    def constant(self, value: bool | None) -> str:
        """Return the name of True, False or None."""
        return repr(value)

    def literal(self, value: object) -> str:
        """Return a value in the notation of the caller's language."""
        is_constant = value is None or isinstance(value, bool)
        return self.constant(value) if is_constant else repr(value)  # type: ignore[arg-type]

    def quoted(self, text: str) -> str:
        """Return a name or another text in quotes."""
        return repr(text)

    def number(self, text: str) -> str:
        """Return the text of a number in the notation of the caller's language."""
        return text

    def setting(self, name: str, value: object) -> str:
        """Return an argument with its value, in the form of a call."""
        return f"{name}={value!r}"

    def value(self, value: object, text: str) -> str:
        """Return a value with its type, given its shortened `repr`."""
        return f"{text} ({type(value).__name__})"


class _R(LanguageTerms):
    """Words of R. The types of simple values are not shown."""

    __slots__ = ()

    def name(self, argument: str) -> str:
        return f"`{argument}`"  # as cli shows arguments, without colors

    def constant(self, value: bool | None) -> str:
        return "NULL" if value is None else str(value).upper()

    def literal(self, value: object) -> str:
        return self.value(value, repr(value))

    def quoted(self, text: str) -> str:
        return self.literal(text)

    def number(self, text: str) -> str:
        return {"inf": "Inf", "-inf": "-Inf", "nan": "NaN"}.get(text, text)

    def setting(self, name: str, value: object) -> str:
        if value is None or isinstance(value, bool):
            return f"`{name} = {self.constant(value)}`"
        return f"`{name} = {json.dumps(value, ensure_ascii=False)}`"

    def value(self, value: object, text: str) -> str:
        if value is None or isinstance(value, bool):
            return self.constant(value)
        if isinstance(value, str):
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict):
            return f"a named list of length {len(value)}"
        if isinstance(value, (list, tuple)):
            return f"a list of length {len(value)}"
        return self.number(text) if isinstance(value, float) else text


_TEMPLATE = "leave {} out and write prompts that the model can continue, or pass {}"
PYTHON = LanguageTerms(
    language="Python",
    scale="number_scale(0, 10)",
    quote="type_quote()",
    chat="chat=True",
    thinking="a Thinking",
    markers="Thinking(start=, end=)",
    template=_TEMPLATE.format("chat", "template="),
    functions=(("write_gold", "GoldSample.write()"),),
)
R = _R(
    language="R",
    scale="number_scale(0, 10)",
    quote="type_quote()",
    chat="`chat = TRUE`",
    thinking="a thinking()",
    markers="thinking(start =, end =)",
    template=_TEMPLATE.format("`chat`", "`template`"),
    first=1,
    truth="TRUE or FALSE",
    many="a vector",
    missing="NA",
    categories="a factor its levels",
    functions=(
        ("annotate", "annotate_texts()"),
        ("start_server", "server_start()"),
        ("stop_server", "server_stop()"),
    ),
    pages=(
        ("gpu", "?context_create"),
        ("validation", "?validate"),
    ),
    fetch='download_model("',
    fetched='") downloads it',
    memory="memory of server_start()",
    names="leave `model` out",
)
_CURRENT: ContextVar[LanguageTerms] = ContextVar("words", default=PYTHON)


def terms_of(language: str | None, default: LanguageTerms) -> LanguageTerms:
    """Return the terms of "Python" or "R"; `default` for other names."""
    return {terms.language: terms for terms in (PYTHON, R)}.get(language or "", default)


def words() -> LanguageTerms:
    """Return the terms of the caller's language."""
    return _CURRENT.get()


@contextmanager
def spoken_in(language: LanguageTerms) -> Iterator[None]:
    """Use the terms of a language in messages within the block."""
    token = _CURRENT.set(language)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def call(function: str) -> str:
    """Return how the caller runs a function of this package, such as "validate()"."""
    return words().call(function)


def name_of(argument: str) -> str:
    """Return the name of an argument as messages in the caller's language show it."""
    return words().name(argument)


def number_of(place: int) -> int:
    """Return the number of an element in the caller's language; `place` counts from 0."""
    return place + words().first


def setting(name: str, value: object) -> str:
    """Return an argument with its value, as in a call in the caller's language."""
    return words().setting(name, value)
