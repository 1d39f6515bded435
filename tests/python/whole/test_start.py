"""The import loads next to nothing; each public name loads what it needs."""

from __future__ import annotations

import pydoc
import sys
from types import ModuleType

import llamaherd as lh
import pytest
from programs import ended

# Packages that take long to import, and rooms that import them.
HEAVY = [
    *("numpy", "narwhals", "pydantic", "jinja2", "asyncio", "llama_cpp", "llguidance"),
    *(
        "llamaherd.engine.native",
        "llamaherd.coding",
        "llamaherd.coding_page",
        "llamaherd.calls.api",
    ),
]
VERSION = "from llamaherd.cli import main\nassert main(['--version']) == 0"


def run(script: str) -> str:
    """Return what a script prints in a new process."""
    return ended(script).stdout


@pytest.mark.parametrize(
    "start", ["import llamaherd", VERSION], ids=["import", "command"]
)
def test_a_start_loads_nothing_that_takes_long(start: str) -> None:
    loaded = run(f"{start}\nimport sys\nprint(*[m for m in {HEAVY} if m in sys.modules])")
    assert loaded.split() in ([], ["llamaherd", lh.__version__])


def test_star_imports_every_public_name_but_no_optional_package() -> None:
    script = (
        "import sys\nfrom llamaherd import *\nimport llamaherd as lh\n"
        "assert all(globals()[name] is getattr(lh, name) for name in lh.__all__)\n"
        "print('ray' in sys.modules)"
    )
    assert run(script) == "False\n"


def test_a_public_module_may_be_the_first_name_that_is_used() -> None:
    modules = [name for name in lh.__all__ if isinstance(getattr(lh, name), ModuleType)]
    assert "structured" in modules
    for name in modules:
        run(f"import llamaherd as lh\nassert lh.{name}.__all__")


def test_classes_of_results_are_in_a_module_of_their_own() -> None:
    assert lh.types.Vote.__name__ == "Vote"
    with pytest.warns(DeprecationWarning, match=r"is now llamaherd\.types\.Vote"):
        assert getattr(lh, "Vote") is lh.types.Vote  # noqa: B009


def test_help_shows_functions_and_classes() -> None:
    page = pydoc.render_doc(lh, renderer=pydoc.plaintext)
    assert "Many prompts at once through one llama.cpp context" in page
    assert "generate_parallel(" in page
    assert "class Model(" in page


def test_a_name_that_does_not_exist_has_a_suggestion() -> None:
    script = (
        "import llamaherd as lh\ntry:\n    lh.Modle\nexcept AttributeError:\n    raise"
    )
    last = ended(script, status=1).stderr.splitlines()[-1]
    assert last.startswith("AttributeError: module 'llamaherd' has no attribute 'Modle'")
    if sys.version_info >= (3, 12):
        assert last.endswith("Did you mean: 'Model'?")


def test_another_llama_cpp_python_is_refused_before_it_is_loaded() -> None:
    script = """
import importlib.metadata as metadata
real = metadata.distribution
class Other:
    version = "0.0.1"
metadata.distribution = lambda name: Other() if name == "llama-cpp-python" else real(name)
import llamaherd as lh
try:
    lh.Model("model.gguf")
except lh.AbiMismatchError as error:
    print("libllama" in open("/proc/self/maps").read(), error)
"""
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    assert run(script).startswith("False llamaherd was compiled for llama-cpp-python ")
