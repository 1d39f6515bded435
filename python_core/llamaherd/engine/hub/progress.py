"""Settings and progress of downloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar, Self

from llamaherd.engine.core.errors import ModelLoadError
from llamaherd.engine.core.progress import (
    BYTES,
    JobProgress,
    ProgressBar,
    check_option,
    say,
)
from llamaherd.engine.core.words import words

if TYPE_CHECKING:
    from pathlib import Path

# True shows a progress bar; a function is called with the bytes received and the total.
ProgressOption = bool | Callable[[int, int | None], object]


class Cancelled(Exception):  # noqa: N818 - a request, not an error
    """Raised if the download was cancelled; the received part is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchProgress(JobProgress):
    """Progress of a download.

    Attributes:
        bytes_per_s: Speed since the download started; 0 before the first block.
    """

    n_done: int
    n_total: int
    bytes_per_s: float = 0.0
    messages: tuple[str, ...] = ()

    unit: ClassVar[str] = BYTES

    @property
    def line(self) -> str:
        """Text with the speed in MB/s."""
        return f"{self.bytes_per_s / 1e6:.1f} MB/s" if self.bytes_per_s else ""


class FetchMeter:
    """Progress and messages of a download; any thread may set `is_cancelled`."""

    def __init__(self, option: ProgressOption = False) -> None:
        check_option(option)
        self.is_cancelled = False
        self._option = option
        self._bar = ProgressBar(leave=False)
        self._messages: list[str] = []
        self._first: tuple[float, int] | None = None  # time, bytes at the first step
        self._last = FetchProgress(n_done=0, n_total=0)

    @property
    def progress(self) -> FetchProgress:
        """Progress of the download. May be read from any thread."""
        return replace(self._last, messages=tuple(self._messages))

    def say(self, text: str) -> None:
        """Record a message for the user."""
        self._messages.append(text)
        if self._option is True:
            say(text)

    def step(self, n_done: int, n_total: int | None) -> None:
        """Record the bytes received, and the total if known."""
        now = perf_counter()
        if self._first is None or n_done < self._first[1]:
            self._first = (now, n_done)
        began_s, n_before = self._first
        self._last = FetchProgress(
            n_done=n_done,
            n_total=n_total or 0,
            bytes_per_s=(n_done - n_before) / max(now - began_s, 0.001),
        )
        if callable(self._option):
            self._option(n_done, n_total)
        elif self._option:
            self._bar.show(self._last)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """Settings of a download; without `sha256`, the hub's hash is expected."""

    cache: Path
    token: str | None = field(default=None, repr=False)
    force: bool = False
    check_memory: bool = True
    download: bool = True
    sha256: str | None = None
    meter: FetchMeter = field(default_factory=FetchMeter)

    def check_may_download(self, source: str) -> None:
        """Check that a file that is not on this machine may be downloaded."""
        if not self.download:
            raise ModelLoadError(
                f"{source} is not on this machine; "
                f"{words().fetch}{source}{words().fetched}"
            )
