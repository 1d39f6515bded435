"""`llamaherd report`: a page about how texts were coded, and how well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from llamaherd.cli.conventions import Command
from llamaherd.cli.tables import shown_warnings

_HELP = """\
Write a page that documents how labels were made and how accurate they are.

TABLE is an output of `llamaherd annotate`, with its file TABLE.meta.json. With --gold the
page compares the labels with the codes of people, and has shares that are corrected by
them. The page is a single file, from which `methods` takes the paragraph for a paper.
"""
_EXAMPLES = """\
llamaherd annotate texts.csv --codebook topics.yaml -m model.gguf -o coded.csv
llamaherd report coded.csv --gold to_code.csv -o report.html
"""


@click.command("report", cls=Command, help=_HELP, examples=_EXAMPLES)
@click.argument("table", metavar="TABLE")
@click.option("--gold", metavar="FILE.csv", help="The coded gold sample.")
@click.option(
    "-o",
    "--out",
    default="report.html",
    metavar="FILE",
    help=".html, .docx or .json. Default report.html.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing report.")
@click.option("--title", metavar="TEXT", help="Title of the page.")
@click.option("--no-texts", is_flag=True, help="Leave out texts that must not be shared.")
def report(  # noqa: PLR0917 - options of the command
    table: str,
    gold: str | None,
    out: str,
    overwrite: bool,
    title: str | None,
    no_texts: bool,
) -> None:
    """Run the command."""
    import llamaherd as lh  # noqa: PLC0415 - loads the engine
    from llamaherd.engine.core.files import check_free  # noqa: PLC0415
    from llamaherd.tables.coded_table import PROMPT, read_coded  # noqa: PLC0415

    check_free(Path(out), overwrite=overwrite, argument="out")
    with shown_warnings():
        coded = read_coded(table)
        sample = None if gold is None else lh.read_gold(gold)
        if sample is not None and coded.text == PROMPT:
            raise click.UsageError(
                "--gold: a gold sample has the texts of one column, but the coding made "
                "its prompts from several (--prompt)."
            )
        validation = None if sample is None else lh.validate(coded, sample)
        estimates = None if sample is None else lh.estimate(coded, sample)
        named: dict[str, Any] = {} if title is None else {"title": title}
        lh.report(coded, out, validation, estimates, texts=not no_texts, **named)
