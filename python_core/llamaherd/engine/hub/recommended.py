"""Suggested first models, by the memory that they need."""

from __future__ import annotations

from dataclasses import dataclass

from llamaherd.engine.core import checks
from llamaherd.engine.hub.quantizations import needed_bytes
from llamaherd.engine.memory import hardware

_NOT_MEASURED = "not measured"
_OTHERS = "models of this size, not this file: "


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSuggestion:
    """Model to start with.

    Attributes:
        source: Source for `Model`, such as "hf:owner/repo:Q4_K_M".
        memory_gb: Memory of a computer that runs the model and other programs, in GB; 0
            for any computer.
        size_bytes: Approximate size of the file.
        fits: Whether the model fits with a context into the memory given by `memory_gb`.
        measured: Figures that this project measured with the model, or "not measured".
        published: Figures that others published for models of this size, not for this
            file; "" if there are none.
    """

    source: str
    memory_gb: int
    size_bytes: int
    fits: bool
    measured: str
    published: str


# Source, memory in GB, size in bytes, measurements of this project, published figures.
_MODELS = (
    (
        "hf:unsloth/SmolLM2-135M-Instruct-GGUF:Q4_K_M",
        0,
        105_000_000,
        (
            "57 of 60 news texts right with 8 examples, 39 without, with the Q4_1 file "
            "(docs/labelling.md); for trying things out"
        ),
        "",
    ),
    (
        "hf:unsloth/Qwen3-4B-Instruct-2507-GGUF:Q4_K_M",
        8,
        2_500_000_000,
        _NOT_MEASURED,
        (
            f"{_OTHERS}F1 of 0.7 to 0.9 for two topics in German parliamentary "
            "speeches, six models below 14 billion weights (preprints.org 202511.2016)"
        ),
    ),
    (
        "hf:unsloth/gemma-3-12b-it-GGUF:Q4_K_M",
        16,
        7_300_000_000,
        _NOT_MEASURED,
        (
            f"{_OTHERS}F1 of 0.7 to 0.9 for two topics in German parliamentary "
            "speeches, six models below 14 billion weights (preprints.org 202511.2016)"
        ),
    ),
    (
        "hf:unsloth/gemma-3-27b-it-GGUF:Q4_K_M",
        32,
        16_500_000_000,
        _NOT_MEASURED,
        (
            "local models in general: the best of five had 0.015 less F1 than the best "
            "of four commercial ones in 34 tasks of political science (arXiv 2605.19275)"
        ),
    ),
)


def recommended_models(memory_gb: float | None = None) -> list[ModelSuggestion]:
    """Return suggested first models, smallest first, and whether each fits.

    Models are suggested by their size. This project measured only the first model. No
    model is the best in every task, so measure the model that you choose with
    `validate`.

    Args:
        memory_gb: Memory for the model, in GB of 1e9 bytes; None for the memory that this
            process can allocate now.

    Raises:
        TypeError: `memory_gb` is not a number.
        ValueError: `memory_gb` is below 0.1.
    """
    if memory_gb is None:
        available = float(hardware.available_memory())
    else:
        available = checks.real("memory_gb", memory_gb, 0.1, 1e6) * 1e9
    return [
        ModelSuggestion(
            source=source,
            memory_gb=memory,
            size_bytes=size,
            fits=needed_bytes(size) <= available,
            measured=measured,
            published=published,
        )
        for source, memory, size, measured, published in _MODELS
    ]
