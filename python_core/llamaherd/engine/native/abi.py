"""Location, loading and version checks of libllama."""

from __future__ import annotations

import base64
import ctypes
import os
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.engine.core import phrases
from llamaherd.engine.core.errors import AbiMismatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SKIP_VARIABLE = "LLAMAHERD_SKIP_ABI_CHECK"
_CURE = (
    f"Reinstall both: "
    f"{phrases.install_command(options='--force-reinstall --no-cache-dir')} "
    f"(or set {_SKIP_VARIABLE}=1 to go on at your own risk)"
)


def libllama_folder() -> Path:
    """Return the folder from which `import llama_cpp` loads libllama."""
    override = os.environ.get("LLAMA_CPP_LIB_PATH")
    if override is not None:
        return Path(override)
    spec = find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        raise AbiMismatchError(
            f"llamaherd needs llama-cpp-python, which is not installed. {_CURE}"
        )
    return Path(spec.origin).parent / "lib"


def libllama_path(folder: Path) -> Path:
    """Return the path of libllama, which may not exist. The second name is MinGW's."""
    names = {"win32": ("llama.dll", "libllama.dll"), "darwin": ("libllama.dylib",)}
    paths = [folder / name for name in names.get(sys.platform, ("libllama.so",))]
    return next((path for path in paths if path.exists()), paths[0])


def preload(folder: Path) -> None:
    """Load the libllama that the shim and `llama_cpp` share.

    Otherwise the linker may find a second copy, which cannot share models and contexts.
    """
    if sys.platform == "win32":
        os.add_dll_directory(str(folder))
        os.add_dll_directory(str(Path(__file__).parents[2]))  # libllamaherd
    path = libllama_path(folder)
    # Some builds use another name. Then the shim's own search path is used.
    if path.exists():
        ctypes.CDLL(str(path))


def compiled_for(folder: Path) -> frozenset[str]:
    """Return libllama's processor features (llama_print_system_info), such as "AVX2"."""
    try:
        library = ctypes.CDLL(str(libllama_path(folder)))
        print_info = library.llama_print_system_info
    except (OSError, AttributeError):  # the build uses another file name
        return frozenset()
    print_info.restype = ctypes.c_char_p
    return frozenset(re.findall(r"(\w+) = 1\b", print_info().decode(errors="replace")))


def check_installation(version: str, header_sha256: Mapping[str, str]) -> None:
    """Compare the installed llama-cpp-python with the version used in the build."""
    if checks_disabled():
        return
    try:
        installed = distribution("llama-cpp-python")
    except PackageNotFoundError as error:
        raise AbiMismatchError("llama-cpp-python is not installed") from error
    # A label, as in 1.2.3+portable, denotes another build of the same sources.
    if installed.version.partition("+")[0] != version:
        raise AbiMismatchError(
            f"llamaherd was compiled for llama-cpp-python {version}, but "
            f"{installed.version} is installed. {_CURE}"
        )
    for name, installed_sha256 in _recorded_sha256(installed, header_sha256).items():
        if installed_sha256 != header_sha256[name]:
            raise AbiMismatchError(
                f"llamaherd was compiled with another {name} (SHA-256 "
                f"{header_sha256[name]}) than the installed one ({installed_sha256}). "
                f"{_CURE}"
            )


def check_shim(loaded: int, compiled: int) -> None:
    """Compare the C library of the package with the extension module that calls it."""
    if loaded != compiled and not checks_disabled():
        raise AbiMismatchError(
            f"the loaded libllamaherd has version {loaded} of its C interface, but "
            f"llamaherd was compiled for version {compiled}: they come from different "
            f"builds. {_CURE}"
        )


def check_library(loaded_commit: str, built_commit: str, default_n_batch: int) -> None:
    """Compare the loaded library with the headers; 2048 shows the struct's layout."""
    if checks_disabled():
        return
    if not loaded_commit.startswith(built_commit):
        raise AbiMismatchError(
            f"llamaherd was compiled for llama.cpp {built_commit}, but the loaded "
            f"libllama was built from {loaded_commit}. {_CURE}"
        )
    if default_n_batch != 2048:
        raise AbiMismatchError(
            f"libllama's default n_batch reads as {default_n_batch}, not 2048: its "
            f"structs differ from the headers. {_CURE}"
        )


def checks_disabled() -> bool:
    """Whether the user disabled the checks."""
    return os.environ.get(_SKIP_VARIABLE) == "1"


def _recorded_sha256(
    installed: Distribution, expected: Mapping[str, str]
) -> dict[str, str]:
    """Return the SHA-256 of files in hexadecimal, as recorded by pip."""
    return {
        file.as_posix(): base64.urlsafe_b64decode(file.hash.value + "==").hex()
        for file in installed.files or ()
        if file.hash is not None and file.as_posix() in expected
    }
