from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import windows_rules
from llamaherd.core import locks
from llamaherd.core.locks import LockHeldError, take_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPEN = Path("/proc/self/fd")
_HOLD = """
import sys
from pathlib import Path
from llamaherd.core.locks import take_lock
lock = take_lock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["posix", "windows"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "windows" and sys.platform != "win32":
        windows_rules.imitate(monkeypatch)
    elif request.param == "posix" and sys.platform == "win32":
        pytest.skip("POSIX locks")
    return str(request.param)


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


@pytest.mark.usefixtures("system")
def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    first = take_lock(path)
    assert first is not None
    with pytest.raises(LockHeldError) as held:
        take_lock(path)
    assert held.value.process == str(os.getpid())
    first.release()
    assert not path.exists()
    again = take_lock(path)
    assert again is not None
    again.release()


@pytest.mark.usefixtures("system")
def test_a_lock_ends_with_its_process(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    path = tmp_path / "a.lock"
    with pytest.raises(LockHeldError) as held:
        take_lock(path)
    assert held.value.process == str(holder.pid)
    holder.kill()
    holder.wait()
    assert path.exists()
    lock = take_lock(path)
    assert lock is not None
    assert path.read_text(encoding="ascii") == str(os.getpid())
    lock.release()


def test_the_file_of_a_lock_that_another_process_opened_stays_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.lock"
    if sys.platform != "win32":
        windows_rules.imitate(monkeypatch)
    lock = take_lock(path)
    assert lock is not None
    with path.open("rb"):  # another process, about to try
        lock.release()
        assert path.exists()
    lock = take_lock(path)
    assert lock is not None
    lock.release()
    assert not path.exists()


@pytest.mark.usefixtures("system")
def test_a_lock_does_not_write_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.lock").symlink_to(tmp_path / "mine.txt")
    assert take_lock(tmp_path / "a.lock") is None
    assert not (tmp_path / "mine.txt").exists()


def test_a_file_system_without_locks_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(_: int) -> bool:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(locks, "_locked", no_locks)
    before = len(list(_OPEN.iterdir())) if sys.platform == "linux" else 0
    assert take_lock(tmp_path / "a.lock") is None
    if sys.platform == "linux":
        assert len(list(_OPEN.iterdir())) == before
