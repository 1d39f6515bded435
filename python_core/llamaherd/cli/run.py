"""Commands on each row of a table, `merge` and `spans`, with their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.model_flags import GPU, MODEL, N_THREADS
from llamaherd.cli.page import Command, command, declared_flags
from llamaherd.cli.tables import print_outcome, run_table, shown_warnings
from llamaherd.tables.spec_keys import CHAT_KEYS, TASK_TABLES, RunKeys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.tasks.task import Kind

_OUTPUT = f"""
Tables:
{declared_flags(RunKeys, section="tables")}
  --overwrite  Replace an output that llamaherd did not write, or that was changed.
"""
_COMPUTATION = f"""
Computation:
  --n-threads N  {N_THREADS}
  --deterministic  Make answers bit-identical, independent of other rows; slower.
  --cluster ADDRESS  Address of a Ray cluster: auto, host:port, ray://... or local.
  --set KEY=VALUE... -> settings  Any other key of the TOML file, such as
      sampling.top_p=0.9.
"""
_AT_ONCE = """
  --n-seq-max N -> context__n_seq_max  Maximum number of concurrent rows. Default: chosen
      for the machine.
  --n-ctx N -> context__n_ctx  Tokens in the KV cache. Default: as needed.
"""
_PARTS = f"""
Journal, and parts of a run:
{declared_flags(RunKeys, section="journal")}
  --shard I/N  Answer one of N parts into its journal, for `llamaherd merge`.
  --save >FILE.toml  Only write a description of the run, for `llamaherd run FILE.toml`.
  --show-prompt  Only print the prompt of the first row, as the model reads it.
  -q, --quiet  No progress bar.
"""
_EXIT = """
Exit status: 0 all rows are done; 3 all are done, but some failed (the column "error" has
the reasons); 1 failed while running; 2 invalid options, TOML or input, nothing was
computed; 130 Ctrl-C or 143 SIGTERM: the same command continues the run.
"""


class TableCommand(Command):
    """A command that runs a task on each row of a table.

    `sections` are the titles of the sections of its help for the options of the task.
    """

    def __init__(
        self,
        name: str,
        task: Kind | None,
        about: str,
        examples: str,
        sections: Mapping[str, str],
    ) -> None:
        self._task = task
        table = task or "sampling"
        options = TASK_TABLES[table]
        prompts = [
            key
            for key, option in RunKeys.declared.items()
            if option.facts.get("section") == "prompts"
            and (key == "column" or CHAT_KEYS.get(key, "chat") in options.declared)
        ]
        model = f"""
Model and prompts:
  -m, --model MODEL -> model__path  {MODEL}
{declared_flags(RunKeys, prompts)}
"""
        at_once = _AT_ONCE if "chat" in prompts else ""
        parts = [about, _OUTPUT, model, _COMPUTATION, at_once, _PARTS, GPU]
        for section, title in sections.items():
            of_run = "" if section else declared_flags(RunKeys, section=table)
            of_task = declared_flags(options, table=table, section=section)
            parts += [f"\n{title}:", of_run, of_task]
        page = "\n".join([*parts, "\nExamples:", examples.strip("\n"), _EXIT])
        super().__init__(f"{name} INPUT", page, unset=None, callback=self._start)
        needed = {"codebook", *(f"{table}__{key}" for key in options.needed)}
        self._needed = [param for param in self.params if param.name in needed]

    def _start(self, **options: Any) -> int:  # of click
        is_file = options["input"].lower().endswith(".toml")
        for param in self._needed:
            if options[str(param.name)] is None and not is_file:
                raise click.MissingParameter(param=param)
        return run_table(self._task, options)


run = TableCommand(
    "run",
    None,
    """
Ask a model about each row of a table.

INPUT is a table (.csv, .tsv, .jsonl, .parquet, or - for stdin). The output is the table
with new columns: answer, finish_reason, error, and with --schema a column for each field.
INPUT may also be a .toml file that describes a run of this command or of classify,
annotate or embed.

A journal next to the output stores finished rows: after a crash, kill -9 or Ctrl-C the
same command continues the run.
""",
    """
  llamaherd run texts.csv -m model.gguf --prompt "Label this: {text}" -o out.csv
  llamaherd run in.parquet -m hf:owner/repo --schema form.json -o out.parquet
  head texts.csv | llamaherd run - -m model.gguf --labels yes,no
  llamaherd run texts.csv -m model.gguf -o out.csv --save run.toml
  llamaherd run run.toml --shard 1/50 --journal /tmp/1.journal
""",
    {"": "Answers"},
)


classify = TableCommand(
    "classify",
    "classify",
    """
Label each row of a table, with the probability of each label.

No text is generated: the model computes the probability of each label after the prompt.
New columns: label, prob, margin, entropy, coverage (total probability of all labels
before normalization), p_LABEL for each label, and error. With --thinking N, the model
thinks first; this adds thinking, n_thinking_tokens, thinking_complete. --n-thoughts K
also adds between, the standard deviation over the thoughts.
""",
    """
  llamaherd classify news.csv -m model.gguf --labels Sports,Politics \\
    --prompt "{text} Topic:" -o out.csv
  llamaherd classify news.parquet -m model.gguf --labels labels.txt --chat \\
    --prompt "Which topic? {text}" -o out.parquet
  llamaherd classify news.csv -m thinker.gguf --labels Sports,Politics --chat \\
    --thinking 256 --n-thoughts 5 --prompt "Which topic? {text}" -o out.csv
""",
    {"": "Labels"},
)


annotate = TableCommand(
    "annotate",
    "annotate",
    """
Code each row of a table by a codebook.

The codebook is a YAML file: a question, labels and their definitions, or a schema.
New columns, for one label: label, prob, margin, entropy, coverage, mean (ordinal scales
only), p_LABEL for each label, and error; for a scale of numbers: label, mean, sd, prob,
margin, entropy, coverage, error; for several labels: label, coverage, p_LABEL, error; for
fields: one column per field, and error. --evidence adds quote, start and end. With
--thinking N, the model thinks first; this adds thinking, n_thinking_tokens,
thinking_complete. --n-thoughts K also adds between, the deviation over the thoughts.
--until or --larger adds step, the step that labelled the row (model, head or unsure).
`annotate` in Python returns the same columns.
""",
    """
  llamaherd annotate texts.csv --codebook topics.yaml -m model.gguf -o out.csv
  llamaherd annotate texts.csv --codebook topics.yaml -m model.gguf --evidence \\
    -o out.csv
  llamaherd annotate texts.csv --codebook ready:sentiment -m model.gguf \\
    -o out.csv
  llamaherd annotate texts.parquet --codebook topics.yaml -m model.gguf --chat \\
    --calibrate contextual --prefix coded_ -o out.parquet
  llamaherd annotate texts.csv --codebook topics.yaml -m thinker.gguf --chat \\
    --thinking 256 --n-thoughts 5 -o out.csv
  llamaherd annotate million.parquet --codebook topics.yaml -m model.gguf \\
    --until 5000 --embedding-model encoder.gguf -o out.parquet
""",
    {"": "How texts are coded", "steps": "Many texts, in steps"},
)


embed = TableCommand(
    "embed",
    "embed",
    """
Compute a vector (embedding) for each text of a table.

New columns: embedding, a list of numbers (in CSV and JSON lines a JSON array), and error.
""",
    """
  llamaherd embed texts.parquet -m all-MiniLM-L6-v2.F16.gguf -o vectors.parquet
  llamaherd embed in.csv -m model.gguf --column body --truncate -o out.parquet
""",
    {"": "Vectors"},
)


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
def merge(journal: tuple[str, ...], out: str, **options: Any) -> int:  # of click
    """Run the command."""
    from llamaherd.tables.merging import merge_runs  # loads the engine

    with shown_warnings():
        outcome = merge_runs(
            journal, out, source=options["input"], overwrite=options["overwrite"]
        )
    return print_outcome(outcome)


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
def spans(table: str, out: str, *, overwrite: bool, **columns: Any) -> None:  # of click
    """Run the command."""
    from llamaherd.tables.whole import write_spans  # loads the engine

    write_spans(table, out, overwrite=overwrite, **columns)
