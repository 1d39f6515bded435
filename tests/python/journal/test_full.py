"""Journals on a disk that becomes full while a call runs."""

from __future__ import annotations

import sqlite3
import warnings
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from fake_engine import FakeEngine
from journalled import FakeContext, entries, recorded, request
from llamaherd import JournalError, JournalWarning
from llamaherd.calls.run.hosted import HostedCall
from llamaherd.calls.run.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from llamaherd.calls.journal.entry import JournalEntry
    from llamaherd.engine.core.outcome import RunOutcome

FULL = "database or disk is full"
REQUESTS = [request([i % 100, i // 100], 3) for i in range(400)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    return tmp_path


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
    told = []

    def show(message: Warning, *_: object, **__: object) -> None:
        told.append(str(message))
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
    assert len(told) == 1
    assert FULL in told[0]
    assert "free space" in told[0]
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
