"""Checks a library of Windows: its exported functions, and the libraries it needs.

    pe.py LIBRARY HEADER...

Fails unless the library exports exactly the functions that the headers declare. Prints
the libraries that the library needs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_FUNCTION = re.compile(
    r"^(?:LH|NEWRLLAMA)_API [^;]*?\b((?:lh|newrllama)_\w+)\(", re.MULTILINE
)
_OBJDUMP = "x86_64-w64-mingw32-objdump"
_NEEDED = re.compile(r"^\s*DLL Name: (\S+)$", re.MULTILINE)
_IMPORTED = re.compile(r"^\t[0-9a-f]+\s+\d+ +(\S+)$", re.MULTILINE)
_EXPORTED = re.compile(
    r"^\s*\[ *\d+\](?: \+base\[ *\d+\])? +(?:[0-9a-f]+ )?(\S+)$", re.MULTILINE
)


def declared(headers: list[str]) -> set[str]:
    """Return the names of the functions that headers declare."""
    texts = (Path(header).read_text(encoding="utf-8") for header in headers)
    return {name for text in texts for name in _FUNCTION.findall(text)}


def problems(exported: set[str], headers: list[str]) -> list[str]:
    """Compare exported functions with headers."""
    found = []
    wanted = declared(headers)
    if not wanted:
        found.append("the headers declare no functions")
    if missing := wanted - exported:
        found.append(f"it does not export {', '.join(sorted(missing))}")
    if more := exported - wanted:
        found.append(f"it exports {', '.join(sorted(more))}, which no header declares")
    return found


def headers_of(library: str) -> str:
    """Return the description of a library by objdump."""
    command = [_OBJDUMP, "--private-headers", library]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def exported(text: str) -> set[str]:
    """Return the names of the exported functions in a description by objdump."""
    _, _, names = text.partition("[Ordinal/Name Pointer] Table")
    return set(_EXPORTED.findall(names.partition("\n\n")[0]))


def imported(text: str, library: str) -> set[str]:
    """Return the names of the functions that are imported from a library."""
    for part in text.split("DLL Name: ")[1:]:
        name, _, functions = part.partition("\n")
        if name == library:
            return set(_IMPORTED.findall(functions.partition("\n\n")[0]))
    return set()


def main(library: str, headers: list[str]) -> None:
    """Check a library."""
    text = headers_of(library)
    found = problems(exported(text), headers)
    if found:
        sys.exit(f"{library}: " + "; ".join(found))
    print(f"{library} needs {', '.join(sorted(_NEEDED.findall(text)))}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
