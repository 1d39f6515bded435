"""Two sizes of the test suite: `make test`, and the additions of `make test-long`.

`pytest` omits tests marked `long`, all but N cases of tests marked `more(cases=N)`, and
property tests try only a part of their examples. `pytest --long` runs the tests marked
`long`, and runs property tests and tests marked `more` with all their examples.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, TypeVar

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

VARIABLE = "LLAMAHERD_TEST_LONG"  # Programs that tests start also read this variable.
QUICK_SHARE = 5  # In `make test`, a property test tries one of this number of examples.

_T = TypeVar("_T")


def is_long() -> bool:
    """True in `make test-long`."""
    return os.environ.get(VARIABLE) == "1"


def sized(quick: _T, long: _T) -> _T:
    """Return the size of a test marked `more`: `quick`, or `long` with `--long`."""
    return long if is_long() else quick


def examples(n: int, **options: object) -> settings:
    """Return settings of a property test that tries `n` examples in `make test-long`."""
    n = sized(max(10, n // QUICK_SHARE), n)
    return settings(max_examples=n, deadline=None, **options)  # type: ignore[arg-type]


def register_profiles() -> None:
    """Use the settings of `examples(100)` for property tests without own settings."""
    settings.register_profile("sized", examples(100))
    settings.load_profile("sized")


def divided(
    items: Sequence[pytest.Item], named: Sequence[str], shard: str = "1/1"
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests of this size and shard, and the omitted tests.

    No test is omitted if one is named. A shard "I/N" is the I-th of N parts of the
    files; a file belongs to a part by its name, so that no part depends on other files.
    """
    if any("::" in argument for argument in named):
        return list(items), []
    part, n_parts = map(int, shard.split("/"))
    omitted = set() if is_long() else _cases_of_long_runs(items)
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        path = item.nodeid.partition("::")[0]
        in_shard = shard_of(path, n_parts) == part
        is_run = in_shard and _belongs(item) and item.nodeid not in omitted
        (kept if is_run else left_out).append(item)
    return kept, left_out


def _cases_of_long_runs(items: Sequence[pytest.Item]) -> set[str]:
    """Return the cases that `make test` omits of tests marked `more(cases=N)`.

    N cases at equal distances remain.
    """
    cases: dict[str, list[str]] = {}
    n_cases: dict[str, int] = {}
    for item in items:
        for mark in item.iter_markers("more"):
            if "cases" in mark.kwargs:
                function = item.nodeid.partition("[")[0]
                cases.setdefault(function, []).append(item.nodeid)
                n_cases[function] = mark.kwargs["cases"]
    omitted: set[str] = set()
    for function, names in cases.items():
        n = min(n_cases[function], len(names))
        omitted |= set(names) - {names[i * len(names) // n] for i in range(n)}
    return omitted


def shard_of(path: str, n_parts: int) -> int:
    """Return the number, from 1, of the part to which a file belongs."""
    return zlib.crc32(path.encode()) % n_parts + 1


def _belongs(item: pytest.Item) -> bool:
    marks = {mark.name for mark in item.iter_markers()}
    if is_long():
        return bool(marks & {"long", "more", "hypothesis"})
    return "long" not in marks
