"""Entry point; imports only the module of the given command."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.conventions import (
    EXPECTED,
    ExitStatus,
    Termination,
    drop_unwritable_output,
    prepare_streams,
    print_failure,
    status_of,
)
from llamaherd.cli.page import Commands
from llamaherd.cli.wording import COMMAND_LINE
from llamaherd.engine.core.process import end_by_interrupt, has_started
from llamaherd.engine.core.words import spoken_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Commands in the order of the help, with their short help. A command is in the module of
# its name, or in that of `_MODULES`.
COMMANDS = {
    "run": "Ask about each row of a table, or execute a run's TOML file.",
    "classify": "Label each row of a table, with probabilities.",
    "annotate": "Code each row of a table by a codebook.",
    "spans": "List the passages of coded texts, one per row.",
    "pairs": "Compare texts in pairs, and rank them.",
    "gold": "Draw texts for people to code, also in waves.",
    "codebooks": "Choose a codebook by a gold sample, and measure it once.",
    "code": "Code texts in a browser: several people, no model.",
    "embed": "Compute an embedding of each row of a table.",
    "validate": "Compare labels with the codes of a gold sample.",
    "estimate": "Estimate shares and regressions, corrected by a gold sample.",
    "recalibrate": "Improve labels by the codes of a gold sample.",
    "report": "Write a page about how texts were coded, and how well.",
    "methods": "Print the methods paragraph of a report, and its references.",
    "merge": "Combine the parts of a run.",
    "chat": "Talk to a model in the terminal.",
    "serve": "Answer prompts over HTTP.",
    "models": "List, download, find and remove model files.",
    "optimize": "Find the type of a model that is fastest on this machine.",
    "bench": "Measure how fast a model is on this machine.",
    "doctor": "Check this machine for problems, and print what to do.",
}
_MODULES = {
    **dict.fromkeys(("classify", "annotate", "embed", "merge", "spans"), "run"),
    **dict.fromkeys(("validate", "recalibrate"), "estimate"),
    **dict.fromkeys(("bench", "optimize"), "speed"),
    "methods": "report",
}
# Commands that were removed: for one version they say what to use instead.
_REMOVED = {
    "slurm": "docs/cluster.md has an array script of some lines for `llamaherd run "
    "RUN.toml --shard I/N`, whose parts `llamaherd merge` combines",
    "keep-journal": "`cp` copies a journal when its run has ended",
}
_PAGE = """
Many prompts at once through a model on this machine.

Examples:
  llamaherd doctor
  llamaherd models download hf:bartowski/SmolLM2-135M-Instruct-GGUF
  llamaherd serve SmolLM2

`llamaherd COMMAND --help` explains a command, with examples. Data goes to stdout. Exit
status: 0 success; 1 failed while running; 2 invalid arguments, nothing was computed;
3 done, but some rows failed, each with its reason; 129 SIGHUP; 130 Ctrl-C; 141 nobody
reads stdout; 143 SIGTERM.
"""


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """End with the status of SIGPIPE without a reader, as in `llamaherd ... | head`."""
    try:
        yield
    except BrokenPipeError as error:  # click would end the process with status 1
        raise click.exceptions.Exit(ExitStatus.NO_READER) from error


class _LazyCommands(Commands):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - interface of click
        return [*COMMANDS, *_REMOVED]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name in _REMOVED:
            return _removed_command(cmd_name)
        if cmd_name not in COMMANDS:
            return None
        name = _MODULES.get(cmd_name, cmd_name)
        module = importlib.import_module(f"llamaherd.cli.{name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _reader_may_leave():  # of the help
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # types of click
        try:
            with _reader_may_leave():
                return super().invoke(ctx)
        except KeyboardInterrupt as error:  # otherwise click prints an empty line
            raise click.Abort from error
        except EOFError as error:  # click would end without a reason
            raise OSError(str(error) or "an input ended too early") from error

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - interface of click
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _removed_command(name: str) -> click.Command:
    """Return a command that accepts any arguments, and ends with an error."""

    def refuse(**_: object) -> None:
        raise click.UsageError(f"`llamaherd {name}` was removed: {_REMOVED[name]}.")

    settings = {"ignore_unknown_options": True, "help_option_names": []}
    arguments = click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(name, settings, refuse, [arguments])


def _complete_files() -> None:
    """Let shells complete the name of a file where a command suggests nothing."""
    from click import shell_completion as shells  # only for a shell

    class WithFiles(shells.ShellComplete):
        def get_completions(
            self, args: list[str], incomplete: str
        ) -> list[shells.CompletionItem]:
            items = super().get_completions(args, incomplete)
            if items or incomplete.startswith("-"):
                return items
            return [shells.CompletionItem(incomplete, type="file")]

    for shell in (shells.BashComplete, shells.ZshComplete, shells.FishComplete):
        completed: Any = type(shell.__name__, (WithFiles, shell), {})
        shells.add_completion_class(completed)


_group = _LazyCommands(
    "llamaherd",
    _PAGE,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=False,
    callback=lambda: None,
)
click.version_option(
    package_name="llamaherd", prog_name="llamaherd", message="%(prog)s %(version)s"
)(_group)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status."""
    prepare_streams()
    if "_LLAMAHERD_COMPLETE" in os.environ:  # a shell completes a command
        _complete_files()
    has_started()
    with Termination() as termination:
        try:
            with spoken_in(COMMAND_LINE):
                return _run(arguments)
        except (KeyboardInterrupt, click.Abort):
            if arguments is None and termination.status == ExitStatus.INTERRUPTED:
                end_by_interrupt()
            return termination.status
        finally:
            drop_unwritable_output()


def _run(arguments: Sequence[str] | None) -> int:
    try:
        status = _group.main(arguments, "llamaherd", standalone_mode=False)
        if not status:  # otherwise the reason is told already
            sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        return ExitStatus.NO_READER
    except EXPECTED as error:
        return print_failure(error, status_of(error))
    except RuntimeError as error:  # Python has no class for a lack of threads
        if "can't start new thread" not in str(error):
            raise
        return print_failure(
            f"{error}: end other programs, or raise the limit (ulimit -u)"
        )
    return ExitStatus.DONE if status is None else int(status)
