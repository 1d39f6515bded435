"""Log-probabilities of streams: each chunk has those of the tokens of its text."""

from __future__ import annotations

import codecs
import json
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import openai
import pytest
import scripted_model
import tiny_models
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.engine.core.outcome import TextPiece, TokenLogprob
from llamaherd.server.logprobs import LogprobStream, LogprobsWriter
from served import NAME, served

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from served import Client

TEXT, CHAT, RESPONSES = "/v1/completions", "/v1/chat/completions", "/v1/responses"
TEMPLATE = (
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.content }}{% endfor %}"
)
INCLUDE = ["message.output_text.logprobs"]
COLOUR = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}
CONTROL = re.compile(
    r"<unk>|</?s>|\[/?INST\]|<\|unused\d+\|>"
)  # tokens without text in an answer
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """Return the client of a model whose answers contain parts of characters."""
    path = tmp_path_factory.mktemp("streams") / "tiny.gguf"
    tiny_models.write(path, "llama", chat_template=TEMPLATE, tokenizer=request.param)
    with (
        lh.Model(path) as model,
        lh.Context(model, n_seq_max=4, deterministic=True) as ctx,
        served(ctx) as connection,
    ):
        yield connection


def _body(path: str, n_top: int, **fields: Any) -> dict[str, Any]:
    if path == TEXT:
        return {"prompt": "one two", "logprobs": n_top, **fields}
    if path == RESPONSES:
        renamed = {
            "max_output_tokens" if k == "max_tokens" else k: fields[k] for k in fields
        }
        return {"input": "one two", "include": INCLUDE, "top_logprobs": n_top, **renamed}
    messages = [{"role": "user", "content": "one two"}]
    return {"messages": messages, "logprobs": True, "top_logprobs": n_top, **fields}


def _rows(logprobs: Any) -> Rows:
    """Return the log-probabilities of a choice, a row for each token."""
    if logprobs is None:
        return []
    if isinstance(logprobs, list):
        return logprobs
    if "content" in logprobs:
        assert logprobs["refusal"] is None
        return list(logprobs["content"])
    values = zip(*logprobs.values(), strict=True)
    return [dict(zip(logprobs, row, strict=True)) for row in values]


def _whole(client: Client, path: str, body: dict[str, Any]) -> list[tuple[str, Rows]]:
    status, response = client.post(path, body)
    assert status == 200, response
    if path == RESPONSES:
        (message,) = response["output"]
        (part,) = message["content"]
        return [(part["text"], part["logprobs"])]
    return [
        (
            choice["text"] if path == TEXT else choice["message"]["content"],
            _rows(choice["logprobs"]),
        )
        for choice in response["choices"]
    ]


def _chunks(
    client: Client, path: str, body: dict[str, Any]
) -> list[list[tuple[str, Rows]]]:
    """Return text and log-probabilities of each chunk of each answer."""
    if path == RESPONSES:
        status, streamed = client.post(path, {**body, "stream": True})
        assert status == 200, streamed
        lines = [line for line in streamed.split("\n") if line.startswith("data: ")]
        events = [json.loads(line.removeprefix("data: ")) for line in lines]
        deltas = [e for e in events if e["type"] == "response.output_text.delta"]
        (done,) = [e for e in events if e["type"] == "response.output_text.done"]
        assert all(delta["delta"] for delta in deltas)
        n = sum(len(delta["logprobs"]) for delta in deltas)
        chunks = [(delta["delta"], delta["logprobs"]) for delta in deltas]
        return [[*chunks, ("", done["logprobs"][n:])]]
    events = client.events(path, {**body, "stream": True})
    assert events.pop() == "[DONE]"
    answers: list[list[tuple[str, Rows]]] = [[] for _ in range(body.get("n", 1))]
    for event in events:
        (choice,) = event["choices"]
        text = choice.get("text", choice.get("delta", {}).get("content") or "")
        answers[choice["index"]].append((text, _rows(choice["logprobs"])))
    return answers


def _bytes(row: dict[str, Any]) -> bytes:
    """Return the bytes of a token in a text; control tokens have none."""
    token = str(row.get("token", row.get("tokens")))
    if CONTROL.fullmatch(token):
        return b""
    if "bytes" in row:
        return bytes(row["bytes"])
    if token.startswith("bytes:"):
        return bytes.fromhex(token.removeprefix("bytes:").replace("\\x", ""))
    return token.encode()


def _check_chunks(chunks: Sequence[tuple[str, Rows]], *, may_be_cut: bool) -> None:
    """Check that the tokens of each chunk have the chunk's text."""
    last = max((i for i, (text, _) in enumerate(chunks) if text), default=-1)
    for i, (text, rows) in enumerate(chunks):
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoded = decoder.decode(b"".join(map(_bytes, rows)))
        if may_be_cut and i == last:  # a stop text may remove the end of a token
            assert decoded.startswith(text)
            # The last token begins in the text that was sent.
            decoder.reset()
            assert len(decoder.decode(b"".join(map(_bytes, rows[:-1])))) < len(text)
        else:
            assert decoded == text


@pytest.mark.more(reason="many requests or long waits in the server", cases=7)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("path", [TEXT, CHAT, RESPONSES])
def test_chunks_have_the_log_probabilities_of_their_tokens(
    client: Client, path: str, seed: int
) -> None:
    draw = random.Random(f"{path} {seed}")
    n_cut = 0
    for _ in range(8):
        n_top = draw.choice([0, 1, 3])
        fields: dict[str, Any] = {
            "temperature": draw.choice([0.0, 0.8, 1.5]),
            "seed": draw.randrange(1000),
            "max_tokens": draw.choice([1, 3, 12, 24]),
            "ignore_eos": draw.random() < 0.5,
        }
        if path != RESPONSES and fields["temperature"] and draw.random() < 0.3:
            fields["n"] = 3
        plain = _whole(client, path, _body(path, n_top, **fields))
        text = plain[-1][0]
        starts = [draw.randrange(max(1, len(text))) for _ in range(draw.choice([0, 2]))]
        fields["stop"] = [
            text[start : start + draw.choice([1, 2, 5])] for start in starts
        ]
        fields["stop"] = [stop for stop in fields["stop"] if stop]
        if path != RESPONSES and draw.random() < 0.3:
            fields["include_stop_str_in_output"] = True
        body = _body(path, n_top, **fields)
        whole = _whole(client, path, body)
        streams = _chunks(client, path, body)
        for (text, rows), chunks in zip(whole, streams, strict=True):
            assert "".join(part for part, _ in chunks) == text
            assert [row for _, new in chunks for row in new] == rows
            _check_chunks(chunks, may_be_cut=bool(fields["stop"]))
        n_cut += [text for text, _ in whole] != [text for text, _ in plain]
    assert n_cut > 0  # stop texts ended answers


class _Writer(LogprobsWriter):
    """Writer whose tokens have given bytes."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self._is_choice = False

    def text_bytes(self, token: int) -> bytes:
        return self._pieces[token]


_BYTES = st.sampled_from(
    [b"", b"a", b"bc", "é".encode(), *(bytes([b]) for b in "€é\xff".encode())]
)


@given(pieces=st.lists(_BYTES | st.binary(max_size=3), max_size=12), data=st.data())
def test_chunks_end_where_tokens_end(pieces: list[bytes], data: st.DataObject) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    whole = "".join(decoder.decode(part) for part in pieces)
    n_chars = data.draw(st.integers(0, len(whole)))  # a stop text may remove the rest
    rows = [TokenLogprob(i, -1.0, {}) for i in range(len(pieces))]
    result = lh.Result(
        index=0,
        text=whole[:n_chars],
        tokens=list(range(len(pieces))),
        finish_reason="stop",
        complete=True,
        error=None,
        n_prompt_tokens=1,
        n_reused_tokens=0,
        seed=0,
        logprobs=[-1.0] * len(pieces),
        top_logprobs=[{} for _ in pieces],
    )
    writer = _Writer(pieces)
    kept = writer.rows(result)
    assert kept == rows[: len(kept)]
    if n_chars < len(whole):
        text = b"".join(pieces[: len(kept)]).decode(errors="replace")
        assert text.startswith(whole[:n_chars])
    else:
        assert kept == rows
    stream, sent, n_sent = LogprobStream(writer), "", 0
    starts = sorted({0, *data.draw(st.lists(st.integers(0, n_chars)))})
    for start, end in zip(starts, [*starts[1:], n_chars], strict=True):
        # The tokens of the piece are known, perhaps with some whose text is held back.
        least = len(writer.rows(replace(result, text=whole[:end])))
        n_known = max(n_sent, data.draw(st.integers(least, len(rows))))
        piece = TextPiece(
            whole[start:end], "answer", n_known, tuple(rows[n_sent:n_known])
        )
        n_sent = n_known
        text = stream.add(piece)
        parts = [pieces[row.token] for row in stream.take()]
        assert (
            codecs.getincrementaldecoder("utf-8")("replace").decode(b"".join(parts))
            == text
        )
        sent += text
    sent += stream.end(kept)
    assert sent == whole[:n_chars]


@pytest.fixture
def scripted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """Return the client of a model that writes the tokens of the test's parameter."""
    path = tmp_path / "m.gguf"
    scripted_model.write(path, *request.param, chat_template=TEMPLATE)
    with (
        lh.Model(path) as model,
        lh.Context(model, n_seq_max=2, n_ctx=512) as ctx,
        served(ctx) as connection,
    ):
        yield connection


SPLIT = ("a", b"\xe2", b"\x82", b"\xac", "b", b"\xff", "c", b"\xf0", b"\x9f")


@pytest.mark.parametrize("scripted", [SPLIT], indirect=True)
@pytest.mark.parametrize("path", [TEXT, CHAT, RESPONSES])
def test_a_character_of_several_tokens_is_in_one_chunk(
    scripted: Client, path: str
) -> None:
    body = _body(path, 0, temperature=0, max_tokens=12)
    (chunks,) = _chunks(scripted, path, body)
    # A chunk has the text of one or more tokens.
    assert "".join(text for text, _ in chunks) == "a€b\ufffdc"
    _check_chunks(chunks, may_be_cut=False)
    # An incomplete character at the end has no text.
    assert [len(rows) for text, rows in chunks if not text and rows] == [2]
    assert [row for _, new in chunks for row in new] == _whole(scripted, path, body)[0][1]


@pytest.mark.parametrize("scripted", [("ab", "cd", "ef", "gh")], indirect=True)
@pytest.mark.parametrize("path", [TEXT, CHAT, RESPONSES])
def test_text_that_could_become_a_stop_text_keeps_its_tokens(
    scripted: Client, path: str
) -> None:
    # The stop texts "bcx" and "fg" begin within tokens.
    body = _body(path, 0, temperature=0, max_tokens=9, stop=["bcx", "fg", "h"])
    (chunks,) = _chunks(scripted, path, body)
    _check_chunks(chunks, may_be_cut=True)
    assert "".join(text for text, _ in chunks) == "abcde"
    assert sum(len(rows) for _, rows in chunks) == 3
    ((text, rows),) = _whole(scripted, path, body)
    assert (text, len(rows)) == ("abcde", 3)
    # A stop text at the start removes every token.
    body = _body(path, 0, temperature=0, max_tokens=9, stop=["abc"])
    assert _whole(scripted, path, body) == [("", [])]
    assert not any(text or rows for text, rows in _chunks(scripted, path, body)[0])


@pytest.mark.parametrize(
    "scripted", [("<think>", "Hm", "</think>", "yes", "no")], indirect=True
)
def test_a_thought_has_no_log_probabilities(scripted: Client) -> None:
    thinking = {"budget": 5, "start": "<think>", "end": "</think>"}
    body = _body(CHAT, 1, temperature=0, max_tokens=9, thinking=thinking)
    events = scripted.events(CHAT, {**body, "stream": True})[:-1]
    choices = [choice for event in events for choice in event["choices"]]
    thoughts = [delta for delta in choices if delta["delta"].get("reasoning_content")]
    assert thoughts
    assert all(delta["logprobs"] is None for delta in thoughts)
    rows = [row for delta in choices for row in _rows(delta["logprobs"])]
    ((text, expected),) = _whole(scripted, CHAT, body)
    assert rows == expected
    assert b"".join(map(_bytes, rows)).decode() == text


@pytest.mark.parametrize("n_tools", [1, 2])
@pytest.mark.parametrize("n", [1, 2])
def test_a_forced_call_has_the_log_probabilities_of_its_tokens(
    client: Client, n_tools: int, n: int
) -> None:
    functions = [{"name": name, "parameters": COLOUR} for name in ("f", "g")]
    tools = [{"type": "function", "function": named} for named in functions[:n_tools]]
    fields = {"tools": tools, "tool_choice": "required", "max_tokens": 100, "n": n}
    body = _body(CHAT, 2, seed=4, temperature=1, **fields)
    status, response = client.post(CHAT, body)
    assert status == 200, response
    expected = [_rows(row["logprobs"]) for row in response["choices"]]
    streamed: list[Rows] = [[] for _ in range(n)]
    arguments = [""] * n
    for event in client.events(CHAT, {**body, "stream": True})[:-1]:
        (choice,) = event["choices"]
        rows = _rows(choice["logprobs"])
        for call in choice["delta"].get("tool_calls", []):
            written = call["function"]["arguments"]
            arguments[choice["index"]] += written
            if n_tools == n == 1:
                assert b"".join(map(_bytes, rows)).decode() == written
        streamed[choice["index"]] += rows
    assert streamed == expected
    for text in arguments:
        assert set(json.loads(text)) == {"colour"}


@pytest.mark.parametrize(
    "form",
    [
        {"guided_json": COLOUR},
        {"guided_choice": ["red", "green"]},
        {"guided_regex": "a+b"},
    ],
)
def test_answers_in_a_form(client: Client, form: dict[str, Any]) -> None:
    body = _body(CHAT, 1, temperature=0, max_tokens=60, **form)
    ((text, rows),) = _whole(client, CHAT, body)
    (chunks,) = _chunks(client, CHAT, body)
    assert "".join(part for part, _ in chunks) == text
    assert [row for _, new in chunks for row in new] == rows
    assert rows


def test_offsets_count_characters_of_the_text(client: Client) -> None:
    for seed in range(20):
        body = _body(TEXT, 0, seed=seed, temperature=1.5, max_tokens=20, ignore_eos=True)
        ((text, rows),) = _whole(client, TEXT, body)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        before = ""
        for row in rows:
            assert row["text_offset"] == len(before)
            before += decoder.decode(_bytes(row))
        assert before == text


def test_the_sdk_accumulates_them(client: Client) -> None:
    body: dict[str, Any] = {
        "model": NAME,
        "messages": [{"role": "user", "content": "a"}],
        "max_tokens": 12,
        "seed": 3,
        "logprobs": True,
        "top_logprobs": 2,
    }
    with openai.OpenAI(base_url=f"{client.url}/v1", api_key="none") as sdk:
        with sdk.chat.completions.stream(**body) as stream:
            n_sent = sum(
                len(event.content)
                for event in stream
                if event.type == "logprobs.content.delta"
            )
            final = stream.current_completion_snapshot.choices[0]
        whole = sdk.chat.completions.create(**body).choices[0]
    assert whole.logprobs is not None
    assert final.logprobs is not None
    assert final.logprobs.content == whole.logprobs.content
    assert n_sent == len(whole.logprobs.content or [])
