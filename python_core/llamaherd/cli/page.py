"""Commands declared by their help page: what a user reads is what a command accepts.

A page has paragraphs, sections of options, a section "Examples", and closing paragraphs:

    Tables:
      -o, --out FILE -> output  Where the table goes. [default: -]
      --by NAME...  Column of groups; may be given several times. [required]

The word after a flag decides how its value is read (`kinds.KINDS`), `>FILE` is a file to
write; without a word, the option is true or false. `-> name` names the argument of the
function, if it is not that of the flag; `-> not name` sets it to False.
"""

from __future__ import annotations

import difflib
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.kinds import merged_variables, type_of
from llamaherd.cli.wording import flag_of, is_given, option_of, terms_of_command
from llamaherd.engine.core import values
from llamaherd.engine.core.declaration import REQUIRED, Option, Options, options_of
from llamaherd.engine.core.errors import BadArgumentError
from llamaherd.engine.core.words import spoken_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


_TITLE = re.compile(r"([A-Z].*):")
_FLAG = re.compile(r"  (-\S.*?)  +(\S.*)")
_TARGET = re.compile(r"(.*) -> (not )?(\w+)")
_DEFAULT = re.compile(r" *\[default: (.*)\]$")
_EXAMPLES = "Examples"


class _Option(click.Option):
    """Option of a section of the help."""

    def __init__(self, title: str, flags: str, text: str, unset: bool | None) -> None:
        target = _TARGET.fullmatch(flags)
        words = (target[1] if target else flags).split()
        names = [word.rstrip(",") for word in words if word.startswith("-")]
        metavar = " ".join(words[len(names) :])
        settings: dict[str, Any] = {"help": text}
        if target:
            names.append(target[3])
        if default := _DEFAULT.search(text):
            text = text[: default.start()]
            settings |= {"help": text, "default": default[1], "show_default": True}
        if text.endswith(" [required]"):
            settings |= {"help": text.removesuffix(" [required]"), "required": True}
        if not metavar:
            is_negated = target is not None and target[2] is not None
            absent = unset if unset is None else is_negated
            settings |= {"is_flag": True, "default": absent, "flag_value": not is_negated}
        elif metavar.endswith("...") and not metavar.endswith(",..."):
            metavar = metavar.removesuffix("...")
            settings["multiple"] = True
        if metavar == "NAME=VALUE":
            settings["callback"] = merged_variables
        if metavar:
            kind, metavar = type_of(metavar)
            if default:
                settings["default"] = kind.convert(default[1], None, None)
            settings |= {"type": kind, "nargs": len(metavar.split()) or 1}
            settings["metavar"] = metavar or None
        super().__init__(names, **settings)
        self.section = title


def _argument(word: str) -> click.Argument:
    """Return an argument, such as TABLE, [NAME] or JOURNAL..."""
    nargs = -1 if word.endswith("...") else 1
    name = word.strip("[].").partition(".")[0].lower()
    is_needed = not word.startswith("[")
    return click.Argument([name], metavar=word, nargs=nargs, required=is_needed)


class _Declared(click.Command):
    """Command declared by its usage and its page; messages name its options."""

    def __init__(
        self,
        usage: str,
        page: str,
        *,
        unset: bool | None = False,
        **more: Any,  # of click
    ) -> None:
        name, *arguments = usage.split()
        params: list[click.Parameter] = [_argument(word) for word in arguments]
        help_text, epilog, title = "", "", ""
        self._examples: list[str] = []
        entries: list[tuple[str, str, str]] = []  # section, flags, help
        for line in page.strip().splitlines():
            match = _FLAG.fullmatch(line)
            if heading := _TITLE.fullmatch(line):
                title = heading[1]
            elif title == _EXAMPLES and line.startswith("  "):
                self._examples.append(line)
            elif title and match:
                entries.append((title, match[1], match[2]))
            elif title and line.startswith("   "):
                section, flags, text = entries[-1]
                entries[-1] = (section, flags, f"{text} {line.strip()}")
            elif title:
                epilog += f"{line}\n"
            else:
                help_text += f"{line}\n"
        params += [_Option(*entry, unset) for entry in entries]
        more = {"epilog": epilog.strip(), "params": params, **more}
        super().__init__(name, help=help_text, **more)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments."""
        with spoken_in(terms_of_command(self)):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # types of click
        """Run the command."""
        with spoken_in(terms_of_command(self, ctx)):
            try:
                return super().invoke(ctx)
            except BadArgumentError as error:
                raise error.moved(argument=_flag_that_set(ctx, error)) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section; options without a section are last."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and not isinstance(param, click.Argument):
                title = getattr(param, "section", "Options")
                sections.setdefault(title, []).append(record)
        sections["Options"] = sections.pop("Options", [])
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the closing paragraphs."""
        if self._examples:
            with formatter.section(_EXAMPLES):
                formatter.write("".join(f"{line}\n" for line in self._examples))
        super().format_epilog(ctx, formatter)


def _flag_that_set(ctx: click.Context, error: BadArgumentError) -> str:
    """Return the option that sets the argument of an error; else the argument's name."""
    name = error.argument.rpartition(" ")[2]  # without the table of a key
    if error.file is not None or not name:
        return error.argument
    for setting in ctx.params.get("settings") or ctx.params.get("more") or ():
        key = setting.partition("=")[0].strip()
        if key.rpartition(".")[2] == name:
            return f"--set {key}"
    option = option_of(ctx.command, name)
    if option is None:
        return error.argument
    is_file = str(ctx.params.get("input")).lower().endswith(".toml")  # it has the others
    has_flag = not is_file or is_given(ctx, str(option.name))
    return flag_of(option) if has_flag else error.argument


class Command(_Declared):
    """A command."""


class Commands(_Declared, click.Group):
    """Commands under one name, with suggestions for misspelt commands."""

    def declared(self, usage: str, page: str) -> Callable[[Callable[..., Any]], Command]:
        """Return a decorator that adds a function as a command, see `command`."""

        def add(function: Callable[..., Any]) -> Command:
            subcommand = Command(usage, page, callback=function)
            self.add_command(subcommand)
            return subcommand

        return add

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a name; suggest one for a misspelt name."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], names)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


def declared_flags(
    options: type[Options],
    names: Collection[str] | None = None,
    *,
    table: str = "",
    section: str = "",
    words: Mapping[str, str] = MappingProxyType({}),
    has_defaults: bool = False,
) -> str:
    """Return the lines of a page for declared options, in the order of declaration.

    The options are those of `names`, or else those of a section whose declaration has
    words for a flag (`Option.flag`); `words` replaces these words. `table` is the table
    of the run file that has the options. `has_defaults` shows the defaults.
    """
    lines = []
    for name, option in options_of(options).items():
        is_in_section = option.facts.get("section", "") == section
        if name not in names if names else option.flag is None or not is_in_section:
            continue
        key = f"{table}__{name}" if table else name
        parts = [option.facts.get("flag_help", option.sentence)]
        parts += filter(None, [words.get(name, option.flag)])
        if has_defaults and option.default not in (None, False, REQUIRED):
            parts.append(f"[default: {option.default}]")
        target = f"not {key}" if option.default is True else key
        lines.append(f"  {_declared_flag(option)} -> {target}  {' '.join(parts)}")
    return "\n".join(lines)


def _declared_flag(option: Option) -> str:
    """Return the flag of an option, with the word for its values."""
    kind, is_negated = option.kind, option.default is True
    name = f"--{'no-' if is_negated else ''}{option.name.replace('_', '-')}"
    flag = str(option.facts.get("flag_name", name))
    if "metavar" in option.facts:
        return f"{flag} {option.facts['metavar']}"
    if isinstance(kind, values.Whole):
        return f"{flag} N>={max(0, kind.low)}"
    if isinstance(kind, values.Real):
        return f"{flag} X"
    if isinstance(kind, values.Choice):
        return f"{flag} {'|'.join(c for c in kind.choices if isinstance(c, str))}"
    is_switch = isinstance(kind, values.Flag) or option.default is False
    return flag if is_switch else f"{flag} TEXT"


def command(usage: str, page: str) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a function a command."""
    return lambda function: Command(usage, page, callback=function)
