"""Valid paths of journals, and paths that are refused with a JournalError."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from journalled import entries, many, request, run
from llamaherd import ArgumentError, JournalError, journal_read
from llamaherd.calls.journal import file as journal_file
from llamaherd.calls.journal.journal import Journal

if TYPE_CHECKING:
    from llamaherd.calls.journal.entry import JournalEntry

on_posix = pytest.mark.skipif(
    sys.platform == "win32", reason="names and kinds of files that POSIX has"
)


def refused(path: str | Path, message: str) -> None:
    """Check that both functions refuse a path, with a short error even for long names."""
    for name, use in (("journal", Journal), ("path", journal_read)):
        with pytest.raises(JournalError, match=message) as caught:
            use(path)
        assert str(caught.value).startswith(f"{name}: ")
        assert len(str(caught.value)) < 700


def renamed(entry: JournalEntry) -> JournalEntry:
    """Return one more entry to store."""
    return dataclasses.replace(entry, key="ab" * 32)


# ---- names -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("\ud800", r"\\ud800' cannot be used: .*surrogates not allowed"),
        ("n" * 219, "its name has 219 bytes and its path .* at most 218 and 475"),
        ("é" * 110, "its name has 220 bytes"),
        ("n" * 300, "its name has 300 bytes"),
        ("n" * 100_000, "its name has 100000 bytes"),
        ("d" * 300 + "/run", "cannot be used: File name too long|path|no folder"),
        (".", "is a folder"),
        ("none/run.sqlite", "there is no folder"),
        ("model.gguf/run.sqlite", "there is no folder"),
        ("model.gguf", "is not a journal"),
    ],
    ids=lambda text: text[:12].encode("unicode_escape").decode(),
)
@on_posix
def test_names_that_cannot_be_used(folder: Path, name: str, message: str) -> None:
    before = sorted(folder.iterdir())
    refused(f"{folder}/{name}" if name else folder, message)
    assert sorted(folder.iterdir()) == before


def test_a_name_with_a_nul_character_is_refused() -> None:
    for name, use in (("journal", Journal), ("path", journal_read)):
        with pytest.raises(ArgumentError, match=f"{name} must not contain a NUL"):
            use("a\0b")


@on_posix
def test_the_longest_names_that_can_be_used(folder: Path) -> None:
    path = folder / ("n" * 218)
    run(folder, [request([1])])
    (folder / "run.sqlite").rename(path)
    Journal(path).close()
    assert len(journal_read(path)) == 1
    deep = folder
    while len(str(deep)) < 380:
        deep = deep / ("d" * 60)
    deep.mkdir(parents=True)
    path = deep / ("n" * (475 - len(str(deep)) - 1))
    Journal(path).close()
    assert journal_read(path) == []
    refused(f"{path}n", "its path 476; at most 218 and 475 can be used")


@on_posix
def test_a_path_may_be_bytes_that_are_no_utf8(folder: Path) -> None:
    class Name:
        def __fspath__(self) -> bytes:
            return os.fsencode(folder) + b"/r\xe9sum\xe9.sqlite"

    Journal(Name()).close()
    assert journal_read(Name()) == []


# ---- kinds of files --------------------------------------------------------------------


@on_posix
def test_what_is_no_regular_file_is_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "fifo")  # opening it would wait forever
    refused(folder / "fifo", "is not a regular file")
    refused("/dev/null", "is not a regular file")
    refused("/dev/zero", "is not a regular file")


@on_posix
def test_links_are_followed_to_the_log(folder: Path) -> None:
    run(folder, [request([1])])
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    link = elsewhere / "link.sqlite"
    link.symlink_to(folder / "run.sqlite")
    journal = Journal(folder / "run.sqlite")
    (entry,) = entries(folder)
    journal.add([renamed(entry)])
    run_there = elsewhere / "run.sqlite"
    run_there.symlink_to(folder / "run.sqlite")
    # Its last result is only in the log, which is not next to the link.
    assert journal_read(link) == journal_read(run_there) == [entry, renamed(entry)]
    other = Journal(link)
    assert other.find(bytes.fromhex(renamed(entry).key)) == renamed(entry)
    other.close()
    journal.close()
    assert sorted(file.name for file in elsewhere.iterdir()) == [
        "link.sqlite",
        "run.sqlite",
    ]
    dangling = elsewhere / "dangling"
    dangling.symlink_to(folder / "new.sqlite")
    Journal(dangling).close()
    assert (folder / "new.sqlite").is_file()
    assert dangling.is_symlink()
    (elsewhere / "a").symlink_to("b")
    (elsewhere / "b").symlink_to("a")
    refused(elsewhere / "a", "cannot be used: Too many levels of symbolic links")


# ---- hard links ------------------------------------------------------------------------


@on_posix  # a name of an open file cannot be removed on Windows
def test_a_file_with_two_names_is_refused(folder: Path) -> None:
    run(folder, [request([1])])
    path, second = folder / "run.sqlite", folder / "second.sqlite"
    (entry,) = entries(folder)
    journal = Journal(path)
    os.link(path, second)
    # The data stored now are in a log that is not found under the second name.
    journal.add([renamed(entry)])
    for name in (path, second):
        refused(name, r"is a file with 2 names \(hard links\)")
    second.unlink()
    assert journal_read(path) == [entry, renamed(entry)]
    journal.close()
    assert sorted(file.name for file in folder.iterdir()) == ["model.gguf", "run.sqlite"]


@on_posix
def test_the_second_name_that_making_it_left_is_removed(folder: Path) -> None:
    path = folder / "run.sqlite"
    run(folder, [request([1])])
    draft = folder / "run.sqlite.1-18ea907fffdda5b9.new"  # 1 is alive
    os.link(path, draft)
    assert len(journal_read(path)) == 1  # reading removes nothing
    assert draft.exists()
    Journal(path).close()
    assert not draft.exists()


def test_what_was_left_while_it_was_made_is_removed(folder: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        check=True,
        stdout=subprocess.PIPE,
    )
    drafts = [
        folder / f"run.sqlite.{int(ended.stdout)}-18ea907fffdda5b9.new",
        folder / f"run.sqlite.{os.getpid()}-18ea907fffdda5b9.new",  # still being created
        folder / f"run.sqlite.{int(ended.stdout)}-note.new",  # a file of another user
    ]
    for draft in drafts:
        draft.write_text("half")
    Journal(folder / "run.sqlite").close()
    assert [draft.exists() for draft in drafts] == [False, True, True]


def test_without_hard_links_it_is_made_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    run(folder, [request([1])])
    assert len(entries(folder)) == 1
    # Another process was faster: its file stays.
    before = (folder / "run.sqlite").read_bytes()
    journal_file.create("journal", folder / "run.sqlite")
    assert (folder / "run.sqlite").read_bytes() == before
    assert sorted(file.name for file in folder.iterdir()) == ["model.gguf", "run.sqlite"]


# ---- other people's files --------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def crashed(path: Path, mode: str) -> None:
    """Create an SQLite file with a log that its last process did not remove."""
    other = path.with_name("other")
    with sqlite3.connect(other, isolation_level=None) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.execute("CREATE TABLE t (x)")
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN")
        for _ in range(50):
            db.execute("INSERT INTO t VALUES (randomblob(3000))")
        if mode == "WAL":
            db.execute("COMMIT")
        for suffix in ("", "-wal", "-journal"):
            if other.with_name(f"other{suffix}").exists():
                shutil.copy(f"{other}{suffix}", f"{path}{suffix}")
    db.close()
    for file in path.parent.glob("other*"):
        file.unlink()


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
@pytest.mark.parametrize("is_cut", [False, True], ids=["whole", "in a checkpoint"])
def test_a_crashed_file_of_another_application_is_left_as_it_is(
    tmp_path: Path, mode: str, is_cut: bool
) -> None:
    path = tmp_path / "run.sqlite"
    crashed(path, mode)
    if is_cut:
        with path.open("r+b") as file:
            file.seek(28)  # in the header: the number of pages
            file.write((500).to_bytes(4, "big"))
    before = contents(tmp_path)
    assert len(before) == 2
    refused(path, "is an SQLite file of another application")
    assert contents(tmp_path) == before


def test_a_damaged_journal_with_a_log_is_left_as_it_is(folder: Path) -> None:
    run(folder, many(1000))
    path = folder / "run.sqlite"
    journal = Journal(path)
    journal.add([renamed(journal_read(path)[0])])
    log = folder / "run.sqlite-wal"
    shutil.copy(log, folder / "log")
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    (folder / "log").rename(log)
    before = contents(folder)
    refused(path, "is damaged|cannot be used")
    after = contents(folder)
    after.pop("run.sqlite-shm", None)  # an index that SQLite makes to read the log
    assert after == before


def test_a_journal_in_another_mode_is_recovered_too(folder: Path) -> None:
    path = folder / "run.sqlite"
    run(folder, many(1000))
    expected = entries(folder)
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN")
        db.execute("UPDATE result SET text = 'another one'")
        for suffix in ("", "-journal"):
            shutil.copy(f"{path}{suffix}", f"{folder / 'left'}{suffix}")
        db.execute("ROLLBACK")
    db.close()
    for suffix in ("", "-journal"):
        (folder / f"left{suffix}").replace(f"{path}{suffix}")
    assert entries(folder) == expected
    results, engine = run(folder, many(1000))
    assert (results.stats.n_journal, engine.n_submitted) == (500, 0)


# ---- what may only be read -------------------------------------------------------------

READER = """
import os, sys
from llamaherd import JournalError, journal_read
from llamaherd.calls.journal.journal import Journal
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for use in (journal_read, Journal):
    try:
        print(len(use(sys.argv[1])))
    except JournalError as error:
        print(error)
"""


def as_nobody(path: Path) -> list[str]:
    """Return the results of reading and of opening a journal as a user without rights."""
    command = [sys.executable, "-c", READER, str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return done.stdout.splitlines()


@pytest.mark.long(reason="a process for each case")
@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0,
    reason="only root can become a user who may not write",
)
@pytest.mark.parametrize("left", ["closed", "crashed", "crashed, no index"])
def test_a_journal_that_may_only_be_read_can_be_read(left: str) -> None:
    # Not in tmp_path, whose parents only root can read.
    folder = Path(f"/tmp/llamaherd-test-{os.getpid()}-{len(left)}")
    folder.mkdir()
    try:
        (folder / "model.gguf").write_bytes(b"GGUF")
        run(folder, [request([1])])
        path = folder / "run.sqlite"
        if left != "closed":
            leave_log(path)
        if left == "crashed, no index":
            (folder / "run.sqlite-shm").unlink()
        for file in folder.iterdir():
            file.chmod(0o644)
        before = contents(folder)
        read, opened = as_nobody(path)
        assert read == ("1" if left == "closed" else "2")
        assert "cannot be used: the file, or its folder, is read-only" in opened
        path.chmod(0o600)
        read, opened = as_nobody(path)
        assert "path: " in read
        assert "cannot be used: unable to open database file" in read
        assert "journal: " in opened
        assert "cannot be used: unable to open database file" in opened
        new = as_nobody(folder / "new.sqlite")[1]  # the folder
        assert "may you read and write" in read
        assert "may you read and write" in opened
        assert "may you read and write" in new
        path.chmod(0o666)
        assert "is read-only" in as_nobody(path)[1]  # the folder
        assert contents(folder) == before
    finally:
        shutil.rmtree(folder)


LEAVE = """
import dataclasses, os, sys
from llamaherd import journal_read
from llamaherd.calls.journal.journal import Journal
journal = Journal(sys.argv[1])
journal.add([dataclasses.replace(journal_read(sys.argv[1])[0], key="ab" * 32)])
os._exit(0)
"""


def leave_log(path: Path) -> None:
    subprocess.run([sys.executable, "-c", LEAVE, str(path)], check=True)
    assert path.with_name("run.sqlite-wal").stat().st_size > 0


def test_a_log_that_cannot_be_read_in_place_is_read_from_a_copy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a full disk: SQLite has no space for the index of the log.
    run(folder, many(1000))
    path = folder / "run.sqlite"
    leave_log(path)
    expected = entries(folder)
    real = sqlite3.connect

    def connect(name: str, **options: object) -> sqlite3.Connection:
        if name.endswith("mode=ro"):
            raise sqlite3.OperationalError("unable to open database file")
        return real(name, **options)

    monkeypatch.setattr(sqlite3, "connect", connect)
    assert entries(folder) == expected
    results, _ = run(folder, many(1000))
    assert results.stats.n_journal == 500
