"""`llamaherd optimize`: find the fastest type of a model on this machine."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import click

from llamaherd.cli.conventions import Command, WholeNumber, option
from llamaherd.engine.hub.fetch import model_path
from llamaherd.optimize.optimize import DEFAULT_TYPES, model_optimize
from llamaherd.optimize.requantize import TYPES

_HELP = """\
Find the type of a model that is fastest on this machine.

Writes the model in several types, measures these files and the original, and compares
their predictions. Keeps the fastest file whose predictions are close enough to the
original's, next to the original or in --out, as NAME.TYPE.llamaherd.gguf. The original
is not changed, and no file is overwritten. Takes minutes for models of some GB.

MODEL is a file, or a SOURCE of `llamaherd models download`.
"""
_EXAMPLES = """\
llamaherd optimize model.gguf
llamaherd optimize model.gguf --type Q8_0 --type Q4_0 --max-kl 0.05
llamaherd optimize model.gguf --text texts-of-mine.txt --json | jq -r .path
"""


def _content(ctx: click.Context, param: click.Parameter, path: Path | None) -> str | None:
    try:
        return None if path is None else path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{path} is not UTF-8: {error}", ctx, param) from None


@click.command("optimize", cls=Command, help=_HELP, examples=_EXAMPLES)
@click.argument("model", metavar="MODEL")
@option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder for the new file. Default: the folder of the model.",
)
@option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(list(TYPES), case_sensitive=False),
    metavar="TYPE",
    help=f"A type to try; may be given several times: {', '.join(TYPES)}. Default: "
    f"{', '.join(DEFAULT_TYPES)}, without the type of the model.",
)
@option(
    "--max-kl",
    type=float,
    default=0.01,
    show_default=True,
    metavar="NATS",
    help="Maximum mean KL divergence of the kept file from the original.",
)
@option(
    "--text",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=_content,
    metavar="FILE",
    help="Text for the comparison, which should resemble your texts. Default: from a "
    "novel.",
)
@option(
    "--n-threads",
    type=WholeNumber(1),
    metavar="N",
    help="Number of threads. Default: the physical cores.",
)
@option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def optimize(model: str, types: tuple[str, ...], as_json: bool, **options: Any) -> None:  # noqa: ANN401 - as declared above
    """Print the report."""
    is_watched = sys.stderr.isatty()
    report = model_optimize(
        model_path(model, check_memory=True, name="MODEL", progress=is_watched),
        types=list(types) or None,
        progress=is_watched,
        **options,
    )
    if not as_json:
        click.echo(report)
        return
    content = {
        "path": str(report.path),
        "original": str(report.original),
        "chosen": report.chosen,
        "verdict": report.verdict,
        "rows": [dataclasses.asdict(row) for row in report.rows],
    }
    click.echo(json.dumps(content, indent=1))
