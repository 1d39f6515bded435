"""Coding pages for a test, and a browser."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from coding_pages import coding_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.fixture
def served(tmp_path: Path) -> Callable[..., Any]:
    """A function that serves a page for a block, with its codes in a new file."""
    return lambda *args, **kwargs: coding_page(tmp_path / "codes.sqlite", *args, **kwargs)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium of the system."""
    sync_api = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no chromium")
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield made
        made.close()
