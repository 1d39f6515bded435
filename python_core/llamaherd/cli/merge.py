"""`llamaherd merge` and `spans`: other forms of the outputs of runs."""

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


_SPANS_HELP = """\
List the passages of a table that `llamaherd annotate` wrote, one per row.

The codebook must be of the type "spans". The columns are the id of the text, or the
number of its row, from 0; label; quote; start and end, so that text[start:end] is the
quote, with characters counted from 0.
"""
_SPANS_EXAMPLES = """\
llamaherd annotate texts.csv --codebook actors.yaml -m model.gguf -o coded.csv
llamaherd spans coded.csv --id id -o passages.csv
"""


@click.command("spans", cls=Command, help=_SPANS_HELP, examples=_SPANS_EXAMPLES)
@click.argument("table", metavar="TABLE")
@click.option(
    "-o",
    "--out",
    "output",
    default="-",
    metavar="FILE",
    help=".csv, .tsv or .jsonl; default -: CSV to stdout.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing output.")
@click.option("--id", "id_", metavar="NAME", help="Column that identifies the texts.")
@click.option(
    "--column",
    default="spans",
    metavar="NAME",
    help="Column of passages. Default spans, or with a --prefix PREFIXspans.",
)
def spans(table: str, output: str, overwrite: bool, id_: str | None, column: str) -> None:
    """Run the command."""
    from llamaherd.tables.coded_table import SpanFile  # noqa: PLC0415 - loads the engine
    from llamaherd.tables.whole import check_free  # noqa: PLC0415

    check_free(output, overwrite=overwrite)
    SpanFile(source=table, output=output, column=column, id=id_).write()
