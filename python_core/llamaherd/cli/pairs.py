"""`llamaherd pairs`: compare the texts of a table in pairs."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.calls.asks.options import ClassifyOptions
from llamaherd.cli.model_flags import GPU, MODEL, load_model, take_table
from llamaherd.cli.page import command, declared_flags
from llamaherd.cli.tables import shown_warnings
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import text_of_file
from llamaherd.engine.core.progress import say
from llamaherd.tables.spec_keys import RunKeys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OF_CALL = (
    *("labels", "chat", "system", "thinking", "variables", "n_pairs", "design"),
    *("n_thoughts", "seed", "level", "journal"),
)


@command(
    "pairs TABLE",
    f"""
Compare the texts of a table in pairs, and estimate a strength of each.

Each pair is scored in both orders by the exact probabilities of two letters. The output
has a row for each text: id, or the number of the row, from 0; strength, std_error, low
and high from the Bradley-Terry model; rank; n_pairs. The file of --pairs-out has a row
for each pair. Position bias, connectedness, convergence and notes are printed.

Tables:
  -o, --out FILE -> output  .csv, .tsv, .jsonl; -: CSV to stdout. [default: -]
  --pairs-out FILE  Write the results of all pairs.
  --column NAME  Column of texts. [default: text]
  --id NAME -> id_  Column that identifies the texts.
  --overwrite  Replace existing outputs.
  --known NAME  Column of known scores, to compare with the strengths.
  --people FILE  Pairs that people compared: columns first, second, winner, each with ids.

Question and model:
  --question TEXT  Question about two texts. [required]
  -m, --model MODEL  {MODEL} [required]
  --labels A B  Names of both texts. Default A B.
  --layout FILE  Prompt with {{question}}, {{first}}, {{second}}.
{declared_flags(RunKeys, ("chat", "system", "thinking", "variables"))}

How pairs are drawn and computed:
  --n-pairs N  Number of pairs. Default: 6 per text.
  --design adaptive|random  How pairs are drawn after two random cycles.
      [default: adaptive]
{declared_flags(ClassifyOptions, ("n_thoughts",))}
  --seed SEED  Seed of the design. Default 1234.
  --level X  Confidence level. [default: 0.95]
  --journal FILE  File of results, so that only missing results are computed.
  -q, --quiet  No progress bar.
{GPU}
Examples:
  llamaherd pairs texts.csv --question "Which text is angrier?" \\
    -m model.gguf -o strengths.csv
  llamaherd pairs texts.csv --question "Which text is more formal?" \\
    -m model.gguf --chat --id id --n-pairs 600 \\
    --journal pairs.journal -o strengths.csv --pairs-out pairs.csv
""",
)
def pairs(table: str, **options: Any) -> None:  # of click
    """Run the command."""
    import llamaherd as lh  # loads the engine
    from llamaherd.tables.whole import (
        check_free,
        read_whole,
        write_whole,
    )

    for path in (options["output"], options["pairs_out"]):
        if path is not None:
            check_free(path, overwrite=options["overwrite"])
    numbers = () if options["known"] is None else (options["known"],)
    data = read_whole(table, numbers)
    people = None if options["people"] is None else read_whole(options["people"])
    known = None if options["known"] is None else _column(data, options["known"])
    settings = {
        name: options[name]
        for name in _OF_CALL
        if options[name] is not None
        and (options[name] is not False or name == "thinking")
    }
    if options["layout"] is not None:
        settings["layout"] = text_of_file("layout", Path(options["layout"]))
    show = not options["quiet"] and sys.stderr.isatty()
    with (
        shown_warnings(),
        load_model(options["model"], take_table(options)) as model,
        lh.Context(model) as context,
    ):
        comparison = lh.compare_pairs(
            _texts(data, options["column"], options["id_"]),
            options["question"],
            context,
            progress=show,
            **settings,
        )
    overwrite = options["overwrite"]
    write_whole(
        _table(comparison.to_dicts(), options["id_"]),
        options["output"],
        overwrite=overwrite,
    )
    if options["pairs_out"] is not None:
        write_whole(
            _table(comparison.pair_dicts()), options["pairs_out"], overwrite=overwrite
        )
    say(comparison.summary())
    if people is not None or known is not None:
        say(str(lh.pair_agreement(comparison, people, known)))


def _column(data: Any, name: str) -> list[Any]:  # of pyarrow, or a dict
    from llamaherd.coding import frames  # keeps the help fast

    return frames.column(data, name, "table")


def _texts(data: Any, column: str, id_: str | None) -> dict[str, str]:
    """Return texts by id."""
    texts = _column(data, column)
    ids = range(len(texts)) if id_ is None else _column(data, id_)
    text_of_id: dict[str, str] = {}
    for i, (name, text) in enumerate(zip(ids, texts, strict=True)):
        if name is None or str(name) in text_of_id:
            raise ArgumentError(
                f"must have a different value in each row of the column {id_!r}, not "
                f"{name!r}",
                argument="id",
                place=(i,),
                code="duplicate",
            )
        text_of_id[str(name)] = text
    return text_of_id


def _table(rows: Sequence[Mapping[str, Any]], id_: str | None = None) -> dict[str, Any]:
    """Return rows as columns, with None for NaN and texts' names in the id column."""
    return {
        (id_ or "row" if name == "name" else name): [_plain(row[name]) for row in rows]
        for name in rows[0]
    }


def _plain(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value
