"""Notes on labels that have almost no probability in the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llamaherd.engine.core import checks
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from llamaherd.calls.asks.calibration import Floats

LOW_COVERAGE = 0.05
_MOST_SHOWN = 30  # number of characters at the end of a prompt that are examined
# Texts that open a thought in the formats of common models.
_OPENING = (
    *("<think>", "<thinking>", "<thought>", "<reasoning>", "<seed:think>"),
    *("[THINK]", "<|START_THINKING|>", "<|begin_of_thought|>", "<|channel>thought"),
    *("<|channel|>analysis<|message|>", "<|inner_prefix|>", "<|thinking|>"),
)


def opened(prompt: str) -> str:
    """Return the marker that opens a thought at the end of a prompt, or ""."""
    end = prompt.rstrip()
    return next((marker for marker in _OPENING if end.endswith(marker)), "")


def low_coverage(coverage: Floats) -> str:
    """Return a sentence about a low median coverage; "" if the coverage is not low.

    Args:
        coverage: float64[n], total probability of all labels; NaN if it is unknown.
    """
    known = coverage[~np.isnan(coverage)]
    if not len(known) or (middle := float(np.median(known))) >= LOW_COVERAGE:
        return ""
    return (
        f"Median coverage is {middle:.2g}: all labels together have only this share of "
        "the model's probability for the text after a prompt"
    )


def coverage_cause(prompt: object, *, chat: bool, has_template: bool = False) -> str:
    """Return the likely cause of a low coverage, as a sentence.

    Args:
        prompt: A prompt in the form that the model reads. Only its end is examined.
        chat: Whether the model's chat template wrote the prompt.
        has_template: Whether the model has a chat template.
    """
    if not isinstance(prompt, str) or not prompt:
        return "Prompts may end where no label can follow"
    marker = opened(prompt)
    if marker:
        return (
            f"Prompts end in {marker!r}, inside a thought: with {setting('chat', True)}, "
            f"{setting('thinking', False)} closes it and {setting('thinking', 256)} lets "
            "the model think first"
        )
    shown = checks.quoted(prompt[-_MOST_SHOWN:])
    if chat:
        return (
            f"Prompts end in {shown}, and the model would start with another text: ask "
            "for only a label in the prompt, or start the answer with prefix"
        )
    if prompt[-1].isspace():
        return (
            f"Prompts end in {shown}: leave out the white space there, which belongs "
            "to the first token of a label"
        )
    template = f" or {setting('chat', True)}" if has_template else ""
    if prompt.endswith(":"):
        return (
            f"Prompts end in {shown}: list the labels in the prompt, or try examples"
            f"{template}"
        )
    return (
        f"Prompts end in {shown}: try an end that a label would follow, such as "
        f"'Answer:'{template}"
    )
