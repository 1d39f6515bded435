"""`llamaherd methods`: print the methods paragraph of a report."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from llamaherd.cli.conventions import Command

_HELP = """\
Print the methods paragraph of a report, and its references.

REPORT is the page (.html) or the JSON that report() of Python or R wrote. The paragraph
describes what the report contains: model, codebook, settings, sampling of the coded
texts, agreement, estimators. The references, in BibTeX, are for the model and methods
used.
"""
_EXAMPLES = """\
llamaherd methods report.html
llamaherd methods report.html --bibtex methods.bib > methods.txt
llamaherd methods report.html --checklist
"""


@click.command("methods", cls=Command, help=_HELP, examples=_EXAMPLES)
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
