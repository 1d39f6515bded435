"""Threads of a server: few are needed, and no kind of work delays another."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import thorough
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.engine.loop.runner import Runner
from llamaherd.server import answering, protocol, state
from llamaherd.server.threads import _N_THREADS, WorkThreads, kind_of
from served import served
from waiting import HANGS_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import ThreadPoolExecutor

    import llamaherd as lh
    from served import Client

N_REQUESTS = 300


# Threads that prepare requests; for codes also a thread of each request that runs, and
# another one for its block of texts.
N_CODING = 64


N_FEW, N_BOUND = 8, 2 * N_CODING + 8


SCORE = {"prompts": ["The sea is"], "continuations": [[" blue", " green"]]}


CLASSIFY = {"prompts": ["The sea is"], "labels": ["blue", "green"]}


SEVERAL = {"prompt": ["The sea", "The sky"], "n": 2, "max_tokens": 2}


ECHO = {"prompt": "The sea", "echo": True, "logprobs": 1, "max_tokens": 1}


RERANK = {"query": "the sea", "documents": ["Ships.", "Bread."]}


ANNOTATE = {
    "texts": ["The sea is blue."],
    "codebook": {"question": "What colour?", "labels": ["blue", "green"]},
}


OF_CALLS = [
    ("/v1/score", SCORE, 1),
    ("/v1/classify", CLASSIFY, 1),
    ("/v1/completions", SEVERAL, 4),
    ("/v1/completions", {**ECHO, "temperature": 0}, 1),
    ("/v1/rerank", RERANK, 2),
]


CONTEXT = {"n_threads": 1}


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the engine compute nothing until the block ends."""
    may_run = threading.Event()
    run_slice = Runner.run_slice

    def run(runner: Runner) -> None:
        if may_run.wait(0.01):
            run_slice(runner)

    monkeypatch.setattr(Runner, "run_slice", run)
    try:
        yield
    finally:
        may_run.set()


def n_threads() -> int:
    return psutil.Process().num_threads()


def n_open(ctx: lh.Context) -> int:
    return ctx.load.n_running + ctx.load.n_waiting


def read_status(link: Any) -> bytes:
    with link.makefile("rb") as file:
        return file.readline().split(b" ")[1]


@pytest.mark.more(reason="many requests or long waits in the server", cases=1)
@pytest.mark.parametrize(("path", "body", "n_prompts"), OF_CALLS)
def test_waiting_for_prompts_takes_no_thread(
    ctx: lh.Context,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: dict[str, object],
    n_prompts: int,
) -> None:
    with served(ctx, queue=N_REQUESTS) as client:
        assert client.post(path, body)[0] == 200
        n_before = n_threads()
        with held(monkeypatch):
            links = [client.connect(path, body) for _ in range(N_REQUESTS)]
            # All of them take turns in the loop; none waits for another request.
            wait_until(lambda: n_open(ctx) == n_prompts * N_REQUESTS)
            assert n_threads() <= n_before + N_FEW
            assert client.ask("GET", "/health")[0] == 200
            assert "llamaherd_n_waiting" in client.ask("GET", "/metrics")[1]
        assert {read_status(link) for link in links} == {b"200"}
        for link in links:
            link.close()
        assert n_threads() <= n_before + N_FEW


@pytest.mark.long(reason="many requests or long waits in the server")
def test_codes_take_a_bounded_number_of_threads(
    ctx: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(ctx, queue=2 * N_REQUESTS) as client:
        assert client.post("/v1/annotate", ANNOTATE)[0] == 200
        n_before = n_threads()
        with held(monkeypatch):
            links = [client.connect("/v1/annotate", ANNOTATE) for _ in range(N_REQUESTS)]
            wait_until(lambda: n_open(ctx) == N_CODING)
            # Other requests run at the same time.
            links.append(client.connect("/v1/score", SCORE))
            wait_until(lambda: n_open(ctx) == N_CODING + 1)
            assert n_threads() <= n_before + N_BOUND
            # Some of these requests run, others wait for a thread.
            for link in links[:N_REQUESTS:2]:
                link.close()
            wait_until(lambda: in_queue(client) == 1 + N_REQUESTS // 2)
        assert {read_status(link) for link in links[1::2]} == {b"200"}
        assert read_status(links[-1]) == b"200"
        for link in links:
            link.close()


def in_queue(client: Client) -> int:
    """Return the number of requests whose answers have not ended."""
    return int(client.ask("GET", "/dashboard.json")[1]["n_requests"])


@pytest.mark.parametrize(("path", "body", "n_prompts"), OF_CALLS)
def test_work_ends_when_clients_disconnect(
    ctx: lh.Context,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: dict[str, object],
    n_prompts: int,
) -> None:
    with served(ctx, queue=N_REQUESTS) as client, held(monkeypatch):
        links = [client.connect(path, body) for _ in range(40)]
        wait_until(lambda: n_open(ctx) == 40 * n_prompts)
        for link in links:
            link.close()
        wait_until(lambda: n_open(ctx) == 0)


SHORT: list[tuple[str, dict[str, object]]] = [
    ("/v1/score", {"prompts": ["The sea"], "continuations": [[" is", " was"]]}),
    ("/v1/classify", {"prompts": ["The sea"], "labels": ["blue", "green"]}),
    ("/v1/completions", {"prompt": "a", "max_tokens": 1, "n": 2}),
    ("/v1/completions", {"prompt": "a", "max_tokens": 1, "echo": True, "logprobs": 1}),
    ("/v1/rerank", {"query": "a", "documents": ["b", "c"]}),
    ("/tokenize", {"prompt": "a"}),
    ("/tokenize", {"prompt": "a " * 20_000}),  # parsed outside of the event loop
    ("/v1/completions", {"prompt": "a", "max_tokens": 1, "stop": ["b"] * 65}),
    ("/v1/embeddings", {"input": "a"}),
]


MANY = 65


# Requests whose body, answers or texts are many.
LONG: list[tuple[str, dict[str, object]]] = [
    ("/v1/score", {"prompts": ["a"] * MANY, "continuations": [[" b"]] * MANY}),
    ("/v1/completions", {"prompt": ["a"] * MANY, "max_tokens": 1}),
    ("/v1/completions", {"prompt": "a", "max_tokens": 1, "n": MANY}),
    ("/v1/embeddings", {"input": ["a"] * MANY}),
    ("/v1/score", {"prompts": ["a"], "continuations": [[" b"] * MANY]}),
    ("/v1/classify", {"prompts": ["a"] * 9, "labels": list("bcdefghi")}),
    ("/tokenize", {"prompt": "a " * 40_000}),
]


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[WorkThreads]:
    """Return a list that gets the threads of each server."""
    started: list[WorkThreads] = []

    def make() -> WorkThreads:
        started.append(WorkThreads())
        return started[-1]

    monkeypatch.setattr(state, "WorkThreads", make)
    return started


@contextmanager
def busy(pools: list[ThreadPoolExecutor]) -> Iterator[None]:
    """Keep all threads of the pools busy."""
    may_end = threading.Event()
    n = 0
    has_begun = threading.Semaphore(0)

    def work() -> None:
        has_begun.release()
        may_end.wait(HANGS_S)

    for pool in pools:
        for _ in range(pool._max_workers):
            pool.submit(work)
            n += 1
    try:
        for _ in range(n):
            assert has_begun.acquire(timeout=HANGS_S)
        yield
    finally:
        may_end.set()


def test_short_requests_wait_for_no_other_kind_of_work(
    ctx: lh.Context, threads: list[WorkThreads]
) -> None:
    with served(ctx) as client:
        (work_threads,) = threads
        others = [
            work_threads.pool(kind, is_background=is_background)
            for kind in _N_THREADS
            for is_background in (False, True)
            if is_background or kind not in ("short", "parse", "vectors")
        ]
        with busy([*others, work_threads.files]):
            for path, body in SHORT:
                assert client.post(path, body)[0] == 200, path


def test_long_requests_use_no_thread_of_short_ones(
    ctx: lh.Context, threads: list[WorkThreads]
) -> None:
    with served(ctx) as client:
        (work_threads,) = threads
        with busy([work_threads.pool("short")]):
            for path, body in LONG:
                if path != "/v1/completions":  # its answers may be short
                    assert client.post(path, body)[0] == 200, path


@pytest.mark.parametrize(
    ("fields", "n_bytes", "kind"),
    [
        ({"prompt": "a"}, 100, "short"),
        ({"prompt": "a"}, 100_000, "long"),
        ({"prompt": [1] * 1000}, 5000, "short"),  # the tokens of one prompt
        ({"prompt": ["a"] * 8, "n": 8}, 100, "short"),
        ({"prompt": ["a"] * 8, "n": 9}, 100, "long"),
        ({"prompt": ["a"] * MANY}, 1000, "long"),
        ({"prompt": [], "n": "x"}, 100, "short"),
    ],
)
def test_kinds_of_requests(fields: dict[str, object], n_bytes: int, kind: str) -> None:
    assert kind_of(fields, n_bytes) == kind


_SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)


_JSON = st.recursive(
    _SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner)
    ),
    max_leaves=60,
)


@thorough.examples(500)
@given(_JSON)
def test_values_encoded_in_parts_are_the_same(value: object) -> None:
    assert protocol.encode_json(value) == protocol.dumps(value).encode()


def test_long_lists_encoded_in_parts_are_the_same() -> None:
    value = {"data": [{"embedding": [i / 7] * 5000, "index": i} for i in range(30)]}
    assert protocol.encode_json(value) == protocol.dumps(value).encode()
    assert json.loads(protocol.encode_json(list(range(10_000)))) == list(range(10_000))


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Return the names of the threads that parsed, prepared and encoded requests."""
    names_of: dict[str, set[str]] = {"parse": set(), "encode": set(), "submit": set()}

    def noted(kind: str, fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            names_of[kind].add(threading.current_thread().name)
            return fn(value)

        return run

    real = answering.Answering._submit_now

    def submit_now(*arguments: Any) -> Any:
        names_of["submit"].add(threading.current_thread().name)
        return real(*arguments)

    monkeypatch.setattr(answering.Answering, "_submit_now", submit_now)
    parse, encode = protocol.parse_object, protocol.encode_json
    monkeypatch.setattr(protocol, "parse_object", noted("parse", parse))
    monkeypatch.setattr(answering, "encode_json", noted("encode", encode))
    return names_of


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *LONG,
        ("/v1/completions", {"prompt": "a", "max_tokens": 300, "logprobs": 5}),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "a" * 40_000}]},
        ),
    ],
)
def test_long_json_is_no_work_of_the_event_loop(
    ctx: lh.Context, names: dict[str, set[str]], path: str, body: dict[str, object]
) -> None:
    """Parsing and encoding would delay the tokens of all streams."""
    n_bytes = len(json.dumps(body))
    with served(ctx, max_body=1 << 20) as client:
        fields = {**body, "ignore_eos": True} if "logprobs" in body else body
        status, response = client.post(path, fields)
        assert status in (200, 400), response
    if n_bytes > 1 << 15:
        assert names["parse"]
        assert all(name.startswith("llamaherd-parse") for name in names["parse"])
    if body.get("prompt") != "a" or "n" in body:
        assert all(name.startswith("llamaherd-") for name in names["submit"])
    if status == 200:
        assert names["encode"]
        assert all(name.startswith("llamaherd-") for name in names["encode"])
