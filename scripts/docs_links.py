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
# An item of a list of names in docs/api, such as "- `lh.generate`".
NAME = re.compile(
    r"^- `(?:lh|llamaherd)\.([\w.]+)`(, with inherited members)?$", re.MULTILINE
)
INHERITED = "\n    options:\n      inherited_members: true"


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Replace links out of docs by links to the repository, and names by their help."""
    folder = Path(page.file.abs_src_path or "").parent
    if folder.name == "api":
        markdown = with_reference(markdown)

    def absolute(found: re.Match[str]) -> str:
        target = (folder / found[1]).resolve()
        if target.is_relative_to(ROOT / "docs") or not target.exists():
            return found[0]
        return f"]({REPOSITORY}{target.relative_to(ROOT).as_posix()}"

    return LINK.sub(absolute, markdown)


def with_reference(markdown: str) -> str:
    """Return a page on which each name in a list is a directive of mkdocstrings."""

    def directive(match: re.Match[str]) -> str:
        return f"\n::: llamaherd.{match[1]}{INHERITED if match[2] else ''}\n"

    return NAME.sub(directive, markdown)
