"""`llamaherd run`, `classify`, `annotate` and `embed`: tasks on each row of a table."""

from __future__ import annotations

from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.options import ClassifyOptions, EmbedOptions, GenerateOptions
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


_CLASSIFY_HELP = """\
Label each row of a table, with the probability of each label.

No text is generated: the model computes the probability of each label after the prompt.
New columns: label, prob, margin, entropy, coverage (total probability of all labels
before normalization), p_LABEL for each label, and error. With --thinking N, the model
thinks first; this adds thinking, n_thinking_tokens, thinking_complete. --n-thoughts K
also adds between, the standard deviation over the thoughts.
"""
_CLASSIFY_EXAMPLES = """\
llamaherd classify news.csv -m model.gguf --labels Sports,Politics \\
  --prompt "{text} Topic:" -o out.csv
llamaherd classify news.parquet -m model.gguf --labels labels.txt --chat \\
  --prompt "Which topic? {text}" -o out.parquet
llamaherd classify news.csv -m thinker.gguf --labels Sports,Politics --chat \\
  --thinking 256 --n-thoughts 5 --prompt "Which topic? {text}" -o out.csv
"""
_LABELS = "Labels"

classify = TableCommand(
    "classify",
    "classify",
    ClassifyOptions,
    "classify",
    _LABELS,
    labels_flag(section(_LABELS), "classify__labels", help_of(ClassifyOptions, "labels")),
    needed={"classify__labels": "--labels"},
    help=_CLASSIFY_HELP,
    examples=_CLASSIFY_EXAMPLES,
)


_ANNOTATE_HELP = """\
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
"""
_ANNOTATE_EXAMPLES = """\
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
"""
_CODING = "How texts are coded"

annotate = TableCommand(
    "annotate",
    "annotate",
    AnnotateOptions,
    "annotate",
    _CODING,
    section(_CODING)(
        "--codebook",
        metavar="FILE.yaml",
        help="The codebook, or ready:NAME, see `llamaherd codebooks ready`.",
    ),
    needed={"codebook": "--codebook"},
    system=False,
    sections={"steps": section("Many texts, in steps")},
    help=_ANNOTATE_HELP,
    examples=_ANNOTATE_EXAMPLES,
)


_EMBED_HELP = """\
Compute a vector (embedding) for each text of a table.

New columns: embedding, a list of numbers (in CSV and JSON lines a JSON array), and error.
"""
_EMBED_EXAMPLES = """\
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
    help=_EMBED_HELP,
    examples=_EMBED_EXAMPLES,
)
