"""Fixtures of the tests of coding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    """Context on a tiny random model."""
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        yield context
