"""Measurements are written only between the marks of pages."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
PAGE = """Before
<!-- a -->
old
lines
<!-- end of a -->
between
<!-- b: of a.py -->
<!-- /b -->
after
"""


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("marked")


def test_only_what_is_between_the_marks_changes(
    marked: ModuleType, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    marked.write(page, {"a": r"new \1", "b: of a.py": "more\n"})
    text = page.read_text(encoding="utf-8")
    assert text == PAGE.replace("old\nlines", r"new \1").replace(
        "of a.py -->\n", "of a.py -->\nmore\n"
    )


@pytest.mark.parametrize(
    ("page", "mark", "n"),
    [(PAGE, "c", 0), (PAGE * 2, "a", 2), ("<!-- a -->\n<!-- b -->\n", "a", 0)],
)
def test_a_page_without_the_place_is_an_error(
    marked: ModuleType, page: str, mark: str, n: int
) -> None:
    with pytest.raises(ValueError, match=f"not {n} times: {mark}$"):
        marked.replaced(page, mark, "text")


def test_every_mark_of_the_documents_has_its_end(marked: ModuleType) -> None:
    begins = re.compile(r"<!-- ((?!end of |/)[^>]*) -->\n")
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = [
        (page, mark)
        for page in pages
        for mark in begins.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(found) > 20
    for page, mark in found:
        text = page.read_text(encoding="utf-8")
        start = f"<!-- {mark} -->\n"
        part = text.split(start)[1].split("<!-- ")[0]
        assert marked.replaced(text, mark, part) == text.replace(
            f"{start}{part}", f"{start}{part.rstrip()}\n"
        )
