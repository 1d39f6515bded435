"""`llamaherd report` and `methods`: a page about how texts were coded."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from llamaherd.cli.page import command
from llamaherd.cli.tables import shown_warnings


@command(
    "report TABLE",
    """
Write a page that documents how labels were made and how accurate they are.

TABLE is an output of `llamaherd annotate`, with its file TABLE.meta.json. With --gold the
page compares the labels with the codes of people, and has shares that are corrected by
them. The page is a single file, from which `methods` takes the paragraph for a paper.

Examples:
  llamaherd annotate texts.csv --codebook topics.yaml -m model.gguf -o coded.csv
  llamaherd report coded.csv --gold to_code.csv -o report.html

Options:
  --gold FILE.csv  The coded gold sample.
  -o, --out >FILE  .html, .docx or .json. [default: report.html]
  --overwrite  Replace an existing report.
  --title TEXT  Title of the page.
  --no-texts  Leave out texts that must not be shared.
""",
)
def report(table: str, gold: str | None, out: str, **options: Any) -> None:  # of click
    """Run the command."""
    import llamaherd as lh  # loads the engine
    from llamaherd.engine.core.files import check_free
    from llamaherd.tables.whole import PROMPT, read_coded

    check_free(Path(out), overwrite=options["overwrite"], argument="out")
    with shown_warnings():
        coded = read_coded(table)
        validation = estimates = None
        if gold is not None:
            sample = lh.read_gold(gold)
            if coded.text == PROMPT:
                raise click.UsageError(
                    "--gold: a gold sample has the texts of one column, but the coding "
                    "made its prompts from several (--prompt)."
                )
            validation, estimates = lh.validate(coded, sample), lh.estimate(coded, sample)
        title = options["title"]
        named: dict[str, Any] = {} if title is None else {"title": title}
        named["texts"] = not options["no_texts"]
        lh.report(coded, out, validation, estimates, **named)


@command(
    "methods REPORT",
    """
Print the methods paragraph of a report, and its references.

REPORT is the page (.html) or the JSON that report() of Python or R wrote. The paragraph
describes what the report contains: model, codebook, settings, sampling of the coded
texts, agreement, estimators. The references, in BibTeX, are for the model and methods
used.

Examples:
  llamaherd methods report.html
  llamaherd methods report.html --bibtex methods.bib > methods.txt
  llamaherd methods report.html --checklist

Options:
  --bibtex >FILE.bib  Store the references in a file.
  --overwrite  Let --bibtex replace a file.
  --checklist  Print questions of reviewers and open points.
  --json  Print paragraph, references and checklist as JSON.
""",
)
def methods(report: str, bibtex: str | None, **options: Any) -> None:  # of click
    """Run the command."""
    from llamaherd.coding.reports.report import methods_text  # fast help

    description = methods_text(report)
    if bibtex is not None:
        description.write_bibtex(bibtex, overwrite=options["overwrite"])
    if options["json"]:
        click.echo(json.dumps(asdict(description), ensure_ascii=False, indent=1))
    elif options["checklist"]:
        for item in description.checklist:
            click.echo(f"{item.state:<8}  {item.question} {item.answer}")
    else:
        click.echo(description.text if bibtex is not None else str(description))
