"""Versions, bounds and files of the packages that an index takes."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    import pytest

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def program(path: str) -> ModuleType:
    """Import a program of the repository, which may import its neighbours."""
    file = ROOT / path
    sys.path.insert(0, str(file.parent))
    try:
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    return module


def test_bounds_that_cannot_be_installed_are_found() -> None:
    raised = program("scripts/resolve.py").raised
    bounds = ["numpy>=1.20", "PyYAML>=6", "a_b>=1.0,<2", "free", "uvloop>=1; extra"]
    versions = {
        "numpy": "1.23.2",
        "pyyaml": "6.0",
        "a-b": "1",
        "free": "3",
        "uvloop": "1",
    }
    assert raised(bounds, versions) == [
        "numpy>=1.20: the lowest that can be installed is 1.23.2"
    ]


def test_the_metadata_names_pythons_of_the_table() -> None:
    systems = program("scripts/systems.py")
    floor = PROJECT["requires-python"].removeprefix(">=")
    named = [
        text.rpartition(" ")[2]
        for text in PROJECT["classifiers"]
        if text.startswith("Programming Language :: Python :: 3.")
    ]
    assert named[0] == floor
    assert set(named) <= set(systems.VERSIONS)
    assert PROJECT["license"] == "MIT"
    for pattern in PROJECT["license-files"]:
        assert list(ROOT.glob(pattern))
    assert {"Documentation", "Repository", "Issues", "Changelog"} <= set(PROJECT["urls"])


def test_numbers_of_a_header_are_read_by_cffi() -> None:
    cdef_of = program("capi_shim/build_support.py").cdef_of
    header = [
        "#ifndef X",
        "#define LH_API",
        "#define LH_VERSION 1",
        "LH_API int f(void);",
    ]
    lines = cdef_of("\n".join([*header, "#endif"])).split("\n")
    assert lines == ["", "", "#define LH_VERSION 1", "int f(void);", ""]


def test_a_move_changes_the_pin_and_no_other_version() -> None:
    with_pin = program("scripts/versions.py").with_pin
    text = (
        'pins "llama-cpp-python==0.3.1", of llama-cpp-python 0.3.1; '
        "since llama.cpp 0.3.1; other==0.3.1"
    )
    assert with_pin(text, "0.4.22") == (
        'pins "llama-cpp-python==0.4.22", of llama-cpp-python 0.4.22; '
        "since llama.cpp 0.3.1; other==0.3.1"
    )


def test_the_pinned_version_is_in_three_files_at_most() -> None:
    versions = program("scripts/versions.py")
    pinned = versions.pins("pyproject.toml")
    assert len(versions.PINNED) <= 3
    assert {versions.pins(name) for name in versions.PINNED} == {pinned}


def test_of_a_change_log_the_newest_version_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = program("scripts/versions.py")
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 0.2.0\n\n## 0.1.0\n")
    pattern = versions.VERSIONS["CHANGELOG.md"]
    assert versions.project_version("CHANGELOG.md", pattern) == "0.2.0"
