"""A word on the threads that ggml computes with."""

from __future__ import annotations

import platform
import sys
import warnings

from llamaherd import _build_info, _native

_warned: set[str] = set()


def warn_of_foreign(n_threads: int) -> None:
    """Warns once if ggml computes with threads that others may slow down many times."""
    if (
        n_threads == 1
        or _warned
        or sys.platform != "linux"
        or platform.machine() not in ("x86_64", "aarch64")
        or _native.own_threads()
    ):
        return
    _warned.add("foreign threads")
    version = _build_info.LLAMA_CPP_PYTHON_VERSION
    warnings.warn(
        "llama-cpp-python was compiled without GCC's OpenMP: where other programs are "
        "busy, it may take many times as long. Compile it anew: CC=gcc CXX=g++ "
        "CMAKE_ARGS='-DGGML_OPENMP=ON' pip install --force-reinstall --no-cache-dir "
        f"--no-deps llama-cpp-python=={version}",
        stacklevel=3,
    )
