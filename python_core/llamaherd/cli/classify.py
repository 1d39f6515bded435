"""`llamaherd classify`: label each row of a table, with probabilities."""

from __future__ import annotations

from llamaherd.calls.asks.options import ClassifyOptions
from llamaherd.calls.asks.settings import help_of
from llamaherd.cli.conventions import section
from llamaherd.cli.table_options import TableCommand, labels_flag

_HELP = """\
Label each row of a table, with the probability of each label.

No text is generated: the model computes the probability of each label after the prompt.
New columns: label, prob, margin, entropy, coverage (total probability of all labels
before normalization), p_LABEL for each label, and error. With --thinking N, the model
thinks first; this adds thinking, n_thinking_tokens, thinking_complete. --n-thoughts K
also adds between, the standard deviation over the thoughts.
"""
_EXAMPLES = """\
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
    help=_HELP,
    examples=_EXAMPLES,
)
