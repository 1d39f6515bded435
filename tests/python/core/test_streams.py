"""A stream that cannot be written ends neither a call nor its progress bar."""

from __future__ import annotations

import errno
import io
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NoReturn

import pytest
from llamaherd.engine.core import progress
from llamaherd.engine.core.progress import JobProgress, Pace, ProgressBar, reporter, say

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Counts(JobProgress):
    n_done: int
    n_total: int

    unit: ClassVar[str] = "prompts"


class Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, text: str) -> NoReturn:
        del text
        raise OSError(errno.EIO, "Input/output error")

    def flush(self) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize(
    "make", [Gone, closed, lambda: None], ids=["gone", "closed", "no"]
)
def test_nothing_is_drawn_on_a_stream_that_cannot_be_written(
    make: Callable[[], io.StringIO | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", make())
    say("a")
    say("a", make())
    with reporter(option=True) as report:
        for n_done in range(3):
            report(Counts(n_done=n_done, n_total=2))
    bar = ProgressBar()
    bar.show(Counts(n_done=1, n_total=2))
    bar.close()
    bar.close()


def test_what_a_stream_cannot_encode_is_escaped() -> None:
    """A link that is not printed would keep its reader waiting."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    say("link for \u0141ukasz: http://x", stream)
    stream.seek(0)
    assert stream.read().rstrip("\r\n") == "link for \\u0141ukasz: http://x"


def test_a_bar_continues_without_a_terminal_that_was_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    bar = ProgressBar()
    bar.show(Counts(n_done=1, n_total=9))
    assert "/9" in stream.getvalue()
    stream.close()
    for n_done in range(2, 9):
        bar.show(Counts(n_done=n_done, n_total=9))
    bar.close()


PROGRAM = """
import os, sys
import llamaherd as lh
os.chdir(sys.argv[2])
with lh.Model(sys.argv[1]) as model, lh.Context(model, n_threads=1) as context:
    results = lh.generate_parallel(context, ["a", "b"], max_tokens=3, progress=True)
    book = lh.Codebook("Which?", ["a", "b"])
    table = {"text": ["a", "b"]}
    coded = lh.annotate(table, "text", book, context, journal=True, progress=True)
    with open("done", "w") as file:
        file.write(f"{len(results)} {len(coded.labels)}")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX closes the streams")
def test_a_program_without_streams_gets_its_results(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tiny_path("llama")), str(tmp_path)]
    subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command], check=False, timeout=600
    )
    assert (tmp_path / "done").read_text(encoding="utf-8") == "2 2"


def test_frames_that_stay_become_rare() -> None:
    def n_frames(hours: float) -> int:
        pace = Pace()
        return sum(pace.is_due(tenth / 10) for tenth in range(int(36_000 * hours)))

    assert 25 <= n_frames(5 / 3600) <= 50  # at first about as on a terminal
    assert n_frames(1) < 400
    assert 600 < n_frames(8) < 900  # at least one a minute


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_ends_with_the_last_report(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    with reporter(option=True) as report:
        for n_done in range(2000):
            report(Counts(n_done=n_done, n_total=2000))
        for n_done in range(501):  # a second bar, as in downloads
            report(Counts(n_done=n_done, n_total=1000))
    first, second, end = stream.getvalue().split("\n")
    assert "1999/2000" in first.rpartition("\r")[2]
    assert "500/1000" in second.rpartition("\r")[2]
    assert not end


def test_a_file_gets_no_frame_while_the_pace_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "monotonic", lambda: 0.0)
    bar = ProgressBar()
    for n_done in range(100):
        bar.show(Counts(n_done=n_done, n_total=100))
    assert stream.getvalue().count("\r") == 1
    bar.close()
    assert "99/100" in stream.getvalue()
