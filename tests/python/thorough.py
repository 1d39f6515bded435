"""Two sizes of the test suite: what `make test` runs, and what `make test-long` adds.

`pytest` leaves out tests marked `long`, and property tests try a part of their examples.
`pytest --long` runs the tests marked `long`, and those of both sizes with all that they
try: property tests, and tests marked `more`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

VARIABLE = "LLAMAHERD_TEST_LONG"  # Also read by programs that tests start.
QUICK_SHARE = 5  # A property test tries one of so many examples in `make test`.

_T = TypeVar("_T")


def is_long() -> bool:
    """True in `make test-long`."""
    return os.environ.get(VARIABLE) == "1"


def sized(quick: _T, long: _T) -> _T:
    """The size of a test marked `more`: `quick` in `make test`, `long` in the other."""
    return long if is_long() else quick


def examples(n: int, **options: object) -> settings:
    """Settings of a property test that tries `n` examples in `make test-long`."""
    n = sized(max(10, n // QUICK_SHARE), n)
    return settings(max_examples=n, deadline=None, **options)  # type: ignore[arg-type]


def register_profiles() -> None:
    """Lets property tests without settings of their own have those of `examples(100)`."""
    settings.register_profile("sized", examples(100))
    settings.load_profile("sized")


def divided(
    items: Sequence[pytest.Item], named: Sequence[str]
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests of this size, and the others. None is left out where one is named."""
    if any("::" in argument for argument in named):
        return list(items), []
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (kept if _belongs(item) else left_out).append(item)
    return kept, left_out


def _belongs(item: pytest.Item) -> bool:
    marks = {mark.name for mark in item.iter_markers()}
    if is_long():
        return bool(marks & {"long", "more", "hypothesis"})
    return "long" not in marks
