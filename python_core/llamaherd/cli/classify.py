"""`llamaherd classify`: label each row of a table, with probabilities."""

from __future__ import annotations

from typing import Any

import click

from llamaherd.asks.options import ClassifyOptions
from llamaherd.asks.settings import help_of
from llamaherd.cli.conventions import Command, section
from llamaherd.cli.table_options import declared_flags, labels_of, table_options
from llamaherd.cli.tables import EXIT, run_table

_HELP = """\
Label each row of a table, with the probability of each label.

No text is generated: the model computes the probability of each label after the prompt.
New columns: label, prob, margin, entropy, coverage (total probability of all labels
before normalization), p_LABEL for each label, and error. With --thinking N, the model
thinks first; this adds thinking, n_thinking_tokens, thinking_complete. --n-thoughts K
also adds between, the standard deviation over the thoughts.
"""
_EXAMPLES = """\
llamaherd classify news.csv -m model.gguf --labels Sports,Politics \\
  --prompt "{text} Topic:" -o out.csv
llamaherd classify news.parquet -m model.gguf --labels labels.txt --chat \\
  --prompt "Which topic? {text}" -o out.parquet
llamaherd classify news.csv -m thinker.gguf --labels Sports,Politics --chat \\
  --thinking 256 --n-thoughts 5 --prompt "Which topic? {text}" -o out.csv
"""
_labels = section("Labels")


@click.command("classify", cls=Command, help=_HELP, examples=_EXAMPLES, epilog=EXIT)
@table_options(prompts=True, system=True)
@_labels(
    "--labels",
    metavar="A,B,C",
    help=help_of(ClassifyOptions, "labels", "Or a file with one label per line."),
)
@declared_flags(_labels, "classify", ClassifyOptions)
@click.pass_context
def classify(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - types of click
    """Run the command."""
    options["classify__labels"] = labels = labels_of(options.pop("labels"))
    if labels is None and not options["table"].lower().endswith(".toml"):
        raise click.UsageError("Missing option '--labels'.")
    ctx.exit(run_table("classify", options))
