"""Progress of jobs: base class of reports, and the progress bar."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentTypeError
from llamaherd.core.words import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# tqdm's own rate switches to seconds per prompt for long prompts.
_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
BYTES = "B"  # unit that is scaled to kB, MB, GB


def say(text: str, stream: TextIO | None = None) -> None:
    """Print lines to a stream, stderr by default, if it can be written.

    A program may have no streams, lose its terminal, or replace a stream by an object
    that raises any exception. Its work must not end with them.
    """
    stream = sys.stderr if stream is None else stream
    if stream is None:  # Python has no stream where a program was started without it
        return
    with suppress(Exception):
        encoding = getattr(stream, "encoding", None) or "utf-8"
        shown = text.encode(encoding, "backslashreplace").decode(encoding)
        print(shown, file=stream, flush=True)


class JobProgress:
    """Base class of the progress reports of jobs.

    Attributes:
        unit: Plural noun of the counted units, or "B" for bytes.
        n_done: Number of finished units.
        n_total: Total number of units; 0 if unknown.
    """

    __slots__ = ()
    unit: ClassVar[str]
    n_done: int
    n_total: int

    @property
    def line(self) -> str:
        """Return a short text to show next to the bar, such as the speed or the step."""
        return ""

    @property
    def messages(self) -> tuple[str, ...]:
        """Return all messages for the user so far, oldest first."""
        return ()


class ProgressBar:
    """A tqdm bar on stderr, drawn at the first report.

    Args:
        leave: Keep the finished bar on the screen.
    """

    def __init__(self, *, leave: bool = True) -> None:
        self._leave = leave
        self._bar: Any = None  # tqdm has no types
        self._is_off = sys.stderr is None  # in a program without streams

    def show(self, progress: JobProgress) -> None:
        """Redraw the bar.

        The bar restarts if the count decreases, as it can in downloads. If it cannot be
        drawn, for example because its terminal was closed, it is not drawn any more: the
        work must not end with its bar.
        """
        if self._is_off:
            return
        try:
            self._draw(progress)
        except Exception:  # noqa: BLE001 - of any stream, and of tqdm's warnings
            self._is_off = True

    def close(self) -> None:
        """End the bar; a second call does nothing."""
        bar, self._bar = self._bar, None
        if bar is not None:
            with suppress(Exception):
                bar.close()

    def _draw(self, progress: JobProgress) -> None:
        from tqdm import tqdm  # noqa: PLC0415 - slow, and few calls show a bar

        if self._bar is not None and self._bar.n > progress.n_done:
            self.close()
        if self._bar is None:
            is_bytes = progress.unit == BYTES
            self._bar = tqdm(
                total=progress.n_total or None,
                unit=BYTES if is_bytes else f" {progress.unit}",
                unit_scale=is_bytes,
                bar_format=_FORMAT,
                leave=self._leave,
            )
        self._bar.total = progress.n_total or None
        self._bar.set_postfix_str(progress.line, refresh=False)
        self._bar.update(progress.n_done - self._bar.n)


def check_option(option: object) -> None:
    """Check the argument `progress` of a public function.

    Raises:
        TypeError: `option` is neither a bool nor callable.
    """
    if not isinstance(option, bool) and not callable(option):
        raise ArgumentTypeError(
            f"must be {words().flag}, or a function, not {checks.shown(option)}",
            argument="progress",
        )


@contextmanager
def reporter(
    option: bool | Callable[[Any], object],
) -> Iterator[Callable[[Any], object]]:
    """Yield the function to call with each report, on the caller's thread.

    Args:
        option: True to show a bar, or a function that is called.

    Raises:
        TypeError: `option` is neither a bool nor callable.
    """
    check_option(option)
    if callable(option):
        yield option
    elif option:
        bar = ProgressBar()
        try:
            yield bar.show
        finally:
            bar.close()
    else:
        yield lambda _: None


def short(rate: float) -> str:
    """Format a rate with at least two significant digits."""
    if rate >= 9.95:
        return f"{rate:.0f}"
    return f"{rate:.1f}" if rate >= 0.095 else f"{rate:.2g}"
