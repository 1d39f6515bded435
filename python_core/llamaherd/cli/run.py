"""Commands on each row of a table, `merge` and `spans`, with their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.options import ClassifyOptions, EmbedOptions, GenerateOptions
from llamaherd.calls.asks.settings import help_of
from llamaherd.cli.model_flags import MODEL, gpu_page
from llamaherd.cli.page import Command, command
from llamaherd.cli.tables import ended, run_table, shown_warnings
from llamaherd.engine.core import values
from llamaherd.engine.core.declaration import options_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.engine.core.declaration import Option, Options
    from llamaherd.tasks.task import Kind


_TABLES = """
Tables:
  -o, --out FILE -> output  .csv, .tsv, .jsonl, .ndjson (also with .gz or .zst) or
      .parquet. Default: stdout, in JSON lines if INPUT is JSON lines, otherwise in CSV.
  --overwrite  Replace an output that llamaherd did not write, or that was changed.
  --encoding NAME  Encoding of CSV and JSON lines. Default utf-8.
  --delimiter CHAR  Delimiter of CSV. Default: comma. In .tsv it is a tab.
  --no-header -> not header  The first row of CSV is no header: columns are column_1,
      column_2 and so on; a single column is text.
  --limit N  Read only the first N rows.
  --prefix TEXT  Prefix of the names of new columns.
  --spreadsheet  Write CSV whose cells spreadsheets do not read as formulas.
"""
_ASKED = f"""
Model and prompts:
  -m, --model MODEL -> model__path  {MODEL}
  --column NAME  Column with the texts. Default "text".
"""
_PROMPTS = f"""
  --prompt TEXT  Prompt, with {{column}} for a value of the row. Replaces --column.
  --chat  {help_of(GenerateOptions, "chat")}
"""
_SYSTEM = f"""
  --system TEXT  {help_of(GenerateOptions, "system", "Needs --chat.")}
  --answer-prefix TEXT  {help_of(GenerateOptions, "prefix")}
"""
_CHAT = f"""
  --thinking N|on|off  {help_of(GenerateOptions, "thinking", "Needs --chat.")}
  --var NAME=VALUE... -> variables  {help_of(GenerateOptions, "variables")}
      May be given several times.
  --template FILE -> chat_template  {help_of(GenerateOptions, "template")}
  --merge-system  {help_of(GenerateOptions, "merge_system")}
"""
_COMPUTATION = f"""
Computation:
  --n-threads N  {help_of(EmbedOptions, "n_threads", "Default: the physical cores.")}
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
_JOURNAL = help_of(
    GenerateOptions, "journal", "Default OUTPUT.journal; '' for no journal."
)
_PARTS = f"""
Journal, and parts of a run:
  --journal FILE  {_JOURNAL}
  --shard I/N  Answer one of N parts into its journal, for `llamaherd merge`.
  --save FILE.toml  Only write a description of the run, for `llamaherd run FILE.toml`.
  --show-prompt  Only print the prompt of the first row, as the model reads it.
  -q, --quiet  No progress bar.
"""
_EXIT = """
Exit status: 0 all rows are done; 3 all are done, but some failed (the column "error" has
the reasons); 1 failed while running; 2 invalid options, TOML or input, nothing was
computed; 130 Ctrl-C or 143 SIGTERM: the same command continues the run.
"""


def declared_flags(
    table: str,
    options: type[Options],
    *,
    words: Mapping[str, str] | None = None,
    section: str = "",
) -> str:
    """Return the lines of a page for declared options, in the order of declaration.

    Options get a flag if `words` has words that their help adds, or by default if their
    declaration has (`Option.flag`). `section` is the fact of that name of an option, and
    `table` the table of the run file that the options belong to.
    """
    declared = options_of(options)
    if words is None:
        words = {
            n: option.flag for n, option in declared.items() if option.flag is not None
        }
    where = f"{table}__" if table else ""
    return "\n".join(
        f"  {_flag_of(option)} -> {where}{name}  {option.sentence} {words[name]}".rstrip()
        for name, option in declared.items()
        if name in words and option.facts.get("section", "") == section
    )


def _flag_of(option: Option) -> str:
    """Return the flag of an option, with the word for its values."""
    flag = option.facts.get("flag_name", f"--{option.name.replace('_', '-')}")
    kind = option.kind
    if isinstance(kind, values.Whole):
        return f"{flag} N>={max(0, kind.low)}"
    if isinstance(kind, values.Real):
        return f"{flag} X"
    if isinstance(kind, values.Choice):
        return f"{flag} {'|'.join(c for c in kind.choices if isinstance(c, str))}"
    if isinstance(kind, values.Flag) or option.default is False:
        return str(flag)
    return f"{flag} {option.facts.get('metavar', 'TEXT')}"


def labels_flag(key: str, options: type[Options], name: str) -> str:
    """Return the line of a page for `--labels`, which sets a key of the run file."""
    words = "Or a file with one label per line."
    return f"  --labels A,B,C -> {key}  {help_of(options, name, words)}"


class TableCommand(Command):
    """A command that runs a task on each row of a table."""

    def __init__(
        self,
        name: str,
        task: Kind | None,
        about: str,
        flags: str,
        examples: str,
        *,
        needed: Mapping[str, str] | None = None,
        prompts: bool = True,
        system: bool = True,
    ) -> None:
        self._task, self._needed = task, needed or {}
        asked = [_PROMPTS, _SYSTEM if system else "", _CHAT] if prompts else []
        at_once = [_AT_ONCE] if prompts else []
        parts = [about, _TABLES, _ASKED, *asked, _COMPUTATION, *at_once, _PARTS]
        page = "\n".join(
            [*parts, gpu_page("model__"), flags, "Examples:", examples.strip("\n"), _EXIT]
        )
        super().__init__(f"{name} INPUT", page, unset=None, callback=self._start)

    def _start(self, **options: Any) -> int:  # noqa: ANN401 - of click
        is_file = options["input"].lower().endswith(".toml")
        for key, flag in self._needed.items():
            if options[key] is None and not is_file:
                raise click.UsageError(f"Missing option '{flag}'.")
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
    f"""
Answers:
{labels_flag("sampling__choices", GenerateOptions, "choices")}
{declared_flags("sampling", GenerateOptions)}
""",
    """
  llamaherd run texts.csv -m model.gguf --prompt "Label this: {text}" -o out.csv
  llamaherd run in.parquet -m hf:owner/repo --schema form.json -o out.parquet
  head texts.csv | llamaherd run - -m model.gguf --labels yes,no
  llamaherd run texts.csv -m model.gguf -o out.csv --save run.toml
  llamaherd run run.toml --shard 1/50 --journal /tmp/1.journal
""",
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
    f"""
Labels:
{labels_flag("classify__labels", ClassifyOptions, "labels")}
{declared_flags("classify", ClassifyOptions)}
""",
    """
  llamaherd classify news.csv -m model.gguf --labels Sports,Politics \\
    --prompt "{text} Topic:" -o out.csv
  llamaherd classify news.parquet -m model.gguf --labels labels.txt --chat \\
    --prompt "Which topic? {text}" -o out.parquet
  llamaherd classify news.csv -m thinker.gguf --labels Sports,Politics --chat \\
    --thinking 256 --n-thoughts 5 --prompt "Which topic? {text}" -o out.csv
""",
    needed={"classify__labels": "--labels"},
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
    f"""
How texts are coded:
  --codebook FILE.yaml  The codebook, or ready:NAME, see `llamaherd codebooks ready`.
{declared_flags("annotate", AnnotateOptions)}

Many texts, in steps:
{declared_flags("annotate", AnnotateOptions, section="steps")}
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
    needed={"codebook": "--codebook"},
    system=False,
)


embed = TableCommand(
    "embed",
    "embed",
    """
Compute a vector (embedding) for each text of a table.

New columns: embedding, a list of numbers (in CSV and JSON lines a JSON array), and error.
""",
    f"""
Vectors:
{declared_flags("embed", EmbedOptions)}
""",
    """
  llamaherd embed texts.parquet -m all-MiniLM-L6-v2.F16.gguf -o vectors.parquet
  llamaherd embed in.csv -m model.gguf --column body --truncate -o out.parquet
""",
    prompts=False,
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
