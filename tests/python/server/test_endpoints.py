"""Embeddings, scores, labels, codes and tokens over HTTP equal the library's."""

from __future__ import annotations

import base64
import json
import math
import re
from array import array
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import openai
import pytest
import tiny_models
from llamaherd.coding.annotation.codebook_file import codebook_yaml
from llamaherd.engine.native.embedder import NativeEmbedder
from served import NAME, served

if TYPE_CHECKING:
    from pathlib import Path

    from served import Client

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TEXTS = ["one two", "three", "one two"]
LABELS = ["yes", "no", "maybe"]
CONTEXT = {"deterministic": True}


def _ok(real: Client, path: str, body: dict[str, Any]) -> Any:
    status, response = real.post(path, body)
    assert status == 200, response
    return response


def _get(real: Client, path: str) -> Any:
    status, response, _ = real.ask("GET", path)
    assert status == 200, response
    return response


# ---- embeddings ----


def test_vectors_are_those_of_the_library(real: Client, ctx: lh.Context) -> None:
    expected = lh.embed_parallel(ctx, TEXTS)
    response = _ok(real, "/v1/embeddings", {"input": TEXTS})
    assert [row["index"] for row in response["data"]] == [0, 1, 2]
    vectors = [row["embedding"] for row in response["data"]]
    assert np.allclose(vectors, expected.vectors, atol=1e-5)
    assert (response["object"], response["model"]) == ("list", NAME)
    n_tokens = [lh.embed_parallel(ctx, [text]).stats.n_tokens for text in TEXTS]
    assert response["usage"]["prompt_tokens"] == sum(n_tokens)  # each of two equal texts
    assert expected.stats.n_text_tokens == sum(n_tokens) > expected.stats.n_tokens
    encoded = _ok(real, "/v1/embeddings", {"input": "three", "encoding_format": "base64"})
    raw = base64.b64decode(encoded["data"][0]["embedding"])
    assert np.allclose(np.frombuffer(raw, "<f4"), expected.vectors[1], atol=1e-5)


def test_vectors_of_tokens_and_of_fewer_dimensions(real: Client, ctx: lh.Context) -> None:
    tokens = lh.tokenize(ctx.model, "three")
    (whole,) = lh.embed_parallel(ctx, ["three"], normalize=False).vectors
    for prompt in (tokens, [tokens]):
        response = _ok(
            real,
            "/v1/embeddings",
            {"input": prompt, "dimensions": 4, "normalize": False},
        )
        assert np.allclose(response["data"][0]["embedding"], whole[:4], atol=1e-4)
    response = _ok(real, "/embeddings", {"input": "three", "dimensions": 4})
    vector = np.array(response["data"][0]["embedding"])
    assert np.allclose(vector, whole[:4] / np.linalg.norm(whole[:4]), atol=1e-4)


def test_the_sdk_gets_vectors(real: Client, ctx: lh.Context) -> None:
    with openai.OpenAI(base_url=f"{real.url}/v1", api_key="none") as sdk:
        embeddings = sdk.embeddings.create(model=NAME, input=TEXTS)
    vectors = [row.embedding for row in embeddings.data]
    assert np.allclose(vectors, lh.embed_parallel(ctx, TEXTS).vectors, atol=1e-5)


def test_a_model_for_embeddings(ctx: lh.Context, tmp_path: Path) -> None:
    path = tiny_models.write(tmp_path / "other.gguf", "llama", seed=9)
    with (
        lh.Model(path) as other,
        served(ctx, embedding_model=other, embedding_name="other") as real,
    ):
        by_other = lh.embed_parallel(other, ["three"]).vectors[0]
        by_own = lh.embed_parallel(ctx, ["three"]).vectors[0]
        assert not np.allclose(by_other, by_own, atol=1e-3)
        for fields in (
            {},
            {"model": "other"},
            {"model": NAME},
            {"model": f"{NAME}.gguf"},
        ):
            response = _ok(real, "/v1/embeddings", {"input": "three", **fields})
            assert response["model"] == "other"
            assert np.allclose(response["data"][0]["embedding"], by_other, atol=1e-5)
        response = _ok(real, "/api/embed", {"input": "three", "model": NAME})
        assert response["model"] == "other"
        assert np.allclose(response["embeddings"][0], by_other, atol=1e-5)
        remote = lh.embed_parallel(lh.connect(real.url, NAME), ["three"])
        assert np.allclose(remote.vectors[0], by_other, atol=1e-5)
        status, response = real.post("/v1/embeddings", {"input": "a", "model": "x"})
        assert (status, response["error"]["code"]) == (404, "model_not_found")
        names = [row["id"] for row in _get(real, "/v1/models")["data"]]
        assert names == [NAME, "other"]
        assert _get(real, "/v1/models/other")["id"] == "other"


def test_models_of_one_name_generate_and_embed(ctx: lh.Context, tmp_path: Path) -> None:
    path = tiny_models.write(tmp_path / f"{NAME}.gguf", "llama", seed=9)
    with (
        lh.Model(path) as other,
        served(ctx, embedding_model=other, embedding_name=NAME) as real,
    ):
        vector = lh.embed_parallel(other, ["three"]).vectors[0]
        response = _ok(real, "/v1/embeddings", {"input": "three", "model": NAME})
        assert np.allclose(response["data"][0]["embedding"], vector, atol=1e-5)
        prompt = {"prompt": "a", "max_tokens": 2, "model": NAME}
        assert _ok(real, "/v1/completions", prompt)["model"] == NAME


def test_a_text_is_cut_as_in_vllms_api(real: Client) -> None:
    long = {"input": "a " * 600}
    cut = _ok(real, "/v1/embeddings", {**long, "truncate_prompt_tokens": -1})
    assert cut["data"] == _ok(real, "/v1/embeddings", {**long, "truncate": True})["data"]


def test_a_vector_that_cannot_be_computed_is_the_servers_fault(
    real: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = NativeEmbedder.run

    def without_numbers(embedder: NativeEmbedder, texts: Any) -> Any:
        return array("f", [math.nan] * len(run(embedder, texts)))

    monkeypatch.setattr(NativeEmbedder, "run", without_numbers)
    status, response = real.post("/v1/embeddings", {"input": ["one", "two"]})
    assert (status, response["error"]["code"]) == (500, "generation_failed")
    assert response["error"]["message"].startswith("input[0]: the vector")
    status, response = real.post("/v1/embeddings", {"input": "two " * 600})
    assert (status, response["error"]["code"]) == (400, "context_length_exceeded")


# ---- scores and labels ----


def test_scores_are_those_of_the_library(real: Client, ctx: lh.Context) -> None:
    prompts, texts = ["The sky is", "x"], [[" blue", " green"], " y"]
    expected = lh.score_parallel(ctx, prompts, texts)
    response = _ok(real, "/v1/score", {"prompts": prompts, "continuations": texts})
    for row, scores in zip(response["data"], expected.continuations, strict=True):
        assert row["error"] is None
        assert scores is not None
        for entry, one in zip(row["continuations"], scores, strict=True):
            assert (entry["text"], entry["tokens"]) == (one.text, one.tokens)
            assert entry["token_logprobs"] == pytest.approx(list(one.token_logprobs))
            assert entry["logprob"] == pytest.approx(one.logprob)
    assert response["usage"]["prompt_tokens"] == expected.stats.n_prompt_tokens


def test_labels_are_those_of_the_library(real: Client, ctx: lh.Context) -> None:
    options: dict[str, Any] = {"chat": True, "system": "Short.", "normalize": "token"}
    expected = lh.classify_parallel(ctx, TEXTS, LABELS, **options)
    body = {"prompts": TEXTS, "labels": LABELS, **options}
    response = _ok(real, "/v1/classify", body)
    for i, row in enumerate(response["data"]):
        assert row["label"] == expected.labels[i]
        assert list(row["probs"]) == LABELS
        assert list(row["probs"].values()) == pytest.approx(expected.probs[i].tolist())
        assert row["entropy"] == pytest.approx(expected.entropy[i])
    named = _ok(
        real, "/classify", {"prompts": ["a"], "labels": {"yes": "good", "no": "bad"}}
    )
    assert set(named["data"][0]["probs"]) == {"good", "bad"}


def test_a_row_that_fails_has_its_error_and_the_others_their_labels(
    real: Client,
) -> None:
    prompts = ["a", "b " * 600]
    rows = _ok(real, "/v1/classify", {"prompts": prompts, "labels": LABELS})["data"]
    assert rows[0]["error"] is None
    assert rows[0]["label"] in LABELS
    assert (rows[1]["label"], rows[1]["prob"]) == (None, None)
    assert rows[1]["error"]["code"] == "too_long"
    rows = _ok(real, "/v1/score", {"prompts": prompts, "continuations": " c"})["data"]
    assert [row["error"] and row["error"]["code"] for row in rows] == [None, "too_long"]


# ---- codes ----

CODEBOOK = lh.Codebook("What is it about?", labels={"food": "It is eaten.", "sport": ""})


@pytest.mark.parametrize("as_yaml", [False, True])
def test_codes_are_those_of_the_library(
    real: Client, ctx: lh.Context, as_yaml: bool
) -> None:
    texts = ["They ate soup.", None, "A goal!"]
    expected = lh.annotate({"text": texts}, "text", CODEBOOK, ctx)
    codebook = codebook_yaml(CODEBOOK) if as_yaml else CODEBOOK.to_dict()
    response = _ok(real, "/v1/annotate", {"texts": texts, "codebook": codebook})
    assert [row["label"] for row in response["data"]] == expected.labels
    assert expected.probs is not None
    assert [row["p_food"] for row in response["data"]] == pytest.approx(
        [expected.probs[0, 0], None, expected.probs[2, 0]]
    )
    assert all(row["error"] is None for row in response["data"])
    assert response["codebook"] == CODEBOOK.hash


def test_fields_that_a_codebook_asks_for(real: Client) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"enum": [1, 2]}, "all": {"type": "boolean"}},
        "required": ["n", "all"],
        "additionalProperties": False,
    }
    codebook = {"question": "How many?", "type": "fields", "schema": schema}
    body = {"texts": ["a", "b"], "codebook": codebook, "max_tokens": 40}
    for row in _ok(real, "/v1/annotate", body)["data"]:
        assert row["n"] in (1, 2)
        assert isinstance(row["all"], bool)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": TEXTS}),
        ("/embeddings", {"input": TEXTS}),
        ("/v1/score", {"prompts": ["The sky is"], "continuations": [[" blue", " red"]]}),
        ("/v1/classify", {"prompts": TEXTS, "labels": LABELS}),
        ("/v1/annotate", {"texts": TEXTS, "codebook": CODEBOOK.to_dict()}),
    ],
)
def test_metrics_count_tokens_by_kind(
    real: Client, path: str, body: dict[str, Any]
) -> None:
    kind = path.rpartition("/")[2]
    before = _work_tokens(real)
    usage = _ok(real, path, body)["usage"]
    after = _work_tokens(real)
    grown = {key: n - before.get(key, 0) for key, n in after.items()}
    assert grown.pop((kind, "prompt")) == usage["prompt_tokens"] > 0
    reused = grown.pop((kind, "reused"))
    if kind == "embeddings":
        assert 0 < reused < usage["prompt_tokens"]  # two of the texts are equal
    else:
        assert reused == usage["prompt_tokens_details"]["cached_tokens"]
    assert all(n == 0 for n in grown.values())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": ["one two", "one " * 5000]}),
        ("/v1/rerank", {"query": "one", "documents": ["two three", "one " * 5000]}),
    ],
)
def test_tokens_count_if_another_text_is_too_long(
    real: Client, path: str, body: dict[str, Any]
) -> None:
    kind = path.rpartition("/")[2]
    before = _work_tokens(real).get((kind, "prompt"), 0)
    status, response = real.post(path, body)
    assert (status, response["error"]["code"]) == (400, "context_length_exceeded")
    assert _work_tokens(real)[kind, "prompt"] > before


def _work_tokens(real: Client) -> dict[tuple[str, str], float]:
    text = real.ask("GET", "/metrics")[1]
    pattern = r'^llamaherd_work_tokens_total{kind="(\w+)",part="(\w+)"} (\S+)$'
    rows = re.findall(pattern, text, re.MULTILINE)
    return {(kind, part): float(n) for kind, part, n in rows}


# ---- tokens ----


def test_tokens_and_texts(real: Client, ctx: lh.Context) -> None:
    text = "one two</s>"
    response = _ok(real, "/tokenize", {"prompt": text, "return_token_strs": True})
    parsed = lh.tokenize(ctx.model, text, parse_special=True)
    assert (response["tokens"], response["count"]) == (parsed, len(parsed))
    assert len(response["token_strs"]) == len(parsed)
    assert response["max_model_len"] == ctx.model.n_ctx_train
    plain = _ok(real, "/tokenize", {"prompt": text, "add_special_tokens": False})
    assert plain["tokens"] == lh.tokenize(
        ctx.model, text, add_special=False, parse_special=True
    )
    # Clients send the fields of chats, and of other servers, as null.
    nulls = dict.fromkeys(("messages", "temperature", "tools", "best_of", "bad_words"))
    assert _ok(real, "/tokenize", {"prompt": text, **nulls})["tokens"] == parsed
    of_llama = _ok(real, "/tokenize", {"content": "one", "add_special": True})
    assert of_llama["tokens"] == lh.tokenize(ctx.model, "one")
    back = _ok(real, "/detokenize", {"tokens": plain["tokens"]})
    assert back["prompt"] == back["content"]
    assert back["prompt"].strip() == text


def test_what_lm_eval_asks_of_a_tokenizer(real: Client, ctx: lh.Context) -> None:
    info = _get(real, "/tokenizer_info")
    assert {"eos_token", "bos_token", "pad_token", "chat_template"} <= info.keys()
    assert info["chat_template"] == TEMPLATE
    for name, token in (
        ("eos_token", ctx.model.info.eos),
        ("bos_token", ctx.model.info.bos),
    ):
        body = _ok(real, "/tokenize", {"prompt": info[name], "add_special_tokens": False})
        assert body["tokens"] == [token]


def test_the_prompt_of_a_chat(real: Client, ctx: lh.Context) -> None:
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    prompt = lh.apply_chat_template(ctx.model, messages)
    response = _ok(real, "/apply-template", {"messages": messages, "max_tokens": 3})
    assert response == {"prompt": prompt}
    tokens = _ok(real, "/tokenize", {"messages": messages})
    body = {"messages": messages, "max_tokens": 1, "seed": 1}
    usage = _ok(real, "/v1/chat/completions", body)["usage"]
    assert tokens["count"] == usage["prompt_tokens"]


@pytest.mark.parametrize("more", [{}, {"show_schema": False}])
def test_the_prompt_of_a_chat_shows_the_schema_of_its_answer(
    real: Client, more: dict[str, Any]
) -> None:
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}}
    form = {"type": "json_schema", "json_schema": {"name": "c", "schema": schema}}
    body = {"messages": [{"role": "user", "content": "U"}], "response_format": form}
    prompt = _ok(real, "/apply-template", {**body, **more})["prompt"]
    assert ("colour" in prompt) is not bool(more)
    tokens = _ok(real, "/tokenize", {**body, **more})
    answer = _ok(real, "/v1/chat/completions", {**body, **more, "max_tokens": 9})
    assert tokens["count"] == answer["usage"]["prompt_tokens"]


def test_special_tokens_of_a_template_that_begins_with_text_count_as_tokens(
    tmp_path: Path,
) -> None:
    template = "Chat: {% for m in messages %}{{ m.content }}</s>{% endfor %}"
    path = tiny_models.write(tmp_path / "t.gguf", "llama", chat_template=template)
    messages = {"messages": [{"role": "user", "content": "U"}]}
    with lh.Model(path) as model, lh.Context(model) as ctx, served(ctx) as real:
        tokens = _ok(real, "/tokenize", messages)["tokens"]
        assert tokens[-1] == model.info.eos
        usage = _ok(real, "/v1/chat/completions", {**messages, "max_tokens": 1})["usage"]
        assert len(tokens) == usage["prompt_tokens"]


# ---- others ----


def test_what_chat_ollama_asks_first(real: Client) -> None:
    """ellmer lists the models, requests the abilities of each, and then sends chats."""
    (model,) = _get(real, "/api/tags")["models"]
    assert model["name"] == NAME
    assert isinstance(model["size"], int)
    assert model["modified_at"].endswith("+00:00")
    details = _ok(real, "/api/show", {"model": model["name"]})
    assert "completion" in details["capabilities"]
    assert details["details"]["family"] == "llama"
    assert _ok(real, "/api/show", {"model": f"{NAME}:latest"}) == details
    status, response = real.post("/api/show", {"model": "other"})
    assert (status, response["error"]["code"]) == (404, "model_not_found")


def test_version(real: Client) -> None:
    assert _get(real, "/version") == {"version": lh.__version__}


@pytest.mark.parametrize("path", ["/health", "/nowhere", "/v1/completions"])
def test_a_request_has_its_id(real: Client, path: str) -> None:
    request = ("POST", path, {"prompt": "a", "stream": True, "max_tokens": 1})
    headers = real.ask(*request, headers={"X-Request-Id": "abc-1.2"})[2]
    assert headers["x-request-id"] == "abc-1.2"
    first, second = (real.ask(*request)[2]["x-request-id"] for _ in range(2))
    assert len(first) == 32
    assert first != second


@pytest.mark.parametrize("value", ["a b", "x" * 200, "a\tb", "é"])
def test_an_odd_id_does_not_come_back(real: Client, value: str) -> None:
    headers = real.ask("GET", "/health", headers={"X-Request-Id": value})[2]
    assert len(headers["x-request-id"]) == 32
    assert json.dumps(value) not in json.dumps(headers)
