"""`llamaherd gold`: draw texts for people to code, also in waves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.conventions import Command, Commands, WholeNumber, section, split_names
from llamaherd.cli.tables import shown_warnings
from llamaherd.engine.core.progress import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.gold.sample import GoldSample

_HELP = """\
Draw texts for people to code, with known inclusion probabilities.

`sample` writes a sheet with the texts to code, and the design of the sample next to it in
SHEET.csv.json. With --after it draws more texts after the sheet of earlier waves. `show`
prints the design, the draws and the number of codes of a sheet.
"""
_EXAMPLES = """\
llamaherd gold sample coded.csv -n 200 --seed 1 --coders anna,ben \\
  -o first.csv
llamaherd gold sample coded.csv -n 100 --seed 2 --after first.csv \\
  -o both.csv
llamaherd gold show both.csv
"""
_EPILOG = """\
Exit status: 0 success; 1 failed while running; 2 invalid arguments, nothing was drawn;
130 Ctrl-C; 143 SIGTERM.
"""
_DESIGNS = ("simple", "stratified", "uncertainty", "weights")
_OF_SHEET = ("coders", "overwrite", "uncoded", "spreadsheet")
_MARGIN = "margin"  # difference of the two highest probabilities
_drawn = section("How texts are drawn")
_columns = section("Columns of the table")
_sheet = section("The sheet")


@click.group("gold", cls=Commands, help=_HELP, examples=_EXAMPLES, epilog=_EPILOG)
def gold() -> None:
    """See `_HELP`."""


@gold.command(
    "sample",
    cls=Command,
    help="Draw texts, and write them to a sheet for people to code.\n\nTABLE is an "
    "output of `llamaherd annotate` or `classify`, or another table of texts. The same "
    "seed draws the same texts as gold_sample() in Python and R.",
    examples="llamaherd gold sample coded.csv -n 200 --seed 1 -o first.csv\n"
    "llamaherd gold sample coded.csv -n 200 --by label --allocation equal \\\n"
    "  -o first.csv\n"
    "llamaherd gold sample coded.csv -n 100 --after first.csv -o both.csv\n",
)
@click.argument("table", metavar="TABLE")
@_drawn(
    "-n", "n", required=True, type=WholeNumber(1), metavar="N", help="Number of texts."
)
@_drawn(
    "--after",
    metavar="SHEET.csv",
    multiple=True,
    help="The sheet of the earlier waves, with its codes: N more texts are drawn, in the "
    "same design unless --prob, --prob-column or --by is given. With several "
    "sheets, name the newest first.",
)
@_drawn(
    "--prob",
    type=click.Choice(_DESIGNS),
    help="Design. Default: stratified with --by, otherwise simple; with --after the "
    "design of the earlier waves.",
)
@_drawn(
    "--prob-column",
    metavar="NAME",
    help="Column of inclusion probabilities whose sum is N, in place of a design. With "
    "--after, the probabilities are scaled.",
)
@_drawn(
    "--by",
    metavar="NAME",
    multiple=True,
    help="Column whose values are strata; may be given several times.",
)
@_drawn(
    "--allocation",
    type=click.Choice(["proportional", "equal"]),
    default="proportional",
    help="Number of texts of each stratum. Default proportional.",
)
@_drawn(
    "--floor",
    type=float,
    default=0.3,
    help="For uncertainty and weights: share of the texts that is drawn with "
    "equal probabilities. Default 0.3.",
)
@_drawn("--seed", type=WholeNumber(0), metavar="N", help="Seed; default: a random one.")
@_columns("--text", metavar="NAME", help="Column of texts. Default text, if it exists.")
@_columns(
    "--label", metavar="NAME", help="Column of labels. Default label, if it exists."
)
@_columns("--id", metavar="NAME", help="Column of identifiers. Default id, if unique.")
@_columns(
    "--confidence",
    metavar="NAME",
    help="For uncertainty: confidence from 0 to 1. Default margin, if it exists.",
)
@_columns("--weights", metavar="NAME", help="For weights: survey weights.")
@_columns("--several", is_flag=True, help="A text may have several labels.")
@_sheet("-o", "--out", "output", required=True, metavar="SHEET.csv", help="The sheet.")
@_sheet(
    "--coders",
    metavar="NAME,NAME",
    callback=split_names,
    help="Columns for codes. Default: the columns of the --after sheet, or code.",
)
@_sheet(
    "--name",
    "names",
    metavar="LABEL",
    multiple=True,
    help="Label that codes may have; may be given several times. Default: the labels of "
    "the table.",
)
@_sheet("--uncoded", is_flag=True, help="Write only texts that nobody has coded yet.")
@_sheet(
    "--spreadsheet",
    is_flag=True,
    help="Write cells that spreadsheets do not read as formulas.",
)
@_sheet("--overwrite", is_flag=True, help="Replace an existing sheet.")
def sample(table: str, **options: Any) -> None:  # noqa: ANN401 - types of click
    """Draw a sample, write its sheet, and print its design."""
    import llamaherd as lh  # noqa: PLC0415 - loads the engine
    from llamaherd.coding import frames  # noqa: PLC0415
    from llamaherd.tables.stored import is_stream  # noqa: PLC0415
    from llamaherd.tables.whole import check_free, read_whole  # noqa: PLC0415

    sheet = {name: options.pop(name) for name in _OF_SHEET}
    output, prob_column = options.pop("output"), options.pop("prob_column")
    by, prob, after = options.pop("by"), options.pop("prob"), options.pop("after")
    if prob is not None and prob_column is not None:
        raise click.UsageError("--prob and --prob-column exclude each other.")
    if is_stream(output):
        raise click.UsageError(
            f"-o {output}: the design of the sample is written next to its "
            "sheet (FILE.csv.json), so the sheet must be a file."
        )
    check_free(output, overwrite=sheet["overwrite"])
    numbers = (prob_column, options["weights"], options["confidence"], _MARGIN)
    data = read_whole(table, [name for name in numbers if name is not None])
    columns = frames.names(data)
    with shown_warnings():
        earlier = lh.read_gold(list(after)) if after else None
        # A wave without its own design has the design of the earlier waves.
        kind = prob
        if earlier is not None and not (prob or by):
            kind = earlier.design["kind"]
        usual = {"text": "text", "label": "label"}
        if kind == "uncertainty":
            usual["confidence"] = _MARGIN
        for name, column in usual.items():
            if options[name] is None and column in columns:
                options[name] = column
        if prob_column is not None:
            prob = frames.column(data, prob_column, "prob")
        drawn = lh.gold_sample(
            data,
            options.pop("n"),
            by[0] if len(by) == 1 else list(by) or None,
            prob,
            after=earlier,
            **{**options, "several": options["several"] or None},
        )
        drawn.write(output, **sheet)
    _tell(drawn)


@gold.command(
    "show",
    cls=Command,
    help="Print the draws of a sheet, and the number of its codes.\n\nOf several sheets "
    "of one sample, give the newest first.",
    examples="llamaherd gold show both.csv\n",
)
@click.argument("sheets", metavar="SHEET.csv", nargs=-1, required=True)
def show(sheets: Sequence[str]) -> None:
    """Print a record of each draw."""
    import llamaherd as lh  # noqa: PLC0415 - loads the engine

    with shown_warnings():
        _tell(lh.read_gold(list(sheets)))


def _tell(drawn: GoldSample) -> None:
    """Print a row for each draw, and the numbers of texts and codes."""
    click.echo("wave\tdesign\tdrawn\tfrom\tseed\tcoded_before")
    for draw in drawn.history:
        row = (draw[name] for name in ("wave", "kind", "n", "N", "seed", "n_coded"))
        click.echo("\t".join(map(str, row)))
    n_coded = sum(code is not None for code in drawn.gold)
    say(f"{len(drawn)} texts, {n_coded} coded")
