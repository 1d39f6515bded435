"""Long work with files of batches lets other work with the store run."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from llamaherd.server.batches import upload
from llamaherd.server.batches.batch import (
    Batch,
    BatchOutcome,
    check_lines,
    new_id,
    request_lines,
)
from llamaherd.server.batches.store import BatchStore
from llamaherd.server.errors import ApiError
from waiting import HANGS_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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

        def shown(outcome: BatchOutcome, batch_id: str) -> str:
            if outcome.line % 16 == 0:
                self.n += 1
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(work).result(HANGS_S)
            return text(outcome, batch_id)

        monkeypatch.setattr(BatchOutcome, "text", shown)


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
        wanted = [i for i in range(300) if (i % 3 == 0) == (status == 200)]
        assert [row["custom_id"] for row in rows] == [f"id-{i}" for i in wanted]
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
    found: list[Batch] = []

    def work() -> None:
        if between.n == 1:
            found.append(store.finish(batch))

    between = Between(monkeypatch, work)
    found.append(store.finish(batch))
    assert found[0] == found[1] == store.batch(batch.id)
    assert len(list((tmp_path / "files").iterdir())) == 2
    file = store.file(str(found[0].error_file))
    assert file is not None
    assert len(store.path(file).read_text().splitlines()) == 200
    store.close()
