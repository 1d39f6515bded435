"""Hook of mkdocs that makes links to files outside docs point to the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/llamaherd/llamaherd/blob/main/"
LINK = re.compile(r"\]\((\.\.?/[^)#\s]*)")


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Replace relative links to files outside docs by links to the repository."""
    folder = Path(page.file.abs_src_path or "").parent

    def absolute(found: re.Match[str]) -> str:
        target = (folder / found[1]).resolve()
        if target.is_relative_to(ROOT / "docs") or not target.exists():
            return found[0]
        return f"]({REPOSITORY}{target.relative_to(ROOT).as_posix()}"

    return LINK.sub(absolute, markdown)
