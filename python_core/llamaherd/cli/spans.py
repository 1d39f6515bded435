"""`llamaherd spans`: list the passages of coded texts, one row per passage."""

from __future__ import annotations

import click

from llamaherd.cli.conventions import Command

_HELP = """\
List the passages of a table that `llamaherd annotate` wrote, one per row.

The codebook must be of the type "spans". The columns are the id of the text, or the
number of its row, from 0; label; quote; start and end, so that text[start:end] is the
quote, with characters counted from 0.
"""
_EXAMPLES = """\
llamaherd annotate texts.csv --codebook actors.yaml -m model.gguf -o coded.csv
llamaherd spans coded.csv --id id -o passages.csv
"""


@click.command("spans", cls=Command, help=_HELP, examples=_EXAMPLES)
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
    from llamaherd.tables.spans import SpanFile  # noqa: PLC0415 - loads the engine
    from llamaherd.tables.whole import check_free  # noqa: PLC0415

    check_free(output, overwrite=overwrite)
    SpanFile(source=table, output=output, column=column, id=id_).write()
