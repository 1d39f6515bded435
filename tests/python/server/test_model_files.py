"""Files of models: their memory, and the content that names and batches stand for."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from batch_requests import begun, entry, jsonl, sdk_of
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.cli.main import main
from llamaherd.engine.core.errors import ModelLoadError
from llamaherd.engine.loop.sizing import Work
from llamaherd.engine.model.file import ModelFile, content_of
from llamaherd.remote.processes import LANGUAGE_VARIABLE
from llamaherd.server import app, serving
from llamaherd.server.models.loading import OpenModel
from llamaherd.server.models.spec import AdapterSpec, FileContents, ModelSpec, cache_sizes
from served import room_for, served, served_models
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fake_context import FakeContext
    from served import Client

    Serve = Callable[..., tuple[int, str]]

PATH = "/v1/completions"


def submitted(client: Client, n: int, **more: Any) -> str:
    """Send a batch of n requests; return its id."""
    requests = [entry(i, prompt=f"p{i}", max_tokens=2, **more) for i in range(n)]
    with sdk_of(client) as sdk:
        return str(begun(sdk, jsonl(requests)).id)


def batch_body(client: Client, batch: str) -> dict[str, Any]:
    body: dict[str, Any] = client.ask("GET", f"/v1/batches/{batch}")[1]
    return body


def ends(client: Client, batch: str) -> dict[str, Any]:
    wait_until(lambda: batch_body(client, batch)["status"] == "completed")
    return batch_body(client, batch)


def stops(client: Client, batch: str) -> str:
    """Wait until a batch waits; return the reason."""
    wait_until(lambda: batch_body(client, batch)["errors"] is not None)
    (error,) = batch_body(client, batch)["errors"]["data"]
    return str(error["message"])


class Identity:
    """Replaces the identity of the model of each server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ctx: FakeContext) -> None:
        self.value: str | None = "a"
        self.later: tuple[int, str | None] | None = None
        self._ctx = ctx
        monkeypatch.setattr(OpenModel, "identity", lambda *_: self._now())

    def _now(self) -> str | None:
        if self.later is not None and len(self._ctx.handles) > self.later[0]:
            return self.later[1]
        return self.value


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch, fake: FakeContext) -> Identity:
    return Identity(monkeypatch, fake)


@pytest.mark.parametrize("other", ["b", None])
@pytest.mark.parametrize("model", [{}, {"model": "model"}, {"model": "model.gguf"}])
def test_a_batch_waits_for_its_model(
    fake: FakeContext,
    identity: Identity,
    tmp_path: Path,
    other: str | None,
    model: dict[str, str],
) -> None:
    fake.held, fake.step_s = "p1", 0.01
    with served(fake, data=tmp_path, grace_s=0.1, any_model=True) as client:
        batch = submitted(client, 3, **model)
        wait_until(lambda: batch_body(client, batch)["request_counts"]["completed"] == 2)
    fake.held, n_before = "", len(fake.handles)
    identity.value = other
    with served(fake, data=tmp_path, any_model=True) as client:
        assert "began with another model" in stops(client, batch)
        body = batch_body(client, batch)
        assert (body["status"], body["request_counts"]["completed"]) == (
            "in_progress",
            2,
        )
        assert len(fake.handles) == n_before
    identity.value = "a"
    with served(fake, data=tmp_path, any_model=True) as client:
        body = ends(client, batch)
        assert (body["errors"], body["request_counts"]["completed"]) == (None, 3)
    assert len(fake.handles) == n_before + 1


def test_a_batch_stops_when_the_model_is_replaced(
    fake: FakeContext, identity: Identity, tmp_path: Path
) -> None:
    """No answer is stored that another model may have given."""
    with served(fake, data=tmp_path) as client:
        identity.later = (len(fake.handles) + 3, "b")
        batch = submitted(client, 200)
        assert "began with another model" in stops(client, batch)
        n_done = batch_body(client, batch)["request_counts"]["completed"]
        assert n_done < 200
        cancelled = client.post(f"/v1/batches/{batch}/cancel", {})[1]
        assert cancelled["status"] == "cancelled"
        assert cancelled["request_counts"]["completed"] == n_done


def test_a_batch_of_an_earlier_version_goes_on(
    fake: FakeContext, identity: Identity, tmp_path: Path
) -> None:
    fake.held = "p1"
    with served(fake, data=tmp_path, grace_s=0.1) as client:
        batch = submitted(client, 3)
        wait_until(lambda: batch_body(client, batch)["request_counts"]["completed"] == 2)
    with closing(sqlite3.connect(tmp_path / "batches.sqlite")) as db, db:
        db.execute("UPDATE batch SET content = json_remove(content, '$.models')")
    fake.held, identity.value = "", "b"
    with served(fake, data=tmp_path) as client:
        assert ends(client, batch)["request_counts"]["completed"] == 3


# Each changes one file of a model; True if its content is another one.
CHANGES: dict[str, tuple[Callable[[Path], object], bool]] = {
    "other": (lambda path: tiny_models.write(path, "llama", 3), True),
    "moved": (lambda path: shutil.move(path, path.with_name("x")), True),
    "same": (lambda path: path.read_bytes(), False),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_files_keep_their_content(tmp_path: Path, kind: str) -> None:
    path, change = tmp_path / "a.gguf", CHANGES[kind]
    tiny_models.write(path, "llama", 1)
    contents = FileContents()
    before = contents.identity(path, None, is_loaded=False)
    file = ModelFile(path)
    contents.keep(path, file)
    assert contents.identity(path, None, is_loaded=True) == before is not None
    change[0](path)
    assert contents.identity(path, None, is_loaded=True) == before  # that in memory
    now = contents.identity(path, None, is_loaded=False)
    if not change[1]:
        contents.check(path)
        assert now == before
        return
    assert now is None
    for use in (contents.check, lambda path: contents.keep(path, None)):
        with pytest.raises(ModelLoadError, match=r"was (changed|removed)"):
            use(path)


def test_a_hash_is_that_of_the_loaded_file(tmp_path: Path) -> None:
    path = tiny_models.write(tmp_path / "a.gguf", "llama", 1)
    early, late = ModelFile(path), ModelFile(path)
    content = content_of(early, ())
    assert content is not None
    tiny_models.write(path, "llama", 2)
    assert content_of(early, ()) == content
    assert content_of(late, ()) is None
    assert content_of(None, ()) is None
    assert content_of(ModelFile(path), ()) not in (None, content)


@pytest.mark.parametrize("name", ["one", "style"])
def test_a_name_keeps_its_model(folder: Path, tmp_path: Path, name: str) -> None:
    for model in ("one", "two", "style"):
        shutil.copy(folder / f"{model}.gguf", tmp_path)
    style = AdapterSpec("style", tmp_path / "style.gguf")
    specs = [
        ModelSpec("one", tmp_path / "one.gguf", (style,)),
        ModelSpec("two", tmp_path / "two.gguf"),
    ]
    room = max(map(room_for, specs))
    body = {"prompt": "yes", "max_tokens": 2}
    with served_models(specs, memory=room, data=tmp_path / "data") as client:
        for model in (name, "two"):  # the second one takes the memory of the first
            assert client.post(PATH, {**body, "model": model})[0] == 200
        batch = ends(client, submitted(client, 2, model=name))
        assert batch["request_counts"]["completed"] == 2
        assert client.post(PATH, {**body, "model": "two"})[0] == 200
        path = tmp_path / f"{name}.gguf"
        path.unlink()
        source = "two" if name == "one" else "style"
        path.write_bytes((folder / f"{source}.gguf").read_bytes())
        status, response = client.post(PATH, {**body, "model": name})
        assert (status, response["error"]["code"]) == (500, "model_not_loaded")
        assert "restart the server to serve the new file" in response["error"]["message"]
        assert client.post(PATH, {**body, "model": "two"})[0] == 200
    with served_models(specs, memory=room, data=tmp_path / "data") as client:
        assert client.post(PATH, {**body, "model": name})[0] == 200


def test_identities_are_the_same_however_a_model_is_served(folder: Path) -> None:
    contents = FileContents()
    one, style = folder / "one.gguf", folder / "style.gguf"
    with lh.Model(one, lora=style) as model:
        content = content_of(model.file, model.loras)
    assert json.loads(contents.identity(one, style, is_loaded=False) or "") == [
        json.loads(json.dumps(content))
    ]


@pytest.mark.parametrize(
    ("weights", "n_bytes", "caches"),
    [
        ([80, 80], 1000, [420, 420]),  # both models fit
        ([800, 80], 1000, [100, 60]),
        ([800, 800], 1000, [200, 200]),  # one model at a time
        ([800, 400, 300], 1000, [200, 200, 200]),
        ([950, 80], 1000, [920, 920]),  # the first model never fits
        ([2000], 1000, [250]),
        ([8] * 10, 90, [1] * 10),
    ],
)
def test_caches_share_what_the_weights_leave(
    weights: list[int], n_bytes: int, caches: list[int]
) -> None:
    assert cache_sizes(weights, n_bytes) == caches


def test_the_least_memory_counts_which_models_fit_together() -> None:
    """Without the least memory, both models of 300 bytes would get 200 bytes each."""
    assert cache_sizes([300, 300], 1000) == [200, 200]
    assert cache_sizes([300, 300], 1000, [250, 250]) == [700, 700]
    assert cache_sizes([100, 900], 1000, [800, 50]) == [800, 100]
    assert cache_sizes([100, 900], 1000, [950, 150]) == [950, 150]  # no model fits


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, 500)), min_size=1),
    st.integers(1, 1000),
)
def test_a_model_gets_its_least_memory_and_fits_with_what_it_gets(
    models: list[tuple[int, int]], n_bytes: int
) -> None:
    weights, least = [list(column) for column in zip(*models, strict=True)]
    caches = cache_sizes(weights, n_bytes, least)
    for n, more, cache in zip(weights, least, caches, strict=True):
        assert cache >= more
        assert (n + cache <= n_bytes) == (n + more <= n_bytes)


@given(st.lists(st.integers(1, 500), min_size=1), st.integers(1, 1000))
def test_a_model_fits_exactly_if_it_fits_with_a_cache(
    weights: list[int], n_bytes: int
) -> None:
    caches = cache_sizes(weights, n_bytes)
    for n, cache in zip(weights, caches, strict=True):
        assert cache >= n // 8
        assert (n + cache <= n_bytes) == (n + n // 8 <= n_bytes)


# Options and the models that the error names.
CASES: list[tuple[list[str], list[str]]] = [
    (["one.gguf"], ["'one'"]),
    (["one.gguf", "--alias", "gpt-4"], ["'one'"]),
    (["one.gguf", "--n-ctx", "4096"], ["'one'"]),
    (["vectors.gguf"], ["'vectors'"]),
    (["one.gguf", "--embedding-model", "vectors.gguf"], ["'one' and 'vectors'"]),
    (["one.gguf", "--lora", "style=style.gguf"], ["'one'"]),
    (["one.gguf", "--model", "b=two.gguf"], ["'one'", "'b'"]),
    (["one.gguf", "--any-model", "--model", "vectors.gguf"], ["'one'", "'vectors'"]),
    (["--model", "one.gguf", "--model", "vectors.gguf", "--n-ctx", "999"], ["'one'"]),
]


@pytest.fixture
def serve(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Serve:
    """Return a function that starts a server, which ends at once."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(serving.Server, "run", lambda *_: None)

    def run(*options: str) -> tuple[int, str]:
        always = ("--port", "0", "--n-threads", "1", "--n-seq-max", "4")
        status = main(["serve", *always, *options])
        return status, capsys.readouterr().err

    return run


def _needed(error: str) -> dict[str, float]:
    """Return the memory that an error names, in tenths of MB."""
    rows = re.findall(r"(\d+\.\d) MB for ('[^,]+')[,\n]", error)
    return {names: round(10 * float(size)) for size, names in rows}


@pytest.mark.parametrize(("options", "names"), CASES, ids=" ".join)
def test_a_server_starts_with_the_memory_that_the_error_names(
    serve: Serve, options: list[str], names: list[str]
) -> None:
    status, error = serve(*options, "--memory", "1kb")
    assert status == 2
    assert "--memory is 0.0 MB, but with KV cache and buffers" in error
    needed = _needed(error)
    assert set(names) <= set(needed)
    most = int(max(needed.values()))
    assert serve(*options, "--memory", f"{most}00kb") == (0, "")
    status, error = serve(*options, "--memory", f"{most - 1}00kb")
    assert (status, max(_needed(error).values())) == (2, most)


def test_available_memory_is_a_limit_for_several_models(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "memory_of_model", lambda _: 1000)
    status, error = serve("one.gguf", "--model", "two.gguf")
    assert status == 1
    assert "0.0 MB of memory are available for models" in error
    assert set(_needed(error.replace(":", ","))) == {"'one'", "'two'"}
    assert "--memory" not in error


def test_r_sees_the_argument_of_its_function(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LANGUAGE_VARIABLE, "R")
    status, error = serve("one.gguf", "--memory", "1kb")
    assert status == 2
    assert error.startswith("llamaherd: memory of server_start() is 0.0 MB, but")


def test_the_cache_of_one_model_stays_within_the_memory(
    serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[int] = []

    def create(host: Any, *_: object) -> Any:
        work = Work(needs=[tiny_models.N_CTX] * 4)
        planned.append(host._sizing.plan(work).memory_bytes)
        return make(host, *_)

    make = app.create_app
    monkeypatch.setattr(app, "create_app", create)
    _, error = serve("one.gguf", "--memory", "1kb")
    least = int(max(_needed(error).values()))
    assert serve("one.gguf")[0] == serve("one.gguf", "--memory", f"{least}00kb")[0] == 0
    free, limited = planned
    assert limited < free
    assert limited <= 100_000 * least - (folder / "one.gguf").stat().st_size
