"""`llamaherd recalibrate`: improve the labels of a table by people's codes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from llamaherd.cli.conventions import Command, WholeNumber
from llamaherd.cli.estimate import read_both
from llamaherd.cli.model_flags import gpu_options, load_model, take_gpu_options
from llamaherd.cli.tables import shown_warnings
from llamaherd.engine.core.progress import say

_HELP = """\
Improve labels and probabilities by the codes of a gold sample.

TABLE is an output of `llamaherd annotate` or `classify`, with columns label and p_LABEL.
The gold sample is the file that people filled in; its .json must be in the same folder.
The output has new labels and probabilities in the same columns. Columns that begin with
raw_ have the labels and probabilities of the model, and fold is the fold of each coded
text. Prints the cross-validated accuracy and the accuracy of the model.
"""
_EXAMPLES = """\
llamaherd recalibrate coded.csv --gold to_code.csv -o better.csv
llamaherd recalibrate coded.parquet --gold to_code.csv -o better.parquet \\
  --features probs --features embeddings --embeddings encoder.gguf
"""


@click.command("recalibrate", cls=Command, help=_HELP, examples=_EXAMPLES)
@click.argument("table", metavar="TABLE")
@click.option("--gold", required=True, metavar="FILE.csv", help="The coded gold sample.")
@click.option(
    "-o",
    "--out",
    required=True,
    metavar="FILE",
    help=".csv, .tsv, .jsonl or .parquet; -: CSV to stdout.",
)
@click.option(
    "--features",
    multiple=True,
    type=click.Choice(["probs", "embeddings"]),
    help="Features of the texts; give the option twice for both. Default: probs.",
)
@click.option("--embeddings", metavar="FILE.gguf", help="Model for embeddings.")
@click.option("--label", metavar="NAME", help="Column of labels. Default: label.")
@click.option(
    "--text", metavar="NAME", help="Column of texts. Default: as in the gold sample."
)
@click.option(
    "--cluster", metavar="NAME", help="Column of clusters, whose texts share a fold."
)
@click.option(
    "--folds", type=WholeNumber(2, 20), default=5, help="Number of folds. Default 5."
)
@click.option(
    "--seed", type=WholeNumber(0), default=0, help="Seed of the folds. Default 0."
)
@click.option("--overwrite", is_flag=True, help="Replace an existing output.")
@gpu_options()
def recalibrate(**options: Any) -> None:  # noqa: ANN401 - types of click
    """Run the command."""
    import llamaherd as lh  # noqa: PLC0415 - loads the engine
    from llamaherd.tables.whole import write_whole  # noqa: PLC0415

    loading = take_gpu_options(options)
    if loading and options["embeddings"] is None:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in loading)
        verb = "is" if len(loading) == 1 else "are"
        raise click.UsageError(f"{flags} {verb} for the model of --embeddings.")
    data, gold = read_both(options)
    with shown_warnings(), ExitStack() as open_models:
        embeddings = None
        if options["embeddings"] is not None:
            embeddings = open_models.enter_context(
                load_model(options["embeddings"], loading, "--embeddings")
            )
        found = lh.recalibrate(
            data,
            gold,
            options["features"] or ("probs",),
            embeddings=embeddings,
            n_folds=options["folds"],
            seed=options["seed"],
            label=options["label"],
            text=options["text"],
            cluster=options["cluster"],
        )
    write_whole(found.frame, options["out"], overwrite=options["overwrite"])
    say(found.summary())
