"""Conversations: memory, streams, interrupts, forks, and a full context."""

from __future__ import annotations

import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import scripted_model
import tiny_models
from served import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# A random model seldom ends an answer.
LONG = {"max_tokens": 400, "ignore_eos": True}
ENDLESS = {"max_tokens": 60_000, "ignore_eos": True}  # as long as any test
SHORT = {"max_tokens": 5, "ignore_eos": True}


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with lh.Model(tiny_path("chat")) as model, lh.Context(model) as context:
        yield context


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lh.Context]:
    """Context in which an answer is not finished before a test ends it.

    It is deterministic, because the length of such an answer depends on the clock, and
    the last bits of what follows a long one differ with the sizes of its batches.
    """
    path = tmp_path_factory.mktemp("roomy") / "tiny.gguf"
    changes = {"context_length": 65536}
    tiny_models.write(path, "llama", chat_template=tiny_models.CHAT, changes=changes)
    with (
        lh.Model(path) as model,
        lh.Context(model, n_ctx=65536 * 2, n_seq_max=2, deterministic=True) as context,
    ):
        yield context


def turn_texts(chat: lh.Chat) -> list[str]:
    return [turn["content"] for turn in chat.turns]


def test_answers_are_those_of_the_whole_conversation(context: lh.Context) -> None:
    chat = lh.chat(context, "S", **SHORT)
    messages: list[dict[str, str]] = []
    for text in ("One", "Two", "Three"):
        messages.append({"role": "user", "content": text})
        result = chat.ask(text)
        alone = lh.generate(context, messages, chat=True, system="S", **SHORT)
        assert result.text == alone.text
        assert result.tokens == alone.tokens
        assert chat.last == result
        messages.append({"role": "assistant", "content": result.text})
    assert chat.turns == messages
    assert chat.messages == [{"role": "system", "content": "S"}, *messages]
    assert "assistant: " in str(chat)
    assert repr(chat).startswith("<Chat of 3 questions on <Context")


def test_a_drawn_first_answer_is_that_of_a_call_with_the_seed(
    context: lh.Context,
) -> None:
    drawn = {**SHORT, "temperature": 2.0, "seed": 7}
    chat = lh.chat(context, **drawn)
    messages = [{"role": "user", "content": "One"}]
    assert chat.ask("One").text == lh.generate(context, messages, chat=True, **drawn).text
    # A later question has another seed, like a later prompt of a call.
    assert chat.ask("Two").seed != chat.ask("Two").seed


def test_a_stream_is_the_answer_and_is_remembered(context: lh.Context) -> None:
    chat = lh.chat(context, **SHORT)
    pieces = list(chat.stream("One"))
    assert "".join(pieces) == chat.turns[-1]["content"] == chat.last.text
    reply = chat.stream("Two")  # nobody reads it
    assert turn_texts(chat)[-1] == reply.result().text
    assert reply.done()
    assert "length" in repr(reply)
    kinds = {piece.kind for piece in chat.stream("Three").pieces()}
    assert kinds == {"answer"}


def test_leaving_a_stream_early_keeps_what_was_written(roomy: lh.Context) -> None:
    chat = lh.chat(roomy, **ENDLESS)
    for piece in chat.stream("One"):
        first = piece
        break
    question, answer = chat.turns
    assert question == {"role": "user", "content": "One"}
    assert answer["interrupted"] is True
    assert answer["content"].startswith(first)
    assert chat.last.finish_reason == "cancelled"
    after = chat.ask("Two", **SHORT)
    assert after.finish_reason == "length"
    assert len(chat.turns) == 4
    assert json.loads(json.dumps(chat.turns)) == chat.turns


def test_an_error_of_the_reader_cancels_the_answer(roomy: lh.Context) -> None:
    chat = lh.chat(roomy, **ENDLESS)

    def read() -> None:
        for _ in chat.stream("One"):
            1 / 0  # noqa: B018

    with pytest.raises(ZeroDivisionError):
        read()
    assert chat.turns[-1]["interrupted"]


def test_ctrl_c_ends_the_answer_alone(
    roomy: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = lh.chat(roomy, **ENDLESS)
    other = roomy.submit("B", **LONG)
    result = lh.types.Reply.result

    def pressed(reply: lh.types.Reply) -> lh.Result:
        monkeypatch.setattr(lh.types.Reply, "result", result)
        signal.raise_signal(signal.SIGINT)
        return reply.result()

    monkeypatch.setattr(lh.types.Reply, "result", pressed)
    with pytest.raises(lh.Interrupted) as caught:
        chat.ask("One")
    (cancelled,) = caught.value.results
    assert cancelled.finish_reason == "cancelled"
    assert chat.last == cancelled
    assert chat.turns[-1]["interrupted"]
    assert chat.turns[-1]["content"] == (cancelled.partial or "")
    assert other.result().finish_reason == "length"
    assert chat.ask("Two", **SHORT).finish_reason == "length"


def test_ctrl_c_while_a_stream_is_read(roomy: lh.Context) -> None:
    chat = lh.chat(roomy, **ENDLESS)
    reply = chat.stream("One")
    read_more = reply.handle.read

    def pressed(n: int) -> list[str]:
        if n:
            signal.raise_signal(signal.SIGINT)
        return read_more(n)

    reply.handle.read = pressed
    read = []
    with pytest.raises(lh.Interrupted) as caught:
        read.extend(reply)
    (cancelled,) = caught.value.results
    assert chat.turns[-1]["content"] == cancelled.partial
    assert cancelled.partial.startswith("".join(read))


def test_undo_retry_and_forget(context: lh.Context) -> None:
    chat = lh.chat(context, **SHORT)
    for text in ("One", "Two", "Three"):
        chat.ask(text)
    greedy = chat.last
    before = chat.turns
    again = chat.retry(max_tokens=20)
    assert chat.turns[:-1] == before[:-1]
    assert chat.turns[-1]["content"] == again.text
    assert again.text[: len(greedy.text)] != greedy.text  # it is drawn
    other = chat.retry(stream=True, max_tokens=20)
    assert "".join(other) == chat.last.text != again.text
    last = {"role": "assistant", "content": chat.last.text}
    assert chat.undo() == [before[-2], last]
    assert chat.last is None  # the answer is no longer part of the conversation
    assert chat.turns == before[:-2]
    assert chat.forget() == before[:2]
    assert chat.turns == before[2:4]
    with pytest.raises(ValueError, match="n must be 1, not 2"):
        chat.forget(2)
    chat.undo()
    for change in (chat.undo, chat.forget, chat.retry):
        with pytest.raises(ValueError, match="has no question yet"):
            change()


def test_a_question_that_fails_changes_nothing(context: lh.Context) -> None:
    chat = lh.chat(context, **SHORT)
    chat.ask("One")
    before = chat.turns
    with pytest.raises(lh.CutOffError):
        chat.ask("Two", schema={"type": "array", "minItems": 9}, max_tokens=2)
    with pytest.raises(lh.CutOffError):
        chat.retry(schema={"type": "array", "minItems": 9}, max_tokens=2)
    with pytest.raises(ValueError, match="schema"):
        chat.ask("Two", schema="{")
    for method in (chat.ask, chat.stream):
        for text in (3, None):  # a missing text is not a wish to try again
            with pytest.raises(TypeError, match="text must be a text"):
                method(text)
    with pytest.raises(TypeError, match="'temprature'; did you mean 'temperature'"):
        chat.ask("Two", temprature=1)
    assert chat.turns == before
    chat = lh.chat(context)
    assert chat.ask("Two", choices=["yes", "no"]).text in {"yes", "no"}


def test_a_full_context_says_what_to_forget(context: lh.Context) -> None:
    chat = lh.chat(context, "S", max_tokens=100, ignore_eos=True)
    error = None
    while error is None:
        before = chat.turns
        try:
            chat.ask("a" * 50)
        except lh.ChatFullError as full:
            error = full
    assert chat.turns == before
    assert error.code == "too_long"
    assert error.capacity == tiny_models.N_CTX
    assert error.n_tokens > error.capacity - 64
    assert len(chat.turns) // 2 >= error.n_forget >= 1
    many = f"forget({error.n_forget}) drops its {error.n_forget} oldest questions"
    one = "forget() drops its oldest question"
    assert (one if error.n_forget == 1 else many) in str(error)
    assert chat.messages[0] == {"role": "system", "content": "S"}
    chat.forget(error.n_forget)
    assert chat.ask("a" * 50).n_generated_tokens == 100
    with pytest.raises(lh.ChatFullError, match="ask a shorter question") as caught:
        lh.chat(context).ask("a" * 600)
    assert caught.value.n_forget == 0


def test_a_context_of_a_fixed_size_is_the_limit(context: lh.Context) -> None:
    with lh.Context(context.model, n_ctx=256) as small:
        chat = lh.chat(small, ignore_eos=True)
        result = chat.ask("a")
        # The answer is limited to the remaining tokens.
        assert result.n_prompt_tokens + result.n_generated_tokens == 256
        with pytest.raises(lh.ChatFullError) as caught:
            chat.ask("b")
    assert caught.value.capacity == 256


def test_forks_go_on_alone(context: lh.Context) -> None:
    chat = lh.chat(context, "S", temperature=1.5, **SHORT)
    chat.ask("One")
    forks = chat.fork(3)
    answers = [fork.ask("Two").text for fork in forks]
    assert len(set(answers)) > 1
    assert len(chat.turns) == 2
    for fork, answer in zip(forks, answers, strict=True):
        assert fork.turns[:2] == chat.turns
        assert fork.turns[-1]["content"] == answer
        assert fork.system == "S"
    assert [fork.ask("Two").text for fork in chat.fork(3)] == answers
    forks[0].system = None
    assert forks[0].messages == forks[0].turns


def test_many_questions_after_one_conversation(context: lh.Context) -> None:
    chat = lh.chat(context, "S", **SHORT)
    chat.ask("One")
    texts = ["Two", "Three", "Four"]
    results = chat.ask_all(texts)
    assert len(chat.turns) == 2
    alone = []
    for text in texts:
        (fork,) = chat.fork()
        alone.append(fork.ask(text).text)
    assert results.texts == alone
    (first, *others) = results
    assert all(answer.n_reused_tokens > first.n_prompt_tokens - 20 for answer in others)
    assert chat.ask_all([]).texts == []
    with pytest.raises(TypeError, match=r"texts must be a list of texts, not str"):
        chat.ask_all("Two")
    with pytest.raises(TypeError, match=r"texts\[1\] must be a text"):
        chat.ask_all(["Two", 2])


def test_a_conversation_can_be_saved_and_continued(roomy: lh.Context) -> None:
    chat = lh.chat(roomy, "S", **SHORT)
    for _ in chat.stream("One", **ENDLESS):
        break
    saved = json.loads(json.dumps(chat.messages))
    again = lh.chat(roomy, turns=saved, **SHORT)
    assert again.messages == chat.messages
    assert again.turns[-1]["interrupted"]
    assert again.ask("Two").text == chat.ask("Two").text


@pytest.mark.parametrize(
    ("turns", "error", "match"),
    [
        ("a", TypeError, "turns must be a list of messages"),
        ([1], TypeError, r"turns\[0\] must be a mapping"),
        ([{"role": "user"}], ValueError, r"turns\[0\] has no 'content'"),
        ([{"role": "user", "content": 1}], TypeError, r"turns\[0\]\['content'\]"),
        ([{"role": "user", "content": "a"}], ValueError, "must end with an answer"),
        (
            [{"role": "system", "content": "a"}],
            ValueError,
            "has a system message, and system is given",
        ),
    ],
)
def test_turns_that_are_no_conversation_are_refused(
    context: lh.Context, turns: object, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        lh.chat(context, "S", turns=turns)


def test_wrong_settings_are_refused_before_anything_is_asked(context: lh.Context) -> None:
    with pytest.raises(TypeError, match="there is no argument 'tempature'"):
        lh.chat(context, tempature=1)
    with pytest.raises(ValueError, match="max_tokens must be"):
        lh.chat(context, max_tokens=0)
    with pytest.raises(TypeError, match="system must be a text"):
        lh.chat(context, 3)
    with pytest.raises(TypeError, match=r"context must be a llamaherd\.Context"):
        lh.chat("a")


def test_threads_ask_one_after_the_other(context: lh.Context) -> None:
    chat = lh.chat(context, **SHORT)
    texts = [f"Q{i}" for i in range(8)]
    threads = [threading.Thread(target=chat.ask, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    turns = chat.turns
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * 8
    assert sorted(turn["content"] for turn in turns[::2]) == texts
    # Each answer equals the answer to the conversation before it.
    again = lh.chat(context, **SHORT)
    for turn in turns[::2]:
        again.ask(turn["content"])
    assert again.turns == turns


def test_a_chat_talks_beside_a_batch(context: lh.Context) -> None:
    alone = lh.chat(context, **SHORT).ask("One").text
    job = lh.start_parallel(context, [f"{i}" for i in range(100)], max_tokens=100)
    assert lh.chat(context, **SHORT).ask("One").text == alone
    job.cancel()
    job.results()


def test_a_model_gets_a_context_that_ends_with_the_chat(context: lh.Context) -> None:
    with lh.chat(context.model, **SHORT) as chat:
        chat.ask("One")
        assert not chat.context.closed
    assert chat.context.closed
    chat.close()
    with pytest.raises(lh.ContextClosedError):
        chat.ask("Two")
    assert len(chat.turns) == 2
    with lh.chat(context) as other:
        pass
    assert not other.context.closed


def test_the_start_of_an_answer_is_part_of_the_memory(context: lh.Context) -> None:
    chat = lh.chat(context, **SHORT)
    n_plain = chat.ask("One").n_prompt_tokens
    chat.undo()
    result = chat.ask("One", prefix="Well")
    assert result.n_prompt_tokens > n_plain
    assert not result.text.startswith("Well")
    assert chat.turns[-1]["content"] == f"Well{result.text}"


def test_a_conversation_is_not_computed_again(smollm2: lh.Model) -> None:
    with lh.Context(smollm2, 1024, kv_layout="unified") as context:
        chat = lh.chat(context, "Be brief.", max_tokens=16)
        n_before = 0
        for text in ("Name a dog.", "And a cat.", "And a bird.", "A fish.", "A horse."):
            result = chat.ask(text)
            n = result.n_prompt_tokens
            # New tokens: the tokens of the last answer and of the question.
            assert result.stats.n_prefill_tokens <= n - n_before + 1
            n_before = n
        assert n > 130
        n_computed = []
        for fork in chat.fork(3):
            result = fork.ask("Why?")
            assert result.n_prompt_tokens > n + 10
            n_computed.append(result.stats.n_prefill_tokens)
        assert max(n_computed) < 40
        assert n_computed[2] < 20  # the other prompts share the computed last answer


def test_a_context_that_grows_computes_a_conversation_again_each_time(
    smollm2: lh.Model,
) -> None:
    with lh.chat(smollm2, "Be brief.", max_tokens=16) as chat:
        n_computed = sum(
            chat.ask(text).stats.n_prefill_tokens
            for text in (
                "Name a dog.",
                "And a cat.",
                "And a bird.",
                "A fish.",
                "A horse.",
            )
        )
        # The size doubles each time.
        assert n_computed <= 3 * chat.last.n_prompt_tokens


def test_a_chat_talks_beside_clients_of_a_server(context: lh.Context) -> None:
    alone = lh.chat(context, **SHORT).ask("One").text
    body = {
        "messages": [{"role": "user", "content": "One"}],
        "temperature": 0,
        "max_tokens": 5,
    }
    with served(context) as client, ThreadPoolExecutor(4) as pool:
        posts = [
            pool.submit(client.post, "/v1/chat/completions", body) for _ in range(12)
        ]
        chat = lh.chat(context, **SHORT)
        assert chat.ask("One").text == alone
        assert chat.ask("Two").finish_reason == "length"
        for post in posts:
            status, answer = post.result()
            assert status == 200
            assert answer["choices"][0]["message"]["content"]


THINKS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>"
    "{% endif %}"
)


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lh.Context]:
    """Return a model that thinks "Hm, so" and answers "yes"."""
    script = scripted_model.write(
        tmp_path_factory.mktemp("thinker") / "m.gguf",
        *("Hm", ", so", "</think>", "yes"),
        links={"\n": "yes"},
        chat_template=THINKS,
    )
    with lh.Model(script.path) as model, lh.Context(model) as context:
        yield context


def test_thoughts_are_kept_apart_and_never_computed_again(thinker: lh.Context) -> None:
    chat = lh.chat(thinker, thinking=16, max_tokens=16)
    result = chat.ask("One")
    assert (result.thinking, result.text) == ("Hm, so", "yes")
    assert chat.turns[-1] == {
        "role": "assistant",
        "content": "yes",
        "reasoning_content": "Hm, so",
    }
    pieces = list(chat.stream("Two").pieces())
    assert "".join(p for p in pieces if p.kind == "thinking") == "Hm, so"
    assert "".join(p for p in pieces if p.kind == "answer") == "yes"
    assert "".join(chat.stream("Three")) == "yes"
    # The template omits earlier thoughts.
    n_before = chat.last.n_prompt_tokens
    last = chat.ask("Four")
    assert last.n_prompt_tokens < n_before + 45
    assert last.stats.n_prefill_tokens < last.n_prompt_tokens - 60
    assert chat.retry(thinking=False).thinking is None
    assert chat.ask("Five", thinking=1).thinking_complete is False
    saved = json.loads(json.dumps(chat.messages))
    assert lh.chat(thinker, turns=saved).turns == chat.turns


def test_a_thought_is_cut_to_the_room_of_a_small_context(thinker: lh.Context) -> None:
    with lh.Context(thinker.model, n_ctx=512) as small:
        chat = lh.chat(small)
        assert chat.ask("One").text == "yes"
        with pytest.raises(lh.ChatFullError):
            chat.ask("Two", thinking=1000)
        assert len(chat.turns) == 2
