"""Tests that a change needs, and tests that the gate leaves to the long lanes."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import thorough

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def changed() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "changed", ROOT / "scripts" / "changed.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["changed"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("path", "kind", "test"),
    [
        (
            "python_core/llamaherd/engine/core/files.py",
            "python",
            "core/test_locks.py",
        ),
        # No test has its name, but one imports it.
        (
            "python_core/llamaherd/coding/annotation/head_step.py",
            "python",
            "coding/annotation/test_steps.py",
        ),
        ("tests/python/waiting.py", "python", "server/test_kept_objects.py"),
        ("tests/python/site/test_gate.py", "python", "site/test_gate.py"),
        ("capi_shim/kv/positions.hpp", "units", "*tests/capi/kv/*"),
        (
            "tests/capi/kv/test_kv_cache.cpp",
            "units",
            "*tests/capi/kv/test_kv_cache.cpp",
        ),
        ("r_package/R/gold.R", "r", "test-gold.R"),
        ("r_package/tests/testthat/test-gold.R", "r", "test-gold.R"),
        ("r_package/man/annotate.Rd", "r", "test-help.R"),
    ],
)
def test_a_changed_file_has_its_tests(
    changed: ModuleType, path: str, kind: str, test: str
) -> None:
    for is_nearest in (True, False):
        needs = changed.Needs()
        needs.add(path, is_nearest=is_nearest)
        tests = {name.removeprefix("tests/python/") for name in getattr(needs, kind)}
        assert test in tests or tests == {"*"}


class _Item:
    """Stand-in for a collected test."""

    def __init__(self, nodeid: str, *marks: pytest.MarkDecorator) -> None:
        self.nodeid = nodeid
        self.marks = [decorator.mark for decorator in marks]

    def iter_markers(self, name: str | None = None) -> list[pytest.Mark]:
        return [mark for mark in self.marks if name in (None, mark.name)]


def _run(items: list[_Item], shard: str = "1/1") -> list[str]:
    kept, left_out = thorough.divided(items, [], shard)  # type: ignore[arg-type]
    assert len(kept) + len(left_out) == len(items)
    return [item.nodeid for item in kept]


def test_the_gate_runs_some_cases_and_the_long_lane_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = pytest.mark.more(reason="many", cases=3)
    cases = [_Item(f"a.py::t[{i}]", some) for i in range(10)]
    items = [*cases, _Item("a.py::plain"), _Item("a.py::l", pytest.mark.long(reason=""))]
    monkeypatch.delenv(thorough.VARIABLE, raising=False)
    assert _run(items) == ["a.py::t[0]", "a.py::t[3]", "a.py::t[6]", "a.py::plain"]
    monkeypatch.setenv(thorough.VARIABLE, "1")
    assert _run(items) == [*(case.nodeid for case in cases), "a.py::l"]


def test_each_test_belongs_to_one_shard() -> None:
    items = [_Item(f"tests/test_{i}.py::t") for i in range(60)]
    shards = [_run(items, f"{part}/3") for part in (1, 2, 3)]
    everywhere = [nodeid for shard in shards for nodeid in shard]
    assert sorted(everywhere) == sorted(item.nodeid for item in items)
    assert all(shards)


def test_every_lane_consists_of_targets_of_make() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    lanes = dict(re.findall(r"^  \[([\w-]+)\]='([^']+)'$", script, re.MULTILINE))
    names = re.search(r"^names=\((.*)\)$", script, re.MULTILINE)[1].split()
    assert sorted(lanes) == sorted(names)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {
        name
        for line in re.findall(r"^([a-z][\w -]*):(?!=)", makefile, re.MULTILINE)
        for name in line.split()
    }
    assert {target for lane in lanes.values() for target in lane.split()} <= targets
