"""Links of the sites: a hook of mkdocs, and a check of a built site.

    python scripts/docs_links.py FOLDER

The hook makes links to files outside docs point to the repository. The check exits with 1
if a linked file or anchor does not exist; links to other sites are not checked.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

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

    def absolute(link: re.Match[str]) -> str:
        target = (folder / link[1]).resolve()
        if target.is_relative_to(ROOT / "docs") or not target.exists():
            return link[0]
        return f"]({REPOSITORY}{target.relative_to(ROOT).as_posix()}"

    return LINK.sub(absolute, markdown)


def with_reference(markdown: str) -> str:
    """Return a page on which each name in a list is a directive of mkdocstrings."""

    def directive(match: re.Match[str]) -> str:
        return f"\n::: llamaherd.{match[1]}{INHERITED if match[2] else ''}\n"

    return NAME.sub(directive, markdown)


LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src"}
# Addresses that pkgdown and mkdocs write for certain servers, and addresses without a
# file.
NO_FILES = ("http", "https", "mailto", "data", "javascript")


class BuiltPage(HTMLParser):
    """Collects the links and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = {"", "top"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record links and anchors."""
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.places.add(value or "")
            elif LINKS.get(tag) == name and value:
                self.links.append(value)


def read(path: Path) -> BuiltPage:
    """Return the page in a file."""
    page = BuiltPage()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(root: Path, pages: dict[Path, BuiltPage]) -> list[str]:
    """Return the broken links of pages, which are given by path."""
    lines = []
    for path, page in sorted(pages.items()):
        for link in sorted(set(page.links)):
            parts = urlsplit(link)
            if parts.scheme in NO_FILES or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path))
            if parts.path.startswith("/"):
                target = root / parts.path.lstrip("/")
            target = target.resolve()
            if target.is_dir():
                target /= "index.html"
            place = unquote(parts.fragment)
            if not target.is_file():
                lines.append(f"{path.relative_to(root)}: {link}: no such file")
            elif target in pages and place not in pages[target].places:
                lines.append(f"{path.relative_to(root)}: {link}: no such anchor")
    return lines


def main() -> None:
    """Check all pages of a folder."""
    root = Path(sys.argv[1]).resolve()
    # The page for unknown addresses is shown at any depth.
    files = [path for path in root.rglob("*.html") if path.name != "404.html"]
    pages = {path.resolve(): read(path) for path in files}
    n_links = sum(len(page.links) for page in pages.values())
    lines = broken(root, pages)
    for line in lines:
        print(line)
    print(f"{len(pages)} pages, {n_links} links, {len(lines)} broken")
    sys.exit(bool(lines) or not pages)


if __name__ == "__main__":
    main()
