"""Threads of a server: no kind of work delays another."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import thorough
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.server import answering, protocol, state
from llamaherd.server.threads import _N_THREADS, WorkThreads, kind_of
from served import served
from waiting import HANGS_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import ThreadPoolExecutor

    import llamaherd as lh

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
CONTEXT = {"n_threads": 1}


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[WorkThreads]:
    """Return a list that gets the threads of each server."""
    made: list[WorkThreads] = []

    def make() -> WorkThreads:
        made.append(WorkThreads())
        return made[-1]

    monkeypatch.setattr(state, "WorkThreads", make)
    return made


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
        (own,) = threads
        others = [
            own.pool(kind, is_background=is_background)
            for kind in _N_THREADS
            for is_background in (False, True)
            if is_background or kind not in ("short", "parse", "vectors")
        ]
        with busy([*others, own.files]):
            for path, body in SHORT:
                assert client.post(path, body)[0] == 200, path


def test_long_requests_use_no_thread_of_short_ones(
    ctx: lh.Context, threads: list[WorkThreads]
) -> None:
    with served(ctx) as client:
        (own,) = threads
        with busy([own.pool("short")]):
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


# ---- JSON ----

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
    assert protocol.encoded(value) == protocol.dumps(value).encode()


def test_long_lists_encoded_in_parts_are_the_same() -> None:
    value = {"data": [{"embedding": [i / 7] * 5000, "index": i} for i in range(30)]}
    assert protocol.encoded(value) == protocol.dumps(value).encode()
    assert json.loads(protocol.encoded(list(range(10_000)))) == list(range(10_000))


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Return the names of the threads that parsed, prepared and encoded requests."""
    found: dict[str, set[str]] = {"parse": set(), "encode": set(), "submit": set()}

    def noted(kind: str, fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            found[kind].add(threading.current_thread().name)
            return fn(value)

        return run

    real = answering.Answering._submit_now

    def submit_now(*arguments: Any) -> Any:
        found["submit"].add(threading.current_thread().name)
        return real(*arguments)

    monkeypatch.setattr(answering.Answering, "_submit_now", submit_now)
    parse, encode = protocol.parse_object, protocol.encoded
    monkeypatch.setattr(protocol, "parse_object", noted("parse", parse))
    monkeypatch.setattr(answering, "encoded", noted("encode", encode))
    return found


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
        status, got = client.post(path, fields)
        assert status in (200, 400), got
    if n_bytes > 1 << 15:
        assert names["parse"]
        assert all(name.startswith("llamaherd-parse") for name in names["parse"])
    if body.get("prompt") != "a" or "n" in body:
        assert all(name.startswith("llamaherd-") for name in names["submit"])
    if status == 200:
        assert names["encode"]
        assert all(name.startswith("llamaherd-") for name in names["encode"])
