"""Which command. Its module is imported when it is wanted: no command needs another's."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.conventions import Status, Termination, failed
from llamaherd.core.errors import LlamaHerdError

if TYPE_CHECKING:
    from collections.abc import Sequence

# In the order of the help. The module `llamaherd.cli.NAME` has a command `NAME`.
COMMANDS = {
    "serve": "Answer prompts over HTTP.",
}
_EPILOG = """\
\b
Start here:
  llamaherd serve model.gguf

`llamaherd COMMAND --help` tells of a command, with examples. Data goes to stdout. Exit
status: 0 all is well, 1 failed, 2 wrong use, 3 done but some rows failed (they have
their reason), 130 Ctrl-C, 143 SIGTERM.
"""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"llamaherd.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # click itself would print an empty line
            raise click.Abort from error

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    "llamaherd",
    cls=_Commands,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=False,
)
@click.version_option(
    package_name="llamaherd", prog_name="llamaherd", message="%(prog)s %(version)s"
)
def _group() -> None:
    """Many prompts at once through a model on this machine."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. Returns the status to exit with."""
    with Termination() as termination:
        try:
            return _run(arguments)
        except (KeyboardInterrupt, click.Abort):
            return Status.TERMINATED if termination.has_come else Status.INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    try:
        status = _group.main(arguments, "llamaherd", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:  # of `llamaherd ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Status.FAILED
    except (LlamaHerdError, ValueError, TypeError, OSError, ImportError) as error:
        return failed(error)
    return Status.DONE if status is None else int(status)
