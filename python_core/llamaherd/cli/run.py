"""`llamaherd run`, `classify`, `annotate` and `embed`: tasks on each row of a table."""

from __future__ import annotations

from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.options import ClassifyOptions, EmbedOptions, GenerateOptions
from llamaherd.cli.table_options import TableCommand, declared_flags, labels_flag

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
