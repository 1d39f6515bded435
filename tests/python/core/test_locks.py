from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from llamaherd.engine.core.files import LockHeldError, take_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPEN = Path("/proc/self/fd")
_HOLD = """
import sys
from pathlib import Path
from llamaherd.engine.core.files import take_lock
lock = take_lock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _HOLD, str(tmp_path / "a.lock")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    first = take_lock(path)
    assert first is not None
    with pytest.raises(LockHeldError) as held:
        take_lock(path)
    assert held.value.process in {str(os.getpid()), ""}
    first.release()
    assert not path.exists()
    again = take_lock(path)
    assert again is not None
    again.release()


def test_a_lock_ends_with_its_process(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    path = tmp_path / "a.lock"
    with pytest.raises(LockHeldError) as held:
        take_lock(path)
    assert held.value.process in {str(holder.pid), ""}
    holder.kill()
    holder.wait()
    assert path.exists()
    lock = take_lock(path)
    assert lock is not None
    if sys.platform != "win32":
        assert path.read_text(encoding="ascii") == str(os.getpid())
    lock.release()


def test_many_that_come_and_go_hold_it_one_at_a_time(tmp_path: Path) -> None:
    """The file is removed at each release, while others have it open."""
    path, inside, n_held = tmp_path / "a.lock", [], [0]

    def hold() -> None:
        while n_held[0] < 300:
            try:
                lock = take_lock(path)
            except LockHeldError:
                continue
            assert lock is not None
            inside.append(1)
            assert len(inside) == 1
            inside.pop()
            n_held[0] += 1
            lock.release()

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert n_held[0] >= 300


def test_a_lock_is_released_by_another_thread(tmp_path: Path) -> None:
    lock = take_lock(tmp_path / "a.lock")
    assert lock is not None
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join()
    again = take_lock(tmp_path / "a.lock")
    assert again is not None
    again.release()


def test_a_lock_does_not_write_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.lock").symlink_to(tmp_path / "mine.txt")
    assert take_lock(tmp_path / "a.lock") is None
    assert not (tmp_path / "mine.txt").exists()


def test_a_file_system_without_locks_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(_: int, __: int) -> None:
        raise OSError(95, "Operation not supported")

    fcntl = pytest.importorskip("fcntl", reason="locks of POSIX")
    monkeypatch.setattr(fcntl, "flock", no_locks)
    before = len(list(_OPEN.iterdir())) if sys.platform == "linux" else 0
    assert take_lock(tmp_path / "a.lock") is None
    if sys.platform == "linux":
        assert len(list(_OPEN.iterdir())) == before
