"""Checks a library of Windows or macOS: functions, needed libraries, paths.

    exports.py LIBRARY [--headers HEADER...]
        [--rpath RPATH --folder FOLDER --oldest VERSION]

With headers, fails unless the library exports exactly the functions that they declare. On
macOS, fails unless programs find the library by @rpath, the library searches RPATH, needs
only libraries of /usr/lib and libraries of FOLDER by @rpath, and VERSION is the oldest
macOS that it runs on. Prints the libraries that the library needs.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import lief

_FUNCTION = re.compile(
    r"^(?:LH|NEWRLLAMA)_API [^;]*?\b((?:lh|newrllama)_\w+)\(", re.MULTILINE
)
_HERE = "@rpath/"


def of_headers(binary: Any, headers: list[Path]) -> list[str]:
    """Compare the exported functions with those that headers declare."""
    declared = {
        name for path in headers for name in _FUNCTION.findall(path.read_text("utf-8"))
    }
    exported = {entry.name.removeprefix("_") for entry in binary.exported_functions}
    if not isinstance(binary, lief.PE.Binary):  # others export symbols of C++, too
        exported = {name for name in exported if name.startswith(("lh_", "newrllama_"))}
    problems = [] if declared else ["the headers declare no functions"]
    if missing := declared - exported:
        problems.append(f"it does not export {', '.join(sorted(missing))}")
    if more := exported - declared:
        problems.append(f"it exports {', '.join(sorted(more))}, which no header declares")
    return problems


def of_macos(binary: Any, options: argparse.Namespace) -> list[str]:
    """Return the problems of names, search paths and version."""
    problems = []
    names = [x.name for x in binary.libraries if _is_name(x)]
    if [name.startswith(_HERE) for name in names] != [True]:
        problems.append(f"its name does not begin with {_HERE}: {names}")
    if options.rpath not in [path.path for path in binary.rpaths]:
        problems.append(f"it does not search {options.rpath}")
    for name in needed(binary):
        here = name.startswith(_HERE) and (options.folder / name[len(_HERE) :]).exists()
        if not here and not name.startswith("/usr/lib/"):
            problems.append(f"it needs {name}")
    version = binary.build_version
    least = [] if version is None else version.minos
    if [*least][:2] != [int(part) for part in options.oldest.split(".")]:
        problems.append(f"its oldest macOS is {least}, not {options.oldest}")
    return problems


def _is_name(library: Any) -> bool:
    return bool(library.command == lief.MachO.LoadCommand.TYPE.ID_DYLIB)


def needed(binary: Any) -> list[str]:
    """Return the names of the libraries that a library needs."""
    if isinstance(binary, lief.MachO.Binary):
        return sorted(x.name for x in binary.libraries if not _is_name(x))
    return sorted(entry.name for entry in binary.imports)


def main() -> None:
    """Check a library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--headers", type=Path, nargs="+", default=[])
    parser.add_argument("--rpath")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--oldest")
    options = parser.parse_args()
    binary: Any = lief.parse(options.library)
    if binary is None:
        sys.exit(f"{options.library} is no library")
    problems = of_macos(binary, options) if options.rpath else []
    problems += of_headers(binary, options.headers) if options.headers else []
    if problems:
        sys.exit(f"{options.library}: " + "; ".join(problems))
    print(f"{options.library.name} needs {', '.join(needed(binary))}")


if __name__ == "__main__":
    main()
