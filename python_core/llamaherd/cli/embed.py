"""`llamaherd embed`: each row of a table gets a vector."""

from __future__ import annotations

from typing import Any

import click

from llamaherd.cli.conventions import Command, section
from llamaherd.cli.tables import EXIT, run_table, table_options

_HELP = """\
Make a vector of each text of a table.

New columns: embedding, a list of numbers (in CSV and JSON lines a JSON array), and error.
"""
_EXAMPLES = """\
llamaherd embed texts.parquet -m all-MiniLM-L6-v2.F16.gguf -o vectors.parquet
llamaherd embed in.csv -m model.gguf --column body --truncate -o out.parquet
"""
_vectors = section("Vectors")


@click.command("embed", cls=Command, help=_HELP, examples=_EXAMPLES, epilog=EXIT)
@table_options(prompts=False)
@_vectors(
    "--pooling",
    "embed__pooling",
    type=click.Choice(["auto", "mean", "cls", "last"]),
    help="What becomes of the vectors of a text's tokens; default: as the model says.",
)
@_vectors(
    "--truncate",
    "embed__truncate",
    is_flag=True,
    default=None,
    help="Cut texts that are too long; else their rows fail.",
)
@click.pass_context
def embed(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - of click
    """Does the command."""
    ctx.exit(run_table("embed", options))
