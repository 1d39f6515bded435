"""Checks the links of a built site: every file and every place in it that a page names.

    python scripts/check_links.py FOLDER

Links to other sites are not fetched. Ends with 1 if one leads
nowhere.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src"}
# What pkgdown and mkdocs write for servers that have them, and addresses of no file.
NO_FILES = ("http", "https", "mailto", "data", "javascript")


class Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = {"", "top"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links and places."""
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.places.add(value or "")
            elif LINKS.get(tag) == name and value:
                self.links.append(value)


def read(path: Path) -> Page:
    """The page in a file."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(root: Path, pages: dict[Path, Page]) -> list[str]:
    """Links of `pages`, by their paths, that lead nowhere."""
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
                found.append(f"{path.relative_to(root)}: {link}: no such place")
    return found


def main() -> None:
    """Check all pages of a folder."""
    root = Path(sys.argv[1]).resolve()
    # A page for addresses that there are not is shown at any depth.
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
