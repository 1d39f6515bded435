"""Checks a macOS library: names, search paths, system version and exported functions.

    macho.py VERSION LIBRARY RPATH FOLDER [HEADER...]

Fails unless programs find the library by @rpath, the library searches RPATH, needs only
libraries of /usr/lib and libraries of FOLDER by @rpath, and VERSION is the oldest macOS
that it runs on. With headers, also fails unless the library exports exactly the functions
that they declare. Prints the libraries that the library needs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import lief
import pe

_HERE = "@rpath/"


def problems(
    binary: lief.MachO.Binary, oldest: str, rpath: str, folder: Path
) -> list[str]:
    """Return the problems of names, search paths and version; [] if there are none."""
    found = []
    named = [
        command
        for command in binary.commands
        if command.command == lief.MachO.LoadCommand.TYPE.ID_DYLIB
    ]
    if [x.name.startswith(_HERE) for x in named] != [True]:
        found.append(f"its name does not begin with {_HERE}: {[x.name for x in named]}")
    if rpath not in [path.path for path in binary.rpaths]:
        found.append(f"it does not search {rpath}")
    for name in needed(binary):
        here = name.startswith(_HERE) and (folder / name[len(_HERE) :]).exists()
        if not here and not name.startswith("/usr/lib/"):
            found.append(f"it needs {name}")
    version = binary.build_version
    least = [] if version is None else version.minos
    if [*least][:2] != [int(part) for part in oldest.split(".")]:
        found.append(f"its oldest macOS is {least}, not {oldest}")
    return found


def needed(binary: lief.MachO.Binary) -> list[str]:
    """Return the names of the libraries that a library needs."""
    own = lief.MachO.LoadCommand.TYPE.ID_DYLIB
    return [x.name for x in binary.libraries if x.command != own]


def main(oldest: str, library: str, rpath: str, folder: str, *headers: str) -> None:
    """Check a library."""
    fat = lief.MachO.parse(library)
    if fat is None:
        sys.exit(f"{library} is no library of macOS")
    (binary,) = fat
    found = problems(binary, oldest, rpath, Path(folder))
    if headers:
        exported = {symbol.name.removeprefix("_") for symbol in binary.exported_symbols}
        ours = {name for name in exported if name.startswith(("lh_", "newrllama_"))}
        found += pe.problems(ours, [*headers])
    if found:
        sys.exit(f"{library}: " + "; ".join(found))
    print(f"{Path(library).name} needs {', '.join(sorted(needed(binary)))}")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
