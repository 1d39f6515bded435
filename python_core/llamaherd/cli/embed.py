"""`llamaherd embed`: compute an embedding of each row of a table."""

from __future__ import annotations

from llamaherd.calls.asks.options import EmbedOptions
from llamaherd.cli.table_options import TableCommand

_HELP = """\
Compute a vector (embedding) for each text of a table.

New columns: embedding, a list of numbers (in CSV and JSON lines a JSON array), and error.
"""
_EXAMPLES = """\
llamaherd embed texts.parquet -m all-MiniLM-L6-v2.F16.gguf -o vectors.parquet
llamaherd embed in.csv -m model.gguf --column body --truncate -o out.parquet
"""

embed = TableCommand(
    "embed",
    "embed",
    EmbedOptions,
    "embed",
    "Vectors",
    prompts=False,
    help=_HELP,
    examples=_EXAMPLES,
)
