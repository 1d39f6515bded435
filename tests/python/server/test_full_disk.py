"""Files and batches of a server whose disk is full, and later has space again."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import openai
import pytest
from batch_requests import (
    TEXT,
    begun,
    entry,
    jsonl,
    outcomes,
    sdk_of,
    wait_for_end,
)
from llamaherd.server.batches import batch as lines
from llamaherd.server.batches import service, upload
from llamaherd.server.batches.store import BatchStore, StoreError
from served import served
from waiting import HANGS_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fake_context import FakeContext

FULL = OSError(errno.ENOSPC, "No space left on device", "/srv/data")
BODY = {"prompt": "p", "max_tokens": 2}
ID = "id-{}" + "-" * 500  # the outcomes of a few requests fill pages of the database


class Disk:
    """The database of a server's data, which can be as if its disk were full."""

    def __init__(self) -> None:
        self.store: BatchStore | None = None

    def fill(self) -> None:
        """Give the database no further page: SQLite's own "disk is full"."""
        self._limit(1)  # a limit below the present size is the present size

    def empty(self) -> None:
        self._limit(1 << 30)

    def _limit(self, n: int) -> None:
        assert self.store is not None
        self.store._db.execute(f"PRAGMA max_page_count = {n}")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Return the disk of the next server."""
    next_disk = Disk()

    def opened(*arguments: Any) -> BatchStore:
        next_disk.store = BatchStore(*arguments)
        return next_disk.store

    monkeypatch.setattr(service, "BatchStore", opened)
    monkeypatch.setattr(service, "_PAUSES_S", (0.01,))
    return next_disk


def _batch(sdk: openai.OpenAI, n: int, prompts: str = "") -> Any:
    """Start a batch of n requests, with one prompt for each letter of `prompts`."""
    requests = [
        {**entry(i, **BODY | {"prompt": prompt}), "custom_id": ID.format(i)}
        for i, prompt in enumerate(prompts or "p" * n)
    ]
    return begun(sdk, jsonl(requests))


def _problem(sdk: openai.OpenAI, batch: Any) -> Any:
    """Wait until a batch reports that it does not continue; return the report."""
    wait_until(lambda: bool(sdk.batches.retrieve(batch.id).errors))
    current = sdk.batches.retrieve(batch.id)
    assert current.status in ("in_progress", "finalizing")
    (error,) = current.errors.data
    return error


def _ids(sdk: openai.OpenAI, file_id: str) -> list[str]:
    return [outcome["custom_id"] for outcome in outcomes(sdk, file_id)]


def test_a_batch_waits_for_space_and_loses_no_answer(
    fake: FakeContext, tmp_path: Path, disk: Disk
) -> None:
    fake.may_run.clear()
    with served(fake, data=tmp_path) as client, sdk_of(client) as sdk:
        batch = _batch(sdk, 100)
        wait_until(lambda: len(fake.handles) == 64)
        disk.fill()
        fake.may_run.set()
        error = _problem(sdk, batch)
        assert (error.code, error.line) == ("storage_failed", None)
        assert "disk is full" in error.message
        assert "free space" in error.message
        # The batch computes nothing that cannot be stored. A few answers may have fitted
        # into the pages that the database had.
        n_stored = sdk.batches.retrieve(batch.id).request_counts.completed
        assert len(fake.handles) <= 64 + n_stored
        rows = client.ask("GET", "/dashboard.json")[1]["batches"]
        assert [row["problem"] for row in rows] == [error.message]
        assert client.post(TEXT, {"prompt": "a", "max_tokens": 2})[0] == 200
        (only,) = sdk.batches.list().data
        assert only.errors == sdk.batches.retrieve(batch.id).errors
        disk.empty()
        ended = wait_for_end(sdk, batch)
        assert (ended.status, ended.request_counts.completed) == ("completed", 100)
        assert ended.errors is None
        assert _ids(sdk, ended.output_file_id) == [ID.format(i) for i in range(100)]
    assert len(fake.handles) == 101  # each request ran once; one is of the client


def test_the_next_server_continues_a_batch_without_space(
    fake: FakeContext, tmp_path: Path, disk: Disk
) -> None:
    with served(fake, data=tmp_path) as client, sdk_of(client) as sdk:
        first = wait_for_end(sdk, _batch(sdk, 2))
        fake.may_run.clear()
        batch = _batch(sdk, 20)
        wait_until(lambda: len(fake.handles) == 22)
        disk.fill()
        fake.may_run.set()
        _problem(sdk, batch)
    with served(fake, data=tmp_path) as client, sdk_of(client) as sdk:
        assert sdk.batches.retrieve(first.id).status == "completed"
        ended = wait_for_end(sdk, batch)
        assert (ended.status, ended.request_counts.completed) == ("completed", 20)
        assert _ids(sdk, ended.output_file_id) == [ID.format(i) for i in range(20)]


def test_output_files_wait_for_space_and_leave_nothing(
    fake: FakeContext, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file has space, but the database has none for the end of the batch."""
    insert = BatchStore._insert
    reasons: Iterator[Exception] = iter([FULL, sqlite3.OperationalError("disk is full")])

    def failing(store: BatchStore, file: Any) -> None:
        if file.purpose == "batch_output":
            for reason in reasons:
                raise reason
        insert(store, file)

    monkeypatch.setattr(BatchStore, "_insert", failing)
    with served(fake, data=tmp_path) as client, sdk_of(client) as sdk:
        batch = _batch(sdk, 3)
        ended = wait_for_end(sdk, batch)
        assert (ended.status, ended.request_counts.completed) == ("completed", 3)
    assert next(reasons, None) is None
    assert disk.store is not None
    names = {path.name for path in (tmp_path / "files").iterdir()}
    assert names == {batch.input_file_id, ended.output_file_id}


def test_requests_about_files_and_batches_fail_alone(
    fake: FakeContext, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise FULL

    with served(fake, data=tmp_path) as client, sdk_of(client) as sdk:
        batch = wait_for_end(sdk, _batch(sdk, 40))
        disk.fill()
        with monkeypatch.context() as patch:
            patch.setattr(upload, "sync", failing)
            with pytest.raises(openai.InternalServerError) as caught:
                sdk.files.create(file=("in.jsonl", b"{}\n"), purpose="batch")
        assert caught.value.status_code == 507
        assert caught.value.code == "storage_failed"
        assert "/srv/data" not in caught.value.message
        assert caught.value.response.headers["x-should-retry"] == "false"
        names = {path.name for path in (tmp_path / "files").iterdir()}
        assert names == {batch.input_file_id, batch.output_file_id}
        assert len(sdk.files.list().data) == 2
        assert sdk.files.delete(batch.input_file_id).deleted
        assert client.post(TEXT, {"prompt": "a", "max_tokens": 2})[0] == 200


@pytest.fixture
def is_full(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return a switch: no change of a store succeeds while it is set."""
    switch = threading.Event()
    change = BatchStore._change

    def failing(store: BatchStore) -> Any:
        if switch.is_set():
            raise FULL
        return change(store)

    monkeypatch.setattr(BatchStore, "_change", failing)
    monkeypatch.setattr(service, "_PAUSES_S", (0.01,))
    return switch


def test_a_cancellation_needs_space(
    fake: FakeContext, tmp_path: Path, is_full: threading.Event
) -> None:
    fake.may_run.clear()
    with served(fake, data=tmp_path) as client, sdk_of(client) as sdk:
        batch = _batch(sdk, 3)
        wait_until(lambda: len(fake.handles) == 3)
        is_full.set()
        fake.may_run.set()
        _problem(sdk, batch)
        with pytest.raises(openai.InternalServerError) as caught:
            sdk.batches.cancel(batch.id)
        assert caught.value.code == "storage_failed"
        is_full.clear()
        assert wait_for_end(sdk, batch).request_counts.completed == 3


def test_requests_of_a_batch_that_expires_stop_although_the_disk_is_full(
    fake: FakeContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_full: threading.Event,
) -> None:
    """They would hold slots of clients until there is space again."""
    ends: list[Callable[[], object]] = []

    class Run(service.BatchRun):
        """A run that the test may end."""

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            loop = asyncio.get_running_loop()
            ends.append(lambda: loop.call_soon_threadsafe(self.end, "expired"))

    monkeypatch.setattr(service, "BatchRun", Run)
    fake.may_run.clear()
    fake.held = "h"
    with served(fake, data=tmp_path) as client, sdk_of(client) as sdk:
        batch = _batch(sdk, 12, "pp" + "h" * 10)
        wait_until(lambda: len(fake.handles) == 12)
        is_full.set()
        fake.may_run.set()
        _problem(sdk, batch)
        ends[0]()
        wait_until(lambda: all(handle.done() for handle in fake.handles))
        assert is_full.is_set()
        is_full.clear()
        ended = wait_for_end(sdk, batch)
        assert ended.status == "expired"
        assert set(_ids(sdk, ended.output_file_id)) <= {ID.format(0), ID.format(1)}
        assert ended.request_counts.completed > 0
    assert len(fake.handles) == 12


@pytest.mark.parametrize("is_full", [False, True])
def test_a_batch_may_end_while_its_cancellation_is_stored(
    fake: FakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_full: bool
) -> None:
    """The cancellation does not use a run that has ended in the meantime."""
    has_come = threading.Event()
    is_cancelling = ContextVar("is_cancelling", default=False)
    real_cancel, real_do = service.BatchService.cancel, service.BatchService.do

    async def cancel(self: service.BatchService, batch: Any) -> Any:
        is_cancelling.set(True)
        return await real_cancel(self, batch)

    async def do(self: service.BatchService, work: Any) -> Any:
        if is_cancelling.get():
            has_come.set()
            await asyncio.to_thread(wait_until, lambda: not self._runs)
            if is_full:
                raise FULL
        return await real_do(self, work)

    monkeypatch.setattr(service.BatchService, "cancel", cancel)
    monkeypatch.setattr(service.BatchService, "do", do)
    fake.may_run.clear()
    with served(fake, data=tmp_path) as client, sdk_of(client) as sdk:
        batch = _batch(sdk, 2)
        with ThreadPoolExecutor(1) as pool:
            cancelled = pool.submit(sdk.batches.cancel, batch.id)
            assert has_come.wait(HANGS_S)
            fake.may_run.set()
            if is_full:
                with pytest.raises(openai.InternalServerError) as caught:
                    cancelled.result(HANGS_S)
                assert caught.value.status_code == 507
            else:
                assert cancelled.result(HANGS_S).status == "completed"
        assert wait_for_end(sdk, batch).status == "completed"


@pytest.mark.parametrize("error", [sqlite3.DatabaseError, OSError])
def test_a_batch_whose_work_stopped_says_so_and_can_be_cancelled(
    fake: FakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    def broken(path: Path, skip: set[int]) -> Iterator[lines.RequestLine]:
        yield next(lines.request_lines(path, skip))
        raise error("the image is malformed")

    monkeypatch.setattr(service, "request_lines", broken)
    with served(fake, data=tmp_path) as client, sdk_of(client) as sdk:
        batch = _batch(sdk, 3)
        problem = _problem(sdk, batch)
        assert problem.code == "batch_stopped"
        assert "malformed" in problem.message
        assert "restart" in problem.message
        assert client.ask("GET", "/dashboard.json")[1]["batches"] == []
        assert sdk.batches.cancel(batch.id).status == "cancelled"
        ended = sdk.batches.retrieve(batch.id)
        assert (ended.status, ended.request_counts.failed) == ("cancelled", 0)
        assert ended.errors is None
        with pytest.raises(openai.ConflictError):
            sdk.batches.cancel(batch.id)
        assert sdk.files.delete(batch.input_file_id).deleted


def test_a_change_that_cannot_be_committed_is_undone(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    path = store.new_path()
    path.write_bytes(b"a")

    def fail() -> None:
        with store._change():
            # As if SQLite itself had ended the change, as it does after some errors.
            store._db.execute("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(sqlite3.OperationalError, match="is full"):
        fail()
    store._db.execute("PRAGMA foreign_keys = ON")
    store._db.execute(
        "CREATE TABLE child (id TEXT REFERENCES file DEFERRABLE INITIALLY DEFERRED)"
    )
    with pytest.raises(sqlite3.IntegrityError), store._change():
        store._db.execute("INSERT INTO child VALUES ('none')")  # refused by COMMIT
    assert store.add_file(path, "a", "batch").n_bytes == 1
    store.close()


def test_a_file_without_content_is_not_listed_by_the_next_server(tmp_path: Path) -> None:
    """A crash, or a full disk, came between the removal of content and the change."""
    store = BatchStore(tmp_path)
    path = store.new_path()
    path.write_bytes(b"a")
    file = store.add_file(path, "a", "batch")
    path.unlink()
    assert store.file(file.id) is None
    store.close()
    store = BatchStore(tmp_path)
    assert store.files() == []
    store.close()


def test_a_folder_that_cannot_be_written_is_not_in_use(tmp_path: Path) -> None:
    """The message names another server only if one may use the folder."""
    (tmp_path / "batches.sqlite").mkdir()
    with pytest.raises(StoreError, match="unable to open"):
        BatchStore(tmp_path)
