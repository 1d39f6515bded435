"""No test is lost between `make test` and `make test-long`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
import thorough

MARKS = ("long", "more", "hypothesis", "slow")


@dataclass(frozen=True)
class Item:
    names: tuple[str, ...]

    def iter_markers(self, kind: str | None = None) -> list[pytest.Mark]:
        names = [name for name in self.names if kind in (None, name)]
        return [getattr(pytest.mark, name).mark for name in names]

    @property
    def nodeid(self) -> str:
        return f"a.py::{'_'.join(self.names)}"


ITEMS: list[Any] = [
    Item(names)
    for n in range(len(MARKS) + 1)
    for names in itertools.combinations(MARKS, n)
]


def kept(monkeypatch: pytest.MonkeyPatch, size: str) -> set[Any]:
    monkeypatch.setenv(thorough.VARIABLE, size)
    kept, left_out = thorough.divided(ITEMS, ["tests"])
    assert len(kept) + len(left_out) == len(ITEMS)
    return set(kept)


def test_each_test_runs_in_one_size_or_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, long = kept(monkeypatch, "0"), kept(monkeypatch, "1")
    assert quick | long == set(ITEMS)
    assert quick == {item for item in ITEMS if "long" not in item.names}
    both = {"more", "hypothesis"}
    assert quick & long == {item for item in quick if both & set(item.names)}


@pytest.mark.parametrize("size", ["0", "1"])
def test_a_test_that_is_named_runs(monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    monkeypatch.setenv(thorough.VARIABLE, size)
    assert thorough.divided(ITEMS, ["tests/a.py::test_b"]) == (ITEMS, [])


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(thorough.VARIABLE, "0")
    assert (thorough.sized(1, 2), thorough.examples(300).max_examples) == (1, 60)
    assert thorough.examples(20).max_examples == 10
    monkeypatch.setenv(thorough.VARIABLE, "1")
    assert (thorough.sized(1, 2), thorough.examples(300).max_examples) == (2, 300)
