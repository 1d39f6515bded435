"""`llamaherd report` and `methods`: a page about how texts were coded."""

from __future__ import annotations

import json
from dataclasses import asdict
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


_METHODS_HELP = """\
Print the methods paragraph of a report, and its references.

REPORT is the page (.html) or the JSON that report() of Python or R wrote. The paragraph
describes what the report contains: model, codebook, settings, sampling of the coded
texts, agreement, estimators. The references, in BibTeX, are for the model and methods
used.
"""
_METHODS_EXAMPLES = """\
llamaherd methods report.html
llamaherd methods report.html --bibtex methods.bib > methods.txt
llamaherd methods report.html --checklist
"""


@click.command("methods", cls=Command, help=_METHODS_HELP, examples=_METHODS_EXAMPLES)
@click.argument("report", metavar="REPORT")
@click.option("--bibtex", metavar="FILE.bib", help="Store the references in a file.")
@click.option("--overwrite", is_flag=True, help="Let --bibtex replace a file.")
@click.option(
    "--checklist", is_flag=True, help="Print questions of reviewers and open points."
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print paragraph, references and checklist as JSON.",
)
def methods(
    report: str, bibtex: str | None, overwrite: bool, checklist: bool, as_json: bool
) -> None:
    """Run the command."""
    from llamaherd.coding.reports.report import methods_text  # noqa: PLC0415 - fast help

    found = methods_text(report)
    if bibtex is not None:
        found.write_bibtex(bibtex, overwrite=overwrite)
    if as_json:
        click.echo(json.dumps(asdict(found), ensure_ascii=False, indent=1))
    elif checklist:
        for item in found.checklist:
            click.echo(f"{item.state:<8}  {item.question} {item.answer}")
    else:
        click.echo(found.text if bibtex is not None else str(found))
