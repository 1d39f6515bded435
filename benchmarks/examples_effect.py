"""Measures how examples in the prompt change the accuracy of small models.

    python benchmarks/examples_effect.py MODEL.gguf... [--page docs/selection.md]

The 60 news texts of the package have four topics. Each number of examples is chosen by
`choose_examples` from 24 texts, and the codebooks label 33 other texts. The program
writes the table of docs/selection.md.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import marked
from labelled import demo
from llamaherd.engine.core.phrases import decimals, limits

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERS = (4, 8)
HEAD = ("model", "prompt", "examples", "accuracy without", "with", "change")


def rows_of(model: Path) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a model: as plain text and as chat, with 4 and 8 examples."""
    news = demo("headlines.csv")
    data = {"text": [row["text"] for row in news]}
    topics = [row["topic"] for row in news]
    labels = ["Sports", "Business", "Science", "Politics"]
    book = lh.Codebook("Label the topic of each news text.", labels)
    gold = lh.gold_sample(data, len(topics), text="text", names=labels, seed=1)
    gold = gold.with_codes([topics[row] for row in gold.rows])
    gold = lh.gold_split(gold, 0.4, 0.55, 0.05, seed=1)
    with lh.Model(model) as loaded, lh.Context(loaded) as context:
        has_template = "tokenizer.chat_template" in loaded.metadata
        for chat in (False, True) if has_template else (False,):
            tried = {"0": book}
            tried |= {str(k): lh.choose_examples(gold, k, book) for k in NUMBERS}
            comparison = lh.compare_codebooks(data, tried, gold, context, chat=chat)
            for i, k in enumerate(NUMBERS, start=1):
                pairs = {(one.first, one.second): one for one in comparison.differences}
                change = pairs[0, i].turned()
                without, with_k = (comparison.candidates[at].value.value for at in (0, i))
                interval = limits(change.low, change.high)
                yield (
                    *(model.stem, "chat" if chat else "plain", k),
                    *(decimals(without), decimals(with_k)),
                    f"{decimals(change.value, sign='+')} {interval}",
                )


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--page", type=Path, default="docs/selection.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    rows = [row for model in options.models for row in rows_of(model)]
    marked.write(options.page, {"examples": marked.table(HEAD, rows, 2)})


if __name__ == "__main__":
    main()
