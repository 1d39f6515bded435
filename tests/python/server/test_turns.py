"""Long work with files of batches takes turns with other work."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from llamaherd.server.batches import upload
from llamaherd.server.batches.lines import check_lines, next_requests, request_lines
from llamaherd.server.batches.records import Batch, BatchOutcome
from llamaherd.server.batches.runner import move
from llamaherd.server.batches.store import BatchStore, new_id
from llamaherd.server.batches.turns import _step, in_turns
from llamaherd.server.errors import ApiError
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llamaherd.server.batches.turns import ShortSteps


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


def _counting(name: str, n: int, seen: list[str]) -> ShortSteps[str]:
    try:
        for _ in range(n):
            seen.append(name)
            yield
        return name
    finally:
        seen.append(f"end of {name}")


def test_two_works_take_turns(thread: ThreadPoolExecutor) -> None:
    seen: list[str] = []

    async def main() -> list[str]:
        works = [in_turns(thread, _counting(name, 3, seen)) for name in "ab"]
        return await asyncio.gather(*works)

    assert asyncio.run(main()) == ["a", "b"]
    assert seen[:6] == ["a", "b"] * 3


def test_an_error_and_a_cancellation_end_the_steps(thread: ThreadPoolExecutor) -> None:
    seen: list[str] = []

    def failing() -> ShortSteps[None]:
        yield
        raise ValueError("no")

    async def main() -> None:
        with pytest.raises(ValueError, match="no"):
            await in_turns(thread, failing())
        endless = asyncio.ensure_future(in_turns(thread, _counting("x", 1 << 60, seen)))
        await asyncio.to_thread(wait_until, lambda: "x" in seen)
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        await asyncio.to_thread(wait_until, lambda: seen[-1] == "end of x")

    asyncio.run(main())


def _drained(steps: ShortSteps[Any]) -> tuple[int, Any]:
    """Run all steps; return their number and the result."""
    n = 0
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return n, stop.value
        n += 1


def test_a_file_is_checked_and_read_in_steps(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    body = {"prompt": "a" * 500}
    with path.open("w") as file:
        for i in range(4000):
            line = {"custom_id": f"{i}", "method": "POST", "url": "/u", "body": body}
            file.write(json.dumps(line) + "\n")
    n_steps, found = _drained(check_lines(path, "/u", 1000, lambda: False))
    assert found == (4000, [])
    assert n_steps > 5
    left = request_lines(path, {0, 1})
    parts = list(iter(lambda: next_requests(left), []))
    assert len(parts) > 20
    assert [each.line for part in parts for each in part] == list(range(2, 4000))


def test_a_form_in_parts_of_any_size_is_read() -> None:
    """The boundary may be divided between two parts."""
    content = b"\r\n--xy" + b"a" * 20
    head = b'content-disposition: form-data; name="file"; filename="f"'
    body = b"--xyz\r\n" + head + b"\r\n\r\n" + content + b"\r\n--xyz--\r\n"
    for size in range(1, len(body) + 1):
        form = upload.Form(b"xyz", 100)
        for i in range(0, len(body), size):
            form.read(body[i : i + size])
        form.check_end()
        assert (form.filename, form.content) == ("f", content)
    form = upload.Form(b"xyz", 100)
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


def test_other_work_uses_the_store_while_a_batch_ends(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    batch, other = _stored(store, 300), _stored(store, 5)
    steps = store.finish(batch)
    n = 0
    ended: Batch | None = None
    while ended is None:
        over = _step(steps)
        if over:
            (ended,) = over
        else:
            n += 1
            outcome = BatchOutcome(100 + n, f"new-{n}", 200, "{}")
            store.add_outcomes(other, [outcome])
            _fail_to_change(store)
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


def test_a_batch_that_is_cancelled_while_it_ends_is_cancelled(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    batch = _stored(store, 100)
    steps = store.finish(batch)
    next(steps)
    assert move(store, batch, "cancelling").status == "cancelling"
    _, ended = _drained(steps)
    assert ended.status == "cancelled"
    assert "cancelling" in ended.times
    assert store.batch(batch.id) == replace(ended)
    store.close()


def test_an_end_that_is_given_up_leaves_no_file(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    steps = store.finish(_stored(store, 100))
    next(steps)
    steps.close()
    assert list((tmp_path / "files").iterdir()) == []
    store.close()


@pytest.mark.parametrize("n_first", [1, 3, 100])
def test_two_ends_of_a_batch_keep_the_files_of_one(tmp_path: Path, n_first: int) -> None:
    """A client may cancel a batch twice."""
    store = BatchStore(tmp_path)
    batch = _stored(store, 300)
    ends = [store.finish(batch), store.finish(batch)]
    found: list[Batch] = []
    for _ in range(n_first):
        found += () if found else _step(ends[0])
    if found:
        del ends[0]
    while ends:
        steps = ends.pop(0)
        over = _step(steps) if len(found) < 2 else ()
        found += over
        if not over and len(found) < 2:
            ends.append(steps)
    assert found[0] == found[1] == store.batch(batch.id)
    assert len(list((tmp_path / "files").iterdir())) == 2
    file = store.file(str(found[0].error_file))
    assert file is not None
    assert len(store.path(file).read_text().splitlines()) == 200
    store.close()


def test_large_answers_are_written_one_in_a_step(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    batch = _stored(store, 0)
    large = json.dumps({"a": "x" * (1 << 19)})
    outcomes = [BatchOutcome(i, f"id-{i}", 200, large) for i in range(5)]
    store.add_outcomes(batch, outcomes)
    n_steps, ended = _drained(store.finish(batch))
    assert n_steps >= 5
    assert ended.n_done == 5
    store.close()
