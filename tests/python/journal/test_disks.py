from __future__ import annotations

import sqlite3
import sys
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace

import psutil
import pytest
from llamaherd.calls.journal import file, sqlite
from llamaherd.calls.journal.file import network_type
from llamaherd.calls.journal.journal import Journal, journal_read
from llamaherd.engine.core.errors import JournalError

MOUNTS = """\
22 27 0:21 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:22 / /home rw,relatime shared:2 master:1 - autofs systemd-1 rw
24 23 0:23 / /home rw,relatime - nfs4 server:/home rw,vers=4.2
25 22 0:24 / /home/local rw - xfs /dev/vdb rw
26 22 0:25 / /mnt/my\\040disk rw - fuse.sshfs me@there:/ rw
27 22 0:26 / /gpfs/scratch rw - gpfs scratch rw
28 22 0:27 / /c rw - 9p drvfs rw
29 22 0:28 / /usb rw - fuseblk /dev/sdb1 rw
30 22 0:29 / /lustre rw - lustre 10.0.0.1@tcp:/l rw
not a line of mountinfo
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text(MOUNTS, encoding="utf-8")
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells")
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
        ("/lustre/run.journal", "lustre"),
    ],
)
def test_the_type_is_that_of_the_innermost_and_latest_mount(
    mounts: Path, path: str, kind: str | None
) -> None:
    assert network_type(Path(path), mounts) == kind


def test_where_nothing_is_told_a_disk_is_taken_for_a_local_one(tmp_path: Path) -> None:
    assert network_type(tmp_path / "run.journal", tmp_path / "no such file") is None
    assert network_type(tmp_path / "run.journal") is None


@pytest.mark.parametrize(
    ("fstype", "opts", "kind"),
    [("nfs", "rw", "nfs"), ("NTFS", "rw,remote", "smb"), ("apfs", "rw,local", None)],
)
def test_other_systems_tell_through_psutil(
    monkeypatch: pytest.MonkeyPatch, fstype: str, opts: str, kind: str | None
) -> None:
    part = SimpleNamespace(mountpoint="/data", fstype=fstype, opts=opts)
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: [part])
    monkeypatch.setattr(file.sys, "platform", "elsewhere")
    assert network_type(Path("/data/run.journal")) == kind
    assert network_type(Path("/other/run.journal")) is None


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
    made = sqlite.uri_of(PureWindowsPath(path), "mode=ro")
    assert made == f"{uri}?mode=ro"
    with pytest.raises(sqlite3.OperationalError, match="unable to open database file"):
        sqlite3.connect(made, uri=True)  # not: invalid uri authority


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
