"""`llamaherd merge` and `spans`: other forms of the outputs of runs."""

from __future__ import annotations

from typing import Any

from llamaherd.cli.page import command
from llamaherd.cli.tables import ended, shown_warnings


@command(
    "merge JOURNAL...",
    """
Combine the journals of `llamaherd run --shard i/n`.

The output equals the output of a run without shards. No model is needed. All journals
must come from the same model, description and input, and contain each shard and row once.

Examples:
  llamaherd merge journals/*.journal --out result.parquet
  llamaherd merge a.journal b.journal --out result.csv --input /data/texts.csv

Options:
  -o, --out FILE  .csv, .tsv, .jsonl or .parquet; -: CSV to stdout. [required]
  --input FILE  Input of the run, if it was moved.
  --overwrite  Replace an output that llamaherd did not write or that was changed since.
""",
)
def merge(journal: tuple[str, ...], out: str, **options: Any) -> int:  # noqa: ANN401 - of click
    """Run the command."""
    from llamaherd.tables.merging import merge_runs  # noqa: PLC0415 - loads the engine

    with shown_warnings():
        outcome = merge_runs(
            journal, out, source=options["input"], overwrite=options["overwrite"]
        )
    return ended(outcome)


@command(
    "spans TABLE",
    """
List the passages of a table that `llamaherd annotate` wrote, one per row.

The codebook must be of the type "spans". The columns are the id of the text, or the
number of its row, from 0; label; quote; start and end, so that text[start:end] is the
quote, with characters counted from 0.

Examples:
  llamaherd annotate texts.csv --codebook actors.yaml -m model.gguf -o coded.csv
  llamaherd spans coded.csv --id id -o passages.csv

Options:
  -o, --out FILE  .csv, .tsv or .jsonl; -: CSV to stdout. [default: -]
  --overwrite  Replace an existing output.
  --id NAME  Column that identifies the texts.
  --column NAME  Column of passages; with a --prefix PREFIXspans. [default: spans]
""",
)
def spans(table: str, out: str, *, overwrite: bool, **columns: Any) -> None:  # noqa: ANN401 - of click
    """Run the command."""
    from llamaherd.tables.whole import write_spans  # noqa: PLC0415 - loads the engine

    write_spans(table, out, overwrite=overwrite, **columns)
