"""Coding pages for a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from coding_pages import coding_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def served(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that serves a page for a block, with its codes in a new file."""
    return lambda *args, **kwargs: coding_page(tmp_path / "codes.sqlite", *args, **kwargs)
