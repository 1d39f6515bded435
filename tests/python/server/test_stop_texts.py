"""`include_stop_str_in_output`: answers end with the stop text that ended them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from served import Client

TEXT, CHAT = "/v1/completions", "/v1/chat/completions"
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
ASK: dict[str, Any] = {"max_tokens": 24, "temperature": 0, "ignore_eos": True}
FIELD = "include_stop_str_in_output"
CONTEXT = {"n_seq_max": 4, "deterministic": True}


def _body(path: str, **fields: object) -> dict[str, Any]:
    chat = {"messages": [{"role": "user", "content": "one two"}]}
    return {**ASK, **(chat if path == CHAT else {"prompt": "one two"}), **fields}


def _text(real: Client, path: str, **fields: object) -> str:
    if fields.get("stream"):
        events = real.events(path, _body(path, **fields))
        choices = [e["choices"][0] for e in events if e != "[DONE]" and e["choices"]]
        if path == CHAT:
            return "".join(piece["delta"].get("content") or "" for piece in choices)
        return "".join(piece["text"] for piece in choices)
    status, response = real.post(path, _body(path, **fields))
    assert status == 200, response
    (choice,) = response["choices"]
    text: str = choice["message"]["content"] if path == CHAT else choice["text"]
    return text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [TEXT, CHAT])
def test_an_answer_ends_with_its_stop_text(
    real: Client, path: str, *, stream: bool
) -> None:
    whole = _text(real, path)
    n_tried = 0
    for start in range(2, len(whole) - 4, 3):
        stop = whole[start : start + 4]
        if "\ufffd" in stop:
            continue
        n_tried += 1
        fields: dict[str, Any] = {"stop": ["never", stop], "stream": stream}
        without = _text(real, path, **fields)
        assert without == whole[: whole.index(stop)]
        assert _text(real, path, **fields, **{FIELD: True}) == without + stop
        assert _text(real, path, **fields, **{FIELD: False}) == without
    assert n_tried > 3


def test_the_shortest_of_several_stop_texts(real: Client) -> None:
    whole = _text(real, TEXT)
    start = next(i for i in range(2, len(whole)) if whole[i : i + 6].isascii())
    stops = [whole[start : start + n] for n in (6, 2, 4)]
    text = _text(real, TEXT, stop=stops, **{FIELD: True})
    assert text == whole[: whole.index(stops[1])] + stops[1]


@pytest.mark.parametrize("stream", [False, True])
def test_several_answers_and_echo(real: Client, *, stream: bool) -> None:
    whole = _text(real, TEXT)
    start = next(i for i in range(2, len(whole)) if whole[i : i + 3].isascii())
    stop = whole[start : start + 3]
    body = _body(TEXT, stop=stop, stream=stream, echo=True)
    body |= {"prompt": ["one two", "one two"], FIELD: True}
    if stream:
        events = real.events(TEXT, body)
        texts = ["", ""]
        for event in events[:-1]:
            for choice in event["choices"]:
                texts[choice["index"]] += choice["text"]
    else:
        texts = [row["text"] for row in real.post(TEXT, body)[1]["choices"]]
    text = _text(real, TEXT, stop=stop, **{FIELD: True})
    assert text.endswith(stop)
    assert texts == [f"one two{text}"] * 2


def test_an_answer_that_ends_otherwise_is_unchanged(real: Client) -> None:
    whole = _text(real, TEXT)
    assert _text(real, TEXT, stop="never in it", **{FIELD: True}) == whole
    # Within min_tokens a stop text does not end the answer.
    fields: dict[str, Any] = {"stop": whole[2:5], "min_tokens": 24}
    assert _text(real, TEXT, **fields, **{FIELD: True}) == whole
