"""Makes `llamaherd.coding` importable from the sources if llamaherd is not installed.

Import this module before `llamaherd`. A simulation then needs numpy, narwhals and
formulaic (which installs scipy and pandas), but neither the compiled engine nor
llama-cpp-python: the package `llamaherd` is registered without running its
`__init__.py`, and the modules of the engine are replaced by placeholders, because
statistics import modules of codebooks, which import the engine.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).resolve().parent.parent / "python_core"
ENGINE = "llamaherd.engine.native.shim"
# Dependencies that no simulation calls.
UNUSED = (
    "cffi",
    "click",
    "filelock",
    "httpx",
    "huggingface_hub",
    "jinja2",
    "jsonschema",
    "llama_cpp",
    "llguidance",
    "platformdirs",
    "psutil",
    "tomli_w",
    "tqdm",
    "yaml",
)


class Placeholders(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules by name and fills them with placeholders.

    Args:
        names: Modules and packages that are replaced.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of a replaced module; None for other modules."""
        if not any(name == each or name.startswith(f"{each}.") for each in self._names):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, _: importlib.machinery.ModuleSpec) -> Any:  # noqa: ANN401 - a mock
        """Return the placeholder."""
        return MagicMock()

    def exec_module(self, _: object) -> None:
        """Do nothing: a placeholder has no code."""


def provide() -> None:
    """Register the sources unless llamaherd is imported or installed."""
    if "llamaherd" in sys.modules or _is_installed("llamaherd"):
        return
    spec = importlib.machinery.PathFinder.find_spec("llamaherd", [str(SOURCES)])
    if spec is None:
        raise ModuleNotFoundError(f"{SOURCES} has no package llamaherd")
    missing = [name for name in UNUSED if importlib.util.find_spec(name) is None]
    sys.meta_path.insert(0, Placeholders([ENGINE, *missing]))
    sys.modules["llamaherd"] = importlib.util.module_from_spec(spec)


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


provide()
