"""Helper of the CMake build: location of llama-cpp-python, generated files."""

from __future__ import annotations

import re
import sys
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path

HEADERS = tuple(
    f"include/{name}.h" for name in ("llama", "ggml", "ggml-alloc", "ggml-backend")
)


def locate() -> Path:
    """Return the folder of the installed wheel: `include/` and `llama_cpp/lib/`."""
    return Path(str(distribution("llama-cpp-python").locate_file(""))).resolve()


def version() -> str:
    """Version of llama-cpp-python, without the label of a build of the same sources."""
    return distribution("llama-cpp-python").version.partition("+")[0]


def cdef_of(header: str) -> str:
    """Return the declarations of a plain C header in the form of cffi's cdef."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    text = re.sub(r'^extern "C" \{$|^\}$(?=\s*#endif)', "", text, flags=re.MULTILINE)
    # cffi takes numbers, such as versions; other lines are for the preprocessor.
    text = re.sub(r"^\s*#(?!define \w+ \d+$).*$", "", text, flags=re.MULTILINE)
    return text.replace("LH_API ", "")


def build_info(commit: str) -> str:
    """Return a module that records the llama-cpp-python of the build.

    Args:
        commit: Commit of libllama; "" if it is unknown.
    """
    root = locate()
    hashes = {name: sha256((root / name).read_bytes()).hexdigest() for name in HEADERS}
    return (
        '"""Written by the build: what the shim was compiled against."""\n\n'
        f"LLAMA_CPP_PYTHON_VERSION = {version()!r}\n"
        f"LLAMA_BUILD_COMMIT = {commit!r}\n"
        f"HEADER_SHA256 = {hashes!r}\n"
    )


def main(argv: list[str]) -> None:
    """Run `locate`, `version`, `cdef HEADER OUTPUT` or `build-info OUTPUT COMMIT`."""
    if argv == ["locate"]:
        sys.stdout.write(f"{locate()}\n")
    elif argv == ["version"]:
        sys.stdout.write(f"{version()}\n")
    elif len(argv) == 3 and argv[0] == "cdef":
        Path(argv[2]).write_text(cdef_of(Path(argv[1]).read_text()))
    elif len(argv) == 3 and argv[0] == "build-info":
        Path(argv[1]).write_text(build_info(argv[2]))
    else:
        sys.exit(
            "usage: locate | version | cdef HEADER OUTPUT | build-info OUTPUT COMMIT"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
