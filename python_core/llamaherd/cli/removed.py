"""Commands that were removed: for one version they say what to use instead."""

from __future__ import annotations

import click

_INSTEAD = {
    "slurm": "docs/cluster.md has an array script of some lines for `llamaherd run "
    "RUN.toml --shard I/N`, whose parts `llamaherd merge` combines",
    "keep-journal": "`cp` copies a journal when its run has ended",
}


def removed(name: str) -> click.Command:
    """Return a command that accepts any arguments, and ends with an error."""

    @click.command(
        name,
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:  # noqa: ARG001 - of any form
        raise click.UsageError(f"`llamaherd {name}` was removed: {_INSTEAD[name]}.")

    return command
