"""Lets NumPy run under Wine 8, which lacks complex functions of Windows' C library.

    math_def.py FOLDER

Renames the library of mathematics that the extension modules in FOLDER import, and prints
a definition file (.def) of a library of the new name: complex functions are those of
complex.c, all others those of ucrtbase.dll.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import lief

_OLD = "api-ms-win-crt-math-l1-1-0.dll"
_NEW = "llamaherd-mathematics-wine.dll"
_COMPLEX = re.compile(r"c(abs|arg|imag|real|cosh?|exp|sinh?|tanh?|pow)[fl]?")


def is_complex(name: str) -> bool:
    """Whether complex.c has the function."""
    return _COMPLEX.fullmatch(name) is not None and name not in {"cos", "cosf", "cosh"}


def main(folder: str) -> None:
    """Rename the library in the modules, and print the definition file."""
    names: set[str] = set()
    for file in sorted(Path(folder).rglob("*.pyd")):
        module = lief.PE.parse(file)
        libraries = module.imports if module else ()
        names |= {
            str(x.name)
            for library in libraries
            if library.name == _OLD
            for x in library.entries
        }
        file.write_bytes(file.read_bytes().replace(_OLD.encode(), _NEW.encode()))
    print(f"LIBRARY {_NEW}\nEXPORTS")
    for name in sorted(names):
        print(f"  {name} = {'wine_' if is_complex(name) else 'ucrtbase.'}{name}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
