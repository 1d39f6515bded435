"""Soak of a server process: clients of many kinds, each answer compared with the library.

    python soak_server.py MODEL MINUTES OUT.json

The library computes the expected answers first, each prompt alone. Clients then send
requests to `llamaherd serve --deterministic`; some disconnect early, some send wrong
requests. Once a minute all clients rest; then no prompt may be left, and memory,
descriptors and threads of the server are measured.
"""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import llamaherd as lh
import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


N_PROMPTS = 60
_CODEBOOK = "You label short texts. Answer with one word: good, bad or neither. Text: "
_STEMS = ["", "Once upon a time there was", _CODEBOOK]
_WORDS = ("sea", "bread", "Paris", "winter", "train", "music", "moon", "river", "stone")
_SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "good": {"type": "boolean"}},
    "required": ["n", "good"],
    "additionalProperties": False,
}
_LABELS = ["good", "bad", "neither"]
_CHAT, _COMPLETION = "/v1/chat/completions", "/v1/completions"
# Requests that the server must refuse with a status from 400 to 499.
WRONG: tuple[tuple[str, object], ...] = (
    ("/generate", {"prompt": "x", "max_token": 3}),
    ("/generate", {"prompt": "x", "temperature": "hot"}),
    ("/generate", b"{"),
    (_CHAT, {"messages": []}),
    (_CHAT, {"messages": [{"role": "user", "content": "x"}], "model": "other"}),
    (_COMPLETION, {"prompt": "x", "n": 1000}),
    (_COMPLETION, {"prompt": ""}),
    ("/v1/classify", {"prompts": ["x"], "labels": ["one", "one"]}),
    ("/v1/responses", {"input": "x", "previous_response_id": "resp_1"}),
    ("/unknown", {}),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with its expected answer.

    Attributes:
        kind: Kind of the request, for the report.
        path: Path of the endpoint.
        body: Body of the request.
        read: Function that returns what is compared from the body of an answer.
        expected: Values of the library's answer, in the same form.
    """

    kind: str
    path: str
    body: dict[str, Any]
    read: Callable[[bytes], object]
    expected: object

    def streamed(self, kind: str, read: Callable[[bytes], object]) -> Asked:
        """Return the same request for a stream."""
        return replace(self, kind=kind, body={**self.body, "stream": True}, read=read)


def make_requests(model: lh.Model) -> list[Asked]:
    """Return requests of all kinds, with the answers of each prompt alone."""
    draw = random.Random(23)
    requests = []
    with lh.Context(model, n_seq_max=1, deterministic=True, n_threads=1) as context:
        for i in range(N_PROMPTS):
            words = " ".join(draw.choices(_WORDS, k=draw.choice([1, 4, 12])))
            prompt = f"{draw.choice(_STEMS)} {words}"
            settings: dict[str, Any] = {
                "max_tokens": draw.choice([1, 4, 8, 16, 32]),
                "temperature": draw.choice([0.0, 0.9]),
                "seed": i,
            }
            kinds = _KINDS[i % len(_KINDS)]
            requests += [make(context, prompt, settings) for make in kinds]
    return requests


def _generate(
    context: lh.Context, prompt: str, settings: dict[str, Any], kind: str = "prompts"
) -> Asked:
    text = lh.generate(context, prompt, **settings).text
    body = {"prompt": prompt, **settings}
    return Asked(kind, "/generate", body, lambda content: _json(content)["text"], text)


def _stream(context: lh.Context, prompt: str, settings: dict[str, Any]) -> Asked:
    def read(content: bytes) -> str:
        return "".join(event.get("text", "") for event in _events(content))

    return _generate(context, prompt, settings).streamed("streams", read)


def _constrained(context: lh.Context, prompt: str, settings: dict[str, Any]) -> Asked:
    form: dict[str, Any] = {"schema": _SCHEMA}
    if settings["temperature"] == 0:
        form = {"choices": _LABELS} if settings["seed"] % 2 else {"regex": "[a-z]{3,9}"}
    arguments = {**settings, **form, "max_tokens": 40}
    return _generate(context, prompt, arguments, "answers in a form")


def _chat(context: lh.Context, prompt: str, settings: dict[str, Any]) -> Asked:
    messages = [{"role": "user", "content": prompt}]
    text = lh.generate(context, messages, chat=True, **settings).text
    body = {"messages": messages, "model": "soak", **settings}

    def read(content: bytes) -> object:
        return _json(content)["choices"][0]["message"]["content"]

    return Asked("chats", _CHAT, body, read, text)


def _chat_stream(context: lh.Context, prompt: str, settings: dict[str, Any]) -> Asked:
    def read(content: bytes) -> str:
        choices = (choice for chunk in _events(content) for choice in chunk["choices"])
        return "".join(choice["delta"].get("content") or "" for choice in choices)

    return _chat(context, prompt, settings).streamed("streamed chats", read)


def _several(context: lh.Context, prompt: str, settings: dict[str, Any]) -> Asked:
    arguments = {**settings, "temperature": 0.9}
    prompts = [prompt, prompt[1:]]
    results = lh.generate_parallel(context, prompts, n=3, **arguments)
    texts = [sample.text for samples in results.samples for sample in samples]

    def read(content: bytes) -> object:
        return [choice["text"] for choice in _json(content)["choices"]]

    kind = "lists of prompts with samples"
    return Asked(kind, _COMPLETION, {"prompt": prompts, "n": 3, **arguments}, read, texts)


def _classify(context: lh.Context, prompt: str, _settings: dict[str, Any]) -> Asked:
    results = lh.classify_parallel(context, [prompt], _LABELS)
    body = {"prompts": [prompt], "labels": _LABELS}

    def read(content: bytes) -> object:
        (row,) = _json(content)["data"]
        return [row["logprobs"][name] for name in _LABELS]

    return Asked("labels", "/v1/classify", body, read, results.logprobs[0].tolist())


def _score(context: lh.Context, prompt: str, _settings: dict[str, Any]) -> Asked:
    body = {"prompts": [prompt], "continuations": [[" the sea", " a stone"]]}
    (scores,) = lh.score_parallel(context, **body).continuations

    def read(content: bytes) -> object:
        (row,) = _json(content)["data"]
        return [score["token_logprobs"] for score in row["continuations"]]

    expected = [score.token_logprobs.tolist() for score in scores or ()]
    return Asked("scores", "/v1/score", body, read, expected)


_KINDS = (
    (_generate, _stream),
    (_chat, _chat_stream),
    (_constrained,),
    (_classify, _several),
    (_score, _stream),
)
_json = json.loads


def _events(content: bytes) -> list[dict[str, Any]]:
    lines = content.decode().split("\n\n")
    data = [line.removeprefix("data: ") for line in lines if line]
    return [json.loads(line) for line in data if line != "[DONE]"]


N_CLIENTS = 8
ROUND_S = 60.0
END_S = 900.0  # time after which a request is treated as lost, in seconds
_DEPART_S = 0.6  # latest moment at which a client disconnects


class Http:
    """Connections to a server.

    Args:
        port: Port of the server on this machine.
    """

    def __init__(self, port: int) -> None:
        self.port = port

    def post(self, path: str, body: object) -> tuple[int, bytes]:
        """Return status and body of an answer."""
        http = HTTPConnection("127.0.0.1", self.port, timeout=END_S)
        try:
            data = body if isinstance(body, bytes) else json.dumps(body)
            http.request("POST", path, data, {"Content-Type": "application/json"})
            answer = http.getresponse()
            return answer.status, answer.read()
        finally:
            http.close()

    def load(self) -> dict[str, float]:
        """Return the numbers of running and waiting prompts."""
        http = HTTPConnection("127.0.0.1", self.port, timeout=END_S)
        try:
            http.request("GET", "/metrics")
            text = http.getresponse().read().decode()
        finally:
            http.close()
        names = ("llamaherd_n_running", "llamaherd_n_waiting")
        lines = [line.split() for line in text.splitlines() if line.startswith(names)]
        assert len(lines) == len(names), text
        return {name: float(value) for name, value in lines}

    def leave(self, path: str, body: object, after_s: float) -> None:
        """Send a request, and disconnect without waiting for its answer."""
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        address = ("127.0.0.1", self.port)
        with socket.create_connection(address, timeout=END_S) as link:
            link.sendall(head.encode() + data)
            time.sleep(after_s)


class Client:
    """A client that does one random thing after the other.

    Args:
        http: Connections to the server.
        requests: Requests with their expected answers.
        seed: Seed of its choices.
    """

    def __init__(self, http: Http, requests: Sequence[Asked], seed: int) -> None:
        self.did: Counter[str] = Counter()
        self.problems: list[str] = []
        self._http = http
        self._requests = requests
        self._draw = random.Random(seed)

    def act(self) -> None:
        """Do one thing; a wrong result becomes a problem."""
        case = self._draw.choice(self._requests)
        kind = self._draw.choices(("ask", "leave", "wrong"), (6, 2, 2))[0]
        if kind == "leave":
            self._http.leave(case.path, case.body, self._draw.uniform(0, _DEPART_S))
            self.did["disconnected"] += 1
        elif kind == "wrong":
            path, body = self._draw.choice(WRONG)
            status, content = self._http.post(path, body)
            self.did["wrong requests"] += 1
            if not 400 <= status < 500:
                self.problems.append(f"{path} {body!r}: {status} {content[:300]!r}")
        else:
            status, content = self._http.post(case.path, case.body)
            self.did[case.kind] += 1
            try:
                reply = status, case.read(content)
            except (LookupError, ValueError, TypeError) as error:
                reply = error
            if reply != (200, case.expected):
                text = f"{case.kind}: {case.body!r}\n  found    {reply!r}\n  expected "
                self.problems.append(f"{text}{case.expected!r} (status {status})")


class Crowd:
    """Threads of all clients, which work in rounds and rest in between.

    Args:
        clients: The clients.
    """

    def __init__(self, clients: Sequence[Client]) -> None:
        self._clients = clients

    def work(self, seconds: float) -> None:
        """Let all clients work for a time.

        Raises:
            AssertionError: A client found a wrong result, or its request was lost.
        """
        end_s = time.monotonic() + seconds

        def live(client: Client) -> None:
            try:
                while time.monotonic() < end_s and not client.problems:
                    client.act()
            except OSError as error:
                client.problems.append(f"lost: {error!r}")

        threads = [threading.Thread(target=live, args=(c,)) for c in self._clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        problems = [text for worker in self._clients for text in worker.problems]
        assert not problems, "\n".join(problems)


def at_rest(http: Http, process: psutil.Process) -> dict[str, int]:
    """Return the resources of the server, once no prompt runs or waits.

    Raises:
        AssertionError: Prompts of clients that disconnected did not end.
    """
    end_s = time.monotonic() + END_S
    while any(http.load().values()):
        assert time.monotonic() < end_s, f"prompts were left: {http.load()}"
        time.sleep(0.05)
    time.sleep(1)  # closed connections leave uvicorn's list
    return {
        "memory_bytes": process.memory_info().rss,
        "descriptors": process.num_fds(),
        "threads": process.num_threads(),
    }


def start(model: str, log: IO[str]) -> tuple[subprocess.Popen[str], int]:
    """Start the server; return its process and its port."""
    command = [sys.executable, "-m", "llamaherd.cli", "serve", model, "--port", "0"]
    command += ["--alias", "soak", "--deterministic", "--n-threads", "1"]
    process = subprocess.Popen(
        [*command, "--n-seq-max", "8"], stdout=subprocess.PIPE, stderr=log, text=True
    )
    assert process.stdout is not None
    match = re.search(r":(\d+) ", process.stdout.readline())
    assert match, "the server did not start"
    return process, int(match[1])


def main() -> None:
    path, minutes, out = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    warnings.simplefilter("ignore")  # labels that do not occur in the prompts
    with lh.Model(path) as model:
        requests = make_requests(model)
    print(f"{len(requests)} requests with expected answers", flush=True)
    samples: list[dict[str, int]] = []
    log_path = out.with_suffix(".log")
    with log_path.open("w", encoding="utf-8") as log:
        process, port = start(path, log)
        try:
            http, watched = Http(port), psutil.Process(process.pid)
            clients = [Client(http, requests, seed) for seed in range(N_CLIENTS)]
            crowd = Crowd(clients)
            started_s = time.monotonic()
            while (left_s := 60 * minutes - (time.monotonic() - started_s)) > 0:
                crowd.work(min(ROUND_S, left_s))
                samples.append(at_rest(http, watched))
                print(json.dumps(samples[-1]), flush=True)
            took_s = time.monotonic() - started_s
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, process.returncode
        finally:
            process.kill()
            process.wait()
    errors = [
        line
        for line in log_path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\b(ERROR|CRITICAL|Traceback)\b", line)
    ]
    assert not errors, "\n".join(errors[:20])
    report: dict[str, Any] = {
        "minutes": round(took_s / 60, 1),
        "clients": N_CLIENTS,
        "requests": len(requests),
        "did": sum((client.did for client in clients), Counter()),
        "samples": samples,
    }
    text = json.dumps(report, indent=1) + "\n"
    out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
