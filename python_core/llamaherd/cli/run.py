"""`llamaherd run`: make a prompt from each row of a table, and answer the prompts."""

from __future__ import annotations

from typing import Any

import click

from llamaherd.asks.options import GenerateOptions
from llamaherd.asks.settings import help_of
from llamaherd.cli.conventions import Command, section
from llamaherd.cli.table_options import declared_flags, labels_of, table_options
from llamaherd.cli.tables import EXIT, run_table

_HELP = """\
Ask a model about each row of a table.

INPUT is a table (.csv, .tsv, .jsonl, .parquet, or - for stdin). The output is the table
with new columns: answer, finish_reason, error, and with --schema a column for each field.
INPUT may also be a .toml file that describes a run of this command or of classify,
annotate or embed.

A journal next to the output stores finished rows: after a crash, kill -9 or Ctrl-C the
same command continues the run.
"""
_EXAMPLES = """\
llamaherd run texts.csv -m model.gguf --prompt "Label this: {text}" -o out.csv
llamaherd run in.parquet -m hf:owner/repo --schema form.json -o out.parquet
head texts.csv | llamaherd run - -m model.gguf --labels yes,no
llamaherd run texts.csv -m model.gguf -o out.csv --save run.toml
llamaherd run run.toml --shard 1/50 --journal /tmp/1.journal
"""
_answers = section("Answers")


@click.command("run", cls=Command, help=_HELP, examples=_EXAMPLES, epilog=EXIT)
@table_options(prompts=True, system=True)
@_answers(
    "--labels",
    metavar="A,B,C",
    help=help_of(GenerateOptions, "choices", "Or a file with one label per line."),
)
@declared_flags(_answers, "sampling", GenerateOptions)
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - types of click
    """Run the command."""
    options["sampling__choices"] = labels_of(options.pop("labels"))
    ctx.exit(run_table(None, options))
