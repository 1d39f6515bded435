"""docs/files.md: every file has a purpose, and the script generates this page."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def docs_files() -> ModuleType:
    path = ROOT / "scripts" / "docs_files.py"
    spec = importlib.util.spec_from_file_location("docs_files", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_that_of_the_script(docs_files: ModuleType) -> None:
    assert docs_files.PAGE.read_text(encoding="utf-8") == docs_files.page()


def test_every_file_says_what_it_is_for(docs_files: ModuleType) -> None:
    assert "|  |" not in docs_files.page()
