"""Pages of the guide: each begins with something to type."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
OTHERS = {"moving-llama"}  # steps that developers read before they type
PAGES = sorted(path for path in DOCS.glob("*.md") if path.stem not in OTHERS)


def begins_with_code(page: str) -> bool:
    """Return whether a block of code follows the title of a page."""
    body = re.sub(r"<!-- .*? -->", "", page.partition("\n")[2], flags=re.DOTALL)
    return body.lstrip().startswith("```")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_an_installed_user_has_the_data_of_a_page(path: Path) -> None:
    assert '("examples/data' not in path.read_text(encoding="utf-8")  # in a clone only


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_begins_with_what_to_type(path: Path) -> None:
    assert begins_with_code(path.read_text(encoding="utf-8"))


def test_words_before_the_first_code_are_found() -> None:
    assert begins_with_code("# A\n\n<!-- made by b.py -->\n\n```sh\nc\n```\n")
    assert not begins_with_code("# A\n\nThis page explains.\n\n```sh\nc\n```\n")
