"""Fixtures of tests of journals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a file in place of a model."""
    (tmp_path / "model.gguf").write_bytes(b"GGUF and weights")
    return tmp_path
