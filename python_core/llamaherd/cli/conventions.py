"""What all commands share: statuses, what goes where, help that teaches, signals.

Data goes to stdout. What tells a person how it goes is for stderr, and only if that is a
terminal; warnings and failures are for stderr always.
"""

from __future__ import annotations

import difflib
import signal
import sys
import threading
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

import click

from llamaherd.core.errors import JournalError, LlamaHerdError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

_Function = TypeVar("_Function", bound="Callable[..., Any] | click.Command")


class Status(IntEnum):
    """What the process exits with."""

    DONE = 0
    FAILED = 1  # while at it
    WRONG_USE = 2  # what was given cannot be used as asked: nothing was computed
    ROWS_FAILED = 3  # done, but some rows have a reason instead of an answer
    INTERRUPTED = 130  # by Ctrl-C
    TERMINATED = 143  # by SIGTERM


# What commands raise for a user to read.
EXPECTED = (LlamaHerdError, ValueError, TypeError, OSError, ImportError)


def status_of(error: BaseException) -> Status:
    """What an error that ended a command says: arguments are checked before work begins.

    What begins work in which values are found to be wrong has to tell that itself.
    """
    if isinstance(error, LlamaHerdError) and not isinstance(error, JournalError):
        return Status.FAILED
    is_wrong = isinstance(error, (ValueError, TypeError, FileNotFoundError))
    return Status.WRONG_USE if is_wrong else Status.FAILED


class _Taught(click.Command):
    """Help with sections of options, and examples at its end."""

    def __init__(self, *settings: Any, examples: str = "", **more: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*settings, **more)
        self._examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options by section, those without one last."""
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
        """Examples, then the rest."""
        if self._examples:
            with formatter.section("Examples"):
                for line in self._examples.strip().splitlines():
                    formatter.write(f"  {line}".rstrip() + "\n")
        super().format_epilog(ctx, formatter)


class Command(_Taught):
    """A command.

    Args:
        settings: As click.Command's.
        examples: Lines as a user would type them; shown as they are.
    """


class Commands(_Taught, click.Group):
    """Commands under one name, with suggestions for misspelt ones."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options, then commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], names)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


class _SectionOption(click.Option):
    def __init__(self, *settings: Any, section: str, **more: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*settings, **more)
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)  # that a count is at least 1 goes without saying
        return extra


class Whole(click.IntRange):
    """A whole number in a range; click's own words for what is none are not plain."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 - click's
        """The number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            limit = f"of at least {self.min}"
            if self.max is not None:
                limit = f"from {self.min} to {self.max}"
            self.fail(f"{value!r} is no whole number {limit}.", param, ctx)


def section(title: str) -> Callable[..., Callable[[_Function], _Function]]:
    """What declares the options of a section of the help; called as click.option is."""

    def option(*names: str, **settings: Any) -> Callable[[_Function], _Function]:  # noqa: ANN401 - click's
        return click.option(*names, cls=_SectionOption, section=title, **settings)

    return option


option = section("Options")  # those of no section


def tell(message: str) -> None:
    """A line for a person who looks on."""
    if sys.stderr.isatty():
        click.echo(message, err=True)


def warn(message: str) -> None:
    """A line that nobody should miss."""
    click.echo(f"llamaherd: warning: {message}", err=True)


def failed(message: object, status: Status = Status.FAILED) -> int:
    """Tells why a command failed. Returns the status to exit with."""
    click.echo(f"llamaherd: {message}", err=True)
    return status


class Termination:
    """Within it SIGTERM ends a command as Ctrl-C does: where nothing can be lost.

    A shell starts what runs in the background with Ctrl-C ignored; the command then
    ignores it still, and hears SIGTERM all the same.

    Attributes:
        has_come: Whether it was SIGTERM that ended it.
    """

    def __init__(self) -> None:
        self.has_come = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Termination:  # noqa: PYI034 - typing.Self is of Python 3.11
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
                self._handle(signal.SIGINT, self._interrupt)
            self._handle(signal.SIGTERM, self._terminate)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, handler: Callable[..., None]) -> None:
        self._before[number] = signal.signal(number, handler)

    def _terminate(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.has_come:  # schedulers send it to the shell and to what runs in it
            return
        self.has_come = True
        signal.raise_signal(signal.SIGINT)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.has_come:
            raise KeyboardInterrupt
