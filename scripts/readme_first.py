"""Makes the tables of docs/index.md; scripts/run_readme.py makes its picture.

    python scripts/readme_first.py MODEL.gguf

Runs the README's first example, with the news texts of the R package and the model of the
tests.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import llamaherd as lh

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benchmarks"))

import marked  # noqa: E402 - a module of that folder

PAGE = ROOT / "docs" / "index.md"
TEXTS = ROOT / "r_package/inst/extdata/headlines.csv"
LABELS = ["Sports", "Business", "Science", "Politics"]
SHOWN = (1, 20, 36, 46)
MEASURES = {
    ("accuracy", "accuracy"): "accuracy",
    ("baseline", "majority"): "accuracy of always giving the most frequent label",
    ("accuracy", "macro_f1"): "macro F1",
    ("model and people", "kappa"): "Cohen's kappa",
    ("model and people", "alpha"): "Krippendorff's alpha",
}


def read(path: Path) -> dict[str, list[str]]:
    """Return the columns of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def labelled(coded: lh.Coded, topics: list[str]) -> str:
    """Return a table of some texts with labels by the model and human codes."""
    lines = ["| text | model | probability | person |", "| --- | --- | ---: | --- |"]
    frame = coded.to_frame()
    for i in SHOWN:
        text = frame["text"][i]
        short = text if len(text) <= 70 else text[:67].rstrip() + "..."
        prob = frame["prob"][i]
        lines.append(f"| {short} | {coded.labels[i]} | {prob:.2f} | {topics[i]} |")
    return "\n".join(lines)


def validated(found: lh.types.Validation) -> str:
    """Return a table of the accuracy of the labels, with intervals."""
    lines = ["| 30 texts that a person coded | | 95% interval |", "| --- | ---: | --- |"]
    rows = {row[:2]: row for row in found.rows()}
    for key, name in MEASURES.items():
        value, low, high = rows[key][3:6]
        lines.append(f"| {name} | {value:.2f} | {low:.2f} to {high:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Write the blocks of docs/index.md."""
    news = read(TEXTS)
    with (
        lh.Model(sys.argv[1]) as model,
        lh.Context(model, deterministic=True) as context,
    ):
        topics = lh.Codebook(
            "Label the topic of each news text.", dict.fromkeys(LABELS, "")
        )
        coded = lh.annotate(news, "text", topics, context)
    gold = lh.gold_sample(coded, 30, seed=1)
    gold = gold.with_codes({"anna": [news["topic"][i] for i in gold.rows]})
    parts = {
        "labelled": labelled(coded, news["topic"]),
        "validated": validated(lh.validate(coded, gold)),
    }
    marked.write(PAGE, {f"first: {name}": part for name, part in parts.items()})


if __name__ == "__main__":
    main()
