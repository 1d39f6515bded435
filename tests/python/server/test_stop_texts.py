"""`include_stop_str_in_output`: answers end with the stop text that ended them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from served import Client

TEXT, CHAT = "/v1/completions", "/v1/chat/completions"
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
ASK: dict[str, Any] = {"max_tokens": 24, "temperature": 0, "ignore_eos": True}
FIELD = "include_stop_str_in_output"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = tmp_path_factory.mktemp("stops") / "tiny.gguf"
    tiny_models.write(path, "llama", chat_template=TEMPLATE)
    with (
        lh.Model(path) as model,
        lh.Context(model, n_seq_max=4, deterministic=True) as ctx,
        served(ctx) as made,
    ):
        yield made


def _body(path: str, **fields: object) -> dict[str, Any]:
    chat = {"messages": [{"role": "user", "content": "one two"}]}
    return {**ASK, **(chat if path == CHAT else {"prompt": "one two"}), **fields}


def _text(client: Client, path: str, **fields: object) -> str:
    if fields.get("stream"):
        events = client.events(path, _body(path, **fields))
        choices = [e["choices"][0] for e in events if e != "[DONE]" and e["choices"]]
        if path == CHAT:
            return "".join(each["delta"].get("content") or "" for each in choices)
        return "".join(each["text"] for each in choices)
    status, got = client.post(path, _body(path, **fields))
    assert status == 200, got
    (choice,) = got["choices"]
    text: str = choice["message"]["content"] if path == CHAT else choice["text"]
    return text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [TEXT, CHAT])
def test_an_answer_ends_with_its_stop_text(
    client: Client, path: str, *, stream: bool
) -> None:
    whole = _text(client, path)
    n_tried = 0
    for start in range(2, len(whole) - 4, 3):
        stop = whole[start : start + 4]
        if "\ufffd" in stop:
            continue
        n_tried += 1
        asked: dict[str, Any] = {"stop": ["never", stop], "stream": stream}
        without = _text(client, path, **asked)
        assert without == whole[: whole.index(stop)]
        assert _text(client, path, **asked, **{FIELD: True}) == without + stop
        assert _text(client, path, **asked, **{FIELD: False}) == without
    assert n_tried > 3


def test_the_shortest_of_several_stop_texts(client: Client) -> None:
    whole = _text(client, TEXT)
    start = next(i for i in range(2, len(whole)) if whole[i : i + 6].isascii())
    stops = [whole[start : start + n] for n in (6, 2, 4)]
    got = _text(client, TEXT, stop=stops, **{FIELD: True})
    assert got == whole[: whole.index(stops[1])] + stops[1]


@pytest.mark.parametrize("stream", [False, True])
def test_several_answers_and_echo(client: Client, *, stream: bool) -> None:
    whole = _text(client, TEXT)
    start = next(i for i in range(2, len(whole)) if whole[i : i + 3].isascii())
    stop = whole[start : start + 3]
    body = _body(TEXT, stop=stop, stream=stream, echo=True)
    body |= {"prompt": ["one two", "one two"], FIELD: True}
    if stream:
        events = client.events(TEXT, body)
        texts = ["", ""]
        for each in events[:-1]:
            for choice in each["choices"]:
                texts[choice["index"]] += choice["text"]
    else:
        texts = [each["text"] for each in client.post(TEXT, body)[1]["choices"]]
    own = _text(client, TEXT, stop=stop, **{FIELD: True})
    assert own.endswith(stop)
    assert texts == [f"one two{own}"] * 2


def test_an_answer_that_ends_otherwise_is_unchanged(client: Client) -> None:
    whole = _text(client, TEXT)
    assert _text(client, TEXT, stop="never in it", **{FIELD: True}) == whole
    # Within min_tokens a stop text does not end the answer.
    asked: dict[str, Any] = {"stop": whole[2:5], "min_tokens": 24}
    assert _text(client, TEXT, **asked, **{FIELD: True}) == whole


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (TEXT, {FIELD: True, "stop_token_ids": [3]}),
        (TEXT, {FIELD: 1}),
        (
            CHAT,
            {
                FIELD: True,
                "tool_choice": "required",
                "tools": [{"type": "function", "function": {"name": "f"}}],
            },
        ),
    ],
)
def test_what_it_cannot_do(client: Client, path: str, fields: dict[str, Any]) -> None:
    status, got = client.post(path, _body(path, **fields))
    assert (status, got["error"]["param"]) == (400, FIELD), got


def test_responses_refuse_it_by_name(client: Client) -> None:
    status, got = client.post("/v1/responses", {"input": "a", FIELD: True})
    assert (status, got["error"]["param"]) == (400, FIELD)
