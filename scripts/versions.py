"""Compares versions that are written in several files, or moves to another llama.cpp.

    versions.py check          fails if a version differs between files
    versions.py move VERSION   pins another version of llama-cpp-python

Compared are the version of the project, the version of llama-cpp-python in the files of
PINNED, and the two copies of R's DESCRIPTION. The second copy is not a link, because
installers copy r_package without its parent folder. `move` also removes new and changed
architectures from the record of reviewed ones; docs/moving-llama.md has the next steps.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import llama_names

ROOT = Path(__file__).resolve().parent.parent
# The first match counts: change logs begin with the newest version.
VERSIONS = {
    "pyproject.toml": r'^version = "([^"]+)"',
    "DESCRIPTION": r"^Version: (\S+)",
    "CHANGELOG.md": r"^## \[?(\d[^\]\s]*)",
    "CITATION.cff": r"^version: (\S+)",
    "r_package/NEWS.md": r"^# llamaherd (\S+)",
    "capi_shim/llamaherd.h": r"^#define LH_VERSION_MAJOR (\d+)\n"
    r"#define LH_VERSION_MINOR (\d+)\n#define LH_VERSION_PATCH (\d+)$",
}
# All files that name the pinned version of llama-cpp-python. Other files name the version
# of a measurement, or the first one with a function.
PINNED = ("pyproject.toml", "docs/gpu.md", "capi_shim/model/gguf_reviewed.hpp")
PIN = re.compile(r"(llama-cpp-python(?:==| ))(\d+\.\d+\.\d+)")


def project_version(name: str, pattern: str) -> str:
    """Return the version of the project in a file."""
    match = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    return "nothing" if match is None else ".".join(match.groups())


def pins(name: str) -> str:
    """Return the version of llama-cpp-python in a file."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return " and ".join(sorted({m[2] for m in PIN.finditer(text)})) or "nothing"


def check() -> None:
    """Print the versions; exit with 1 if they differ."""
    versions = {n: project_version(n, pattern) for n, pattern in VERSIONS.items()}
    llama = {name: pins(name) for name in PINNED}
    for project, texts in (("llamaherd", versions), ("llama-cpp-python", llama)):
        if len(set(texts.values())) != 1:
            lines = "\n".join(f"  {name}: {text}" for name, text in texts.items())
            sys.exit(f"error: the version of {project} differs:\n{lines}")
        print(f"{project} {texts['pyproject.toml']} in {', '.join(texts)}")
    copy = ROOT / "r_package" / "DESCRIPTION"
    if copy.read_bytes() != (ROOT / "DESCRIPTION").read_bytes():
        sys.exit("error: DESCRIPTION and r_package/DESCRIPTION differ")


def with_pin(text: str, version: str) -> str:
    """Return a text in which each pin names another version."""
    return PIN.sub(rf"\g<1>{version}", text)


def move(version: str) -> None:
    """Change the files of PINNED."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(__doc__)
    review = ROOT / "build" / f"review-{version}.md"
    review.parent.mkdir(exist_ok=True)
    llama_names.main(["record", version, str(review)])
    print(f"to review: {review.relative_to(ROOT)}")
    for path in (ROOT / name for name in PINNED):
        text = with_pin(path.read_text(encoding="utf-8"), version)
        path.write_text(text, encoding="utf-8")
    check()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["check"]:
            check()
        case ["move", new]:
            move(new)
        case _:
            sys.exit(__doc__)
