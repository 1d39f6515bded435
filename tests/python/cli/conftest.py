"""Fixture of tests of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import Commands

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def cli(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tiny_path: Callable[[str], Path],
) -> Commands:
    """Return a function that runs commands in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Commands(capfd, tiny_path)
