"""`llamaherd validate`: compare the labels of a table with people's codes."""

from __future__ import annotations

from typing import Any

import click

from llamaherd.cli.conventions import Command
from llamaherd.cli.estimate import of_gold_sample, read_both, tell
from llamaherd.cli.tables import shown_warnings

_HELP = """\
Compare labels with the codes of a gold sample: accuracy, agreement, calibration.

TABLE is an output of `llamaherd annotate` or `classify`. The gold sample is the file that
people filled in; its .json must be in the same folder. Prints a page; --out writes all
numbers as a table with the columns part, measure, label, value, low, high, n.
"""
_EXAMPLES = """\
llamaherd validate coded.csv --gold to_code.csv
llamaherd validate coded.csv --gold to_code.csv -o measures.csv
"""


@click.command("validate", cls=Command, help=_HELP, examples=_EXAMPLES)
@of_gold_sample
@click.option(
    "--prob", metavar="NAME", help="Column of confidences. Default: p_LABEL or prob."
)
def validate(**options: Any) -> None:  # noqa: ANN401 - types of click
    """Run the command."""
    import llamaherd as lh  # noqa: PLC0415 - loads the engine
    from llamaherd.coding.validation.validation import COLUMNS  # noqa: PLC0415

    data, gold = read_both(options, [options["prob"]])
    with shown_warnings():
        found = lh.validate(
            data,
            gold,
            label=options["label"],
            prob=options["prob"],
            level=options["level"],
        )
    columns = map(list, zip(*found.rows(), strict=True))
    tell(repr(found), dict(zip(COLUMNS, columns, strict=True)), options)
