"""`llamaherd estimate`: shares, means and regressions, corrected by people's codes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.conventions import Command, split_names
from llamaherd.cli.tables import shown_warnings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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


def of_gold_sample(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that compare a table with a gold sample."""
    for decorate in reversed(
        (
            click.argument("table", metavar="TABLE"),
            click.option(
                "--gold", required=True, metavar="FILE.csv", help="The coded gold sample."
            ),
            click.option(
                "-o",
                "--out",
                metavar="FILE",
                help=".csv, .tsv, .jsonl or .parquet; -: only this table, to stdout.",
            ),
            click.option("--overwrite", is_flag=True, help="Replace an existing output."),
            click.option(
                "--label", metavar="NAME", help="Column of labels. Default: label."
            ),
            click.option(
                "--level",
                type=float,
                default=0.95,
                help="Level of the intervals. Default 0.95.",
            ),
        )
    ):
        function = decorate(function)
    return function


def read_both(
    options: dict[str, Any], numbers: Iterable[str | None] = ()
) -> tuple[Any, GoldSample]:
    """Read the table and the gold sample.

    Args:
        options: Options of `of_gold_sample`.
        numbers: Columns of numbers, besides p_*; None is left out.
    """
    import llamaherd as lh  # noqa: PLC0415 - loads the engine
    from llamaherd.tables.whole import check_free, read_whole  # noqa: PLC0415

    if options["out"] is not None:
        check_free(options["out"], overwrite=options["overwrite"])
    named = [name for name in numbers if name is not None]
    with shown_warnings():
        data = read_whole(options["table"], ("p_*", *named))
        return data, lh.read_gold(options["gold"])


def tell(page: str, columns: dict[str, list[Any]], options: dict[str, Any]) -> None:
    """Print a page, and write a table to --out; `-o -` prints only the table."""
    from llamaherd.tables.whole import write_whole  # noqa: PLC0415

    if options["out"] != "-":
        click.echo(page)
    if options["out"] is not None:
        write_whole(columns, options["out"], overwrite=options["overwrite"])


def _read_numbers(data: dict[str, list[Any]], formula: str, label: str) -> None:
    """Convert the columns of a formula, except labels, that contain only numbers."""
    from llamaherd.coding.estimation.formula_terms import columns_in  # noqa: PLC0415

    for name in columns_in(formula) & set(data) - {label}:
        with suppress(ValueError, TypeError):
            data[name] = [None if cell is None else float(cell) for cell in data[name]]


@click.command("estimate", cls=Command, help=_HELP, examples=_EXAMPLES)
@of_gold_sample
@click.argument("formula", required=False)
@click.option(
    "--by", metavar="NAME,NAME", callback=split_names, help="Columns of groups."
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(["dsl", "ppi", "gold", "naive"]),
    help="Method; may be given several times. Default: all.",
)
@click.option(
    "--target",
    type=click.Choice(["population", "texts"]),
    default="population",
    help="What the estimates describe. Default population.",
)
@click.option("--cluster", metavar="NAME", help="Column of clusters, such as speakers.")
@click.option("--weights", metavar="NAME", help="Column of survey weights.")
def estimate(**options: Any) -> None:  # noqa: ANN401 - types of click
    """Run the command."""
    import llamaherd as lh  # noqa: PLC0415 - loads the engine

    data, gold = read_both(options, [options["weights"]])
    if options["formula"] is not None and isinstance(data, dict):
        _read_numbers(data, options["formula"], options["label"] or "label")
    with shown_warnings():
        found = lh.estimate(
            data,
            gold,
            options["formula"],
            by=options["by"],
            label=options["label"],
            level=options["level"],
            target=options["target"],
            cluster=options["cluster"],
            weights=options["weights"],
            **({"methods": options["methods"]} if options["methods"] else {}),
        )
    rows = found.to_dicts()
    tell(str(found), {name: [row[name] for row in rows] for name in rows[0]}, options)
