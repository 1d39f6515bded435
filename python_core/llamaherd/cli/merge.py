"""`llamaherd merge`: the shards of a run become one table."""

from __future__ import annotations

import click

from llamaherd.cli.conventions import Command
from llamaherd.cli.tables import ended, shown_warnings

_HELP = """\
Put the journals of `llamaherd run --shard i/n` together.

The output is the one that the run as a whole would have written. No model is needed. It
is refused unless all are of one model, one description and one input, with no shard and
no row missing or double.
"""
_EXAMPLES = """\
llamaherd merge journals/*.journal --out result.parquet
llamaherd merge a.journal b.journal --out result.csv --input /data/texts.csv
"""


@click.command("merge", cls=Command, help=_HELP, examples=_EXAMPLES)
@click.argument("journals", nargs=-1, required=True, metavar="JOURNAL...")
@click.option(
    "-o",
    "--out",
    "output",
    required=True,
    metavar="FILE",
    help=".csv, .tsv, .jsonl or .parquet; -: CSV to stdout.",
)
@click.option(
    "--input", "source", metavar="FILE", help="The run's input, if it is elsewhere now."
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Replace an output that llamaherd did not write, or somebody changed.",
)
@click.pass_context
def merge(
    ctx: click.Context,
    /,
    journals: tuple[str, ...],
    output: str,
    source: str | None,
    overwrite: bool,
) -> None:
    """Does the command."""
    from llamaherd.runs.merging import merge_runs  # noqa: PLC0415 - loads the engine

    with shown_warnings():
        outcome = merge_runs(journals, output, source=source, overwrite=overwrite)
    ctx.exit(ended(outcome))
