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
    "CITATION.cff": r"^version: (\S+)",
    "r_package/NEWS.md": r"^# llamaherd (\S+)",
    "capi_shim/llamaherd.h": r"^#define LH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$",
}
# Files that name the pinned version of llama-cpp-python; `make move-llama` changes them.
# Other files name the version of a measurement, or the first one with a function.
PINNED = (
    "pyproject.toml",
    "CHANGELOG.md",
    "README.md",
    "docs/c.md",
    "docs/gpu.md",
    "docs/how-it-works.md",
    "docs/install.md",
    "r_package/NEWS.md",
    "capi_shim/model/gguf_reviewed.hpp",
)
PIN = re.compile(
    r"((?:llama-cpp-python(?:==| )|llama_cpp_python-|\b(?:exactly|Only) version ))"
    r"(\d+\.\d+\.\d+)"
)


def newest(name: str) -> str:
    """Return the text of a file; of a change log, the part on the newest version."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if name in {"CHANGELOG.md", "r_package/NEWS.md"}:
        headings = [m.start() for m in re.finditer(VERSIONS[name], text, re.MULTILINE)]
        return text[: (*headings, len(text))[1]]
    return text


def project_version(name: str, pattern: str) -> str:
    """Return the version of the project in a file."""
    found = re.findall(pattern, newest(name), flags=re.MULTILINE)
    return ".".join(found) if name.endswith(".h") else " and ".join(sorted(set(found)))


def pins(name: str) -> str:
    """Return the version of llama-cpp-python in a file."""
    return " and ".join(sorted({m[2] for m in PIN.finditer(newest(name))})) or "nothing"


def main() -> None:
    """Print the versions; exit with 1 if they differ."""
    versions = {n: project_version(n, pattern) for n, pattern in VERSIONS.items()}
    llama = {name: pins(name) for name in PINNED}
    for what, texts in (("llamaherd", versions), ("llama-cpp-python", llama)):
        if len(set(texts.values())) != 1:
            lines = "\n".join(f"  {name}: {text}" for name, text in texts.items())
            sys.exit(f"error: the version of {what} differs:\n{lines}")
        print(f"{what} {texts['pyproject.toml']} in {', '.join(texts)}")

    copy = ROOT / "r_package" / "DESCRIPTION"
    if copy.read_bytes() != (ROOT / "DESCRIPTION").read_bytes():
        sys.exit("error: DESCRIPTION and r_package/DESCRIPTION differ")


if __name__ == "__main__":
    main()
