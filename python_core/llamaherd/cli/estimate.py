"""`llamaherd estimate`, `validate` and `recalibrate`: a table and a gold sample."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from llamaherd.cli.conventions import Command, WholeNumber, option, split_names
from llamaherd.cli.model_flags import gpu_options, load_model, take_gpu_options
from llamaherd.cli.tables import shown_warnings
from llamaherd.engine.core.progress import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.coding.gold.sample import GoldSample

_HELP = """\
Estimate shares, means and regressions from labels, corrected by a gold sample.

TABLE is an output of `llamaherd annotate` or `classify` with all texts. The gold sample
is the file that people filled in; its .json must be in the same folder. Without FORMULA,
estimates the share of each label, or the mean of numbers. Prints estimates with standard
errors and intervals; --out writes them as a table. A column of FORMULA that contains only
numbers is a number; C(NAME) makes it a category.
"""
_EXAMPLES = """\
llamaherd estimate coded.csv --gold to_code.csv
llamaherd estimate coded.csv --gold to_code.csv --by party -o shares.csv
llamaherd estimate coded.csv "label == 'Sports' ~ year" --gold to_code.csv
"""


def of_gold_sample(
    out_help: str, *, needs_out: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator with the options of commands on a table and a gold sample."""
    decorators = (
        click.argument("table", metavar="TABLE"),
        option(
            "--gold", required=True, metavar="FILE.csv", help="The coded gold sample."
        ),
        option("-o", "--out", required=needs_out, metavar="FILE", help=out_help),
        option("--overwrite", is_flag=True, help="Replace an existing output."),
        option("--label", metavar="NAME", help="Column of labels. Default: label."),
    )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


_TABLE_OUT = ".csv, .tsv, .jsonl or .parquet; -: only this table, to stdout."
_level = option(
    "--level", type=float, default=0.95, help="Level of the intervals. Default 0.95."
)


class _Tables(NamedTuple):
    """The table and the gold sample of a command, and its output."""

    data: Any
    gold: GoldSample
    out: str | None
    overwrite: bool

    def write(self, columns: Any) -> None:  # noqa: ANN401 - a data frame of any kind
        """Write a table to --out, if it is given."""
        from llamaherd.tables.whole import write_whole  # noqa: PLC0415

        if self.out is not None:
            write_whole(columns, self.out, overwrite=self.overwrite)

    def tell(self, page: str, columns: dict[str, list[Any]]) -> None:
        """Print a page, and write a table; `-o -` prints only the table."""
        if self.out != "-":
            click.echo(page)
        self.write(columns)


def _read(options: dict[str, Any], *numbers: str) -> _Tables:
    """Take the options of `of_gold_sample` but --label, and read the files."""
    import llamaherd as lh  # noqa: PLC0415 - loads the engine
    from llamaherd.tables.whole import check_free, read_whole  # noqa: PLC0415

    table, gold = options.pop("table"), options.pop("gold")
    out, overwrite = options.pop("out"), options.pop("overwrite")
    if out is not None:
        check_free(out, overwrite=overwrite)
    columns = [options[name] for name in numbers if options[name] is not None]
    with shown_warnings():
        data = read_whole(table, ("p_*", *columns))
        return _Tables(data, lh.read_gold(gold), out, overwrite)


def _read_numbers(data: dict[str, list[Any]], formula: str, label: str) -> None:
    """Convert the columns of a formula, except labels, that contain only numbers."""
    from llamaherd.coding.estimation.formula_terms import columns_in  # noqa: PLC0415

    for name in columns_in(formula) & set(data) - {label}:
        with suppress(ValueError, TypeError):
            data[name] = [None if cell is None else float(cell) for cell in data[name]]


@click.command("estimate", cls=Command, help=_HELP, examples=_EXAMPLES)
@of_gold_sample(_TABLE_OUT)
@_level
@click.argument("formula", required=False)
@option("--by", metavar="NAME,NAME", callback=split_names, help="Columns of groups.")
@option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(["dsl", "ppi", "gold", "naive"]),
    help="Method; may be given several times. Default: all.",
)
@option(
    "--target",
    type=click.Choice(["population", "texts"]),
    default="population",
    help="What the estimates describe. Default population.",
)
@option("--cluster", metavar="NAME", help="Column of clusters, such as speakers.")
@option("--weights", metavar="NAME", help="Column of survey weights.")
def estimate(formula: str | None, **options: Any) -> None:  # noqa: ANN401 - types of click
    """Run the command."""
    import llamaherd as lh  # noqa: PLC0415 - loads the engine

    files = _read(options, "weights")
    if formula is not None and isinstance(files.data, dict):
        _read_numbers(files.data, formula, options["label"] or "label")
    if not options["methods"]:
        del options["methods"]
    with shown_warnings():
        estimates = lh.estimate(files.data, files.gold, formula, **options)
    rows = estimates.to_dicts()
    files.tell(str(estimates), {name: [row[name] for row in rows] for name in rows[0]})


_VALIDATE_HELP = """\
Compare labels with the codes of a gold sample: accuracy, agreement, calibration.

TABLE is an output of `llamaherd annotate` or `classify`. The gold sample is the file that
people filled in; its .json must be in the same folder. Prints a page; --out writes all
numbers as a table with the columns part, measure, label, value, low, high, n.
"""
_VALIDATE_EXAMPLES = """\
llamaherd validate coded.csv --gold to_code.csv
llamaherd validate coded.csv --gold to_code.csv -o measures.csv
"""


@click.command("validate", cls=Command, help=_VALIDATE_HELP, examples=_VALIDATE_EXAMPLES)
@of_gold_sample(_TABLE_OUT)
@_level
@option("--prob", metavar="NAME", help="Column of confidences. Default: p_LABEL or prob.")
def validate(**options: Any) -> None:  # noqa: ANN401 - types of click
    """Run the command."""
    import llamaherd as lh  # noqa: PLC0415 - loads the engine
    from llamaherd.coding.validation.validation import COLUMNS  # noqa: PLC0415

    files = _read(options, "prob")
    with shown_warnings():
        validation = lh.validate(files.data, files.gold, **options)
    columns = map(list, zip(*validation.rows(), strict=True))
    files.tell(repr(validation), dict(zip(COLUMNS, columns, strict=True)))


_RECALIBRATE_HELP = """\
Improve labels and probabilities by the codes of a gold sample.

TABLE is an output of `llamaherd annotate` or `classify`, with columns label and p_LABEL.
The gold sample is the file that people filled in; its .json must be in the same folder.
The output has new labels and probabilities in the same columns. Columns that begin with
raw_ have the labels and probabilities of the model, and fold is the fold of each coded
text. Prints the cross-validated accuracy and the accuracy of the model.
"""
_RECALIBRATE_EXAMPLES = """\
llamaherd recalibrate coded.csv --gold to_code.csv -o better.csv
llamaherd recalibrate coded.parquet --gold to_code.csv -o better.parquet \\
  --features probs --features embeddings --embeddings encoder.gguf
"""


@click.command(
    "recalibrate", cls=Command, help=_RECALIBRATE_HELP, examples=_RECALIBRATE_EXAMPLES
)
@of_gold_sample(".csv, .tsv, .jsonl or .parquet; -: CSV to stdout.", needs_out=True)
@option(
    "--features",
    multiple=True,
    type=click.Choice(["probs", "embeddings"]),
    help="Features of the texts; give the option twice for both. Default: probs.",
)
@option("--embeddings", metavar="FILE.gguf", help="Model for embeddings.")
@option("--text", metavar="NAME", help="Column of texts. Default: as in the gold sample.")
@option("--cluster", metavar="NAME", help="Column of clusters, whose texts share a fold.")
@option(
    "--folds",
    "n_folds",
    type=WholeNumber(2, 20),
    default=5,
    help="Number of folds. Default 5.",
)
@option("--seed", type=WholeNumber(0), default=0, help="Seed of the folds. Default 0.")
@gpu_options()
def recalibrate(
    features: Any,  # noqa: ANN401 - types of click
    embeddings: str | None,
    **options: Any,  # noqa: ANN401 - types of click
) -> None:
    """Run the command."""
    import llamaherd as lh  # noqa: PLC0415 - loads the engine

    loading = take_gpu_options(options)
    if loading and embeddings is None:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in loading)
        verb = "is" if len(loading) == 1 else "are"
        raise click.UsageError(f"{flags} {verb} for the model of --embeddings.")
    files = _read(options)
    with shown_warnings(), ExitStack() as open_models:
        model = None
        if embeddings is not None:
            model = open_models.enter_context(
                load_model(embeddings, loading, "--embeddings")
            )
        recalibrated = lh.recalibrate(
            files.data, files.gold, features or ("probs",), embeddings=model, **options
        )
    files.write(recalibrated.frame)
    say(recalibrated.summary())
