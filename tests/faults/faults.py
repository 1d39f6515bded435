"""Injects the faults of faults.cpp, in a process that has preloaded it (LD_PRELOAD)."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FOREVER = 1 << 40


class Action(IntEnum):
    """Effect of a fault on a call: `Action` of faults.cpp."""

    RETURN = 1
    THROW = 2
    THROW_OTHER = 3
    THROW_MEMORY = 4
    AFTER = 5
    NAN = 6
    INFINITY = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The calls at which a fault occurs, and its effect.

    Attributes:
        function: Function of libllama; "llama_sampler_init" is any function that creates
            a sampler, "new" an allocation by the shim, "new in llama_decode" an
            allocation by libllama.
        value: Return value of the call.
        first: Number of calls before the fault.
        times: Number of consecutive calls with the fault.
        token: Count only calls of llama_decode and llama_get_logits_ith with this token.
    """

    function: str
    action: Action
    value: int = 0
    first: int = 0
    times: int = 1
    token: int = -1


def build(folder: Path, name: str = "faults") -> Path:
    """Compile the library `name`.cpp; return its path."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    out = folder / f"lib{name}.so"
    subprocess.run(
        [
            compiler,
            *("-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"),
            *("-Wall", "-Wextra", "-Wpedantic", "-Werror"),
            *("-I", ROOT / "capi_shim", "-isystem", _headers()),
            *(HERE / f"{name}.cpp", "-o", out, "-ldl"),
        ],
        check=True,
    )
    return out


def run(library: Path, program: Path, *arguments: object, timeout_s: float) -> str:
    """Run a Python program with the library preloaded; return its output."""
    done = subprocess.run(
        [sys.executable, program, *map(str, arguments)],
        env={**os.environ, "LD_PRELOAD": str(library), "LLAMAHERD_FAULTS": str(library)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{program} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Faults:
    """The library, in a process that was started by `run`."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ["LLAMAHERD_FAULTS"])
        integer = ctypes.c_int64
        self._library.fault_arm.argtypes = [
            *(ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32),
            *(integer, integer, ctypes.c_int32),
        ]
        self._library.fault_disarm.restype = integer
        self._hook_type = ctypes.CFUNCTYPE(None)
        self._library.fault_hook.argtypes = [self._hook_type, integer]
        self.n_struck = 0

    @contextmanager
    def armed(
        self,
        fault: Fault | None,
        *,
        hook: Callable[[], object] | None = None,
        hook_at: int = 0,
    ) -> Iterator[None]:
        """Inject the fault in this block; call the hook before a llama_decode."""
        native_hook = self._hook_type(lambda: hook and hook())
        if fault is not None:
            self._library.fault_arm(
                fault.function.encode(),
                fault.action,
                fault.value,
                fault.first,
                fault.times,
                fault.token,
            )
        if hook is not None:
            self._library.fault_hook(native_hook, hook_at)
        try:
            yield
        finally:
            self.n_struck = self._library.fault_disarm()


def _headers() -> Path:
    for file in distribution("llama-cpp-python").files or ():
        if file.name == "llama.h":
            return Path(str(file.locate())).parent
    raise AssertionError("llama-cpp-python has no llama.h")


def main() -> None:
    """`faults.py PROGRAM ARGUMENT...`: build the library and run a program with it."""
    with tempfile.TemporaryDirectory() as folder:
        program, *arguments = sys.argv[1:]
        run(build(Path(folder)), Path(program), *arguments, timeout_s=7200)


if __name__ == "__main__":
    main()
