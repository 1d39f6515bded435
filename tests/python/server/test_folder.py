"""The folder of files and batches: what it keeps, and long work beside short work."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import windows_rules
from llamaherd.server.batches import upload
from llamaherd.server.batches.batch import (
    Batch,
    BatchOutcome,
    check_lines,
    new_id,
    request_lines,
)
from llamaherd.server.batches.store import BatchStore, StoreError
from llamaherd.server.errors import ApiError
from waiting import HANGS_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.skipif(sys.platform != "linux", reason="imitates Windows by /proc")
@pytest.mark.parametrize("by", ["remove_file", "sweep"])
def test_a_file_that_a_client_reads_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    now = [1000.0]
    store = BatchStore(tmp_path, clock=lambda: now[0])
    path = store.new_path()
    path.write_bytes(b"a")
    file = store.add_file(path, "a", "batch", keep_s=3600)
    windows_rules.imitate(monkeypatch)
    with path.open("rb"):
        if by == "sweep":
            now[0] += 3600
            store.sweep()
        else:
            store.remove_file(file.id)
        assert store.files() == []
        store.close()
        BatchStore(tmp_path).close()  # another server starts
        assert path.exists()
    BatchStore(tmp_path).close()
    assert not path.exists()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def with_sql(*statements: str) -> Callable[[Path], None]:
    """Create the database of a server with more statements."""

    def make(folder: Path) -> None:
        BatchStore(folder).close()
        with closing(sqlite3.connect(folder / "batches.sqlite")) as db, db:
            for statement in statements:
                db.execute(statement)

    return make


def other_database(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "batches.sqlite")) as db, db:
        db.execute("CREATE TABLE mine (a TEXT)")


def mine(folder: Path, name: str, text: str = "mine") -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)


FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "files": (lambda folder: mine(folder, "files/thesis.docx"), "such as 'files'"),
    "name of ours": (lambda f: mine(f, "files/file-" + "0" * 24), "such as 'files'"),
    "other": (lambda folder: mine(folder, "thesis.docx"), "such as 'thesis.docx'"),
    "log": (lambda f: mine(f, "batches.sqlite-wal"), "such as 'batches.sqlite-wal'"),
    "text": (lambda folder: mine(folder, "batches.sqlite", "a,b\n"), "not a database"),
    "database": (other_database, "foreign batches.sqlite"),
    "id": (with_sql("PRAGMA application_id = 7"), "another program"),
    "later": (with_sql("PRAGMA user_version = 99"), "has format 99, and"),
    "older": (with_sql("PRAGMA user_version = 0"), "has format 0, and"),
    "trigger": (
        with_sql(
            "CREATE TRIGGER t BEFORE INSERT ON outcome BEGIN SELECT RAISE(IGNORE); END"
        ),
        "the trigger 't'",
    ),
    "view": (with_sql("CREATE VIEW v AS SELECT 1"), "the view 'v'"),
    "index": (with_sql("CREATE INDEX i ON file (abs(id))"), "the index 'i'"),
    "table": (with_sql("CREATE TABLE more (a)"), "its table 'more'"),
    "changed": (
        with_sql("DROP TABLE file", "CREATE TABLE file (id TEXT PRIMARY KEY)"),
        "its tables are not",
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_folder_of_others_is_refused_and_left_as_it_is(
    tmp_path: Path, kind: str
) -> None:
    make, message = FOREIGN[kind]
    make(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(StoreError, match=message):
        BatchStore(tmp_path)
    assert contents(tmp_path) == before


def test_files_of_other_names_stay_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    BatchStore(tmp_path).close()
    names = ("thesis.docx", "file-0", "file-" + "0" * 24 + ".txt", "file-" + "G" * 24)
    for name in names:
        mine(tmp_path / "files", name)
    left = "file-" + "0" * 24
    for name in (left, f"{left}.form"):  # of an upload that was cut off
        mine(tmp_path / "files", name)
    BatchStore(tmp_path).close()
    assert {path.name for path in (tmp_path / "files").iterdir()} == set(names)


def test_a_folder_that_others_can_read_is_closed_to_them(tmp_path: Path) -> None:
    BatchStore(tmp_path).close()
    for path in (tmp_path / "batches.sqlite", tmp_path / "files"):
        path.chmod(0o755)
    store = BatchStore(tmp_path)
    assert others(tmp_path) == []
    store.close()


def others(folder: Path) -> list[str]:
    """Return the files that other users can read."""
    return [
        str(path)
        for path in folder.rglob("*")
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_nobody_else_can_read_a_file_at_any_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    umask = os.umask(0)
    try:
        opened = os.open
        modes: list[int] = []

        def watched(path: str, flags: int, mode: int = 0o777, **more: int) -> int:
            modes.append(mode if flags & os.O_CREAT else 0)
            return opened(path, flags, mode, **more)

        monkeypatch.setattr(os, "open", watched)
        store = BatchStore(tmp_path / "new" / "data")
        path = store.new_path()
        path.touch(mode=0o600)
        file = store.add_file(path, "a", "batch")
        batch = Batch(
            id="batch_" + "0" * 24,
            endpoint="/generate",
            input_file=file.id,
            created=0,
            expires=1,
            window="1h",
            status="finalizing",
        )
        store.save(batch)
        outcome = BatchOutcome(0, "a", 200, json.dumps({"text": "secret"}))
        store.add_outcomes(batch, [outcome])
        assert others(tmp_path) == []  # also not SQLite's logs
        store.finish(batch)
        assert others(tmp_path) == []
        assert not any(mode & 0o077 for mode in modes)
        folders = (tmp_path / "new", tmp_path / "new" / "data")
        assert [stat.S_IMODE(place.stat().st_mode) for place in folders] == [0o700] * 2
        store.close()
    finally:
        os.umask(umask)


def test_a_file_is_checked_and_read(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    body = {"prompt": "a" * 500}
    with path.open("w") as file:
        for i in range(4000):
            line = {"custom_id": f"{i}", "method": "POST", "url": "/u", "body": body}
            file.write(json.dumps(line) + "\n")
    assert check_lines(path, "/u", 1000, lambda: False) == (4000, [])
    assert check_lines(path, "/u", 1000, lambda: True)[0] == 0
    assert [line.line for line in request_lines(path, {0, 1})] == list(range(2, 4000))


def test_a_form_in_parts_of_any_size_is_read() -> None:
    """The boundary may be divided between two parts."""
    content = b"\r\n--xy" + b"a" * 20
    head = b'content-disposition: form-data; name="file"; filename="f"'
    body = b"--xyz\r\n" + head + b"\r\n\r\n" + content + b"\r\n--xyz--\r\n"
    for size in range(1, len(body) + 1):
        written = io.BytesIO()
        form = upload.UploadForm("multipart/form-data; boundary=xyz", written, 100)
        for i in range(0, len(body), size):
            form.read(body[i : i + size])
        form.check_end()
        assert (form.filename, written.getvalue()) == ("f", content)
    form = upload.UploadForm("multipart/form-data; boundary=xyz", io.BytesIO(), 100)
    form.read(body[:-12])
    with pytest.raises(ApiError, match="no end"):
        form.check_end()
    form = upload.UploadForm("multipart/form-data; boundary=xyz", io.BytesIO(), 100)
    long_field = b'--xyz\r\ncontent-disposition: form-data; name="data"\r\n\r\n' + bytes(
        70000
    )
    with pytest.raises(ApiError, match="outside of the field file"):
        form.read(long_field)


def _stored(store: BatchStore, n: int) -> Batch:
    batch = Batch(
        id=new_id("batch_"),
        endpoint="/u",
        input_file="f",
        created=1,
        expires=2,
        window="1h",
        status="finalizing",
        n_total=n,
    )
    store.save(batch)
    store.add_outcomes(
        batch,
        [BatchOutcome(i, f"id-{i}", 400 if i % 3 else 200, '{"a":1}') for i in range(n)],
    )
    return batch


def _fail_to_change(store: BatchStore) -> None:
    def fail() -> NoReturn:
        with store._change():
            store._db.execute("DELETE FROM outcome")
            raise OSError("the disk is broken")

    with pytest.raises(OSError, match="broken"):
        fail()


class Between:
    """Work with the store between two parts of the end of a batch, on another thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> None:
        self.n = 0
        text = BatchOutcome.text

        def text_between(outcome: BatchOutcome, batch_id: str) -> str:
            if outcome.line % 16 == 0:
                self.n += 1
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(work).result(HANGS_S)
            return text(outcome, batch_id)

        monkeypatch.setattr(BatchOutcome, "text", text_between)


def test_other_work_uses_the_store_while_a_batch_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BatchStore(tmp_path)
    batch, other = _stored(store, 300), _stored(store, 5)

    def work() -> None:
        n = between.n
        store.add_outcomes(other, [BatchOutcome(100 + n, f"new-{n}", 200, "{}")])
        _fail_to_change(store)

    between = Between(monkeypatch, work)
    ended = store.finish(batch)
    n = between.n
    assert n > 4
    assert (ended.status, ended.n_done, ended.n_failed) == ("completed", 100, 200)
    assert len(store.done_lines(other)) == 5 + n
    for name, status in ((ended.output_file, 200), (ended.error_file, 400)):
        file = store.file(str(name))
        assert file is not None
        rows = [json.loads(line) for line in store.path(file).read_text().splitlines()]
        expected = [i for i in range(300) if (i % 3 == 0) == (status == 200)]
        assert [row["custom_id"] for row in rows] == [f"id-{i}" for i in expected]
        assert {row["response"]["status_code"] for row in rows} == {status}
        assert all(row["response"]["body"] == {"a": 1} for row in rows)
    store.close()


def test_a_batch_that_is_cancelled_while_it_ends_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BatchStore(tmp_path)
    batch = _stored(store, 100)
    Between(monkeypatch, lambda: store.move(batch, "cancelling"))
    ended = store.finish(batch)
    assert ended.status == "cancelled"
    assert "cancelling" in ended.times
    assert store.batch(batch.id) == replace(ended)
    store.close()


def test_two_ends_of_a_batch_keep_the_files_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may cancel a batch twice."""
    store = BatchStore(tmp_path)
    batch = _stored(store, 300)
    batches: list[Batch] = []

    def work() -> None:
        if between.n == 1:
            batches.append(store.finish(batch))

    between = Between(monkeypatch, work)
    batches.append(store.finish(batch))
    assert batches[0] == batches[1] == store.batch(batch.id)
    assert len(list((tmp_path / "files").iterdir())) == 2
    file = store.file(str(batches[0].error_file))
    assert file is not None
    assert len(store.path(file).read_text().splitlines()) == 200
    store.close()
