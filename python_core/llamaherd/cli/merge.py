"""`llamaherd merge`: merge the shards of a run into one table."""

from __future__ import annotations

import click

from llamaherd.cli.conventions import Command
from llamaherd.cli.tables import ended, shown_warnings

_HELP = """\
Combine the journals of `llamaherd run --shard i/n`.

The output equals the output of a run without shards. No model is needed. All journals
must come from the same model, description and input, and contain each shard and row once.
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
    "--input", "source", metavar="FILE", help="Input of the run, if it was moved."
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Replace an output that llamaherd did not write or that was changed since.",
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
    """Run the command."""
    from llamaherd.tables.merging import merge_runs  # noqa: PLC0415 - loads the engine

    with shown_warnings():
        outcome = merge_runs(journals, output, source=source, overwrite=overwrite)
    ctx.exit(ended(outcome))
