"""Accuracy of small models with ready codebooks, for docs/codebooks.md.

    python benchmarks/ready_codebooks.py MODEL.gguf ... --texts sentiment=TEXTS.csv ...

TEXTS.csv has columns `text` and `label`, the human code, which is a label of the
codebook. Some settings use eight texts as examples; accuracy is measured on all other
texts. The best settings are written into the package
(coding/annotation/ready/measured.json), the results of all settings into the page.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import labelled
import llamaherd as lh
import marked

STORE = marked.ROOT / "python_core/llamaherd/coding/annotation/ready/measured.json"
SEED = 20261125
WAYS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "calibrated": {"calibrate": "batch"},
    "8 examples": {"shots": True},
    "8 examples, calibrated": {"shots": True, "calibrate": "batch"},
}


def rows_of(path: Path, name: str, model: str) -> list[dict[str, Any]]:
    """Return a model's accuracy and macro F1 for each setting, with intervals."""
    texts = labelled.read(path, SEED)
    book = lh.ready_codebook(name)
    shots = labelled.shots_of(texts, book.names)
    others = [row for row in texts if row not in shots]
    examples = [{key: row[key] for key in ("text", "label")} for row in shots]
    with_shots = lh.Codebook.from_dict({**book.to_dict(), "examples": examples})
    frame = {key: [row[key] for row in others] for key in ("text", "label")}
    context = lh.Context(lh.Model(model), n_seq_max=16)
    rows = []
    folder = tempfile.mkdtemp()  # for a journal of answers to reuse
    for way, options in WAYS.items():
        settings = dict(options)
        codebook = with_shots if settings.pop("shots", False) else book
        texts_only = {"text": frame["text"]}
        journal = f"{folder}/{len(codebook.examples)}.journal"
        coded = lh.annotate(
            texts_only, "text", codebook, context, journal=journal, **settings
        )
        checked = lh.validate(coded, frame["label"])
        accuracy = checked.accuracy.accuracy
        f1 = checked.accuracy.macro_f1
        rows.append(
            {
                "codebook": name,
                "model": Path(model).stem,
                "way": way,
                "n": len(others),
                "accuracy": (accuracy.value, accuracy.low, accuracy.high),
                "majority": checked.accuracy.majority_accuracy.value,
                "f1": f1.value,
            }
        )
        print(rows[-1], flush=True)
    return rows


def cells_of(row: dict[str, Any]) -> list[str]:
    """Return a row of the page's table."""
    value, low, high = row["accuracy"]
    accuracy = f"{value:.1%} [{low:.1%}, {high:.1%}]"
    figures = [f"{row['n']:,}", accuracy, f"{row['f1']:.2f}", f"{row['majority']:.1%}"]
    return [f"`{row['codebook']}`", row["model"], row["way"], *figures]


def best_sentence(rows: list[dict[str, Any]]) -> str:
    """Return a sentence on the best model and setting."""
    best = max(rows, key=lambda row: row["accuracy"])
    value = best["accuracy"][0]
    return (
        f"{value:.0%} of {best['n']:,} texts right with {best['model']} ({best['way']}); "
        f"always the most frequent label: {best['majority']:.0%}"
    )


def main() -> None:
    """Measure, and write the page and the package's file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--texts", nargs="+", required=True, metavar="NAME=TEXTS.csv")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    sentences, rows = {}, []
    for argument in args.texts:
        name, _, path = argument.partition("=")
        new_rows = [row for m in args.models for row in rows_of(Path(path), name, m)]
        sentences[name] = best_sentence(new_rows)
        rows += new_rows
    head = ["codebook", "model", "way", "texts", "accuracy", "macro F1"]
    head.append("most frequent label")
    STORE.write_text(json.dumps(sentences, indent=1) + "\n", encoding="utf-8")
    marked.write(
        "docs/codebooks.md", {"codebooks": marked.table(head, map(cells_of, rows), 3)}
    )


if __name__ == "__main__":
    main()
