"""Many requests without generated text need few threads, and disturb nobody."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from llamaherd.engine.loop.runner import Runner
from served import served
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

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
