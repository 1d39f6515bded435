"""A journal that is removed, moved or replaced while a call writes to it."""

from __future__ import annotations

import dataclasses
import shutil
import sqlite3
import sys
from typing import TYPE_CHECKING

import pytest
from fake_engine import FakeEngine
from journalled import FakeContext, entries, many, recorded, request, run
from llamaherd import JournalError, JournalWarning, journal_read
from llamaherd.calls.journal.journal import Journal
from llamaherd.calls.run.hosted import HostedCall
from llamaherd.calls.run.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from llamaherd.calls.journal.entry import JournalEntry

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="a file that is open cannot be removed there"
)


@pytest.fixture
def entry(tmp_path: Path) -> JournalEntry:
    place = tmp_path / "first"
    place.mkdir()
    (place / "model.gguf").write_bytes(b"GGUF and weights")
    run(place, [request([1])])
    (entry,) = entries(place)
    shutil.rmtree(place)
    return entry


def key(i: int) -> str:
    return f"{i:064x}"


def keys(path: Path) -> list[str]:
    return sorted(entry.key for entry in journal_read(path))


def remove(path: Path) -> None:
    path.unlink()


def remove_all(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("kept.sqlite"))


def move_all(path: Path) -> None:
    kept = path.parent / "kept"
    kept.mkdir()
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).rename(kept / f"kept.sqlite{suffix}")


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("renamed"))
    path.parent.mkdir()


def replace(path: Path) -> None:
    other = path.with_name("other.sqlite")
    Journal(other).close()
    other.replace(path)


def remove_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def remove_log_and_index(path: Path) -> None:
    remove_log(path)
    path.with_name(path.name + "-shm").unlink()


WAYS = [
    *(remove, remove_all, move, move_all, move_folder, replace),
    *(remove_log, remove_log_and_index),
]


@pytest.mark.more(reason="a process for each case", cases=7)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("n_before", [1, 2000])
def test_what_was_stored_is_stored_again(
    tmp_path: Path, entry: JournalEntry, way: Callable[[Path], None], n_before: int
) -> None:
    path = tmp_path / "at" / "run.sqlite"
    path.parent.mkdir()
    journal = Journal(path)
    expected = [key(i) for i in range(n_before)]
    journal.add(dataclasses.replace(entry, key=name) for name in expected)
    journal.add([])
    assert journal.notice == ""
    way(path)
    for i in (n_before, n_before + 1):
        journal.add([dataclasses.replace(entry, key=key(i))])
        expected.append(key(i))
        assert keys(path) == expected  # at once, not only at the end
        assert journal.find(bytes.fromhex(key(i))).text == entry.text
    assert "run.sqlite', or SQLite's log next to it, was removed, moved" in journal.notice
    journal.close()
    assert keys(path) == expected
    beside = {file.name for file in path.parent.iterdir()}
    assert beside <= {"run.sqlite", "kept.sqlite", "kept"}
    # The moved file is also complete up to the time when the move was noticed.
    for kept in tmp_path.rglob("kept.sqlite"):
        assert keys(kept) == expected[:-1]
    if way is move_folder:
        assert keys(tmp_path / "renamed" / "run.sqlite") == expected[:-1]
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


@pytest.mark.parametrize("way", WAYS[:6], ids=lambda way: way.__name__)
def test_all_who_share_it_go_over_to_the_new_one(
    tmp_path: Path, entry: JournalEntry, way: Callable[[Path], None]
) -> None:
    path = tmp_path / "at" / "run.sqlite"
    path.parent.mkdir()
    journals = [Journal(path) for _ in range(3)]
    for i, journal in enumerate(journals):
        journal.add([dataclasses.replace(entry, key=key(i))])
    way(path)
    for i, journal in enumerate(journals):
        journal.add([dataclasses.replace(entry, key=key(10 + i))])
    for i, journal in enumerate(journals):
        journal.add([dataclasses.replace(entry, key=key(20 + i))])
        journal.close()
    assert keys(path) == [key(10 * i + j) for i in range(3) for j in range(3)]


class Vandal(FakeEngine):
    """Changes the journal when a part of the call is stored."""

    def __init__(self, path: Path, what: Callable[[Path], object]) -> None:
        super().__init__(4096, 12)
        self._path = path
        self._what: Callable[[Path], object] | None = what

    def run(self, *args: object, **options: object) -> object:
        if self._what is not None and len(journal_read(self._path)) > 100:
            self._what(self._path)
            self._what = None
        return super().run(*args, **options)


def test_a_call_stores_all_and_tells(folder: Path) -> None:
    path = folder / "run.sqlite"
    requests = many(0)
    call = recorded(folder, requests)
    job = Job(HostedCall(FakeContext(Vandal(path, remove)), call))
    with pytest.warns(
        JournalWarning, match=r"^journal: .*run.sqlite.* was removed, moved"
    ):
        results = job.results()
    assert all(result.is_finished for result in results)
    assert len(entries(folder)) == 1500
    results, engine = run(folder, requests)  # no warning is expected
    assert (results.stats.n_journal, engine.n_submitted) == (1500, 0)


def test_a_removal_after_the_last_result_is_noticed(folder: Path) -> None:
    requests = [request([i]) for i in range(5)]
    run(folder, requests)
    call = recorded(folder, requests)  # without results to store
    (folder / "run.sqlite").unlink()
    with pytest.warns(JournalWarning, match="was removed"):
        Job(HostedCall(FakeContext(), call)).results()
    assert len(entries(folder)) == 5


def test_what_is_there_instead_is_left_as_it_is(folder: Path) -> None:
    path = folder / "run.sqlite"

    def write_over(file: Path) -> None:
        other = file.with_name("other")
        other.write_text("my notes")
        other.replace(file)

    call = recorded(folder, many(0))
    job = Job(HostedCall(FakeContext(Vandal(path, write_over)), call))
    with pytest.warns(
        JournalWarning, match=r"results could not be stored .* moved or replaced .* not a"
    ):
        results = job.results()
    assert all(result.is_finished for result in results)
    assert path.read_text() == "my notes"
    assert sorted(file.name for file in folder.iterdir()) == ["model.gguf", "run.sqlite"]


def test_a_folder_that_is_gone_is_told(folder: Path, entry: JournalEntry) -> None:
    place = folder / "place"
    place.mkdir()
    journal = Journal(place / "run.sqlite")
    journal.add([entry])
    place.rename(folder / "moved")
    with pytest.raises(JournalError, match=r"replaced during .* could not be sto"):
        journal.add([dataclasses.replace(entry, key=key(1))])
    assert keys(folder / "moved" / "run.sqlite") == sorted([entry.key, key(1)])
    place.mkdir()  # when it can be created again, it is created
    journal.add([])
    assert len(keys(place / "run.sqlite")) == 2
    journal.close()


def test_what_could_not_be_opened_again_is_tried_again(
    folder: Path, entry: JournalEntry
) -> None:
    path = folder / "run.sqlite"
    journal = Journal(path)
    journal.add([entry])
    remove_log(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("llamaherd.calls.journal.journal.connect", None)
        with pytest.raises(TypeError):
            journal.add([])
        with pytest.raises(TypeError):
            journal.add([])
    journal.add([dataclasses.replace(entry, key=key(1))])
    assert keys(path) == sorted([entry.key, key(1)])
    journal.close()


def test_a_log_without_its_journal_is_not_given_to_a_new_one(
    folder: Path, entry: JournalEntry
) -> None:
    # SQLite would treat it as the log of the new file.
    path = folder / "run.sqlite"
    journal = Journal(path)
    journal.add([entry])
    log = path.with_name("run.sqlite-wal")
    shutil.copy(log, folder / "log")
    journal.close()
    path.unlink()
    (folder / "log").rename(log)
    with pytest.raises(JournalError, match=r"but its log 'run.sqlite-wal' does"):
        Journal(path)
    assert sorted(file.name for file in folder.iterdir()) == [
        "model.gguf",
        "run.sqlite-wal",
    ]
    log.unlink()
    Journal(path).close()
    assert keys(path) == []
