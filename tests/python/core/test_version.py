"""The version of the package."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

import llamaherd as lh

if TYPE_CHECKING:
    import pytest


def test_it_is_read_from_disk_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server has it in each answer: reading takes as long as a short request."""
    wanted = importlib.metadata.version("llamaherd")
    assert lh.__version__ == wanted
    monkeypatch.setattr(importlib.metadata, "version", None)
    assert lh.__version__ == wanted
