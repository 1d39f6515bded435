"""`llamaherd gold`: draw texts for people to code, also in waves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.page import Commands
from llamaherd.cli.tables import shown_warnings
from llamaherd.engine.core.progress import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.gold.sample import GoldSample

_OF_SHEET = ("coders", "overwrite", "uncoded", "spreadsheet")
_MARGIN = "margin"  # difference of the two highest probabilities

gold = Commands(
    "gold",
    """
Draw texts for people to code, with known inclusion probabilities.

`sample` writes a sheet with the texts to code, and the design of the sample next to it in
SHEET.csv.json. With --after it draws more texts after the sheet of earlier waves. `show`
prints the design, the draws and the number of codes of a sheet.

Examples:
  llamaherd gold sample coded.csv -n 200 --seed 1 --coders anna,ben \\
    -o first.csv
  llamaherd gold sample coded.csv -n 100 --seed 2 --after first.csv \\
    -o both.csv
  llamaherd gold show both.csv

Exit status: 0 success; 1 failed while running; 2 invalid arguments, nothing was drawn;
130 Ctrl-C; 143 SIGTERM.
""",
)


@gold.declared(
    "sample TABLE",
    """
Draw texts, and write them to a sheet for people to code.

TABLE is an output of `llamaherd annotate` or `classify`, or another table of texts. The
same seed draws the same texts as gold_sample() in Python and R.

How texts are drawn:
  -n N  Number of texts. [required]
  --after SHEET.csv...  The sheet of the earlier waves, with its codes: N more texts are
      drawn, in the same design unless --prob, --prob-column or --by is given. With
      several sheets, name the newest first.
  --prob simple|stratified|uncertainty|weights  Design. Default: stratified with --by,
      otherwise simple; with --after the design of the earlier waves.
  --prob-column NAME  Column of inclusion probabilities whose sum is N, in place of a
      design. With --after, the probabilities are scaled.
  --by NAME...  Column whose values are strata; may be given several times.
  --allocation proportional|equal  Number of texts of each stratum.
      [default: proportional]
  --floor X  For uncertainty and weights: share of the texts that is drawn with equal
      probabilities. [default: 0.3]
  --seed SEED  Seed; default: a random one.

Columns of the table:
  --text NAME  Column of texts. Default text, if it exists.
  --label NAME  Column of labels. Default label, if it exists.
  --id NAME  Column of identifiers. Default id, if unique.
  --confidence NAME  For uncertainty: confidence from 0 to 1. Default margin, if it
      exists.
  --weights NAME  For weights: survey weights.
  --several  A text may have several labels.

The sheet:
  -o, --out SHEET.csv  The sheet. [required]
  --coders NAME,NAME  Columns for codes. Default: the columns of the --after sheet, or
      code.
  --name LABEL... -> names  Label that codes may have; may be given several times.
      Default: the labels of the table.
  --uncoded  Write only texts that nobody has coded yet.
  --spreadsheet  Write cells that spreadsheets do not read as formulas.
  --overwrite  Replace an existing sheet.

Examples:
  llamaherd gold sample coded.csv -n 200 --seed 1 -o first.csv
  llamaherd gold sample coded.csv -n 200 --by label --allocation equal \\
    -o first.csv
  llamaherd gold sample coded.csv -n 100 --after first.csv -o both.csv
""",
)
def sample(table: str, **options: Any) -> None:  # of click
    """Draw a sample, write its sheet, and print its design."""
    import llamaherd as lh  # loads the engine
    from llamaherd.coding import frames
    from llamaherd.tables.stored import is_stream
    from llamaherd.tables.whole import check_free, read_whole

    sheet = {name: options.pop(name) for name in _OF_SHEET}
    output, prob_column = options.pop("out"), options.pop("prob_column")
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


@gold.declared(
    "show SHEET.csv...",
    """
Print the draws of a sheet, and the number of its codes.

Of several sheets of one sample, give the newest first.

Examples:
  llamaherd gold show both.csv
""",
)
def show(sheet: Sequence[str]) -> None:
    """Print a record of each draw."""
    import llamaherd as lh  # loads the engine

    with shown_warnings():
        _tell(lh.read_gold(list(sheet)))


def _tell(drawn: GoldSample) -> None:
    """Print a row for each draw, and the numbers of texts and codes."""
    click.echo("wave\tdesign\tdrawn\tfrom\tseed\tcoded_before")
    for draw in drawn.history:
        row = (draw[name] for name in ("wave", "kind", "n", "N", "seed", "n_coded"))
        click.echo("\t".join(map(str, row)))
    n_coded = sum(code is not None for code in drawn.gold)
    say(f"{len(drawn)} texts, {n_coded} coded")
