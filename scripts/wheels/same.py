"""Compares two wheels: same.py WHEEL WHEEL. Exits with 1 if a byte differs."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path


def differences(first: Path, second: Path) -> list[str]:
    """Return the names of files that differ or that one wheel lacks; [] if equal."""
    if first.read_bytes() == second.read_bytes():
        return []
    contents = []
    for path in (first, second):
        with zipfile.ZipFile(path) as wheel:
            contents.append(
                {info.filename: wheel.read(info) for info in wheel.infolist()}
            )
    names = sorted(contents[0].keys() | contents[1].keys())
    differing = [n for n in names if contents[0].get(n) != contents[1].get(n)]
    return differing or ["the order, times or modes of files"]


def main(first: str, second: str) -> None:
    """Compare two wheels."""
    if found := differences(Path(first), Path(second)):
        sys.exit(f"{first} and {second} differ in: {', '.join(found)}")
    print("the wheels are equal")


if __name__ == "__main__":
    main(*sys.argv[1:])
