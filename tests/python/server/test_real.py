"""The command `llamaherd serve`, with a real model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import openai
import pytest
from served import Client
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.model, pytest.mark.long(reason="servers of real models")]

N_SLOTS = 8
ASK = {"max_tokens": 12}
PROMPTS = [f"The number {i} is followed by" for i in range(9)]
LONG = " ".join(f"The number {i} is followed by {i + 1}." for i in range(8))
PROMPTS.append(LONG)  # long enough for the prefix cache
HELLO: list[Any] = [{"role": "user", "content": "Say hello."}]


@contextmanager
def _process(path: Path, *options: str) -> Iterator[tuple[Client, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "llamaherd.cli", "serve", str(path), "--port", "0"]
    command += ["--n-seq-max", str(N_SLOTS), "--n-threads", "1", *options]
    log = subprocess.DEVNULL  # a pipe that is not read would become full
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        match = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert match
        yield Client(int(match.group(1))), process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def client(smollm2_path: Path) -> Iterator[Client]:
    with _process(smollm2_path, "--deterministic", "--queue", "250") as (started, _):
        yield started


@pytest.fixture(scope="module")
def alone(smollm2: lh.Model) -> Iterator[dict[str, str | None]]:
    """Return the answer to each prompt, computed alone."""
    with lh.Context(smollm2, n_threads=1, deterministic=True) as ctx:
        yield {prompt: lh.generate(ctx, prompt, max_tokens=12).text for prompt in PROMPTS}


def _answer(client: Client, prompt: str) -> Any:
    status, response = client.post("/generate", {"prompt": prompt, **ASK})
    assert status == 200, response
    return response


def _load(client: Client) -> dict[str, float]:
    text = client.ask("GET", "/metrics")[1]
    rows = re.findall(r"^llamaherd_(n_\w+) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in rows}


def _n_inside(client: Client) -> float:
    load = _load(client)
    return load["n_running"] + load["n_waiting"]


def _n_seen(client: Client) -> float:
    """Return the number of prompts so far, including running and waiting prompts."""
    text = client.ask("GET", "/metrics")[1]
    match = re.search(r'_requests_total\{path="/generate".* (\S+)$', text, re.MULTILINE)
    return _n_inside(client) + (float(match.group(1)) if match else 0)


def test_one_after_the_other_and_at_once_texts_are_those_alone(
    client: Client, alone: dict[str, str | None]
) -> None:
    for prompt in PROMPTS[:3]:
        assert _answer(client, prompt)["text"] == alone[prompt]
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda prompt: _answer(client, prompt), PROMPTS[3:8]))
    assert [row["text"] for row in answers] == [alone[prompt] for prompt in PROMPTS[3:8]]


def test_ten_equal_ones_are_read_once(
    client: Client, alone: dict[str, str | None]
) -> None:
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: _answer(client, LONG), range(10)))
    assert {row["text"] for row in answers} == {alone[LONG]}
    answers = [_answer(client, LONG) for _ in range(10)]
    assert {row["text"] for row in answers} == {alone[LONG]}
    usages = [row["usage"] for row in answers]
    assert all(usage == usages[1] for usage in usages[2:])
    assert usages[1]["prompt_tokens_details"]["cached_tokens"] > 0


def test_streams_have_the_same_texts(
    client: Client, alone: dict[str, str | None]
) -> None:
    def stream(prompt: str) -> str:
        events = client.events("/generate", {"prompt": prompt, **ASK, "stream": True})
        assert len(events) > 5
        return "".join(event["text"] for event in events)

    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(stream, PROMPTS)) == list(alone.values())


def test_the_sdk(client: Client, smollm2: lh.Model) -> None:
    with openai.OpenAI(base_url=f"{client.url}/v1", api_key="none") as sdk:
        (model,) = sdk.models.list()
        whole = sdk.chat.completions.create(
            model=model.id, messages=HELLO, temperature=0, max_tokens=30
        )
        chunks = sdk.chat.completions.create(
            model=model.id, messages=HELLO, temperature=0, max_tokens=30, stream=True
        )
        pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]
        drawn = sdk.completions.create(
            model=model.id, prompt="One day,", seed=5, max_tokens=20
        )
    with lh.Context(smollm2, n_threads=1, deterministic=True) as ctx:
        out = lh.generate_parallel(ctx, [HELLO], chat=True, max_tokens=30)[0]
        again = lh.generate(ctx, "One day,", temperature=1.0, seed=5, max_tokens=20)
    assert whole.choices[0].message.content == "".join(pieces) == out.text
    assert whole.choices[0].finish_reason == out.finish_reason
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == out.n_prompt_tokens
    assert drawn.choices[0].text == again.text


@pytest.mark.parametrize("stream", [False, True])
def test_200_clients_that_go_away_leave_nothing_behind(
    client: Client, alone: dict[str, str | None], *, stream: bool
) -> None:
    bodies = [
        {"prompt": f"Story {i}:", "max_tokens": 1500, "stream": stream}
        for i in range(200)
    ]
    links = [client.connect("/generate", body) for body in bodies]
    wait_until(lambda: _load(client)["n_running"] == N_SLOTS)
    for link in links:
        link.close()
    assert _answer(client, PROMPTS[0])["text"] == alone[PROMPTS[0]]
    wait_until(lambda: _n_inside(client) == 0)


def test_a_client_that_goes_away_in_a_long_prompt(client: Client) -> None:
    links = [
        client.connect("/generate", {"prompt": f"{i} " * 700, "max_tokens": 500})
        for i in range(10)
    ]
    wait_until(lambda: _load(client)["n_running"] > 0)
    for link in links:
        link.close()
    wait_until(lambda: _n_inside(client) == 0)


def test_sigterm_lets_requests_end(
    smollm2_path: Path, alone: dict[str, str | None]
) -> None:
    # Enough time on a busy machine.
    with _process(smollm2_path, "--deterministic", "--grace", "600") as (client, process):
        prompts = PROMPTS * 3  # more than the number of slots
        links = [client.connect("/generate", {"prompt": p, **ASK}) for p in prompts]
        # A request that was not read before the signal is refused.
        wait_until(lambda: _n_seen(client) >= len(links))
        process.send_signal(signal.SIGTERM)
        for link, prompt in zip(links, prompts, strict=True):
            data = b""
            while part := link.recv(1 << 16):
                data += part
            link.close()
            assert json.loads(data.partition(b"\r\n\r\n")[2])["text"] == alone[prompt]
        assert process.wait(600) == 0


def test_a_key_from_the_environment(
    smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "LLAMAHERD_API_KEY", "secret")
    with _process(smollm2_path, "--alias", "small") as (client, _):
        assert client.ask("GET", "/v1/models")[0] == 401
        with openai.OpenAI(base_url=f"{client.url}/v1", api_key="secret") as sdk:
            assert [model.id for model in sdk.models.list()] == ["small"]
