"""Several models on one server. Tiny random models are loaded quickly."""

from __future__ import annotations

import gc
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import psutil
import pytest
import tiny_models
from batch_requests import begun, entry, jsonl, outcomes, sdk_of, wait_for_end
from llamaherd.calls.run.context import checked_options
from llamaherd.cli.main import main
from llamaherd.engine.core.words import R, spoken_in
from llamaherd.engine.memory import hardware
from llamaherd.engine.memory.device import Placement
from llamaherd.engine.model.model import Model
from llamaherd.engine.native import shim
from llamaherd.engine.native.shim import GpuMemory
from llamaherd.server import serving
from llamaherd.server.app import create_app, create_app_of_models
from llamaherd.server.models.spec import AdapterSpec, ModelSpec
from llamaherd.server.routes import FORMATS
from llamaherd.server.settings import ServerSettings
from llamaherd.server.tokenizing import TokenizeApi
from served import BODIES, NAME, room_for, served, served_app, served_models, started_with
from waiting import HANGS_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from served import Client

ASK = {"prompt": "yes, the answer", "max_tokens": 6, "temperature": 0}
TEXT = "/v1/completions"


def _specs(folder: Path) -> list[ModelSpec]:
    style = AdapterSpec("style", folder / "style.gguf")
    return [
        ModelSpec("one", folder / "one.gguf", (style,)),
        ModelSpec("two", folder / "two.gguf"),
        ModelSpec("vectors", folder / "vectors.gguf"),
    ]


def _room_for_one(folder: Path) -> int:
    """Return an amount of memory in which any one model fits, but no two models."""
    sizes = sorted(map(room_for, _specs(folder)))
    assert sizes[-1] < sizes[0] + sizes[1]
    return sizes[-1]


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    with served_models(_specs(folder)) as connection:
        yield connection


def _states(client: Client) -> dict[str, str]:
    states = client.ask("GET", "/dashboard.json")[1]["states"]
    return {model["name"]: model["state"] for model in states}


def _text(client: Client, model: str, **more: Any) -> str:
    status, response = client.post(TEXT, {**ASK, "model": model, **more})
    assert status == 200, response
    assert response["model"] == model
    text: str = response["choices"][0]["text"]
    return text


def _alone(path: Path, **options: Any) -> str | None:
    with lh.Model(path, **options) as model, lh.Context(model, n_threads=1) as ctx:
        return lh.generate(ctx, ASK["prompt"], max_tokens=6).text


def test_each_model_answers_as_it_does_alone(client: Client, folder: Path) -> None:
    texts = {name: _text(client, name) for name in ("one", "two", "style")}
    assert texts == {
        "one": _alone(folder / "one.gguf"),
        "two": _alone(folder / "two.gguf"),
        "style": _alone(folder / "one.gguf", lora=folder / "style.gguf"),
    }
    assert len(set(texts.values())) == 3
    assert _text(client, "one") == texts["one"]  # the adapter did not change the model


def test_every_path_takes_the_name_of_a_model(client: Client) -> None:
    of_texts = ("/generate", TEXT, "/v1/score", "/v1/classify", "/v1/embeddings")
    for path in (*of_texts, "/tokenize", "/detokenize"):
        body = BODIES[path]
        for name, status in [("two", 200), ("style", 200), ("none", 404)]:
            response = client.post(path, {**body, "model": name})
            assert response[0] == status, (path, name, response)
        error = response[1]["error"]
        assert (error["param"], error["code"]) == ("model", "model_not_found")
        assert "'one', 'style', 'two' and 'vectors'" in error["message"]
        assert client.post(path, body)[0] == 200  # the first
        assert client.post(path, {**body, "model": 1})[0] == 400
    assert client.post(TEXT, {**ASK, "model": "two.gguf"})[0] == 200


def test_an_encoder_embeds_and_answers_nothing(client: Client) -> None:
    status, response = client.post("/v1/embeddings", {"model": "vectors", "input": "yes"})
    assert (status, response["model"]) == (200, "vectors")
    asks: list[tuple[str, dict[str, Any]]] = [
        (TEXT, ASK),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
        ("/v1/responses", {"input": "a"}),
        ("/v1/classify", {"prompts": ["a"], "labels": ["yes", "no"]}),
        ("/v1/score", {"prompts": ["a"], "continuations": ["b"]}),
        ("/v1/annotate", {"texts": ["a"], "codebook": {}}),
    ]
    for path, body in asks:
        status, response = client.post(path, {**body, "model": "vectors"})
        assert (status, response["error"]["code"]) == (400, "embeddings_only"), path
        assert "'vectors' computes embeddings only" in response["error"]["message"]
    assert client.post("/tokenize", {"model": "vectors", "prompt": "yes"})[0] == 200


def test_lists_of_models_have_all_of_them(client: Client) -> None:
    names = ["one", "style", "two", "vectors"]
    data = client.ask("GET", "/v1/models")[1]["data"]
    assert [row["id"] for row in data] == names
    assert [row.get("parent") for row in data] == [None, "one", None, None]
    assert client.ask("GET", "/v1/models/style")[1]["parent"] == "one"
    assert client.ask("GET", "/v1/models/none")[0] == 404
    models = client.ask("GET", "/api/tags")[1]["models"]
    assert [row["name"] for row in models] == names
    assert models[1]["details"]["parent_model"] == "one"
    for name in ("two", "vectors"):
        status, response, _ = client.ask("GET", f"/tokenizer_info?model={name}")
        assert status == 200
        assert response["model_max_length"] == tiny_models.N_CTX
    assert client.ask("GET", "/tokenizer_info?model=none")[0] == 404
    assert client.ask("GET", "/health")[1] == {"status": "ok"}


def test_what_ollamas_programs_ask_about_each_model_loads_none(
    folder: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes((folder / "two.gguf").read_bytes()[:5000])
    with served_models([*_specs(folder), ModelSpec("bad", bad)]) as client:
        details = {}
        for name in ("one", "style:latest", "two", "vectors"):
            status, details[name] = client.post("/api/show", {"model": name})
            assert status == 200
        assert client.post("/api/show", {"name": "two"}) == (200, details["two"])
        assert details["style:latest"]["details"]["parent_model"] == "one"
        assert details["two"]["capabilities"] == ["completion"]
        assert details["vectors"]["capabilities"] == ["embedding"]
        assert details["two"]["model_info"]["llama.context_length"] == tiny_models.N_CTX
        status, response = client.post("/api/show", {"model": "bad"})
        assert (status, response["error"]["code"]) == (500, "model_not_loaded")
        assert client.post("/api/show", {"model": "none"})[0] == 404
        assert client.post("/api/show", {})[0] == 400
        assert client.ask("GET", "/api/tags")[0] == 200
        assert set(_states(client).values()) == {"unloaded"}
        _text(client, "two")
        loaded = client.post("/api/show", {"model": "two"})[1]
        assert loaded["model_info"]["general.parameter_count"] > 1000
        bad.write_bytes((folder / "two.gguf").read_bytes())
        assert client.post("/api/show", {"model": "bad"})[0] == 200


def test_figures_are_by_model(client: Client) -> None:
    _text(client, "two")
    _text(client, "style")
    text = client.ask("GET", "/metrics")[1]

    def value(line: str) -> float:
        match = re.search(rf"^{re.escape(line)} (\S+)$", text, re.MULTILINE)
        assert match, line
        return float(match[1])

    for name in ("two", "style"):
        assert value(f'llamaherd_generated_tokens_total{{model="{name}"}}') >= 6
        assert value(f'llamaherd_n_slots{{model="{name}"}}') >= 1
        path = f'llamaherd_requests_total{{model="{name}",path="{TEXT}",status="200"}}'
        assert value(path) >= 1
    assert value('llamaherd_model_n_loads{model="one"}') == 1
    assert value('llamaherd_model_n_bytes{model="two"}') > 1000
    assert 'model_n_loads{model="style"}' not in text  # loaded with its model


def test_batches_use_any_model(client: Client) -> None:
    names = ("one", "two", "style", "none")
    asks = [
        {**ASK, "model": name, "prompt": f"the answer {i}"}
        for i in range(3)
        for name in names
    ]
    with sdk_of(client) as sdk:
        lines = jsonl(entry(i, **fields) for i, fields in enumerate(asks))
        ended = wait_for_end(sdk, begun(sdk, lines))
        assert (ended.request_counts.completed, ended.request_counts.failed) == (9, 3)
        good = outcomes(sdk, ended.output_file_id)
    for line in good:
        fields = asks[int(line["custom_id"].removeprefix("id-"))]
        text = line["response"]["body"]["choices"][0]["text"]
        assert text == _text(client, str(fields["model"]), prompt=fields["prompt"])


def test_a_batch_says_that_it_waits_for_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, prepare = threading.Event(), TokenizeApi.prepare

    def held(api: TokenizeApi, fields: dict[str, object]) -> dict[str, object]:
        assert may_end.wait(HANGS_S)
        return prepare(api, fields)

    monkeypatch.setattr(TokenizeApi, "prepare", held)
    memory = _room_for_one(folder)
    with (
        served_models(_specs(folder), memory=memory) as client,
        sdk_of(client) as sdk,
        ThreadPoolExecutor(1) as pool,
    ):
        body = {"model": "one", "prompt": "yes"}
        in_use = pool.submit(client.post, "/tokenize", body)
        try:
            wait_until(lambda: _states(client)["one"] == "loaded")
            batch = begun(sdk, jsonl([entry(0, **ASK, model="two")]))
            wait_until(lambda: bool(sdk.batches.retrieve(batch.id).errors))
            (error,) = sdk.batches.retrieve(batch.id).errors.data
            assert error.code == "waiting_for_memory"
            (progress,) = client.ask("GET", "/dashboard.json")[1]["batches"]
            assert progress["problem"] == error.message
            vectors = entry(0, "/v1/embeddings", input="yes", model="vectors")
            other = begun(sdk, jsonl([vectors]), "/v1/embeddings")
            wait_until(lambda: bool(sdk.batches.retrieve(other.id).errors))
            for queued, name in ((batch, "two"), (other, "vectors")):
                (error,) = sdk.batches.retrieve(queued.id).errors.data
                assert f"the model {name!r}" in error.message
        finally:
            may_end.set()
        assert in_use.result()[0] == 200
        for queued in (batch, other):
            ended = wait_for_end(sdk, queued)
            assert (ended.status, ended.errors) == ("completed", None)


@pytest.mark.long(reason="many requests or long waits in the server")
def test_swaps_are_alike_and_leave_no_memory(tmp_path: Path, folder: Path) -> None:
    for path in folder.glob("*.gguf"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    folder = tmp_path
    with served_models(_specs(folder), memory=_room_for_one(folder)) as client:
        texts = {name: _text(client, name) for name in ("one", "two", "style")}
        process = psutil.Process()
        sizes = []
        for _ in range(4):
            for _ in range(15):
                for name in ("two", "style"):
                    assert _text(client, name) == texts[name]
                client.post("/v1/embeddings", {"model": "vectors", "input": "yes"})
            sizes.append(process.memory_info().rss)
        figures = client.ask("GET", "/metrics")[1]
        match = re.search(r'model_n_unloads{model="two"} (\d+)', figures)
        assert match
        assert int(match[1]) >= 60
        assert sizes[3] - sizes[1] < 8 << 20, sizes  # 180 models exceed this
        # The thread that closed a model drops its last reference a little later.
        wait_until(lambda: _n_objects_of(folder) <= 2)


def _n_objects_of(path: Path) -> int:
    """Return the number of models of a file or folder whose objects exist."""
    models = [x for x in gc.get_objects() if isinstance(x, Model)]
    return sum(x.path is not None and path in {x.path, x.path.parent} for x in models)


def test_a_replaced_model_is_freed_at_once(tmp_path: Path, folder: Path) -> None:
    """A cycle of objects kept it until Python's collector came, if it came."""
    for path in folder.glob("*.gguf"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    gc.disable()
    try:
        with served_models(_specs(tmp_path), memory=_room_for_one(tmp_path)) as client:
            for path in ("/v1/completions", "/v1/score", "/v1/embeddings"):
                assert client.post(path, {**BODIES[path], "model": "one"})[0] == 200
            _text(client, "two")
            wait_until(lambda: _n_objects_of(tmp_path / "one.gguf") == 0)
    finally:
        gc.enable()


def test_swaps_under_load_lose_no_answer(folder: Path) -> None:
    names = ["one", "two", "style"]
    with served_models(_specs(folder), memory=_room_for_one(folder)) as client:
        expected = {name: _text(client, name) for name in names}

        def is_right(i: int) -> bool:
            name = names[i % 3]
            if i % 7 == 0:  # disconnects at any time
                client.connect(TEXT, {**ASK, "model": name}).close()
                return True
            return _text(client, name) == expected[name]

        with ThreadPoolExecutor(6) as pool:
            assert all(pool.map(is_right, range(90)))
        assert client.server is not None
        wait_until(lambda: client.server.shared.queue.n_inside == 0)  # type: ignore[union-attr]
        assert {_text(client, name) for name in names} == set(expected.values())


def test_a_damaged_file_fails_alone_until_its_model_is_loaded_again(
    folder: Path, tmp_path: Path
) -> None:
    bad, lora = tmp_path / "bad.gguf", tmp_path / "lora.gguf"
    bad.write_bytes((folder / "two.gguf").read_bytes()[:5000])
    lora.write_bytes((folder / "style.gguf").read_bytes()[:300])
    adapter = AdapterSpec("lora", lora)
    specs = [ModelSpec("one", folder / "one.gguf", (adapter,)), ModelSpec("bad", bad)]
    with served_models(specs) as client:
        for name in ("bad", "lora", "bad", "lora"):
            status, response = client.post(TEXT, {**ASK, "model": name})
            assert (status, response["error"]["code"]) == (500, "model_not_loaded")
            assert f"'{name}' cannot be loaded" in response["error"]["message"]
            assert _text(client, "one")
        assert client.ask("GET", "/health")[0] == 200
        bad.unlink()
        response = client.post(TEXT, {**ASK, "model": "bad"})[1]
        message = "the model 'bad' cannot be loaded: bad.gguf was removed"
        assert response["error"]["message"] == message
        bad.write_bytes((folder / "two.gguf").read_bytes())
        lora.write_bytes((folder / "style.gguf").read_bytes())
        assert _text(client, "bad") == _alone(bad)
    with served_models(specs) as client:
        assert _text(client, "lora") == _alone(folder / "one.gguf", lora=lora)


def test_a_fixed_context_takes_memory_for_all_of_it(folder: Path) -> None:
    """A server with too little memory for its fixed context does not start."""
    known = ServerSettings(model_name="one", memory=_room_for_one(folder))
    with pytest.raises(lh.ArgumentError, match=r"--memory is .* for 'one'") as caught:
        create_app_of_models(_specs(folder), known, {"n_ctx": 1 << 20}, {})
    assert caught.value.code == "out_of_range"
    # The memory limit determines the size of the cache, which the prompt must fit.
    spec = ModelSpec("two", folder / "two.gguf")
    room = room_for(spec)
    with served_models([spec], memory=room) as client:
        status, response = client.post(TEXT, {**ASK, "model": "two", "max_tokens": 400})
        assert (status, response["error"]["code"]) == (400, "context_length_exceeded")


def test_a_fixed_context_is_compared_with_the_memory_that_it_takes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Types of the cache, its device and determinism count, as with one model."""
    spec = ModelSpec("two", folder / "two.gguf")
    n_ctx = 1000
    with lh.Model(spec.path) as model, lh.Context(model) as ctx:
        cell = ctx.loop._sizing._bytes_per_cell
    f16, gpu = n_ctx * cell, (1 << 50)
    gpus = (GpuMemory("FAKE", "a fake", gpu, gpu),)
    monkeypatch.setattr(shim, "gpus", lambda: gpus)

    def fits(total: int, has_gpu: bool = False, **extra: Any) -> bool:
        monkeypatch.setattr(hardware, "total_memory", lambda: total)
        monkeypatch.setattr(shim, "supports_gpu", lambda: has_gpu)
        of_model = {name: extra.pop(name) for name in ("n_gpu_layers",) if name in extra}
        known = ServerSettings(model_name="two", memory=1 << 30)
        try:
            create_app_of_models([spec], known, {"n_ctx": n_ctx, **extra}, of_model)
        except lh.ContextError:
            return False
        return True

    assert fits(f16)
    assert not fits(f16 - 1)
    assert fits(f16 - 1, type_k="q8_0", type_v="q8_0", flash_attn=True)
    assert not fits(f16, type_k="f32")
    assert fits(f16, deterministic=True)  # bf16 is as large as f16
    assert fits(f16 - 1, n_gpu_layers=-1, has_gpu=True)
    assert fits(f16 - 1, n_gpu_layers="auto", has_gpu=True)
    assert not fits(f16 - 1, n_gpu_layers="auto")
    assert not fits(f16 - 1, n_gpu_layers=-1, has_gpu=True, offload_kqv=False)


def test_the_least_memory_depends_on_the_settings(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ModelSpec("two", folder / "two.gguf")

    def needed(n_gpu_layers: int = 0, **options: Any) -> int:
        return spec.n_working(
            checked_options(options), Placement(n_gpu_layers=n_gpu_layers)
        )

    usual = needed()
    assert needed(type_k="q8_0", type_v="q8_0") < usual < needed(type_k="f32")
    assert needed(n_ubatch=32) < usual
    monkeypatch.setattr(shim, "supports_gpu", lambda: True)
    assert needed(n_gpu_layers=-1) > usual  # more prompts at once on a GPU


def test_a_client_that_goes_while_its_model_is_loaded(folder: Path) -> None:
    with served_models(_specs(folder)) as client:
        client.connect(TEXT, {**ASK, "model": "two"}).close()
        wait_until(lambda: client.server.shared.queue.n_inside == 0)  # type: ignore[union-attr]
        assert _text(client, "two")


def test_one_encoder_is_a_server(folder: Path) -> None:
    with (
        lh.Model(folder / "vectors.gguf") as model,
        served_app(lambda known: create_app(model, known)) as client,
    ):
        assert client.post("/v1/embeddings", {"input": "yes"})[0] == 200
        status, response = client.post(TEXT, ASK)
        assert (status, response["error"]["code"]) == (400, "embeddings_only")
        for path in ("/v1/models", "/api/tags", "/tokenizer_info", "/health", "/metrics"):
            assert client.ask("GET", path)[0] == 200, path
        assert client.ask("GET", "/dashboard.json")[1]["load"]["n_slots"] == 0


def test_one_model_beside_one_for_embeddings(folder: Path) -> None:
    with (
        lh.Model(folder / "one.gguf") as model,
        lh.Model(folder / "vectors.gguf") as vectors,
        lh.Context(model, n_threads=1) as ctx,
        served(ctx, embedding_model=vectors, embedding_name="vectors") as client,
    ):
        assert client.ask("GET", "/v1/models/vectors")[0] == 200
        tags = client.ask("GET", "/api/tags")[1]["models"]
        assert [row["name"] for row in tags] == [NAME, "vectors"]
        for name, ability in ((NAME, "completion"), ("vectors", "embedding")):
            details = client.post("/api/show", {"model": name})[1]
            assert details["capabilities"][0] == ability
        for query, expected in [
            ("", model),
            (f"?model={NAME}", model),
            ("?model=vectors", vectors),
        ]:
            info = client.ask("GET", f"/tokenizer_info{query}")[1]
            assert info["tokenizer_class"] == expected.metadata["tokenizer.ggml.model"]
        assert client.ask("GET", "/tokenizer_info?model=other")[0] == 404


def test_any_name_means_the_first(folder: Path) -> None:
    with served_models(_specs(folder), any_model=True) as client:
        status, response = client.post(TEXT, {**ASK, "model": "gpt-4"})
        assert (status, response["model"]) == (200, "one")
        assert _text(client, "two")


def test_a_model_that_neither_answers_nor_embeds(folder: Path, tmp_path: Path) -> None:
    path = tiny_models.write(tmp_path / "t5.gguf", "t5")
    assert main(["serve", str(path), "--port", "0"]) == 1
    specs = [ModelSpec("one", folder / "one.gguf"), ModelSpec("t5", path)]
    with served_models(specs) as client:
        status, response = client.post(TEXT, {**ASK, "model": "t5"})
        assert (status, response["error"]["code"]) == (500, "model_not_loaded")
        assert "has an encoder" in response["error"]["message"]
        assert _text(client, "one")


@pytest.mark.slow(reason="two servers that are processes")
def test_the_command_serves_models_and_adapters(folder: Path) -> None:
    options = [
        *("--model", str(folder / "one.gguf"), "--model", f"b={folder / 'two.gguf'}"),
        *("--lora", f"x={folder / 'style.gguf'}@one", "--memory", "1GB"),
    ]
    with started_with(*options) as client:
        data = client.ask("GET", "/v1/models")[1]["data"]
        assert [row["id"] for row in data] == ["one", "x", "b"]
        answers = [_text(client, name) for name in ("one", "x", "b")]
        assert len(set(answers)) == 3
    with started_with(str(folder / "vectors.gguf")) as client:
        assert client.post("/v1/embeddings", {"input": "yes"})[0] == 200


def test_requests_go_on_while_another_model_is_loaded(folder: Path) -> None:
    with served_models(_specs(folder)) as client:
        _text(client, "one")
        ends = threading.Event()
        seen: list[str] = []

        def stream() -> None:
            while not ends.is_set():
                seen.append(_text(client, "one"))

        thread = threading.Thread(target=stream)
        thread.start()
        try:
            wait_until(lambda: len(seen) > 2)
            _text(client, "two")
            n = len(seen)
            wait_until(lambda: len(seen) > n + 2)
        finally:
            ends.set()
            thread.join()
        assert len(set(seen)) == 1


def test_buffers_count_as_memory_of_a_model(folder: Path) -> None:
    """Three models fit by weights and caches; with their buffers, only two fit."""
    specs = [
        ModelSpec(name, tiny_models.write(folder / f"{name}.gguf", "llama", seed))
        for seed, name in enumerate(("first", "second", "third"), 5)
    ]
    room = room_for(specs[0])
    assert room > 3 * (specs[0].n_bytes * 9 // 8)
    memory = room * 5 // 2
    with served_models(specs, memory=memory) as client:
        for _ in range(2):
            for spec in specs:
                assert _text(client, spec.name) == _alone(spec.path)
                text = client.ask("GET", "/metrics")[1]
                sizes = re.findall(
                    r"^llamaherd_model_n_bytes\S* (\S+)$", text, re.MULTILINE
                )
                assert len(sizes) == 3
                assert room <= sum(map(float, sizes)) <= memory
                states = list(_states(client).values())
                assert states.count("loaded") in {1, 2}, states


def test_a_server_that_r_starts_answers_in_the_words_of_json(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = serving.Server.run

    def run_in_r(server: serving.Server, *args: Any) -> None:
        with spoken_in(R):
            run(server, *args)

    monkeypatch.setattr(serving.Server, "run", run_in_r)
    body = {"model": "one", "verbose": 3}
    with served_models(_specs(folder)) as client:
        status, response = client.post("/api/show", body)
        message = response["error"]["message"]
        assert (status, message) == (400, "verbose must be true or false, not 3")
        for path in FORMATS:
            for wrong in ({"model": True}, {"model": []}, {**body, "user": 3}):
                status, response = client.post(path, wrong)
                assert 400 <= status < 500, (path, response)
                message = response["error"]["message"]
                assert not re.search("TRUE|FALSE|named list|list of length", message)
