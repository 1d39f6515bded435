"""`llamaherd code`: code texts in a browser."""

from __future__ import annotations

import logging
import sys
import webbrowser
from typing import TYPE_CHECKING

import click

from llamaherd.cli.conventions import Command, WholeNumber, section, split_names
from llamaherd.cli.tables import shown_warnings

if TYPE_CHECKING:
    from collections.abc import Sequence

_HELP = """\
Code texts in a browser: several people, no model.

SAMPLE.csv is a sheet that `llamaherd gold sample` wrote, or another CSV file with a
column of texts. The command prints a link for each coder, and a link for you that
shows progress and agreement. Every code is stored at once; to continue, run the command
again.
"""
_EXAMPLES = """\
llamaherd code sample.csv --codebook topics.yaml
llamaherd code sample.csv --codebook topics.yaml --coders anna,ben --ties cleo
llamaherd code sample.csv --codebook topics.yaml --coders anna,ben \\
  --host 0.0.0.0
llamaherd code sample.csv --codebook topics.yaml --coders anna,ben \\
  --export coded.csv
"""
_EPILOG = """\
Ctrl-C ends the page. Exit status: 0 success; 1 failed while running; 2 invalid
arguments; 130 Ctrl-C; 143 SIGTERM.
"""
_coding = section("Texts and coders")
_where = section("Address and access")
_out = section("The codes")


@click.command("code", cls=Command, help=_HELP, examples=_EXAMPLES, epilog=_EPILOG)
@click.argument("sample", metavar="SAMPLE.csv")
@_coding(
    "--codebook",
    metavar="FILE.yaml",
    help="The codebook. Default: the labels of the sample, without definitions.",
)
@_coding(
    "--coders",
    metavar="NAME,NAME",
    callback=split_names,
    help="Names of the coders, who code all texts. Default: the columns for codes "
    "in SAMPLE.csv, or one coder 'code'.",
)
@_coding(
    "--ties",
    "tie_coder",
    metavar="NAME",
    help="Another coder, who codes the texts on which the others disagree.",
)
@_coding("--text", default="text", metavar="NAME", help="Column of texts. Default text.")
@_coding("--id", "id_", metavar="NAME", help="Column of identifiers. Default: id if any.")
@_coding(
    "--seed",
    type=WholeNumber(0),
    default=1,
    metavar="N",
    show_default=True,
    help="Seed of the order of texts, which differs between coders.",
)
@_where(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address; only this machine can reach the default. With other addresses, "
    "coders need the key in the link.",
)
@_where(
    "--port",
    type=WholeNumber(0, 65535),
    default=8090,
    metavar="N",
    show_default=True,
    help="0 uses any free port.",
)
@_where(
    "--allowed-host",
    "allowed_hosts",
    metavar="NAME",
    multiple=True,
    help="Additional host name that browsers may use; may be given several times.",
)
@_where("--keys", is_flag=True, help="Require keys from coders on this machine, too.")
@_where("--no-browser", is_flag=True, help="Open no browser.")
@_out(
    "--store",
    metavar="FILE",
    help="SQLite file of the codes. Default: SAMPLE.codes.sqlite.",
)
@_out(
    "--export",
    metavar="FILE",
    help="Write the codes so far and exit: CSV, for passages JSON lines (read_gold() and "
    "read_spans() of Python and R read them), or for a codebook of fields FILE.FIELD.csv "
    "for each field.",
)
@_out("--overwrite", is_flag=True, help="Let --export replace a file.")
def code(
    sample: str,
    *,
    codebook: str | None,
    coders: Sequence[str] | None,
    tie_coder: str | None,
    text: str,
    id_: str | None,
    seed: int,
    host: str,
    port: int,
    allowed_hosts: Sequence[str],
    keys: bool,
    no_browser: bool,
    store: str | None,
    export: str | None,
    overwrite: bool,
) -> int:
    """Serve the page, or write the codes; return the exit status."""
    from llamaherd.coding.annotation.codebook_file import read_codebook  # noqa: PLC0415
    from llamaherd.coding_page.code_texts import (  # noqa: PLC0415 - keeps the help fast
        first_link,
        make_page,
        opened,
        path_for,
    )
    from llamaherd.coding_page.results import write_codes  # noqa: PLC0415
    from llamaherd.coding_page.sheet import make_sheet  # noqa: PLC0415

    book = None if codebook is None else read_codebook(codebook)
    sheet = make_sheet(sample, book, coders, tie_coder, text=text, id=id_, seed=seed)
    with opened(sheet, path_for(sample, sheet, store)) as (desk, file), shown_warnings():
        if export is not None:
            for path in write_codes(desk, export, overwrite=overwrite):
                click.echo(path)
            return 0
        page = make_page(
            desk,
            file,
            host=host,
            port=port,
            allowed_hosts=allowed_hosts,
            keys=keys,
        )
        logging.basicConfig(
            level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr
        )

        def ready() -> None:
            click.echo("\n".join(page.lines()))
            click.echo("The same command with --export FILE writes the codes.")
            sys.stdout.flush()
            if not no_browser:
                webbrowser.open(first_link(page))

        return page.run(ready)
