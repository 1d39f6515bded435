"""Checks the links of a built site: every linked file and every linked anchor.

    python scripts/check_links.py FOLDER

Links to other sites are not checked. Exits with 1 if a link is broken.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src"}
# Addresses that pkgdown and mkdocs write for certain servers, and addresses without a
# file.
NO_FILES = ("http", "https", "mailto", "data", "javascript")


class Page(HTMLParser):
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


def read(path: Path) -> Page:
    """Return the page in a file."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(root: Path, pages: dict[Path, Page]) -> list[str]:
    """Return the broken links of pages, which are given by path."""
    found = []
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
                found.append(f"{path.relative_to(root)}: {link}: no such file")
            elif target in pages and place not in pages[target].places:
                found.append(f"{path.relative_to(root)}: {link}: no such anchor")
    return found


def main() -> None:
    """Check all pages of a folder."""
    root = Path(sys.argv[1]).resolve()
    # The page for unknown addresses is shown at any depth.
    files = [path for path in root.rglob("*.html") if path.name != "404.html"]
    pages = {path.resolve(): read(path) for path in files}
    n_links = sum(len(page.links) for page in pages.values())
    found = broken(root, pages)
    for line in found:
        print(line)
    print(f"{len(pages)} pages, {n_links} links, {len(found)} broken")
    sys.exit(bool(found) or not pages)


if __name__ == "__main__":
    main()
