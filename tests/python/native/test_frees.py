"""Functions of the C API that free objects have no effect in a forked child."""

import re
from pathlib import Path

import pytest

SHIM = Path(__file__).resolve().parents[3] / "capi_shim"
SOURCES = "\n".join(path.read_text() for path in sorted(SHIM.rglob("*.cpp")))
# Threads and locks of the parent do not exist in the child.
GUARDS = ("free_unless_forked", "is_refused_child", "guard(")
FREES = re.findall(
    r"API void (\w+_free)\(",
    (SHIM / "llamaherd.h").read_text() + (SHIM / "newrllama_capi.h").read_text(),
)


def test_there_are_functions_that_free() -> None:
    assert {"lh_model_free", "lh_engine_free", "lh_comparison_free"} <= set(FREES)


@pytest.mark.parametrize("name", FREES)
def test_a_forked_child_frees_nothing(name: str) -> None:
    body = re.search(rf"void {name}\([^)]*\) \{{(.*?)\}}\n", SOURCES, re.DOTALL)
    assert body is not None
    assert any(guard in body[1] for guard in GUARDS)
