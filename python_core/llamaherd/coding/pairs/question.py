"""Prompts that show two texts and ask for the text with more of a quality."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from llamaherd.coding.pairs.design import Design

LAYOUT = """\
{question}

Text {a}:
{first}

Text {b}:
{second}

Answer with exactly one letter, {a} or {b}.
Answer:"""
LABELS = ("A", "B")
_NEEDED = ("question", "first", "second")
_FIELD = re.compile(r"\{(question|first|second|a|b)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairQuestion:
    """Question about two texts.

    Attributes:
        question: The question, such as "Which text is angrier?".
        labels: Names of the first and the second text; they are also the answers.
        layout: Text of a prompt. {question}, {first} and {second} are replaced by the
            question and the texts, {a} and {b} by the labels.
    """

    question: str
    labels: tuple[str, str] = LABELS
    layout: str = LAYOUT

    @classmethod
    def of(cls, question: object, labels: object, layout: object) -> PairQuestion:
        """Check the parts of a question."""
        text = checks.text("question", question)
        if not text.strip():
            raise ArgumentError("must not be blank", argument="question", code="empty")
        if isinstance(labels, str) or not isinstance(labels, Sequence):
            raise ArgumentTypeError(
                f"must be two texts, not {checks.shown(labels)}", argument="labels"
            )
        names = [checks.text("labels", label) for label in labels]
        if len(names) != 2 or names[0] == names[1] or not all(map(str.strip, names)):
            raise ArgumentError(
                f"must be two different texts, not {checks.shown(names)}",
                argument="labels",
            )
        form = checks.text("layout", layout)
        there = set(_FIELD.findall(form))
        missing = [f"{{{name}}}" for name in _NEEDED if name not in there]
        if missing:
            raise ArgumentError(
                f"must have {', '.join(missing)}, not {checks.quoted(form)}",
                argument="layout",
                code="missing",
            )
        return cls(question=text, labels=(names[0], names[1]), layout=form)

    def prompt(self, first: str, second: str) -> str:
        """Return the prompt for two texts; braces within texts are not replaced."""
        fields = {
            "question": self.question,
            "first": first,
            "second": second,
            "a": self.labels[0],
            "b": self.labels[1],
        }
        return _FIELD.sub(lambda field: fields[field[1]], self.layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairWork:
    """Checked arguments of a comparison in pairs."""

    texts: tuple[str, ...]
    names: tuple[str, ...]
    question: PairQuestion
    n_pairs: int
    design: Design
    seed: int
    level: float
