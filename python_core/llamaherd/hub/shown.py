"""Telling a person how far a download is."""

from __future__ import annotations

import sys
from collections.abc import Callable

from llamaherd.core import checks

# True: a progress bar; a function is called with bytes that are there, and in all.
ProgressOption = bool | Callable[[int, int | None], object]


class Shown:
    """A progress bar and sentences on stderr, a caller's function, or nothing."""

    def __init__(self, option: ProgressOption) -> None:
        if not isinstance(option, bool) and not callable(option):
            raise TypeError(
                f"progress must be True, False or a function, not {checks.shown(option)}"
            )
        self._option = option
        self._bar: object = None

    def say(self, text: str) -> None:
        """Tells a sentence."""
        if self._option is True:
            print(text, file=sys.stderr)  # noqa: T201 - it was asked for

    def step(self, n_done: int, n_total: int | None) -> None:
        """Tells how many bytes are there, and how many in all if that is known."""
        if callable(self._option):
            self._option(n_done, n_total)
        elif self._option:
            self._show(n_done, n_total)

    def _show(self, n_done: int, n_total: int | None) -> None:
        from tqdm import tqdm  # noqa: PLC0415 - slow, and mostly not needed

        if self._bar is None or self._bar.n > n_done:  # type: ignore[attr-defined]
            self.__exit__()
            self._bar = tqdm(
                total=n_total, initial=n_done, unit="B", unit_scale=True, leave=False
            )
        self._bar.update(n_done - self._bar.n)  # type: ignore[attr-defined]

    def __enter__(self) -> Shown:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()  # type: ignore[attr-defined]
        self._bar = None
