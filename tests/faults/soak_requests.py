"""Requests of the soak of a server, with the answers that the library computes."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
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
    own = {**settings, **form, "max_tokens": 40}
    return _generate(context, prompt, own, "answers in a form")


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
    own = {**settings, "temperature": 0.9}
    prompts = [prompt, prompt[1:]]
    results = lh.generate_parallel(context, prompts, n=3, **own)
    texts = [sample.text for samples in results.samples for sample in samples]

    def read(content: bytes) -> object:
        return [choice["text"] for choice in _json(content)["choices"]]

    kind = "lists of prompts with samples"
    return Asked(kind, _COMPLETION, {"prompt": prompts, "n": 3, **own}, read, texts)


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
