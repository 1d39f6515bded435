"""Checks that values that are written in several files are equal in all of them.

The values are the version of the project, the version of llama-cpp-python that the
project is built against, and the two copies of R's DESCRIPTION. The second copy is not a
link, because installers copy r_package without its parent folder.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

VERSIONS = {
    "pyproject.toml": r'^version = "([^"]+)"',
    "DESCRIPTION": r"^Version: (\S+)",
    "CHANGELOG.md": r"^## \[?(\d[^\] ]*)",
    "r_package/NEWS.md": r"^# llamaherd (\S+)",
}
LLAMA_PINS = {
    "pyproject.toml": r"llama-cpp-python==([0-9.]+)",
    "CHANGELOG.md": r"llama-cpp-python (\d[0-9.]*\d)",
    "README.md": r"llama-cpp-python (\d[0-9.]*\d)",
    "docs/how-it-works.md": r"llama-cpp-python (\d[0-9.]*\d)",
    "docs/install.md": r"llama-cpp-python (\d[0-9.]*\d)",
}


def found(places: dict[str, str]) -> dict[str, str]:
    """Return the text that each file's pattern matches, with different matches joined."""
    result = {}
    for name, pattern in places.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        matches = re.findall(pattern, text, flags=re.MULTILINE)
        # Change logs list every version, newest first.
        newest = matches[:1] if name.endswith(".md") else sorted(set(matches))
        result[name] = " and ".join(newest) or "nothing"
    return result


def main() -> None:
    """Print the versions; exit with 1 if they differ."""
    for what, places in (("llamaherd", VERSIONS), ("llama-cpp-python", LLAMA_PINS)):
        texts = found(places)
        if len(set(texts.values())) != 1:
            lines = "\n".join(f"  {name}: {text}" for name, text in texts.items())
            sys.exit(f"error: the version of {what} differs:\n{lines}")
        print(f"{what} {texts['pyproject.toml']} in {', '.join(texts)}")

    copy = ROOT / "r_package" / "DESCRIPTION"
    if copy.read_bytes() != (ROOT / "DESCRIPTION").read_bytes():
        sys.exit("error: DESCRIPTION and r_package/DESCRIPTION differ")


if __name__ == "__main__":
    main()
