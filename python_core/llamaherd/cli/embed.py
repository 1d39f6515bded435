"""`llamaherd embed`: compute an embedding of each row of a table."""

from __future__ import annotations

from typing import Any

import click

from llamaherd.asks.options import EmbedOptions
from llamaherd.cli.conventions import Command, section
from llamaherd.cli.table_options import declared_flags, table_options
from llamaherd.cli.tables import EXIT, run_table

_HELP = """\
Compute a vector (embedding) for each text of a table.

New columns: embedding, a list of numbers (in CSV and JSON lines a JSON array), and error.
"""
_EXAMPLES = """\
llamaherd embed texts.parquet -m all-MiniLM-L6-v2.F16.gguf -o vectors.parquet
llamaherd embed in.csv -m model.gguf --column body --truncate -o out.parquet
"""
_vectors = section("Vectors")


@click.command("embed", cls=Command, help=_HELP, examples=_EXAMPLES, epilog=EXIT)
@table_options(prompts=False, system=False)
@declared_flags(_vectors, "embed", EmbedOptions)
@click.pass_context
def embed(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - types of click
    """Run the command."""
    ctx.exit(run_table("embed", options))
