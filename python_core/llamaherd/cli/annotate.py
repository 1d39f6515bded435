"""`llamaherd annotate`: annotate each row of a table with a codebook."""

from __future__ import annotations

from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.cli.conventions import section
from llamaherd.cli.table_options import TableCommand

_HELP = """\
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
_EXAMPLES = """\
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
    help=_HELP,
    examples=_EXAMPLES,
)
