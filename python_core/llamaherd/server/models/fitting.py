"""Checks at the start of a server that its memory is sufficient for its models."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llamaherd.core.errors import ArgumentError, ContextError
from llamaherd.core.words import words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.memory.device import Placement
    from llamaherd.run.context_settings import ContextSettings
    from llamaherd.server.models.spec import ModelSpec


def check_each_fits(needs: Mapping[str, int], n_bytes: int, *, is_given: bool) -> None:
    """Check that each of several models fits into the memory of a server alone.

    Args:
        needs: Least memory of each model in bytes, by name.
        n_bytes: Memory of the server for models in bytes.
        is_given: Whether the user gave this memory; otherwise it is the memory that is
            available.

    Raises:
        ArgumentError: A model needs more memory than the user gave.
        ContextError: A model needs more memory than is available.
    """
    large = {repr(name): n for name, n in needs.items() if n > n_bytes}
    if large:
        raise _too_small(large, n_bytes, is_given=is_given)


def memory_of_cache(
    specs: Sequence[ModelSpec],
    n_bytes: int,
    settings: ContextSettings,
    placement: Placement,
) -> int:
    """Check that models fit into memory at once, and return what the first may use.

    Args:
        specs: Models without adapters; the first answers, and a second computes vectors.
        n_bytes: Memory of the server for models in bytes, given by the user.
        settings: Settings of each context.
        placement: GPUs that hold the layers.

    Returns:
        Memory for the KV cache and the buffers of the first model in bytes.

    Raises:
        ArgumentError: The models need more memory.
    """
    first, *others = specs
    n_others = sum(each.n_bytes + each.n_working(settings, placement) for each in others)
    n_fixed = n_others + first.n_bytes
    n_needed = n_fixed + first.n_working(settings, placement)
    if n_needed > n_bytes:
        names = " and ".join(repr(each.name) for each in specs)
        raise _too_small({names: n_needed}, n_bytes, is_given=True)
    return n_bytes - n_fixed


def _too_small(
    needs: Mapping[str, int], n_bytes: int, *, is_given: bool
) -> ArgumentError | ContextError:
    needed = ", ".join(f"{shown_up(n)} for {names}" for names, n in needs.items())
    problem = f"with KV cache and buffers the server needs {needed}"
    if is_given:
        text = f"is {shown_down(n_bytes)}, but {problem}"
        return ArgumentError(text, argument=words().memory, code="out_of_range")
    return ContextError(
        f"{shown_down(n_bytes)} of memory are available for models, but {problem}: free "
        "memory, or leave such models out"
    )


def shown_down(n_bytes: int) -> str:
    """Return a size as text, rounded down: memory that exists."""
    unit, size = _unit(n_bytes)
    return f"{math.floor(10 * n_bytes / size) / 10:.1f} {unit}"


def shown_up(n_bytes: int) -> str:
    """Return a size as text, rounded up: memory that is sufficient."""
    unit, size = _unit(n_bytes)
    return f"{math.ceil(10 * n_bytes / size) / 10:.1f} {unit}"


def _unit(n_bytes: int) -> tuple[str, float]:
    return ("GB", 1e9) if n_bytes >= 1e9 else ("MB", 1e6)
