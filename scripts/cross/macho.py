"""Checks a macOS library: its own name, search paths, and exported functions.

    macho.py LIBRARY HEADER...

Fails unless the library is found by @rpath, searches for libllama in its own folder, and
exports exactly the functions that the headers declare.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import lief

_NAME = "@rpath/libllamaherd.dylib"
_RPATH = "@loader_path/../llama_cpp/lib"
_FUNCTION = re.compile(
    r"^(?:LH|NEWRLLAMA)_API [^;]*?\b((?:lh|newrllama)_\w+)\(", re.MULTILINE
)


def declared(headers: list[str]) -> set[str]:
    """Return the names of the functions that headers declare."""
    texts = (Path(header).read_text(encoding="utf-8") for header in headers)
    return {name for text in texts for name in _FUNCTION.findall(text)}


def problems(library: str, headers: list[str]) -> list[str]:
    """Return the problems of a library; [] if there are none."""
    fat = lief.MachO.parse(library)
    if fat is None:
        return [f"{library} is no library of macOS"]
    (binary,) = fat
    found = []
    names = [x.name for x in binary.commands if isinstance(x, lief.MachO.DylibCommand)]
    if _NAME not in names:
        found.append(f"its name is none of {names}")
    if _RPATH not in [path.path for path in binary.rpaths]:
        found.append(f"it does not search {_RPATH}")
    exported = {symbol.name.removeprefix("_") for symbol in binary.exported_symbols}
    wanted = declared(headers)
    if not wanted:
        found.append("the headers declare no functions")
    if missing := wanted - exported:
        found.append(f"it does not export {', '.join(sorted(missing))}")
    if more := {x for x in exported if x.startswith(("lh_", "newrllama_"))} - wanted:
        found.append(f"it exports {', '.join(sorted(more))}, which no header declares")
    return found


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    wrong = problems(sys.argv[1], sys.argv[2:])
    if wrong:
        sys.exit(f"{sys.argv[1]}: " + "; ".join(wrong))
