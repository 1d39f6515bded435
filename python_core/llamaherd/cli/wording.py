"""Terms of the command line for messages: options, and keys of TOML files."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace

import click

from llamaherd.engine.core.words import OF_LANGUAGES, LanguageTerms

_COMMANDS = (
    ("annotate", "`llamaherd annotate`"),
    ("best_codebook", "`llamaherd codebooks best`"),
    ("code_texts", "`llamaherd code`"),
    ("compare_codebooks", "`llamaherd codebooks compare`"),
    ("compare_pairs", "`llamaherd pairs`"),
    ("estimate", "`llamaherd estimate`"),
    ("evaluate_codebook", "`llamaherd codebooks evaluate`"),
    ("generate", "`llamaherd run`"),
    ("gold_sample", "`llamaherd gold sample`"),
    ("gold_split", "`llamaherd codebooks split`"),
    ("recalibrate", "`llamaherd recalibrate`"),
    ("set_hf_token", "the environment variable HF_TOKEN"),
    ("start_server", "`llamaherd serve`"),
    ("stop_server", "Ctrl-C"),
    ("validate", "`llamaherd validate`"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommandLine(LanguageTerms):
    """Words of the command line. The types of values are not shown."""

    # Command whose options messages name; None outside of a command.
    command: click.Command | None = None
    set_by_user: tuple[str, ...] = ()  # parameters that its command line sets

    def name(self, argument: str) -> str:
        """Return the option that the command line gives for an argument."""
        option = self._option(argument)
        if option is None or option.name not in self.set_by_user:
            return argument
        return flag_of(option)

    def argument(self, function: str, name: str) -> str:
        """Return the option for an argument, of this command or of another one."""
        if self._option(name) is not None:
            return self.setting(name, "...")
        return f"{function}(){self.elsewhere} has the argument {name}"

    def faster(self, path: str) -> str:
        return f"`llamaherd optimize {shlex.quote(path)}`"

    def constant(self, value: bool | None) -> str:
        return "none" if value is None else str(value).lower()

    def setting(self, name: str, value: object) -> str:
        """Return an option of the command, or else a line of a TOML file."""
        if value is None:
            return f"no {name}"
        written = json.dumps(value, ensure_ascii=False)
        option = self._option(name)
        if option is not None:
            long = flag_of(option)
            if value is True and option.is_flag:
                return long
            if not option.is_flag:
                constants = {"true": "on", "false": "off"}
                text = value if isinstance(value, str) else constants.get(written)
                return f"{long} {text or written}"
        table = self._table(name)
        if table:
            text = value if isinstance(value, str) else written
            return f"--set {table}.{name}={text}"
        return f"{name} = {written}"

    def value(self, value: object, text: str) -> str:
        if value is None or isinstance(value, bool):
            return self.constant(value)
        if isinstance(value, dict):
            return f"a table of length {len(value)}"
        if isinstance(value, (list, tuple)):
            return f"a list of length {len(value)}"
        return text

    def _option(self, name: str) -> click.Option | None:
        return None if self.command is None else option_of(self.command, name)

    def _table(self, name: str) -> str:
        """Return the table in which `--set` sets an argument; "" for no such table."""
        from llamaherd.tables.spec_keys import KEYS  # fast help

        if self._option("settings") is None:
            return ""
        return next((table for table in ("model", "context") if name in KEYS[table]), "")


COMMAND_LINE = _CommandLine(
    language="command line",
    scale="{from: 0, to: 10}",
    quote="{type: string, quote: {most: 20}}",
    chat="--chat",
    thinking="a table [thinking]",
    markers="--set thinking.start=... --set thinking.end=...",
    template="leave --chat out and write prompts that the model can continue, or pass "
    "--template FILE",
    frame="table",
    let_code="let people fill in its sheet, or code it with `llamaherd code`",
    functions=_COMMANDS,
    elsewhere=OF_LANGUAGES,
)


def terms_of_command(
    command: click.Command, ctx: click.Context | None = None
) -> LanguageTerms:
    """Return the terms for messages about the options of a command."""
    names = [str(param.name) for param in command.params]
    is_set = (name for name in names if ctx is not None and is_given(ctx, name))
    return replace(COMMAND_LINE, command=command, set_by_user=tuple(is_set))


def is_given(ctx: click.Context, name: str) -> bool:
    """Whether the command line, not a file or a default, sets a parameter."""
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def option_of(command: click.Command, name: str) -> click.Option | None:
    """Return the option of a command for an argument of a call, or a key of a table."""
    for param in command.params:
        table, _, key = (param.name or "").rpartition("__")
        is_model = (table, key) == (name, "path")  # key of the table [model]
        if isinstance(param, click.Option) and (key == name or is_model):
            return param
    return None


def flag_of(option: click.Option) -> str:
    """Return the long flag of an option."""
    return max(option.opts, key=len)
