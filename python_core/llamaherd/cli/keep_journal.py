"""`llamaherd keep-journal`: copy journals back in scripts of `llamaherd slurm`."""

from __future__ import annotations

import click

from llamaherd.cli.conventions import Command

_HELP = """\
Copy a journal that is in use.

A journal in use must be on a local disk; KEPT may be on a network drive. An existing
KEPT is replaced. To continue a run, copy KEPT to a local disk and pass it to
`llamaherd run --journal`.
"""
_EXAMPLES = """\
llamaherd keep-journal /tmp/1-of-50.journal /shared/1-of-50.journal
"""


@click.command("keep-journal", cls=Command, help=_HELP, examples=_EXAMPLES)
@click.argument("journal")
@click.argument("kept")
def keep_journal(journal: str, kept: str) -> None:
    """Copy the journal."""
    from llamaherd.journal import copying  # noqa: PLC0415 - loads the engine

    copying.keep_journal(journal, kept)
