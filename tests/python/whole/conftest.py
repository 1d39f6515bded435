"""Fixtures of tests of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def model(tiny_path: Callable[[str], Path]) -> Iterator[lh.Model]:
    """Return a tiny random model."""
    with lh.Model(tiny_path("llama")) as model:
        yield model
