"""Workloads of the benchmark, on texts in the public domain.

The prompts are the same for every model. When the benchmark runs, the tokens of the
prompts are counted with the model's tokenizer (`shape.py`). The results contain these
numbers.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path

NOVEL = Path(__file__).parent / "data/pride_and_prejudice.txt"
SEED = 20261121  # seed for lengths, order and selection of texts

# A sentence of 8 to 30 words. Titles (Mr., Mrs.) do not end a sentence.
_SENTENCE = re.compile(
    r"(?:Mrs?\. )?[A-Z][^.!?\";]*(?:Mrs?\.[^.!?\";]*)*(?<!Mr)(?<!Mrs)[.!?]"
)
_DOCUMENT_WORDS = 240  # about 300 tokens
_LONG_WORDS = 1180  # about 1,500 tokens
_QUESTIONS = (
    "Who speaks in this passage?",
    "What is the passage about?",
    "Where does it take place?",
    "What do the people want?",
    "How does the narrator judge them?",
    "What will happen next?",
)
_RULES = """\
You code sentences from a novel. Read the sentence, then answer with one word: Speech,
Action, Description or Judgement. Speech is what a person says to another. Action is what
a person does, or where a person goes. Description tells how people, houses or places are.
Judgement is what the narrator, or a person, thinks of somebody's character or conduct.
If two fit, take the one that comes first in this list. Do not explain.

"""
_LABELS = ("Speech", "Action", "Description", "Judgement")


@dataclass(frozen=True)
class Workload:
    """Prompts, each with the number of tokens that it must generate."""

    prompts: list[str]
    max_tokens: list[int]
    temperature: float = 0.0
    n_calls: int = 1  # number of times that the same call is made on one context
    # Number of prompts of each call; the next call uses the next prompts. 0 for all.
    n_each: int = 0

    def call(self, i_call: int) -> slice:
        """Return the slice of the prompts of a call."""
        if not self.n_each:
            return slice(len(self.prompts))
        start = i_call * self.n_each % len(self.prompts)
        return slice(start, start + self.n_each)


def sentences() -> list[str]:
    """Return the distinct sentences of the novel, in order."""
    text = " ".join(NOVEL.read_text(encoding="ascii").split())
    matches = _SENTENCE.findall(text)
    return list(dict.fromkeys(s for s in matches if 8 <= len(s.split()) <= 30))


def passages(n: int, n_words: int) -> list[str]:
    """Return `n` passages with different starts, spread over the novel."""
    words = NOVEL.read_text(encoding="ascii").split()
    step = (len(words) - n_words) // n
    return [" ".join(words[i * step : i * step + n_words]) for i in range(n)]


def codebook_prompt(examples: list[str]) -> str:
    """Return instructions with examples: about 400 tokens, whose content is arbitrary."""
    shots = "".join(
        f"Sentence: {text}\nCode: {_LABELS[i % len(_LABELS)]}\n\n"
        for i, text in enumerate(examples)
    )
    return _RULES + shots


def make_workloads(*, quick: bool = False) -> dict[str, Workload]:
    """Return the workloads by name."""
    draw = random.Random(SEED)  # noqa: S311 - the same texts each time, no secret
    texts = sentences()
    draw.shuffle(texts)
    n_texts, n_labels, n_documents, n_long = (8, 12, 2, 2) if quick else (64, 100, 20, 8)
    new = 8 if quick else 64

    distinct = texts[:n_texts]
    codebook = codebook_prompt(texts[-12:])
    to_label = [
        f"{codebook}Sentence: {text}\nCode:" for text in texts[64 : 64 + n_labels]
    ]
    tree = [
        f"{passage}\n\nQuestion: {question}\nAnswer:"
        for passage in passages(n_documents, _DOCUMENT_WORDS)
        for question in _QUESTIONS
    ]
    draw.shuffle(tree)
    lengths = [min(256, int(4 * draw.paretovariate(0.6))) for _ in distinct]  # heavy tail
    lengths = [min(n, 24) for n in lengths] if quick else lengths
    n_samples = 2 if quick else 8
    samples = [text for text in distinct[:8] for _ in range(n_samples)]
    long = [
        f"{text}\n\nSummary:"
        for text in passages(n_long, _DOCUMENT_WORDS if quick else _LONG_WORDS)
    ]
    n_small = 20 if quick else 1000
    small = passages(2 * n_small, 5)
    return {
        "distinct": Workload(distinct, [new] * len(distinct)),
        "annotate": Workload(to_label, [8] * len(to_label)),
        "tree": Workload(tree, [4 if quick else 16] * len(tree)),
        "mixed": Workload(distinct, lengths),
        "samples": Workload(
            samples, [8 if quick else 48] * len(samples), temperature=0.8
        ),
        "long": Workload(long, [4 if quick else 32] * len(long)),
        "repeat": Workload(to_label, [8] * len(to_label), n_calls=3 if quick else 10),
        "many": Workload(small, [2] * len(small), n_calls=n_small, n_each=2),
    }
