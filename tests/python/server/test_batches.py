"""Files and batches over HTTP, through OpenAI's package."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import openai
import pytest
import tiny_models
from batch_requests import (
    TEXT,
    begun,
    entry,
    jsonl,
    outcomes,
    sdk_of,
    wait_for_end,
)
from fake_context import FakeContext, answer
from llamaherd.server.batches import batch as lines
from llamaherd.server.batches import pages
from llamaherd.server.batches.store import BatchStore, StoreError
from served import NAME, served, started
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from served import Client

CHAT = "/v1/chat/completions"
NEVER = {"input_file_id": f"file-{'0' * 24}", "endpoint": TEXT, "completion_window": "1h"}


def _upload(sdk: openai.OpenAI, content: bytes, name: str = "in.jsonl") -> Any:
    return sdk.files.create(file=(name, content), purpose="batch")


def test_a_batch_from_its_file_to_its_answers(
    sdk: openai.OpenAI, fake: FakeContext
) -> None:
    content = jsonl([*(entry(i) for i in range(5)), entry(5, prompt="")])
    metadata: Any = {"who": "me", "why": None}  # null counts as missing
    batch = wait_for_end(sdk, begun(sdk, content, metadata=metadata))
    assert (batch.status, batch.metadata) == ("completed", {"who": "me"})
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (6, 5, 1)
    good = outcomes(sdk, batch.output_file_id)
    assert [row["custom_id"] for row in good] == [f"id-{i}" for i in range(5)]
    for i, row in enumerate(good):
        assert (row["error"], row["response"]["status_code"]) == (None, 200)
        (choice,) = row["response"]["body"]["choices"]
        assert choice["text"] == answer(f"p{i}", 2)
    (bad,) = outcomes(sdk, batch.error_file_id)
    assert (bad["custom_id"], bad["response"]["status_code"]) == ("id-5", 400)
    assert bad["response"]["body"]["error"]["param"] == "prompt"
    assert {handle.options["priority"] for handle in fake.handles} == {-100}
    assert sdk.batches.list().data[0].id == batch.id


def test_a_file_of_windows_is_read(sdk: openai.OpenAI) -> None:
    content = b"\xef\xbb\xbf" + b"".join(
        json.dumps(entry(i)).encode() + b"\r\n" for i in range(2)
    )
    batch = wait_for_end(sdk, begun(sdk, content))
    assert batch.status == "completed"
    good = outcomes(sdk, batch.output_file_id)
    assert [row["custom_id"] for row in good] == ["id-0", "id-1"]


def test_a_line_with_a_key_twice_is_refused(sdk: openai.OpenAI) -> None:
    good, bad = (json.dumps(entry(i)) for i in range(2))
    bad = bad.replace('"max_tokens": 2', '"max_tokens": 2, "max_tokens": 3')
    batch = wait_for_end(sdk, begun(sdk, f"{good}\n{bad}\n".encode()))
    assert batch.status == "failed"
    (error,) = batch.errors.data
    assert error.line == 2
    assert 'the key "max_tokens" twice' in error.message


def test_files_are_listed_read_and_removed(sdk: openai.OpenAI) -> None:
    content = b"\r\n--x\r\n\x00\xff" * 1000
    one = _upload(sdk, content, "C:\\dir\\../../a\nb.jsonl")
    two = _upload(sdk, b"")
    assert (one.bytes, one.purpose, two.bytes) == (len(content), "batch", 0)
    assert "/" not in one.filename
    assert "\\" not in one.filename
    assert sdk.files.content(one.id).content == content
    page = sdk.files.list(limit=1)
    assert [info.id for info in page.data] == [two.id]
    assert [info.id for info in sdk.files.list(limit=1, after=two.id).data] == [one.id]
    assert sdk.files.retrieve(one.id).to_dict() == one.to_dict()
    for file in (one, two):
        assert sdk.files.delete(file.id).deleted
        with pytest.raises(openai.NotFoundError):
            sdk.files.content(file.id)


def test_chats_and_responses_run_in_batches(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    folder = tmp_path_factory.mktemp("batches")
    path = tiny_models.write(folder / "tiny.gguf", "llama", chat_template=template)
    messages: list[Any] = [{"role": "user", "content": "a"}]
    fields = {"temperature": 0, "model": NAME}
    with lh.Model(path) as model, lh.Context(model, n_seq_max=4) as ctx:  # noqa: SIM117
        with served(ctx) as client, sdk_of(client) as sdk:
            chat = sdk.chat.completions.create(
                messages=messages, max_tokens=4, model=NAME, temperature=0
            )
            body = {"messages": messages, "max_tokens": 4, **fields}
            ended = wait_for_end(sdk, begun(sdk, jsonl([entry(0, CHAT, **body)]), CHAT))
            (line,) = outcomes(sdk, ended.output_file_id)
            message = line["response"]["body"]["choices"][0]["message"]
            assert message["content"] == chat.choices[0].message.content
            body = {"input": "a", "max_output_tokens": 4, **fields}
            url = "/v1/responses"
            ended = wait_for_end(sdk, begun(sdk, jsonl([entry(0, url, **body)]), url))
            (line,) = outcomes(sdk, ended.output_file_id)
            (item,) = line["response"]["body"]["output"]
            assert item["content"][0]["text"] == chat.choices[0].message.content


def test_clients_are_answered_while_a_batch_runs(
    sdk: openai.OpenAI, fake: FakeContext, client: Client
) -> None:
    fake.may_run.clear()
    batch = begun(sdk, jsonl([entry(i) for i in range(200)]))
    wait_until(lambda: len(fake.handles) == 64)  # no more prompts wait at the same time
    assert client.server is not None
    assert client.server.shared.queue.n_inside == 0  # batches do not count here
    fake.may_run.set()
    assert client.post(TEXT, {"prompt": "a", "max_tokens": 2})[0] == 200
    assert wait_for_end(sdk, batch).request_counts.completed == 200


def test_a_cancelled_batch_keeps_what_is_answered(
    sdk: openai.OpenAI, fake: FakeContext
) -> None:
    content = jsonl([entry(0), *(entry(i, prompt="p", max_tokens=4) for i in (1, 2))])
    fake.held, fake.step_s = "p", 0.01
    batch = begun(sdk, content)
    wait_until(lambda: sdk.batches.retrieve(batch.id).request_counts.completed == 1)
    with pytest.raises(openai.ConflictError):
        sdk.files.delete(batch.input_file_id)
    assert sdk.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    ended = wait_for_end(sdk, batch)
    assert (ended.status, ended.request_counts.completed) == ("cancelled", 1)
    assert [row["custom_id"] for row in outcomes(sdk, ended.output_file_id)] == ["id-0"]
    reasons = [handle.result().finish_reason for handle in fake.handles]
    assert reasons == ["length", "cancelled", "cancelled"]
    with pytest.raises(openai.ConflictError):
        sdk.batches.cancel(batch.id)


@pytest.mark.parametrize(
    ("content", "line", "param"),
    [
        (b"", None, None),
        (b"\n\n", None, None),
        (b"{", 1, None),
        (b"[]", 1, None),
        (b"\xff", 1, None),
        (jsonl([entry(0), entry(0)]), 2, "custom_id"),
        (jsonl([{**entry(0), "custom_id": 3}]), 1, "custom_id"),
        (jsonl([{**entry(0), "custom_id": "a\ud800"}]), 1, "custom_id"),
        (jsonl([{**entry(0), "method": "GET"}]), 1, "method"),
        (jsonl([entry(0, "/v1/batches")]), 1, "url"),
        (jsonl([{**entry(0), "body": []}]), 1, "body"),
        (jsonl([{**entry(0), "headers": {}}]), 1, "headers"),
        (jsonl([entry(0, prompt="a", stream=True)]), 1, "body.stream"),
        (jsonl([entry(0, prompt="a" * (5 << 20))]), 1, None),
    ],
    ids=range(14),
)
def test_a_file_that_is_no_batch(
    sdk: openai.OpenAI, content: bytes, line: int | None, param: str | None
) -> None:
    batch = wait_for_end(sdk, begun(sdk, content))
    assert batch.status == "failed"
    error = batch.errors.data[0]
    assert (error.line, error.param) == (line, param)
    assert error.message


def test_too_many_requests_are_refused(
    sdk: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_REQUESTS", 2)
    batch = wait_for_end(sdk, begun(sdk, jsonl([entry(i) for i in range(9)])))
    assert (batch.status, batch.errors.data[0].line) == ("failed", 3)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input_file_id": "file-1"}, "input_file_id"),
        ({"input_file_id": "../batches.sqlite"}, "input_file_id"),
        ({"input_file_id": 1}, "input_file_id"),
        ({"endpoint": "/v1/models"}, "endpoint"),
        ({"endpoint": "/v1/batches"}, "endpoint"),
        ({"completion_window": "1 week"}, "completion_window"),
        ({"completion_window": "31d"}, "completion_window"),
        ({"completion_window": "0h"}, "completion_window"),
        ({"completion_window": None}, "completion_window"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {"a": "b" * 513}}, "metadata"),
        ({"output_expires_after": {"seconds": 4000}}, "output_expires_after"),
        (
            {"output_expires_after": {"anchor": "created_at", "seconds": 1}},
            "output_expires_after",
        ),
        ({"priority": 1}, "priority"),
    ],
    ids=json.dumps,
)
def test_a_batch_that_cannot_be(
    client: Client, fields: dict[str, Any], param: str
) -> None:
    status, response = client.post("/v1/batches", {**NEVER, **fields})
    assert (status, response["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    "name",
    [
        *("..%2Fbatches.sqlite", "%2e%2e", "file-", "file-" + "g" * 24, "%00"),
        *("file-" + "0" * 24, "a" * 3000, "file-000000000000000000000000%0a"),
        "..%2F..%2Fetc%2Fpasswd",
    ],
)
@pytest.mark.parametrize("path", ["/v1/files/{}", "/files/{}/content", "/v1/batches/{}"])
def test_names_of_nothing(client: Client, path: str, name: str) -> None:
    status, response, _ = client.ask("GET", path.format(name))
    assert (status, response["error"]["type"]) == (404, "not_found_error")
    assert len(response["error"]["message"]) < 600


def _form(*parts: tuple[str, bytes], boundary: str = "xyz") -> bytes:
    form = b"".join(
        b"--%b\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n"
        % (boundary.encode(), head.encode(), body)
        for head, body in parts
    )
    return form + f"--{boundary}--\r\n".encode()


PURPOSE = ('name="purpose"', b"batch")
FILE = ('name="file"; filename="a"', b"{}")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"--xyz", None),
        (b"--xyz--\r\n", "file"),
        (b"--xyz\r\nContent-Disposition: form-data\r\n\r\na\r\n--xyz--\r\n", None),
        (_form(PURPOSE, FILE)[:-20], None),
        (_form(PURPOSE), "file"),
        (_form(FILE), "purpose"),
        (_form(('name="purpose"', b"fine-tune"), FILE), "purpose"),
        (_form(PURPOSE, FILE, FILE), "file"),
        (_form(PURPOSE, PURPOSE, FILE), "purpose"),
        (_form(PURPOSE, FILE, ('name="x"', b"")), "x"),
        (_form(PURPOSE, ('name="data"; filename="a"', b"")), "data"),
        (
            _form(PURPOSE, FILE, ('name="expires_after[seconds]"', b"1")),
            "expires_after[seconds]",
        ),
        (
            _form(PURPOSE, FILE, ('name="expires_after[seconds]"', b"3600")),
            "expires_after",
        ),
    ],
    ids=range(14),
)
def test_a_broken_form(client: Client, body: bytes, param: str | None) -> None:
    kind = {"content-type": "multipart/form-data; boundary=xyz"}
    status, response, _ = client.ask("POST", "/v1/files", body, kind)
    assert (status, response["error"]["param"]) == (400, param)
    status, response, _ = client.ask(
        "POST", "/v1/files", body, {"content-type": "text/plain"}
    )
    assert (status, response["error"]["code"]) == (400, "invalid_form")


def test_sizes_are_limited(
    fake: FakeContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kind = {"content-type": "multipart/form-data; boundary=xyz"}
    with served(fake, max_file=1000, data=tmp_path / "data") as client:
        for n, status in ((1000, 200), (1001, 413), (1 << 20, 413)):
            form = _form(PURPOSE, (FILE[0], b"a" * n))
            assert client.ask("POST", "/v1/files", form, kind)[0] == status
        monkeypatch.setattr(pages, "_MOST_FILES", 1)
        assert client.ask("POST", "/v1/files", _form(PURPOSE, FILE), kind)[0] == 413
        monkeypatch.setattr(pages, "_MOST_ACTIVE", 0)
        (file,) = client.ask("GET", "/files")[1]["data"]
        status, response = client.post("/batches", {**NEVER, "input_file_id": file["id"]})
        assert (status, response["error"]["code"]) == (429, "too_many_batches")
        (left,) = (tmp_path / "data" / "files").iterdir()
        assert left.name == file["id"]
        monkeypatch.undo()
        monkeypatch.setattr(pages, "_MOST_SIZES", 1)
        assert client.ask("POST", "/v1/files", _form(PURPOSE, FILE), kind)[0] == 413


def test_a_folder_has_one_server(fake: FakeContext, tmp_path: Path) -> None:
    with served(fake, data=tmp_path), pytest.raises(StoreError, match="another server"):
        BatchStore(tmp_path)
    BatchStore(tmp_path).close()


def test_what_has_expired_is_removed(tmp_path: Path) -> None:
    now = [1000.0]
    store = BatchStore(tmp_path, clock=lambda: now[0])
    path = store.new_path()
    path.write_bytes(b"a")
    file = store.add_file(path, "a", "batch", keep_s=3600)
    assert store.file(file.id) == file
    now[0] += 3600
    assert store.files() == []
    assert not path.exists()
    store.close()


def test_a_batch_that_expires(fake: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_seconds", lambda _: 0)
    fake.may_run.clear()
    with served(fake) as client, sdk_of(client) as sdk:
        batch = wait_for_end(sdk, begun(sdk, jsonl([entry(i) for i in range(3)])))
        assert (batch.status, batch.output_file_id) == ("expired", None)
        lost = outcomes(sdk, batch.error_file_id)
        assert [row["error"]["code"] for row in lost] == ["batch_expired"] * 3
    fake.may_run.set()


@pytest.mark.slow(reason="two processes that load a model")
def test_a_killed_server_loses_no_answer(chat_model: lh.Model, tmp_path: Path) -> None:
    content = jsonl([entry(i, prompt=f"a{i}", max_tokens=40) for i in range(300)])
    data = ("--data", str(tmp_path / "data"))
    with (
        started(chat_model, *data) as client,
        sdk_of(client) as sdk,
    ):  # end the server with SIGKILL
        batch = begun(sdk, content)
        wait_until(lambda: sdk.batches.retrieve(batch.id).request_counts.completed > 9)
        n_done = sdk.batches.retrieve(batch.id).request_counts.completed
    assert n_done < 300
    with started(chat_model, *data) as client, sdk_of(client) as sdk:
        assert sdk.batches.retrieve(batch.id).request_counts.completed >= n_done
        ended = wait_for_end(sdk, batch)
        answered = outcomes(sdk, ended.output_file_id)
    assert (ended.status, ended.error_file_id) == ("completed", None)
    assert [row["custom_id"] for row in answered] == [f"id-{i}" for i in range(300)]


def test_batches_go_on_with_the_next_server(fake: FakeContext, tmp_path: Path) -> None:
    """A batch continues on the next server if the first ends at its second request."""
    requests = [
        entry(0),
        entry(1, prompt="b", max_tokens=4),
        entry(2),
    ]
    fake.held, fake.step_s = "b", 0.01
    with served(fake, data=tmp_path, grace_s=0.1) as client, sdk_of(client) as sdk:
        batch = begun(sdk, jsonl(requests))
        wait_until(lambda: sdk.batches.retrieve(batch.id).request_counts.completed == 2)
    fake.held = ""
    (tmp_path / "files" / ("file-" + "0" * 24)).write_bytes(b"of an upload cut off")
    with served(fake, data=tmp_path) as client, sdk_of(client) as sdk:
        ended = wait_for_end(sdk, batch)
        assert (ended.status, ended.request_counts.completed) == ("completed", 3)
        answered = outcomes(sdk, ended.output_file_id)
        assert [row["custom_id"] for row in answered] == ["id-0", "id-1", "id-2"]
    # The requests that were answered did not run again.
    assert [str(h.prompt) for h in fake.handles] == ["p0", "b", "p2", "b"]
    names = {path.name for path in (tmp_path / "files").iterdir()}
    assert names == {batch.input_file_id, ended.output_file_id}
