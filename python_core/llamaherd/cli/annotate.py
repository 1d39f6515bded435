"""`llamaherd annotate`: annotate each row of a table with a codebook."""

from __future__ import annotations

from typing import Any

import click

from llamaherd.asks.annotate_options import CALIBRATE, METHODS, SPLITS, AnnotateOptions
from llamaherd.asks.settings import help_of
from llamaherd.cli.conventions import Command, Whole, section
from llamaherd.cli.table_options import drawing_options, table_options, thought_options
from llamaherd.cli.tables import EXIT, run_table
from llamaherd.core.sampling import MAX_TOKENS_OF_SCHEMA

_HELP = """\
Code each row of a table by a codebook.

The codebook is a YAML file: a question, labels and their definitions, or a schema.
New columns, for one label: label, prob, margin, entropy, coverage, mean (ordinal scales
only), p_LABEL for each label, and error; for a scale of numbers: label, mean, sd, prob,
margin, entropy, coverage, error; for several labels: label, coverage, p_LABEL, error; for
fields: one column per field, and error. --evidence adds quote, start and end. With
--thinking N, the model thinks first; this adds thinking, n_thinking_tokens,
thinking_complete. --n-thoughts K also adds between, the deviation over the thoughts.
--until or --larger adds step, the step that labelled the row (model, head or unsure).
`annotate` in Python returns the same columns.
"""
_EXAMPLES = """\
llamaherd annotate texts.csv --codebook topics.yaml -m model.gguf -o out.csv
llamaherd annotate texts.csv --codebook topics.yaml -m model.gguf --evidence \\
  -o out.csv
llamaherd annotate texts.csv --codebook ready:sentiment -m model.gguf \\
  -o out.csv
llamaherd annotate texts.parquet --codebook topics.yaml -m model.gguf --chat \\
  --calibrate contextual --prefix coded_ -o out.parquet
llamaherd annotate texts.csv --codebook topics.yaml -m thinker.gguf --chat \\
  --thinking 256 --n-thoughts 5 -o out.csv
llamaherd annotate million.parquet --codebook topics.yaml -m model.gguf \\
  --until 5000 --embedding-model encoder.gguf -o out.parquet
"""
_coding = section("How texts are coded")
_steps = section("Many texts, in steps")


@click.command("annotate", cls=Command, help=_HELP, examples=_EXAMPLES, epilog=EXIT)
@table_options(prompts=True, system=False)
@_coding(
    "--codebook",
    metavar="FILE.yaml",
    help="The codebook, or ready:NAME, see `llamaherd codebooks ready`.",
)
@_coding(
    "--method",
    "annotate__method",
    type=click.Choice(METHODS),
    help=help_of(AnnotateOptions, "method", "Default auto: only fields are generated."),
)
@_coding(
    "--calibrate",
    "annotate__calibrate",
    type=click.Choice([each for each in CALIBRATE if each]),
    help=help_of(AnnotateOptions, "calibrate", "batch needs all rows in one run."),
)
@_coding(
    "--distribution",
    "annotate__distribution",
    is_flag=True,
    default=None,
    help=help_of(AnnotateOptions, "distribution"),
)
@_coding(
    "--split",
    "annotate__split",
    type=click.Choice([each for each in SPLITS if each]),
    help=help_of(AnnotateOptions, "split", "Default: rows with such texts fail."),
)
@_coding(
    "--evidence",
    "annotate__evidence",
    is_flag=True,
    default=None,
    help=help_of(AnnotateOptions, "evidence", "Adds the columns quote, start, end."),
)
@_steps(
    "--until",
    "annotate__until",
    type=Whole(50),
    metavar="N",
    help=help_of(AnnotateOptions, "until", "Needs --embedding-model."),
)
@_steps(
    "--embedding-model",
    "annotate__embeddings",
    metavar="MODEL",
    help=help_of(AnnotateOptions, "embeddings"),
)
@_steps(
    "--unsure",
    "annotate__unsure",
    type=float,
    metavar="X",
    help=help_of(AnnotateOptions, "unsure", "Default 0.1."),
)
@_steps(
    "--larger",
    "annotate__larger",
    metavar="MODEL",
    help=help_of(AnnotateOptions, "larger"),
)
@_coding(
    "--max-tokens",
    "annotate__max_tokens",
    type=Whole(1),
    metavar="N",
    help=help_of(AnnotateOptions, "max_tokens", f"Default {MAX_TOKENS_OF_SCHEMA}."),
)
@drawing_options(
    _coding, "annotate", AnnotateOptions, "a temperature or several thoughts"
)
@thought_options(_coding, "annotate", AnnotateOptions)
@click.pass_context
def annotate(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - types of click
    """Run the command."""
    is_file = options["table"].lower().endswith(".toml")
    if options["codebook"] is None and not is_file:
        raise click.UsageError("Missing option '--codebook'.")
    ctx.exit(run_table("annotate", options))
