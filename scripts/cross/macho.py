"""Checks a macOS library: its own name, search paths, and exported functions.

    macho.py LIBRARY HEADER...

Fails unless the library is found by @rpath, searches for libllama in its own folder, and
exports exactly the functions that the headers declare.
"""

from __future__ import annotations

import sys

import exports
import lief

_NAME = "@rpath/libllamaherd.dylib"
_RPATH = "@loader_path/../llama_cpp/lib"


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
    ours = {name for name in exported if name.startswith(("lh_", "newrllama_"))}
    return found + exports.problems(ours, headers)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    wrong = problems(sys.argv[1], sys.argv[2:])
    if wrong:
        sys.exit(f"{sys.argv[1]}: " + "; ".join(wrong))
