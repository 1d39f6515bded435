"""`llamaherd run`: make a prompt from each row of a table, and answer the prompts."""

from __future__ import annotations

from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.settings import help_of
from llamaherd.cli.conventions import section
from llamaherd.cli.table_options import TableCommand, labels_flag

_HELP = """\
Ask a model about each row of a table.

INPUT is a table (.csv, .tsv, .jsonl, .parquet, or - for stdin). The output is the table
with new columns: answer, finish_reason, error, and with --schema a column for each field.
INPUT may also be a .toml file that describes a run of this command or of classify,
annotate or embed.

A journal next to the output stores finished rows: after a crash, kill -9 or Ctrl-C the
same command continues the run.
"""
_EXAMPLES = """\
llamaherd run texts.csv -m model.gguf --prompt "Label this: {text}" -o out.csv
llamaherd run in.parquet -m hf:owner/repo --schema form.json -o out.parquet
head texts.csv | llamaherd run - -m model.gguf --labels yes,no
llamaherd run texts.csv -m model.gguf -o out.csv --save run.toml
llamaherd run run.toml --shard 1/50 --journal /tmp/1.journal
"""
_ANSWERS = "Answers"

run = TableCommand(
    "run",
    None,
    GenerateOptions,
    "sampling",
    _ANSWERS,
    labels_flag(
        section(_ANSWERS), "sampling__choices", help_of(GenerateOptions, "choices")
    ),
    help=_HELP,
    examples=_EXAMPLES,
)
