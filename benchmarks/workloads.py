"""What the benchmark runs: kinds of work that people have, from the texts of the demo."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from pathlib import Path

TEXTS = Path(__file__).parent.parent / "examples/data/headlines.csv"


@dataclass(frozen=True)
class Workload:
    """Prompts with the number of tokens that each must generate.

    Attributes:
        n_calls: How often the same call is made on one context.
    """

    prompts: list[str]
    max_tokens: list[int]
    temperature: float = 0.0
    n_calls: int = 1


def _texts() -> list[str]:
    with TEXTS.open(newline="", encoding="utf-8") as file:
        return [row["text"] for row in csv.DictReader(file)]


def _codebook(texts: list[str]) -> str:
    """Instructions with examples, about 430 tokens."""
    rules = (
        "You label news texts. Read the text, then answer with one word: Sports, "
        "Business, Science or Politics. Sports is about games and athletes, Business "
        "about firms and markets, Science about research, Politics about power.\n\n"
    )
    examples = "".join(f"Text: {text}\nLabel: Science\n\n" for text in texts[:12])
    return rules + examples


def make_workloads(*, quick: bool = False) -> dict[str, Workload]:
    """The workloads by name.

    Args:
        quick: A few seconds of each kind instead of the real size.
    """
    texts = _texts()
    draw = random.Random(20261121)  # noqa: S311 - the same texts each time, no secret
    size = 8 if quick else 64
    distinct = [f"{texts[i % len(texts)]} ({i})" for i in range(size)]

    codebook = _codebook(texts)
    to_label = [f"{codebook}Text: {text}\nLabel:" for text in (texts * 2)[: size + 36]]

    documents = [" ".join(draw.sample(texts, 10)) for _ in range(2 if quick else 20)]
    questions = ["Who?", "What?", "When?", "Where?", "Why?", "How?"]
    tree = [f"{text}\nQuestion: {q}\nAnswer:" for text in documents for q in questions]
    draw.shuffle(tree)

    lengths = [min(256, max(4, int(draw.paretovariate(1.0) * 12))) for _ in distinct]
    return {
        "distinct": Workload(distinct, [64] * size),
        "annotate": Workload(to_label, [8] * len(to_label)),
        "tree": Workload(tree, [16] * len(tree)),
        "mixed": Workload(distinct, lengths),
        "samples": Workload(
            [text for text in distinct[:8] for _ in range(2 if quick else 8)],
            [48] * (16 if quick else 64),
            temperature=0.8,
        ),
        "repeat": Workload(to_label[:50], [8] * len(to_label[:50]), n_calls=10),
    }
