"""Terms of the command line for messages: options, and keys of TOML files."""

from __future__ import annotations

import json
from dataclasses import dataclass

import click

from llamaherd.core.words import LanguageTerms


@dataclass(frozen=True, slots=True)
class _CommandLine(LanguageTerms):
    """Words of the command line. The types of values are not shown."""

    language: str = "command line"
    flag: str = "true or false"
    text: str = "a text"
    texts: str = "a list of texts"
    path: str = "a path"
    mapping: str = "a table of names and values"
    thinking: str = "table [thinking]"
    markers: str = "--set thinking.start=... --set thinking.end=..."
    start_server: str = "llamaherd serve"
    template: str = (
        "leave --chat out and write prompts that the model can continue, or pass "
        "--template FILE"
    )

    def constant(self, value: bool | None) -> str:
        return "none" if value is None else str(value).lower()

    def setting(self, name: str, value: object) -> str:
        """Return an option of the running command, or else a line of a TOML file."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        option = _option(name)
        if option is None or value is None or value is False:
            written = json.dumps(value, ensure_ascii=False)
            return f"no {name}" if value is None else f"{name} = {written}"
        return option if value is True else f"{option} {text}"

    def value(self, value: object, text: str) -> str:
        if value is None or isinstance(value, bool):
            return self.constant(value)
        if isinstance(value, dict):
            return f"a table of length {len(value)}"
        if isinstance(value, (list, tuple)):
            return f"a list of length {len(value)}"
        return text


def _option(name: str) -> str | None:
    """Return the long form of an option of the running command."""
    context = click.get_current_context(silent=True)
    for param in () if context is None else context.command.params:
        if isinstance(param, click.Option) and param.name == name:
            return max(param.opts, key=len)
    return None


COMMAND_LINE = _CommandLine()
