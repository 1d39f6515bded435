"""`llamaherd pairs`: compare the texts of a table in pairs."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llamaherd.calls.asks.options import ClassifyOptions
from llamaherd.calls.asks.settings import help_of
from llamaherd.cli.conventions import Command, WholeNumber, section
from llamaherd.cli.model_flags import (
    gpu_options,
    load_model,
    model_option,
    take_gpu_options,
    thinking_of,
    variables_of,
)
from llamaherd.cli.tables import shown_warnings
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.progress import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HELP = """\
Compare the texts of a table in pairs, and estimate a strength of each.

Each pair is scored in both orders by the exact probabilities of two letters. The output
has a row for each text: id, or the number of the row, from 0; strength, std_error, low
and high from the Bradley-Terry model; rank; n_pairs. The file of --pairs-out has a row
for each pair. Position bias, connectedness, convergence and notes are printed.
"""
_EXAMPLES = """\
llamaherd pairs texts.csv --question "Which text is angrier?" \\
  -m model.gguf -o strengths.csv
llamaherd pairs texts.csv --question "Which text is more formal?" \\
  -m model.gguf --chat --id id --n-pairs 600 \\
  --journal pairs.journal -o strengths.csv --pairs-out pairs.csv
"""
_OF_CALL = (
    *("labels", "chat", "system", "thinking", "variables", "n_pairs", "design"),
    *("n_thoughts", "seed", "level", "journal"),
)
_files = section("Tables")
_asked = section("Question and model")
_how = section("How pairs are drawn and computed")


@click.command("pairs", cls=Command, help=_HELP, examples=_EXAMPLES)
@click.argument("table", metavar="TABLE")
@_files(
    "-o",
    "--out",
    "output",
    default="-",
    metavar="FILE",
    help=".csv, .tsv, .jsonl; default -: CSV to stdout.",
)
@_files("--pairs-out", metavar="FILE", help="Write the results of all pairs.")
@_files(
    "--column", default="text", metavar="NAME", help='Column of texts. Default "text".'
)
@_files("--id", "id_", metavar="NAME", help="Column that identifies the texts.")
@_files("--overwrite", is_flag=True, help="Replace existing outputs.")
@_files(
    "--known",
    metavar="NAME",
    help="Column of known scores, to compare with the strengths.",
)
@_files(
    "--people",
    metavar="FILE",
    help="Pairs that people compared: columns first, second, winner, each with ids.",
)
@_asked("--question", required=True, metavar="TEXT", help="Question about two texts.")
@model_option(_asked, required=True)
@_asked("--labels", nargs=2, metavar="A B", help="Names of both texts. Default A B.")
@_asked("--layout", metavar="FILE", help="Prompt with {question}, {first}, {second}.")
@_asked("--chat", is_flag=True, help=help_of(ClassifyOptions, "chat"))
@_asked("--system", metavar="TEXT", help=help_of(ClassifyOptions, "system"))
@_asked(
    "--thinking",
    metavar="N|on|off",
    callback=thinking_of,
    help=help_of(ClassifyOptions, "thinking", "Needs --chat."),
)
@_asked(
    "--var",
    "variables",
    metavar="NAME=VALUE",
    multiple=True,
    callback=variables_of,
    help=help_of(ClassifyOptions, "variables", "May be given several times."),
)
@_how(
    "--n-pairs",
    type=WholeNumber(1),
    metavar="N",
    help="Number of pairs. Default: 6 per text.",
)
@_how(
    "--design",
    type=click.Choice(("adaptive", "random")),
    default="adaptive",
    help="How pairs are drawn after two random cycles. Default adaptive.",
)
@_how(
    "--n-thoughts",
    type=WholeNumber(1),
    metavar="N",
    help=help_of(ClassifyOptions, "n_thoughts"),
)
@_how(
    "--seed", type=WholeNumber(0), metavar="N", help="Seed of the design. Default 1234."
)
@_how("--level", type=float, default=0.95, help="Confidence level. Default 0.95.")
@_how(
    "--journal",
    metavar="FILE",
    help="File of results, so that only missing results are computed.",
)
@_how("-q", "--quiet", is_flag=True, help="No progress bar.")
@gpu_options()
def pairs(table: str, **given: Any) -> None:  # noqa: ANN401 - types of click
    """Run the command."""
    import llamaherd as lh  # noqa: PLC0415 - loads the engine
    from llamaherd.tables.whole import (  # noqa: PLC0415
        check_free,
        read_whole,
        write_whole,
    )

    for path in (given["output"], given["pairs_out"]):
        if path is not None:
            check_free(path, overwrite=given["overwrite"])
    numbers = () if given["known"] is None else (given["known"],)
    data = read_whole(table, numbers)
    people = None if given["people"] is None else read_whole(given["people"])
    known = None if given["known"] is None else _column(data, given["known"])
    settings = {
        name: given[name]
        for name in _OF_CALL
        if given[name] is not None and (given[name] is not False or name == "thinking")
    }
    if given["layout"] is not None:
        settings["layout"] = Path(given["layout"]).read_text(encoding="utf-8-sig")
    show = not given["quiet"] and sys.stderr.isatty()
    with (
        shown_warnings(),
        load_model(given["model"], take_gpu_options(given)) as model,
        lh.Context(model) as context,
    ):
        found = lh.compare_pairs(
            _texts(data, given["column"], given["id_"]),
            given["question"],
            context,
            progress=show,
            **settings,
        )
    overwrite = given["overwrite"]
    write_whole(
        _table(found.to_dicts(), given["id_"]), given["output"], overwrite=overwrite
    )
    if given["pairs_out"] is not None:
        write_whole(_table(found.pair_dicts()), given["pairs_out"], overwrite=overwrite)
    say(found.summary())
    if people is not None or known is not None:
        say(str(lh.pair_agreement(found, people, known)))


def _column(data: Any, name: str) -> list[Any]:  # noqa: ANN401 - of pyarrow, or a dict
    from llamaherd.coding import frames  # noqa: PLC0415 - keeps the help fast

    return frames.column(data, name, "table")


def _texts(data: Any, column: str, id_: str | None) -> dict[str, str]:  # noqa: ANN401
    """Return texts by id."""
    texts = _column(data, column)
    ids = range(len(texts)) if id_ is None else _column(data, id_)
    made: dict[str, str] = {}
    for i, (name, text) in enumerate(zip(ids, texts, strict=True)):
        if name is None or str(name) in made:
            raise ArgumentError(
                f"must have a different value in each row of the column {id_!r}, not "
                f"{name!r}",
                argument="id",
                place=(i,),
                code="duplicate",
            )
        made[str(name)] = text
    return made


def _table(rows: Sequence[Mapping[str, Any]], id_: str | None = None) -> dict[str, Any]:
    """Return rows as columns, with None for NaN and texts' names in the id column."""
    return {
        (id_ or "row" if name == "name" else name): [_plain(row[name]) for row in rows]
        for name in rows[0]
    }


def _plain(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value
