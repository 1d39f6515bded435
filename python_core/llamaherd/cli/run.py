"""`llamaherd run`: each row of a table becomes a prompt, and gets an answer."""

from __future__ import annotations

from typing import Any

import click

from llamaherd.cli.conventions import Command, Whole, section
from llamaherd.cli.tables import EXIT, labels_of, run_table, table_options

_HELP = """\
Ask a model about each row of a table.

INPUT is a table (.csv, .tsv, .jsonl, .parquet, or - for stdin), which comes back with new
columns: answer, finish_reason, error, and with --schema one for each field. Or it is a
.toml file that describes such a run, or one of classify or embed.

What is finished is kept in a journal beside the output: after a crash, kill -9 or Ctrl-C
the same command goes on where it was.
"""
_EXAMPLES = """\
llamaherd run texts.csv -m model.gguf --prompt "Label this: {text}" -o out.csv
llamaherd run in.parquet -m hf:owner/repo --schema form.json -o out.parquet
head texts.csv | llamaherd run - -m model.gguf --labels yes,no
llamaherd run texts.csv -m model.gguf -o out.csv --save run.toml
llamaherd run run.toml --shard 1/50 --journal /tmp/1.journal
"""
_answers = section("What answers are like")


@click.command("run", cls=Command, help=_HELP, examples=_EXAMPLES, epilog=EXIT)
@table_options(prompts=True)
@_answers(
    "--schema",
    "sampling__schema",
    metavar="FILE",
    help="JSON Schema that answers follow; its fields become columns.",
)
@_answers(
    "--labels",
    metavar="A,B,C",
    help="Answers are one of these; or a file with one a line.",
)
@_answers(
    "--max-tokens",
    "sampling__max_tokens",
    type=Whole(1),
    metavar="N",
    help="Tokens of an answer at most; default 100, with a schema 512.",
)
@_answers(
    "--temperature",
    "sampling__temperature",
    type=float,
    metavar="X",
    help="Default 0: always the most likely token.",
)
@_answers(
    "--seed",
    "sampling__seed",
    type=Whole(0),
    metavar="N",
    help="With a temperature: of what is drawn; default 1234.",
)
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - of click
    """Does the command."""
    options["sampling__choices"] = labels_of(options.pop("labels"))
    ctx.exit(run_table(None, options))
