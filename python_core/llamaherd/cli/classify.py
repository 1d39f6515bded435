"""`llamaherd classify`: each row of a table gets a label, with probabilities."""

from __future__ import annotations

from typing import Any

import click

from llamaherd.cli.conventions import Command, section
from llamaherd.cli.tables import EXIT, labels_of, run_table, table_options

_HELP = """\
Give each row of a table one of some labels, with the probability of each.

Nothing is generated: the model is asked how likely each label is as what follows the
prompt. New columns: label, prob, margin, entropy, coverage (how much the model wanted to
answer with one of them at all), p_LABEL for each, and error.
"""
_EXAMPLES = """\
llamaherd classify news.csv -m model.gguf --labels Sports,Politics \\
  --prompt "{text} Topic:" -o out.csv
llamaherd classify news.parquet -m model.gguf --labels labels.txt --chat \\
  --prompt "Which topic? {text}" -o out.parquet
"""
_labels = section("Labels")


@click.command("classify", cls=Command, help=_HELP, examples=_EXAMPLES, epilog=EXIT)
@table_options(prompts=True)
@_labels(
    "--labels",
    metavar="A,B,C",
    help="What may follow the prompt; or a file with one a line.",
)
@_labels(
    "--normalize",
    "classify__normalize",
    type=click.Choice(["sum", "token", "byte", "pmi"]),
    help="How labels of different length are made comparable; default sum.",
)
@click.pass_context
def classify(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - of click
    """Does the command."""
    options["classify__labels"] = labels = labels_of(options.pop("labels"))
    if labels is None and not options["table"].lower().endswith(".toml"):
        raise click.UsageError("Missing option '--labels'.")
    ctx.exit(run_table("classify", options))
