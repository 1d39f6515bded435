"""`llamaherd estimate`, `validate` and `recalibrate`: a table and a gold sample."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from llamaherd.cli.model_flags import GPU, load_model, take_table
from llamaherd.cli.page import command
from llamaherd.cli.tables import shown_warnings
from llamaherd.engine.core.progress import say

if TYPE_CHECKING:
    from llamaherd.coding.gold.sample import GoldSample

_OPTIONS = """
Options:
  --gold FILE.csv  The coded gold sample. [required]
  -o, --out FILE  .csv, .tsv, .jsonl or .parquet; {stream}
  --overwrite  Replace an existing output.
  --label NAME  Column of labels. Default: label.
"""
_ONLY_TABLE = _OPTIONS.format(stream="-: only this table, to stdout.")
_LEVEL = "  --level X  Level of the intervals. [default: 0.95]"


class _Tables(NamedTuple):
    """The table and the gold sample of a command, and its output."""

    data: Any
    gold: GoldSample
    out: str | None
    overwrite: bool

    def write(self, columns: Any) -> None:  # a data frame of any kind
        """Write a table to --out, if it is given."""
        from llamaherd.tables.whole import write_whole

        if self.out is not None:
            write_whole(columns, self.out, overwrite=self.overwrite)

    def tell(self, page: str, columns: dict[str, list[Any]]) -> None:
        """Print a page, and write a table; `-o -` prints only the table."""
        if self.out != "-":
            click.echo(page)
        self.write(columns)


def _read_tables(table: str, options: dict[str, Any], *numbers: str) -> _Tables:
    """Take the options of `_OPTIONS` but --label; `numbers` name columns of numbers."""
    import llamaherd as lh  # loads the engine
    from llamaherd.tables.whole import check_free, read_whole

    gold, out, overwrite = map(options.pop, ("gold", "out", "overwrite"))
    if out is not None:
        check_free(out, overwrite=overwrite)
    columns = [options[name] for name in numbers if options[name] is not None]
    with shown_warnings():
        data = read_whole(table, ("p_*", *columns))
        return _Tables(data, lh.read_gold(gold), out, overwrite)


def _read_numbers(data: dict[str, list[Any]], formula: str, label: str) -> None:
    """Convert the columns of a formula, except labels, that contain only numbers."""
    from llamaherd.coding.estimation.formulas import columns_in

    for name in columns_in(formula) & set(data) - {label}:
        with suppress(ValueError, TypeError):
            data[name] = [None if cell is None else float(cell) for cell in data[name]]


@command(
    "estimate TABLE [FORMULA]",
    f"""
Estimate shares, means and regressions from labels, corrected by a gold sample.

TABLE is an output of `llamaherd annotate` or `classify` with all texts. The gold sample
is the file that people filled in; its .json must be in the same folder. Without FORMULA,
estimates the share of each label, or the mean of numbers. Prints estimates with standard
errors and intervals; --out writes them as a table. A column of FORMULA that contains only
numbers is a number; C(NAME) makes it a category.
{_ONLY_TABLE}
{_LEVEL}
  --by NAME,NAME  Columns of groups.
  --method dsl|ppi|gold|naive... -> methods  Method; may be given several times. Default:
      all.
  --target population|texts  What the estimates describe. [default: population]
  --cluster NAME  Column of clusters, such as speakers.
  --weights NAME  Column of survey weights.

Examples:
  llamaherd estimate coded.csv --gold to_code.csv
  llamaherd estimate coded.csv --gold to_code.csv --by party -o shares.csv
  llamaherd estimate coded.csv "label == 'Sports' ~ year" --gold to_code.csv
""",
)
def estimate(table: str, formula: str | None, **options: Any) -> None:  # of click
    """Run the command."""
    import llamaherd as lh  # loads the engine

    files = _read_tables(table, options, "weights")
    if formula is not None and isinstance(files.data, dict):
        _read_numbers(files.data, formula, options["label"] or "label")
    if not options["methods"]:
        del options["methods"]
    with shown_warnings():
        estimates = lh.estimate(files.data, files.gold, formula, **options)
    rows = estimates.to_dicts()
    files.tell(str(estimates), {name: [row[name] for row in rows] for name in rows[0]})


@command(
    "validate TABLE",
    f"""
Compare labels with the codes of a gold sample: accuracy, agreement, calibration.

TABLE is an output of `llamaherd annotate` or `classify`. The gold sample is the file that
people filled in; its .json must be in the same folder. Prints a page; --out writes all
numbers as a table with the columns part, measure, label, value, low, high, n.
{_ONLY_TABLE}
{_LEVEL}
  --prob NAME  Column of confidences. Default: p_LABEL or prob.

Examples:
  llamaherd validate coded.csv --gold to_code.csv
  llamaherd validate coded.csv --gold to_code.csv -o measures.csv
""",
)
def validate(table: str, **options: Any) -> None:  # of click
    """Run the command."""
    import llamaherd as lh  # loads the engine
    from llamaherd.coding.validation.validation import COLUMNS

    files = _read_tables(table, options, "prob")
    with shown_warnings():
        validation = lh.validate(files.data, files.gold, **options)
    columns = map(list, zip(*validation.rows(), strict=True))
    files.tell(repr(validation), dict(zip(COLUMNS, columns, strict=True)))


@command(
    "recalibrate TABLE",
    f"""
Improve labels and probabilities by the codes of a gold sample.

TABLE is an output of `llamaherd annotate` or `classify`, with columns label and p_LABEL.
The gold sample is the file that people filled in; its .json must be in the same folder.
The output has new labels and probabilities in the same columns. Columns that begin with
raw_ have the labels and probabilities of the model, and fold is the fold of each coded
text. Prints the cross-validated accuracy and the accuracy of the model.
{_OPTIONS.format(stream="-: CSV to stdout. [required]")}
  --features probs|embeddings...  Features of the texts; give the option twice for both.
      Default: probs.
  --embeddings FILE.gguf  Model for embeddings.
  --text NAME  Column of texts. Default: as in the gold sample.
  --cluster NAME  Column of clusters, whose texts share a fold.
  --folds N>=2<=20 -> n_folds  Number of folds. [default: 5]
  --seed SEED  Seed of the folds. [default: 0]
{GPU}
Examples:
  llamaherd recalibrate coded.csv --gold to_code.csv -o better.csv
  llamaherd recalibrate coded.parquet --gold to_code.csv -o better.parquet \\
    --features probs --features embeddings --embeddings encoder.gguf
""",
)
def recalibrate(
    table: str,
    features: Any,  # of click
    embeddings: str | None,
    **options: Any,  # of click
) -> None:
    """Run the command."""
    import llamaherd as lh  # loads the engine

    loading = take_table(options)
    if loading and embeddings is None:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in loading)
        verb = "is" if len(loading) == 1 else "are"
        raise click.UsageError(f"{flags} {verb} for the model of --embeddings.")
    files = _read_tables(table, options)
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
