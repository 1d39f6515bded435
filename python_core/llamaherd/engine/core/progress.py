"""Progress of jobs: base class of reports, and the progress bar."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager, suppress
from time import monotonic
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentTypeError
from llamaherd.engine.core.words import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# tqdm's own rate switches to seconds per prompt for long prompts.
_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
BYTES = "B"  # unit that is scaled to kB, MB, GB
# Limits on the interval between two frames that stay, and its share of the elapsed time.
_SHORTEST_S, _LONGEST_S, _SHARE = 0.1, 60.0, 0.02


def say(text: str, stream: TextIO | None = None) -> None:
    """Print lines to a stream, stderr by default, if there is one and it can be written.

    A stream may be closed, or an object of the user's that raises any exception.
    """
    stream = sys.stderr if stream is None else stream
    if stream is None:  # Python has no stream where a program was started without it
        return
    try:
        encoding = getattr(stream, "encoding", None) or "utf-8"
        printable = text.encode(encoding, "backslashreplace").decode(encoding)
        print(printable, file=stream, flush=True)
    except Exception as error:
        if _is_of_handler(error):
            raise


def _is_of_handler(error: Exception) -> bool:
    """Return whether a handler of a signal raised an error, such as a time limit."""
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = [code for handler in handlers if (code := getattr(handler, "__code__", None))]
    return any(frame.f_code in codes for frame, _ in walk_tb(error.__traceback__))


class JobProgress:
    """Base of progress reports; a total of 0 is unknown, the unit "B" is bytes."""

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


class Pace:
    """Intervals between frames that all stay, as in a file or an executed notebook.

    The interval grows with the time: an hour has 400 frames in place of 36,000.
    """

    def __init__(self) -> None:
        self._next_s = 0.0

    def is_due(self, elapsed_s: float) -> bool:
        """Return whether to draw a frame now; if so, count it as drawn."""
        if elapsed_s < self._next_s:
            return False
        interval_s = max(_SHORTEST_S, min(_LONGEST_S, _SHARE * elapsed_s))
        self._next_s = elapsed_s + interval_s
        return True


class ProgressBar:
    """A tqdm bar on stderr, drawn at the first report; at a `Pace` without a terminal."""

    def __init__(self, *, leave: bool = True) -> None:
        self._leave = leave
        self._bar: Any = None  # tqdm has no types
        self._last: JobProgress | None = None  # latest report, drawn or not
        self._is_off = sys.stderr is None  # in a program without streams
        self._pace: Pace | None = None  # None on a terminal, where frames are replaced
        if not self._is_off:
            with suppress(Exception):
                self._pace = None if sys.stderr.isatty() else Pace()
        self._started_s = monotonic()

    def show(self, progress: JobProgress) -> None:
        """Redraw the bar, from the start if the count decreases, as it can in downloads.

        If it cannot be drawn, as on a closed terminal, the work goes on without it.
        """
        if self._is_off:
            return
        if self._last is not None and self._last.n_done > progress.n_done:
            self.close()
        self._last = progress
        pace = self._pace
        if pace is not None and not pace.is_due(monotonic() - self._started_s):
            return
        try:
            self._draw(progress)
        except Exception as error:  # of any stream, and of tqdm's warnings
            if _is_of_handler(error):
                raise
            self._is_off = True

    def close(self) -> None:
        """Draw the latest report and end the bar; a second call does nothing."""
        (bar, self._bar), (last, self._last) = (self._bar, None), (self._last, None)
        self._pace = None if self._pace is None else Pace()
        self._started_s = monotonic()
        if bar is not None:
            try:
                if last is not None:
                    _update_bar(bar, last)
                bar.close()
            except Exception as error:
                if _is_of_handler(error):
                    raise

    def _draw(self, progress: JobProgress) -> None:
        from tqdm import tqdm  # slow, and few calls show a bar

        if self._bar is None:
            # Older versions of tqdm print a traceback if they cannot write a frame.
            sys.stderr.flush()
            is_bytes = progress.unit == BYTES
            self._bar = tqdm(
                total=progress.n_total or None,
                unit=BYTES if is_bytes else f" {progress.unit}",
                unit_scale=is_bytes,
                bar_format=_FORMAT,
                leave=self._leave,
            )
        _update_bar(self._bar, progress)


def _update_bar(bar: Any, progress: JobProgress) -> None:  # tqdm has no types
    bar.total = progress.n_total or None
    bar.set_postfix_str(progress.line, refresh=False)
    bar.update(progress.n_done - bar.n)


def check_option(option: object) -> None:
    """Check the argument `progress` of a public function."""
    if not isinstance(option, bool) and not callable(option):
        raise ArgumentTypeError(
            f"must be {words().truth}, or a function, not {checks.brief(option)}",
            argument="progress",
        )


@contextmanager
def reporter(
    option: bool | Callable[[Any], object],
) -> Iterator[Callable[[Any], object]]:
    """Yield the function to call with each report; True draws a bar."""
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
