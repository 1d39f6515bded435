"""Engines elsewhere that misbehave: nothing is lost, mixed up or told."""

from __future__ import annotations

import json
import math
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.engine.core.declaration import options_of
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.remote import client
from llamaherd.remote.openai_form import form_of
from openai_server import KEY, openai_server, reply_of

if TYPE_CHECKING:
    from openai_server import Reply

FIELDS = Path(__file__).parents[1] / "server" / "request_fields.json"


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_PAUSE_S", 0.001)
    monkeypatch.delenv("LLAMAHERD_API_KEY", raising=False)


def _echo(_path: str, body: dict[str, Any], _n: int) -> Reply:
    return reply_of(f"re: {body['messages'][-1]['content']}")


def test_results_are_those_of_a_context_in_order() -> None:
    prompts = [f"p{i}" for i in range(40)]
    with openai_server(_echo) as server, lh.connect(server.url, n_at_once=4) as engine:
        out = lh.generate_parallel(
            engine, [*prompts, "p0"], chat=True, system="Be brief."
        )
        one = lh.generate(engine, "alone", chat=True)
    assert out.texts == [f"re: {prompt}" for prompt in [*prompts, "p0"]]
    assert one.text == "re: alone"
    assert server.most_at_once <= 4
    assert len(server.requests) == 41  # equal prompts are asked once
    _, body = server.requests[0]
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (body["model"], body["temperature"]) == ("tiny", 0)
    assert (out[0].n_prompt_tokens, out[0].n_generated_tokens) == (7, 3)
    assert out.stats.n_generated_tokens == 120
    assert out.stats.n_copied == 1


WRONG: dict[str, Reply] = {
    "broken": (500, {"error": {"message": "oh"}}, {}),
    "busy": (429, {"error": {"message": "later"}}, {"retry-after": "0.01"}),
    "cut": None,
    "no JSON": (200, b"<html>", {}),
    "a list": (200, [], {}),
    "no choices": (200, {"choices": []}, {}),
    "no message": (200, {"choices": [{}]}, {}),
    "no text": reply_of(None),
    "an error": (200, {"error": {"message": "inside"}}, {}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_request_that_goes_wrong_is_sent_again(name: str) -> None:
    def answer(path: str, body: dict[str, Any], n: int) -> Reply:
        return WRONG[name] if n < 3 else _echo(path, body, n)

    with openai_server(answer) as server, lh.connect(server.url) as engine:
        assert lh.generate_parallel(engine, ["a", "b"], chat=True).texts == [
            "re: a",
            "re: b",
        ]


@pytest.mark.parametrize("name", WRONG)
def test_only_the_guilty_prompt_fails(name: str) -> None:
    def answer(path: str, body: dict[str, Any], n: int) -> Reply:
        is_bad = body["messages"][-1]["content"] == "bad"
        return WRONG[name] if is_bad else _echo(path, body, n)

    with openai_server(answer) as server, lh.connect(server.url, retries=1) as engine:
        out = lh.generate_parallel(engine, ["a", "bad", "b"], chat=True)
    assert out.texts == ["re: a", None, "re: b"]
    assert out[1].error_code == "engine"
    assert "tried 2 times" in str(out[1].error)


def test_a_refused_request_is_not_sent_again() -> None:
    def answer(*_: object) -> Reply:
        return 400, {"error": {"message": "too long"}}, {}

    with openai_server(answer) as server, lh.connect(server.url) as engine:
        out = lh.generate_parallel(engine, ["a"], chat=True)
        with pytest.raises(lh.GenerationError, match="too long"):
            lh.generate(engine, "a", chat=True)
    assert "too long" in str(out[0].error)
    assert len(server.requests) == 2


def test_a_server_that_is_gone_ends_the_call_and_keeps_its_results(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "out.journal"
    with openai_server(_echo) as server:
        engine = lh.connect(server.url, retries=1)
        lh.generate_parallel(engine, ["a"], chat=True, journal=journal)
    with engine, pytest.raises(lh.ServerError, match="tried 2 times") as caught:
        lh.generate_parallel(engine, ["a", "b"], chat=True, journal=journal)
    assert caught.value.results.texts == ["re: a", None]  # type: ignore[attr-defined]
    assert server.url in str(caught.value)


def test_the_same_call_continues_from_its_journal(tmp_path: Path) -> None:
    journal = tmp_path / "out.journal"
    settings: Any = {"chat": True, "journal": journal, "temperature": 0.5}
    with openai_server(_echo) as server, lh.connect(server.url) as engine:
        lh.generate_parallel(engine, ["a", "b"], **settings)
        n_asked = len(server.requests)
        again = lh.generate_parallel(engine, ["a", "b", "c"], **settings)
        assert again.texts == ["re: a", "re: b", "re: c"]
        assert again.stats.n_journal == 2
        assert len(server.requests) == n_asked + 1
        server.models = ["tiny", "other"]
        with lh.connect(server.url, "other") as other:  # another model answers anew
            lh.generate_parallel(other, ["a"], **settings)
    assert len(server.requests) == n_asked + 2
    assert KEY.encode() not in journal.read_bytes()


def test_a_key_is_in_the_environment_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    texts: list[str] = []
    with openai_server(_echo) as server:
        server.needs_key = True
        with pytest.raises(lh.ServerError, match="LAB_KEY") as caught:
            lh.connect(server.url, key_variable="LAB_KEY")
        monkeypatch.setenv("LAB_KEY", KEY + "wrong")
        with pytest.raises(lh.ServerError, match="LAB_KEY") as refused:
            lh.connect(server.url, key_variable="LAB_KEY")
        texts += [str(caught.value), str(refused.value)]
        monkeypatch.setenv("LAB_KEY", KEY)
        engine = lh.connect(server.url, key_variable="LAB_KEY")
        journal = tmp_path / "out.journal"
        out = lh.generate_parallel(engine, ["a"], chat=True, journal=journal)
        assert out.texts == ["re: a"]
        server.needs_key = False
        server._answer = lambda *_: (400, {"error": {"message": f"no {KEY}"}}, {})
        texts.append(str(lh.generate_parallel(engine, ["b"], chat=True)[0].error))
        texts += [repr(engine), str(engine.options), repr(vars(engine)["_address"])]
    with pytest.raises(
        TypeError, match="set the environment variable LAB_KEY"
    ) as refused:
        lh.connect(server.url, key_variable="LAB_KEY", api_key=KEY)  # type: ignore[arg-type]
    texts.append(str(refused.value))
    with pytest.raises(TypeError, match="did you mean 'timeout_s'"):
        lh.connect(server.url, timeout=3)  # type: ignore[arg-type]
    for wrong in (KEY, "http://me:hidden-one@lab/v1"):
        with pytest.raises(lh.ArgumentError) as rejected:
            lh.connect(wrong if "lab" in wrong else "http://lab", key_variable=wrong)
        texts.append(str(rejected.value))
    everything = " ".join([*texts, caplog.text, journal.read_bytes().decode("latin-1")])
    assert KEY not in everything
    assert "hidden-one" not in everything


def test_the_only_model_is_taken_and_one_of_several_is_named() -> None:
    with openai_server(_echo) as server:
        server.models = ["big", "small:latest"]
        with pytest.raises(lh.ArgumentError, match="'big'"):
            lh.connect(server.url)
        with pytest.raises(lh.ArgumentError, match="bigg"):
            lh.connect(server.url, "bigg")
        assert lh.connect(server.url, "small").name == "small:latest"
    with pytest.raises(lh.ServerError, match="does not answer"):
        lh.connect(server.url)
    with pytest.raises(lh.ArgumentError, match="lab:8080"):
        lh.connect("lab")


@pytest.mark.parametrize(
    "host", ["[::1", "lab:x", "lab:99999", "lab:-1", "....", "a" * 300, "xn--", "a\0b"]
)
def test_what_is_no_address_is_refused(host: str) -> None:
    with pytest.raises(lh.ArgumentError, match="is not an address: ") as caught:
        lh.connect(f"http://{host}/v1")
    assert caught.value.argument == "url"


REFUSED: list[dict[str, Any]] = [
    {"logprobs": 2},
    {"template": "x", "chat": True},
    {"prefix": "x", "chat": True},
    {"top_k": 3, "temperature": 1},
    {"grammar": 'root ::= "a"', "chat": True},
    {"regex": "a+", "chat": True},
    {"choices": ["a", "b"]},
    {"thinking": 20, "chat": True},
    {"variables": {"a": 1}, "chat": True},
    {"parse_special": True},
]


@pytest.mark.parametrize("settings", REFUSED, ids=str)
def test_what_an_engine_cannot_do_is_refused_by_name(settings: dict[str, Any]) -> None:
    with openai_server(_echo) as server, lh.connect(server.url) as engine:
        with pytest.raises(lh.ArgumentError) as caught:
            lh.generate_parallel(engine, ["a"], **settings)
        assert caught.value.argument == next(iter(settings))
        with pytest.raises(lh.ArgumentError) as caught:
            lh.generate(engine, "a", chat=True, stream=True)
        assert caught.value.argument == "stream"
        for call in (lh.perplexity, lh.tokenize):
            with pytest.raises(lh.ArgumentTypeError) as of_ctx:
                call(engine, ["a"])  # type: ignore[arg-type]
            assert of_ctx.value.argument == "context"
        with pytest.raises(lh.ArgumentTypeError):
            lh.chat(engine)
    assert not server.requests


def test_answers_follow_their_schema_and_wrong_ones_are_tried_again() -> None:
    def answer(_path: str, body: dict[str, Any], _n: int) -> Reply:
        assert body["response_format"]["json_schema"]["schema"]["type"] == "object"
        seeds.append(body.get("seed"))
        return reply_of('{"n": "one"}' if len(seeds) == 1 else '{"n": 1}')

    seeds: list[object] = []
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    schema["required"] = ["n"]  # type: ignore[assignment]
    with openai_server(answer) as server, lh.connect(server.url) as engine:
        out = lh.generate_parallel(engine, ["a"], chat=True, schema=schema)
        assert out.parsed == [{"n": 1}]
        assert seeds[0] is None
        assert isinstance(seeds[1], int)  # the first try was greedy
        cut = reply_of('{"n": 1', finish_reason="length")
        server._answer = lambda *_: cut
        out = lh.generate_parallel(engine, ["b"], chat=True, schema=schema)
    assert (out[0].error_code, out[0].partial) == ("cut_off", '{"n": 1')


def _token(token: str, *others: tuple[str, float]) -> dict[str, Any]:
    top = [{"token": text, "logprob": math.log(p)} for text, p in others]
    prob = dict(others)[token]
    return {"token": token, "logprob": math.log(prob), "top_logprobs": top}


def _labelled(owner: str, reply: Reply, labels: Any, **settings: Any) -> Any:
    with openai_server(lambda *_: reply) as server:
        server.owner = owner
        with lh.connect(server.url) as engine:
            is_warned = settings.pop("warns", False)
            warning = pytest.warns(UserWarning, match="without prob")
            with warning if is_warned else nullcontext():
                out = lh.classify_parallel(engine, ["t"], labels, chat=True, **settings)
            return out, server


def test_probabilities_come_from_the_log_probabilities_of_a_forced_choice() -> None:
    tokens = [
        _token("po", ("po", 0.5), ("neg", 0.2), ("neu", 0.1), ("The", 0.2)),
        _token("s", ("s", 0.9), ("litics", 0.05)),
    ]
    reply = reply_of("pos", logprobs={"content": tokens})
    labels = {"pos": "Good", "neg": "Bad", "neu": "Neither", "politics": "Neither"}
    out, server = _labelled("llamacpp", reply, labels)
    p = [0.45, 0.2, 0.1 + 0.025]
    np.testing.assert_allclose(np.exp(out.logprobs[0]), p, rtol=1e-9)
    np.testing.assert_allclose(out.probs[0], np.array(p) / sum(p), rtol=1e-9)
    assert (out.labels, out.answers) == (["Good"], None)
    _, body = server.requests[0]
    assert body["grammar"] == 'root ::= "pos" | "neg" | "neu" | "politics"'
    assert (body["logprobs"], body["top_logprobs"]) == (True, 200)


def test_probabilities_are_read_inside_a_json_object() -> None:
    # Tokens that the form forces are improbable, and other tokens could begin it.
    start = [_token('{"', ('{"', 1e-4), ("{", 0.3), ("The", 0.5))]
    start += [_token("answer", ("answer", 0.1)), _token('": "', ('": "', 0.2))]
    tokens = [*start, _token("no", ("no", 0.6), ("yes", 0.3))]
    reply = reply_of('{"answer": "no"}', logprobs={"content": tokens})
    out, server = _labelled("openai", reply, ["yes", "no"])
    np.testing.assert_allclose(np.exp(out.logprobs[0]), [0.3, 0.6], rtol=1e-9)
    _, body = server.requests[0]
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"]["enum"] == ["yes", "no"]


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {"content": None},
        {"content": [{"token": "yes"}]},
        {"content": [_token("y", ("y", 0.5), ("yes", 0.4), ("", 0.1))]},
        {"content": "no list"},
    ],
    ids=["none", "null", "no alternatives", "not the answer", "no list"],
)
def test_a_label_without_probabilities_says_so(logprobs: object) -> None:
    reply = reply_of("yes", logprobs=logprobs)
    out, _ = _labelled("llamacpp", reply, ["yes", "no", "yes!"], warns=True)
    assert out.labels == ["yes"]
    assert np.isnan(out.probs).all()
    assert "without probabilities" in out.notes[0]


def test_a_label_that_the_engine_does_not_list_has_the_probability_0() -> None:
    reply = reply_of(
        "yes", logprobs={"content": [_token("yes", ("yes", 0.5), ("x", 0.4))]}
    )
    with (
        openai_server(lambda *_: reply) as server,
        lh.connect(server.url) as engine,
        pytest.warns(UserWarning, match="not among the most likely"),
    ):
        out = lh.classify_parallel(engine, ["t"], ["yes", "no"], chat=True)
    assert out.probs.tolist() == [[1.0, 0.0]]
    np.testing.assert_allclose(out.coverage, 0.5)


def test_alternatives_that_lead_to_several_labels_leave_probabilities_unknown() -> None:
    tokens = [_token("a", ("a", 0.5), ("s", 0.4))]
    reply = reply_of("a", logprobs={"content": tokens})
    out, _ = _labelled("vllm", reply, ["a", "sport", "space"], warns=True)
    assert np.isnan(out.probs).all()


def test_an_annotation_needs_probabilities_or_generates_labels() -> None:
    with openai_server(lambda *_: reply_of("yes")) as server:
        server.owner = "llamacpp"
        book = lh.Codebook("Is it?", ["yes", "no"])
        with lh.connect(server.url) as engine:
            with pytest.raises(lh.ArgumentError, match="generate") as caught:
                lh.annotate({"t": ["a"]}, "t", book, engine, chat=True)
            assert caught.value.argument == "method"
            coded = lh.annotate(
                {"t": ["a", None]}, "t", book, engine, chat=True, method="generate"
            )
        assert list(coded.frame["label"]) == ["yes", None]
        assert coded.run["model"]["url"] == server.url
        with (
            lh.connect(server.url) as engine,
            pytest.raises(lh.ArgumentError) as of_split,
        ):
            lh.annotate({"t": ["a"]}, "t", book, engine, split="first")
        assert of_split.value.argument == "split"


def _vectors(_path: str, body: dict[str, Any], _n: int) -> Reply:
    if "bad" in body["input"]:
        return 400, {"error": {"message": "bad text"}}, {}
    rows = [
        {"index": i, "embedding": [float(len(text)), 3.0, 4.0]}
        for i, text in enumerate(body["input"])
    ]
    return 200, {"data": rows[::-1], "usage": {"prompt_tokens": 5}}, {}


def test_vectors_come_in_order_and_a_bad_text_fails_alone() -> None:
    texts: list[Any] = ["a", "bb", "bad", None, "a", [], "ccc"]
    with openai_server(_vectors) as server, lh.connect(server.url) as engine:
        out = lh.embed_parallel(engine, texts, normalize=False)
        assert out.vectors.shape == (7, 3)
        assert [row[0] for row in out.vectors[[0, 1, 4, 6]]] == [1, 2, 1, 3]
        assert np.isnan(out.vectors[[2, 3, 5]]).all()
        assert "bad text" in str(out.errors[2])
        scaled = lh.embed_parallel(engine, ["a"])
        np.testing.assert_allclose(np.linalg.norm(scaled.vectors[0]), 1, rtol=1e-6)
        with pytest.raises(lh.ArgumentError) as caught:
            lh.embed_parallel(engine, ["a"], pooling="cls")
        assert caught.value.argument == "pooling"
        server._answer = lambda *_: (404, {"error": {"message": "no vectors"}}, {})
        with pytest.raises(lh.ServerError, match="no vectors"):
            lh.embed_parallel(engine, ["a"])


def test_a_cancelled_call_ends_at_once_and_keeps_finished_answers() -> None:
    come, leave = threading.Event(), threading.Event()

    def answer(path: str, body: dict[str, Any], n: int) -> Reply:
        if body["messages"][-1]["content"] != "a":
            come.set()
            leave.wait(600)
        return _echo(path, body, n)

    with openai_server(answer) as server:
        try:
            with lh.connect(server.url, n_at_once=2) as engine:
                job = lh.start_parallel(engine, ["a", "b", "c", "d"], chat=True)
                assert come.wait(600)
                while job.progress.n_done < 1:
                    time.sleep(0.001)
                job.cancel()
                out = job.results()
                assert out.texts == ["re: a", None, None, None]
                assert out.finish_reasons[1:] == ["cancelled"] * 3
        finally:
            leave.set()


def test_closing_an_engine_ends_its_calls() -> None:
    come, leave = threading.Event(), threading.Event()

    def answer(*_: object) -> Reply:
        come.set()
        leave.wait(600)
        return reply_of("late")

    with openai_server(answer) as server:
        try:
            engine = lh.connect(server.url)
            job = lh.start_parallel(engine, ["a"], chat=True)
            assert come.wait(600)
            engine.close()
            with pytest.raises(lh.ContextClosedError):
                job.results()
            with pytest.raises(lh.ContextClosedError, match="connect"):
                lh.generate_parallel(engine, ["a"], chat=True)
        finally:
            leave.set()


def test_calls_of_several_threads_share_the_limit() -> None:
    def answer(path: str, body: dict[str, Any], n: int) -> Reply:
        time.sleep(0.005)
        return _echo(path, body, n)

    with openai_server(answer) as server, lh.connect(server.url, n_at_once=3) as engine:
        jobs = [
            lh.start_parallel(engine, [f"{k} {i}" for i in range(9)], chat=True)
            for k in range(4)
        ]
        for k, job in enumerate(jobs):
            assert job.results().texts == [f"re: {k} {i}" for i in range(9)]
    assert server.most_at_once <= 3


def test_on_error_stop_ends_the_call() -> None:
    def answer(path: str, body: dict[str, Any], n: int) -> Reply:
        if body["messages"][-1]["content"] == "0":
            return 400, {"error": {"message": "no"}}, {}
        return _echo(path, body, n)

    prompts = [str(i) for i in range(200)]
    with openai_server(answer) as server, lh.connect(server.url, n_at_once=1) as engine:
        with pytest.raises(lh.GenerationError):
            lh.generate_parallel(engine, prompts, chat=True, on_error="stop")
        out = lh.generate_parallel(engine, prompts, chat=True, on_error="return")
    assert out[0].finish_reason == "error"
    assert len(server.requests) < 20


def test_lone_surrogates_become_valid_text() -> None:
    with (
        openai_server(lambda *_: reply_of("a\ud800")) as server,
        lh.connect(server.url) as engine,
    ):
        assert lh.generate(engine, "x", chat=True).text == "a\ufffd"


def test_the_body_is_valid_for_each_kind_of_server() -> None:
    for owner, name in (("llamacpp", "repeat_penalty"), ("vllm", "repetition_penalty")):
        with openai_server(_echo) as server:
            server.owner = owner
            with lh.connect(server.url) as engine:
                lh.generate(
                    engine,
                    "x",
                    chat=True,
                    temperature=0.7,
                    penalty_repeat=1.1,
                    thinking=False,
                    stop=["\n"],
                )
            _, body = server.requests[0]
            assert (body[name], body["top_k"], body["min_p"]) == (1.1, 40, 0.05)
            assert body["chat_template_kwargs"] == {"enable_thinking": False}
            assert body["stop"] == ["\n"]
            assert "seed" in body


def test_a_try_that_takes_too_long_is_given_up_and_sent_again() -> None:
    leave = threading.Event()

    def answer(path: str, body: dict[str, Any], n: int) -> Reply:
        if n == 1:
            leave.wait(600)
        return _echo(path, body, n)

    with openai_server(answer) as server:
        try:
            with lh.connect(server.url, timeout_s=0.2) as engine:
                assert lh.generate(engine, "a", chat=True).text == "re: a"
            with lh.connect(server.url, timeout_s=0.05, retries=0) as engine:
                out = lh.generate_parallel(engine, ["b"], chat=True)
                assert out[0].error_code == "engine"
        finally:
            leave.set()


def test_a_redirection_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMAHERD_API_KEY", KEY)
    with openai_server(_echo) as other:
        reply = 307, {}, {"location": f"{other.url}/chat/completions"}
        with openai_server(lambda *_: reply) as server, lh.connect(server.url) as engine:
            out = lh.generate_parallel(engine, ["a"], chat=True)
        assert "307" in str(out[0].error)
        assert not other.requests


def test_a_model_whose_name_has_a_slash_has_a_journal_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with openai_server(lambda *_: reply_of("yes")) as server:
        server.models = ["owner/model"]
        book = lh.Codebook("Is it?", ["yes", "no"])
        with lh.connect(server.url) as engine:
            for _ in range(2):
                lh.annotate(
                    {"t": ["a", "b"]},
                    "t",
                    book,
                    engine,
                    chat=True,
                    method="generate",
                    journal=True,
                )
    assert len(list(tmp_path.glob("*-owner-model.journal"))) == 1
    assert len(server.requests) == 2


def test_empty_prompts_fail_alone() -> None:
    def answer(_path: str, body: dict[str, Any], _n: int) -> Reply:
        return 200, {"choices": [{"text": body["prompt"] + "!"}]}, {}

    with openai_server(answer) as server, lh.connect(server.url) as engine:
        out = lh.generate_parallel(engine, ["a", [], None, ""])
        assert out.texts == ["a!", None, None, None]
        assert out.error_codes == [None, "empty", "missing", "empty"]
        with pytest.raises(lh.ArgumentTypeError) as caught:
            lh.generate_parallel(engine, ["a", [1, 2]])
        assert caught.value.argument == "prompts"


def test_llama_server_gets_each_setting_that_it_has() -> None:
    """`max_tokens`, `stop`, `seed` and `grammar` are sent in another way."""
    server = json.loads(FIELDS.read_text(encoding="utf-8"))["llama-server"]["paths"]
    settings = options_of(SamplingParams).keys()
    both = settings & set(server["/v1/chat/completions"])
    others = {"max_tokens", "stop", "seed", "grammar"}
    assert both - others <= form_of("llamacpp", "").settings.keys()
