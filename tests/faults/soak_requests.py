"""Requests of the soak of a server, with the answers that the library computes."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import llamaherd as lh

if TYPE_CHECKING:
    from collections.abc import Callable

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request with its expected answer.

    Attributes:
        kind: Kind of the request, for the report.
        path: Path of the endpoint.
        body: Body of the request.
        read: Function that returns what is compared from status and body of an answer.
        expected: Values of the library's answer, in the same form.
    """

    kind: str
    path: str
    body: dict[str, Any]
    read: Callable[[int, bytes], object]
    expected: object


def make_requests(model: lh.Model) -> list[Asked]:
    """Return requests of all kinds, with the answers of each prompt alone."""
    draw = random.Random(23)
    made = []
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
            made += [make(context, prompt, settings) for make in kinds]
    return made


def _generate(context: lh.Context, prompt: str, settings: dict[str, Any]) -> Asked:
    text = lh.generate(context, prompt, **settings).text
    body = {"prompt": prompt, **settings}
    return Asked(
        kind="prompts", path="/generate", body=body, read=_one, expected=(200, text)
    )


def _stream(context: lh.Context, prompt: str, settings: dict[str, Any]) -> Asked:
    asked = _generate(context, prompt, settings)
    body = {**asked.body, "stream": True}
    return Asked(
        kind="streams",
        path=asked.path,
        body=body,
        read=_pieces,
        expected=asked.expected,
    )


def _constrained(context: lh.Context, prompt: str, settings: dict[str, Any]) -> Asked:
    form: dict[str, Any] = {"schema": _SCHEMA}
    if settings["temperature"] == 0:
        form = {"choices": _LABELS} if settings["seed"] % 2 else {"regex": "[a-z]{3,9}"}
    own = {**settings, **form, "max_tokens": 40}
    text = lh.generate(context, prompt, **own).text
    body = {"prompt": prompt, **own}
    return Asked(
        kind="answers in a form",
        path="/generate",
        body=body,
        read=_one,
        expected=(200, text),
    )


def _chat(context: lh.Context, prompt: str, settings: dict[str, Any]) -> Asked:
    messages = [{"role": "user", "content": prompt}]
    text = lh.generate(context, messages, chat=True, **settings).text
    body = {"messages": messages, "model": "soak", **settings}

    def read(status: int, content: bytes) -> object:
        return status, json.loads(content)["choices"][0]["message"]["content"]

    return Asked(kind="chats", path=_CHAT, body=body, read=read, expected=(200, text))


def _chat_stream(context: lh.Context, prompt: str, settings: dict[str, Any]) -> Asked:
    asked = _chat(context, prompt, settings)

    def read(status: int, content: bytes) -> object:
        chunks = _events(content)
        return status, "".join(
            choice["delta"].get("content") or ""
            for chunk in chunks
            for choice in chunk["choices"]
        )

    return Asked(
        kind="streamed chats",
        path=_CHAT,
        body={**asked.body, "stream": True},
        read=read,
        expected=asked.expected,
    )


def _several(context: lh.Context, prompt: str, settings: dict[str, Any]) -> Asked:
    own = {**settings, "temperature": 0.9}
    found = lh.generate_parallel(context, [prompt, prompt[1:]], n=3, **own)
    texts = [each.text for row in found.samples for each in row]
    body = {"prompt": [prompt, prompt[1:]], "n": 3, **settings, "temperature": 0.9}

    def read(status: int, content: bytes) -> object:
        return status, [each["text"] for each in json.loads(content)["choices"]]

    return Asked(
        kind="lists of prompts with samples",
        path=_COMPLETION,
        body=body,
        read=read,
        expected=(200, texts),
    )


def _classify(context: lh.Context, prompt: str, _settings: dict[str, Any]) -> Asked:
    found = lh.classify_parallel(context, [prompt], _LABELS)
    expected = [float(value) for value in found.logprobs[0]]

    def read(status: int, content: bytes) -> object:
        (row,) = json.loads(content)["data"]
        return status, [row["logprobs"][name] for name in _LABELS]

    return Asked(
        kind="labels",
        path="/v1/classify",
        body={"prompts": [prompt], "labels": _LABELS},
        read=read,
        expected=(200, expected),
    )


def _score(context: lh.Context, prompt: str, _settings: dict[str, Any]) -> Asked:
    found = lh.score_parallel(context, [prompt], [[" the sea", " a stone"]])
    expected = [each.token_logprobs.tolist() for each in found.continuations[0] or ()]

    def read(status: int, content: bytes) -> object:
        (row,) = json.loads(content)["data"]
        return status, [each["token_logprobs"] for each in row["continuations"]]

    return Asked(
        kind="scores",
        path="/v1/score",
        body={"prompts": [prompt], "continuations": [[" the sea", " a stone"]]},
        read=read,
        expected=(200, expected),
    )


_KINDS = (
    (_generate, _stream),
    (_chat, _chat_stream),
    (_constrained,),
    (_classify, _several),
    (_score, _stream),
)


def _one(status: int, content: bytes) -> object:
    return status, json.loads(content)["text"]


def _pieces(status: int, content: bytes) -> object:
    return status, "".join(each.get("text", "") for each in _events(content))


def _events(content: bytes) -> list[dict[str, Any]]:
    lines = content.decode().split("\n\n")
    data = [line.removeprefix("data: ") for line in lines if line]
    return [json.loads(line) for line in data if line != "[DONE]"]
