"""`llamaherd code`: code texts in a browser."""

from __future__ import annotations

import logging
import sys
from contextlib import closing
from typing import Any

import click

from llamaherd.cli.page import command
from llamaherd.cli.tables import shown_warnings

_OF_SHEET = ("text", "id", "seed")


@command(
    "code SAMPLE.csv",
    """
Code texts in a browser: several people, no model.

SAMPLE.csv is a sheet that `llamaherd gold sample` wrote, or another CSV file with a
column of texts. The command prints a link for each coder, and a link for you that
shows progress and agreement. Every code is stored at once; to continue, run the command
again.

Texts and coders:
  --codebook FILE.yaml  The codebook. Default: the labels of the sample, without
      definitions.
  --coders NAME,NAME  Names of the coders, who code all texts. Default: the columns for
      codes in SAMPLE.csv, or one coder 'code'.
  --ties NAME  Another coder, who codes the texts on which the others disagree.
  --text NAME  Column of texts. [default: text]
  --id NAME  Column of identifiers. Default: id if any.
  --seed SEED  Seed of the order of texts, which differs between coders. [default: 1]

Address and access:
  --host NAME  Address; only this machine can reach the default. With other addresses,
      coders need the key in the link. [default: 127.0.0.1]
  --port PORT  0 uses any free port. [default: 8090]
  --allowed-host NAME... -> allowed_hosts  Additional host name that browsers may use; may
      be given several times.
  --keys  Require keys from coders on this machine, too.
  --no-browser  Open no browser.

The codes:
  --store FILE  SQLite file of the codes. Default: SAMPLE.codes.sqlite.
  --export >FILE  Write the codes so far and exit: CSV, for passages JSON lines
      (read_gold() and read_spans() of Python and R read them), or for a codebook of
      fields FILE.FIELD.csv for each field.
  --overwrite  Let --export replace a file.

Examples:
  llamaherd code sample.csv --codebook topics.yaml
  llamaherd code sample.csv --codebook topics.yaml --coders anna,ben --ties cleo
  llamaherd code sample.csv --codebook topics.yaml --coders anna,ben \\
    --host 0.0.0.0
  llamaherd code sample.csv --codebook topics.yaml --coders anna,ben \\
    --export coded.csv

Ctrl-C ends the page. Exit status: 0 success; 1 failed while running; 2 invalid
arguments; 130 Ctrl-C; 143 SIGTERM.
""",
)
def code(sample: str, codebook: str | None, ties: str | None, **options: Any) -> None:
    """Serve the page, or write the codes."""
    from llamaherd.coding.annotation.codebook_file import read_codebook
    from llamaherd.coding_page.code_texts import (  # keeps the help fast
        path_for,
        start_coding,
    )
    from llamaherd.coding_page.desk import Desk
    from llamaherd.coding_page.results import write_codes
    from llamaherd.coding_page.sheet import make_sheet

    book = None if codebook is None else read_codebook(codebook)
    store, file, overwrite = map(options.pop, ("store", "export", "overwrite"))
    no_browser, coders = options.pop("no_browser"), options.pop("coders")
    with shown_warnings():
        if file is not None:
            of_sheet = {name: options[name] for name in _OF_SHEET}
            sheet = make_sheet(sample, book, coders, ties, **of_sheet)
            with closing(Desk(sheet, path_for(sample, sheet, store))) as desk:
                for written in write_codes(desk, file, overwrite=overwrite):
                    click.echo(written)
            return
        logging.basicConfig(
            level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr
        )
        started = start_coding(sample, book, coders, ties, path=store, **options)
        started.codes(_tell, browser=not no_browser)


def _tell(links: str) -> None:
    click.echo(f"{links}\nThe same command with --export >FILE writes the codes.")
    sys.stdout.flush()
