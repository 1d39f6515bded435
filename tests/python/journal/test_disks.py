"""Journals on network drives and on full disks."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path, PureWindowsPath
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import psutil
import pytest
import windows_rules
from fake_engine import FakeEngine
from journalled import FakeContext, entries, recorded, request
from llamaherd import JournalWarning
from llamaherd.calls.journal import file, sqlite
from llamaherd.calls.journal.file import network_type
from llamaherd.calls.journal.journal import Journal, journal_read
from llamaherd.calls.run.hosted import HostedCall
from llamaherd.calls.run.job import Job
from llamaherd.engine.core.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from llamaherd.calls.journal.entry import JournalEntry
    from llamaherd.engine.core.outcome import RunOutcome


# Mount points, types and options, in the order of mounting.
MOUNTS = [
    ("/", "ext4", "rw"),
    ("/home", "autofs", "rw"),
    ("/home", "nfs4", "rw,vers=4.2"),
    ("/home/local", "xfs", "rw"),
    ("/mnt/my disk", "fuse.sshfs", "rw"),
    ("/gpfs/scratch", "gpfs", "rw"),
    ("/c", "9p", "rw"),
    ("/usb", "fuseblk", "rw"),
    ("/remote", "NTFS", "rw,remote"),
    ("/apple", "apfs", "rw,local"),
]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/tmp/run.journal", None),
        ("/home/anna/run.journal", "nfs4"),
        ("/home/local/run.journal", None),
        ("/homework/run.journal", None),
        ("/mnt/my disk/run.journal", "fuse.sshfs"),
        ("/gpfs/scratch/a/b/c/run.journal", "gpfs"),
        ("/gpfs/run.journal", None),
        ("/c/run.journal", "9p"),
        ("/usb/run.journal", None),
        ("/remote/run.journal", "smb"),
        ("/apple/run.journal", None),
    ],
)
def test_the_type_is_that_of_the_innermost_and_latest_mount(
    monkeypatch: pytest.MonkeyPatch, path: str, kind: str | None
) -> None:
    parts = [
        SimpleNamespace(mountpoint=mountpoint, fstype=fstype, opts=opts)
        for mountpoint, fstype, opts in MOUNTS
    ]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: parts)
    assert network_type(Path(path)) == kind


@pytest.mark.parametrize("error", [[], OSError])
def test_where_nothing_is_told_a_disk_is_taken_for_a_local_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Any
) -> None:
    assert network_type(tmp_path / "run.journal") is None
    monkeypatch.setattr(psutil, "disk_partitions", Mock(side_effect=[error]))
    assert network_type(tmp_path / "run.journal") is None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (r"\\server\folder\run.journal", "smb"),
        (r"\\?\UNC\server\folder\run.journal", "smb"),
        (r"\\?\C:\run.journal", None),
        (r"C:\run.journal", None),
    ],
)
def test_a_shared_folder_of_windows_has_no_letter(
    monkeypatch: pytest.MonkeyPatch, path: str, kind: str | None
) -> None:
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: [])
    monkeypatch.setattr(file.sys, "platform", "win32")
    assert network_type(PureWindowsPath(path)) == kind  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (r"\\server\folder\a b#.journal", "file:////server/folder/a%20b%23.journal"),
        (r"C:\data\run.journal", "file:///C:/data/run.journal"),
    ],
)
def test_sqlite_opens_files_of_shared_folders_of_windows(path: str, uri: str) -> None:
    read_only = sqlite.uri_of(PureWindowsPath(path), "mode=ro")
    assert read_only == f"{uri}?mode=ro"
    with pytest.raises(sqlite3.OperationalError, match="unable to open database file"):
        sqlite3.connect(read_only, uri=True)  # not: invalid uri authority


def test_a_journal_on_a_network_drive_is_refused_but_may_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.journal"
    Journal(path).close()
    before = path.read_bytes()
    monkeypatch.setattr(file, "network_type", lambda _: "nfs4")
    monkeypatch.setenv("TMPDIR", "/scratch/job")
    with pytest.raises(JournalError, match=r"network drive \(nfs4\).*/scratch/job"):
        Journal(path)
    with pytest.raises(JournalError, match="write-ahead log"):
        Journal(tmp_path / "new.journal")
    assert not (tmp_path / "new.journal").exists()
    assert journal_read(path) == []
    assert path.read_bytes() == before


FULL = "database or disk is full"
REQUESTS = [request([i % 100, i // 100], 3) for i in range(400)]


class HeldEngine(FakeEngine):
    """Engine that computes a few steps and then waits until it may continue."""

    def __init__(self, may_continue: Callable[[], object]) -> None:
        super().__init__(4096, 12)
        self.n_steps = 0
        self._may_continue = may_continue

    def run(self, *args: Any, **options: Any) -> RunOutcome:
        self.n_steps += 1
        if self.n_steps == 10:
            self._may_continue()
        return super().run(*args, **options)


class Disk:
    """Disk that is full until `is_full` is False."""

    def __init__(self, add: Callable[[list[JournalEntry]], None]) -> None:
        self._add = add
        self.is_full = True
        self.reason, self.code = FULL, 13  # SQLITE_FULL
        self.has_refused = Event()

    def add(self, group: list[JournalEntry]) -> None:
        if self.is_full:
            self.has_refused.set()
            error = sqlite3.OperationalError(self.reason)
            error.sqlite_errorcode = self.code
            raise error
        self._add(group)


def test_the_first_failure_is_reported_while_the_call_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned = Event()
    call = recorded(folder, REQUESTS)
    disk = Disk(call._journal.add)
    monkeypatch.setattr(call._journal, "add", disk.add)
    messages = []

    def show(message: Warning, *_: object, **__: object) -> None:
        messages.append(str(message))
        disk.is_full = False  # the user frees space
        warned.set()

    # The engine waits for the warning, so a warning at the end comes too late.
    is_early: list[bool] = []
    engine = HeldEngine(lambda: is_early.append(warned.wait(20)))
    with warnings.catch_warnings():
        warnings.simplefilter("always", JournalWarning)
        monkeypatch.setattr(warnings, "showwarning", show)
        results = Job(HostedCall(FakeContext(engine), call)).results()
    assert is_early == [True]
    assert all(result.is_finished for result in results)
    assert len(messages) == 1
    assert FULL in messages[0]
    assert "free space" in messages[0]
    assert len(entries(folder)) == len(REQUESTS)  # nothing is lost


def test_a_required_journal_stops_the_call(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = recorded(folder, REQUESTS)
    call._journal.is_required = True
    disk = Disk(call._journal.add)
    monkeypatch.setattr(call._journal, "add", disk.add)
    stopped = Event()
    cancel = call._call.cancel

    def cancelled() -> None:
        cancel()
        disk.is_full = False  # the finished results fit when they are written again
        stopped.set()

    monkeypatch.setattr(call._call, "cancel", cancelled)
    is_early: list[bool] = []
    engine = HeldEngine(lambda: is_early.append(stopped.wait(20)))
    job = Job(HostedCall(FakeContext(engine), call))
    with pytest.raises(JournalError, match=FULL) as caught:
        job.results()
    assert is_early == [True]
    stored = len(entries(folder))
    assert 0 < stored < len(REQUESTS)
    assert f"contains {stored} results" in str(caught.value)
    assert "repeat the same command" in str(caught.value)


def test_a_lock_of_another_process_stops_no_call(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = recorded(folder, REQUESTS)
    call._journal.is_required = True
    disk = Disk(call._journal.add)
    disk.reason, disk.code = "database is locked", 5  # SQLITE_BUSY
    monkeypatch.setattr(call._journal, "add", disk.add)

    def wait_for_refusal() -> None:
        assert disk.has_refused.wait(20)

    def end_lock() -> None:
        wait_for_refusal()
        disk.is_full = False

    engine = HeldEngine(end_lock)
    results = Job(HostedCall(FakeContext(engine), call)).results()
    assert all(result.is_finished for result in results)
    assert len(entries(folder)) == len(REQUESTS)


# ---- the journal on disks that fail or are full, and in processes that are killed


FOLDER = Path(__file__).parents[2] / "faults"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"faults_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


faults = load("faults")

PRELOADS = pytest.mark.skipif(
    sys.platform != "linux", reason="puts a library in front of others with LD_PRELOAD"
)


@PRELOADS
@pytest.mark.long(reason="fails each call to the disk in turn, some hundred runs")
def test_whatever_call_to_the_disk_fails_nothing_is_lost(tmp_path: Path) -> None:
    out = tmp_path / "disk.json"
    library = faults.build(tmp_path, "disk")
    faults.run(library, FOLDER / "disk.py", out, timeout_s=800)
    tallies = json.loads(out.read_text(encoding="utf-8"))
    assert len(tallies) == 6
    for name, tries in tallies.items():
        assert tries["problems"] == [], name
        assert tries["held"] == tries["tries"] > 20


@PRELOADS
@pytest.mark.long(reason="a process for each case")
def test_a_small_disk_that_is_full_at_any_level_loses_nothing(tmp_path: Path) -> None:
    own_disk = ("unshare", "--map-root-user", "--mount")
    if not shutil.which("unshare") or subprocess.call([*own_disk, "true"]) != 0:
        pytest.skip("this user may not mount a disk of its own (unshare --mount)")
    place, out = tmp_path / "disk", tmp_path / "out.json"
    place.mkdir()
    mount = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" "$3" "$1" "$4"'
    program = [sys.executable, FOLDER / "small_disk.py"]
    subprocess.run([*own_disk, "sh", "-c", mount, "sh", place, *program, out], check=True)
    levels = json.loads(out.read_text(encoding="utf-8"))
    assert [level["problems"] for level in levels] == [[] for _ in levels]
    assert {level["first"] for level in levels} == {"refused", "warned", "stored"}


# ---- journals under the rules of Windows, which never removes or renames an open file


@pytest.fixture
def drafted(tmp_path: Path) -> tuple[Path, Path]:
    """Journal, and the draft that its writer had no time to remove."""
    path = tmp_path / "run.sqlite"
    Journal(path).close()
    draft = path.with_name("run.sqlite.1-abc.new")
    os.link(path, draft)
    return path, draft


AS_ON_WINDOWS = pytest.mark.skipif(
    sys.platform != "linux", reason="imitates Windows by /proc"
)


@AS_ON_WINDOWS
def test_a_draft_that_cannot_be_removed_is_ignored(
    drafted: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, draft = drafted
    windows_rules.imitate(monkeypatch)
    with path.open("rb"):  # another process
        journal = Journal(path)
        assert draft.exists()
        assert journal_read(path) == []
        journal.close()
    Journal(path).close()
    assert not draft.exists()


@AS_ON_WINDOWS
def test_a_journal_is_created_while_others_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.sqlite"
    opened = []
    link = os.link

    def link_and_open(draft: Path, target: Path) -> None:
        link(draft, target)
        opened.append(target.open("rb"))  # by another process, at once

    monkeypatch.setattr(os, "link", link_and_open)
    windows_rules.imitate(monkeypatch)
    Journal(path).close()
    (other,) = opened
    assert len(list(tmp_path.iterdir())) == 2
    other.close()
    Journal(path).close()
    assert list(tmp_path.iterdir()) == [path]


@AS_ON_WINDOWS
def test_an_error_does_not_keep_a_damaged_journal_open(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    Journal(path).close()
    content = path.read_bytes()
    assert content.count(b"finish_reason IN") == 1
    # The text of the schema is not UTF-8.
    path.write_bytes(content.replace(b"finish_reason IN", b"finish\xffreason IN"))
    for use in (Journal, journal_read):
        with pytest.raises(JournalError, match=r"is damaged|cannot be used") as caught:
            use(path)
        assert caught.value.__cause__ is not None
        assert not windows_rules.is_open(path)
