"""Conventions of all commands: exit statuses, streams, help, signals.

Data goes to stdout. Progress goes to stderr, but only if stderr is a terminal. Warnings
and errors always go to stderr.
"""

from __future__ import annotations

import difflib
import signal
import sys
import threading
from abc import abstractmethod
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

import click

from llamaherd.cli.wording import terms_of_command
from llamaherd.engine.core.errors import BadArgumentError, JournalError, LlamaHerdError
from llamaherd.engine.core.files import has_working_folder, is_full
from llamaherd.engine.core.progress import say
from llamaherd.engine.core.words import spoken_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

    _ParamType = click.ParamType[Any, Any]
else:
    _ParamType = click.ParamType

_Function = TypeVar("_Function", bound="Callable[..., Any] | click.Command")


class ExitStatus(IntEnum):
    """Exit status of the process."""

    DONE = 0
    FAILED = 1  # the command failed while it ran
    WRONG_USE = 2  # invalid arguments or input; nothing was computed
    ROWS_FAILED = 3  # finished, but some rows failed
    HUNG_UP = 129  # ended by SIGHUP, because its terminal was closed
    INTERRUPTED = 130  # ended by Ctrl-C
    TERMINATED = 143  # ended by SIGTERM


# Errors whose message is printed for the user.
EXPECTED = (LlamaHerdError, ValueError, TypeError, OSError, ImportError)


def status_of(error: BaseException) -> ExitStatus:
    """Return the exit status of an error.

    A ValueError or TypeError has the status of invalid arguments, because arguments are
    checked before work begins. Code that finds an invalid value after work has begun must
    report the error itself.
    """
    is_use = isinstance(error, (BadArgumentError, JournalError))
    if isinstance(error, LlamaHerdError) and not is_use:
        return ExitStatus.FAILED
    is_wrong = isinstance(error, (ValueError, TypeError, FileNotFoundError))
    return ExitStatus.WRONG_USE if is_wrong else ExitStatus.FAILED


class _Taught(click.Command):
    """Command whose help has sections of options, and examples at the end.

    Messages name the options of the command.
    """

    def __init__(self, *settings: Any, examples: str = "", **more: Any) -> None:  # noqa: ANN401 - types of click
        super().__init__(*settings, **more)
        self._examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments."""
        with spoken_in(terms_of_command(self)):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - types of click
        """Run the command."""
        with spoken_in(terms_of_command(self)):
            return super().invoke(ctx)

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
        """Write the examples, then the other text of the epilog."""
        if self._examples:
            with formatter.section("Examples"):
                for line in self._examples.strip().splitlines():
                    formatter.write(f"  {line}".rstrip() + "\n")
        super().format_epilog(ctx, formatter)


class Command(_Taught):
    """A command."""


class Commands(_Taught, click.Group):
    """Commands under one name, with suggestions for misspelt commands."""

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


class _ClearlyRefused(_ParamType):
    """Parameter type with clearer errors than those of click's types."""

    @property
    @abstractmethod
    def _wanted(self) -> str:
        """Description of the values that the type accepts."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - types of click
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 - types of click
        """Return the value."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not {self._wanted}.", param, ctx)


class _Number(_ClearlyRefused, click.types.FloatParamType):
    """Parameter type of a number."""

    _wanted = "a number"


class _SectionOption(click.Option):
    def __init__(self, *settings: Any, section: str, **more: Any) -> None:  # noqa: ANN401 - types of click
        if more.get("type") in (float, click.FLOAT):
            more["type"] = _Number()
        super().__init__(*settings, **more)
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> Any:  # noqa: ANN401 - types of click
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)  # the help does not show a minimum of 1
        return extra


class WholeNumber(_ClearlyRefused, click.IntRange):
    """Parameter type of an integer in a range."""

    @property
    def _wanted(self) -> str:
        if self.max is None:
            return f"a whole number of at least {self.min}"
        return f"a whole number from {self.min} to {self.max}"


def section(title: str) -> Callable[..., Callable[[_Function], _Function]]:
    """Return a decorator like click.option for a section of the help."""

    def option(*names: str, **settings: Any) -> Callable[[_Function], _Function]:  # noqa: ANN401 - types of click
        return click.option(*names, cls=_SectionOption, section=title, **settings)

    return option


option = section("Options")  # options without a section


def split_names(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> list[str] | None:
    """Split the value NAME,NAME of an option. Callback of click."""
    del ctx, param
    return None if value is None else [name.strip() for name in value.split(",")]


def tell(message: str) -> None:
    """Print a line of progress for the user."""
    if sys.stderr.isatty():
        say(message)


def warn(message: str) -> None:
    """Print a warning."""
    say(f"llamaherd: warning: {message}")


def failed(message: object, status: ExitStatus = ExitStatus.FAILED) -> int:
    """Print why a command failed, and return the exit status."""
    if isinstance(message, OSError) and message.filename is not None and message.strerror:
        advice = "; free space and run the command again" if is_full(message) else ""
        message = f"{message.filename!r} cannot be used: {message.strerror}{advice}"
    elif isinstance(message, FileNotFoundError) and not has_working_folder():
        message = "the working directory was deleted: change to another folder"
    elif isinstance(message, RuntimeError):
        message = f"{message}: end other programs, or raise the limit (ulimit -u)"
    say(f"llamaherd: {message}")
    return status


_entered: list[Termination] = []  # handlers of the running commands


def is_terminated() -> bool:
    """Whether a signal other than Ctrl-C ends the command by a KeyboardInterrupt."""
    return any(termination.has_come for termination in _entered)


class Termination:
    """Context in which SIGTERM and SIGHUP end a command like Ctrl-C, keeping its results.

    A shell starts background jobs with Ctrl-C ignored. The command then continues to
    ignore Ctrl-C, but handles SIGTERM. `nohup` ignores SIGHUP, which remains ignored.

    Attributes:
        has_come: Whether one of these signals ended the command.
        status: Exit status of the command after a KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.has_come = False
        self.status = ExitStatus.INTERRUPTED
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Termination:  # noqa: PYI034 - typing.Self needs Python 3.11
        _entered.append(self)
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
                self._handle(signal.SIGINT, self._interrupt)
            self._handle(signal.SIGTERM, self._terminate)
            hangup = getattr(signal, "SIGHUP", None)  # Windows has none
            if hangup is not None and signal.getsignal(hangup) is signal.SIG_DFL:
                self._handle(hangup, self._terminate)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _entered.remove(self)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, handler: Callable[..., None]) -> None:
        self._before[number] = signal.signal(number, handler)

    def _terminate(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.has_come:  # schedulers send signals to the shell and its children
            return
        self.has_come, self.status = True, ExitStatus(128 + number)
        signal.raise_signal(signal.SIGINT)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.has_come:
            raise KeyboardInterrupt
