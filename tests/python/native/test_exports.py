"""The package's shared libraries export only their interface.

Any other symbol could replace a symbol of the same name in another library of the
process.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import llamaherd
import pytest

PACKAGE = Path(llamaherd.__file__).parent

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="reads ELF files with nm of the GNU binutils"
)


def _exported(library: Path) -> set[str]:
    run = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--format=posix", library],
        check=True,
        capture_output=True,
        text=True,
    )
    return {line.split()[0] for line in run.stdout.splitlines()}


def _declared(header: str) -> set[str]:
    text = (PACKAGE / "include" / header).read_text()
    code = re.sub(r"/\*.*?\*/|^ *#.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    return set(re.findall(r"_API\b[^;(]*?(\w+)\(", code))


@pytest.mark.parametrize(
    ("header", "prefix", "name"),
    [
        ("llamaherd.h", "lh_", "lh_engine_run"),
        ("newrllama_capi.h", "newrllama_", "newrllama_generate_parallel"),
    ],
)
def test_declarations_are_found(header: str, prefix: str, name: str) -> None:
    declared = _declared(header)
    assert name in declared
    assert len(declared) > 25
    assert {other for other in declared if not other.startswith(prefix)} == set()


def test_the_library_exports_what_its_headers_declare() -> None:
    declared = _declared("llamaherd.h") | _declared("newrllama_capi.h")
    assert sorted(_exported(PACKAGE / "libllamaherd.so")) == sorted(declared)


def test_the_extension_module_exports_its_beginning_alone() -> None:
    (module,) = (PACKAGE / "engine/native").glob("_shim*.so")
    assert _exported(module) == {"PyInit__shim"}
