"""Texts tokenized in parts have the tokens of the whole text (SentencePiece and BPE).

The reference is libllama's own tokenizer, applied to the whole text.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

import llamaherd as lh
import pytest
import tiny_models
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from llamaherd.engine.model.tokens import Joiner, prompt_tokens
from llamaherd.engine.native import vocabulary
from thorough import examples

if TYPE_CHECKING:
    from pathlib import Path

OPEN, CLOSE = "\ufdd0", "\ufdd1"
MARKUP = tiny_models.MARKUP
SPECIALS = [*tiny_models.SPECIAL, *tiny_models.TURNS, *MARKUP]
PIECES = [*tiny_models.PIECES, "  ", "\n", "\n\n", "é", "😀", "A", "<th", "ink>"]
texts = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)
some = texts.filter(bool)
special = st.sampled_from(SPECIALS)
mixed = st.lists(st.sampled_from(PIECES) | special, max_size=9).map("".join)
many = examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> lh.Model:
    path: Path = tmp_path_factory.mktemp("cuts") / f"{request.param}.gguf"
    return lh.Model(tiny_models.write(path, "llama", tokenizer=request.param))


def text_of(model: lh.Model, tokens: list[int]) -> str:
    """Return the bytes of all tokens except BOS, without the space before a text."""
    with model.using() as handle:
        written = [vocabulary.token_text(handle, t) or "" for t in tokens if t != 1]
    if lh.tokenize(model, "A", add_special=False)[0] == tiny_models.token_of(" "):
        raw = b"".join(
            bytes([int(text[3:5], 16)])
            if text.startswith("<0x")
            else text.replace("\u2581", " ").encode()
            for text in written
        )
        return raw.decode().removeprefix(" ")
    letters = tiny_models.letters_of_bytes()
    return b"".join(
        text.encode()
        if text in tiny_models.MARKUP
        else bytes(letters.index(letter) for letter in text)
        for text in written
    ).decode()


@many
@given(prompt=some, text=some)
def test_what_follows_a_prompt_has_the_tokens_of_both_as_one(
    model: lh.Model, prompt: str, text: str
) -> None:
    joiner = Joiner(model, parse_special=False)
    joint = joiner.join(prompt, joiner.prompt("p", prompt), [text])
    whole = prompt_tokens(model, "p", prompt + text, parse_special=False)
    assert joint.prompt + joint.continuations[0] == whole


@many
@given(prompt=some, text=some)
def test_what_follows_token_ids_adds_nothing_to_the_text(
    model: lh.Model, prompt: str, text: str
) -> None:
    ids = lh.tokenize(model, prompt)
    joiner = Joiner(model, parse_special="auto")
    joint = joiner.join(ids, joiner.prompt("p", ids), [text])
    assert joint.prompt.tolist() == ids
    together = joint.prompt + joint.continuations[0]
    assert text_of(model, together.tolist()) == prompt + text
    # If the whole text has the tokens of the prompt, the other tokens are equal, too.
    whole = lh.tokenize(model, prompt + text)
    if whole[: len(ids)] == ids:
        assert together.tolist() == whole


@many
@given(
    text=some.filter(lambda text: "<think>" not in text),
    behind=st.sampled_from([*tiny_models.TURNS, *MARKUP, ""]),
)
def test_what_follows_a_special_token_is_read_as_libllama_does(
    model: lh.Model, text: str, behind: str
) -> None:
    ids = lh.tokenize(model, behind, parse_special=True)
    joiner = Joiner(model, parse_special="auto")
    joint = joiner.join(ids, joiner.prompt("p", ids), [text])
    whole = lh.tokenize(model, behind + text, parse_special=True)
    assert (joint.prompt + joint.continuations[0]).tolist() == whole


@many
@given(text=mixed)
def test_no_text_becomes_a_special_token_unless_it_is_asked_for(
    model: lh.Model, text: str
) -> None:
    ids = {
        lh.tokenize(model, t, add_special=False, parse_special=True)[0] for t in SPECIALS
    }
    assert len(ids) == len(SPECIALS)
    plain = lh.tokenize(model, text, add_special=False)
    assert not ids & set(plain)
    assert text_of(model, [1, *plain]) == text
    with model.using() as handle:
        inside = vocabulary.tokenize_inside(handle, text)
        marked = vocabulary.mark_literals(handle, text)
    assert not ids & set(inside)
    behind = prompt_tokens(model, "p", f"{OPEN}{CLOSE}A{marked}", "auto")
    assert behind == prompt_tokens(model, "p", f"A{text}", parse_special=False)


@many
@given(parts=st.lists(st.tuples(mixed, mixed), max_size=4))
@example(parts=[("<th", ""), ("ink>", "")])
def test_marks_change_no_character_and_no_other_token(
    model: lh.Model, parts: list[tuple[str, str]]
) -> None:
    with model.using() as handle:
        marked = [(a, vocabulary.mark_literals(handle, b)) for a, b in parts]
    bos = vocabulary_text(model, 1)
    text = f"{OPEN}{CLOSE}" + "".join(a + b for a, b in marked)
    tokens = prompt_tokens(model, "p", text, parse_special=True).tolist()
    assert tokens[0] == 1
    if not any(a for a, _ in parts):  # only a user's text
        plain = "".join(b for _, b in parts)
        assert tokens == lh.tokenize(model, plain)
    # With empty marks, the tokens equal the tokens of libllama for the same text.
    whole = "".join(a for a, _ in parts)
    empty = f"{OPEN}{CLOSE}".join(["", *(a for a, _ in parts)])
    read = prompt_tokens(model, "p", empty, parse_special=True).tolist()
    if not whole.startswith(bos) and not is_cut(whole, [len(a) for a, _ in parts]):
        assert read == lh.tokenize(model, whole, parse_special=True)


def is_cut(text: str, lengths: list[int]) -> bool:
    """Tests whether a mark lies inside the text of a special token, which ends it."""
    places = list(accumulate(lengths))
    return any(
        match.start() < place < match.end()
        for special in SPECIALS
        for match in re.finditer(re.escape(special), text)
        for place in places
    )


def vocabulary_text(model: lh.Model, token: int) -> str:
    with model.using() as handle:
        return vocabulary.token_text(handle, token) or ""


def test_scores_behind_token_ids_are_those_behind_their_text(model: lh.Model) -> None:
    prompt = "The answer"  # a prompt whose end merges with no label
    labels = ["yes", "no", "a", "b"]
    with lh.Context(model, n_threads=1, deterministic=True) as context:
        spaces: list[bool | Literal["auto"]] = [True, False, "auto"]
        for space in spaces:
            by_text = lh.classify_parallel(context, [prompt], labels, space=space)
            ids = lh.tokenize(model, prompt)
            by_ids = lh.classify_parallel(context, [ids], labels, space=space)
            assert by_ids.labels == by_text.labels
            assert by_ids.probs.tolist() == by_text.probs.tolist()
        for prompt in ("", lh.tokenize(model, "")):
            (scored,) = lh.score_parallel(context, [prompt], "yes").continuations
            assert scored is not None
            assert scored[0].tokens == lh.tokenize(model, "yes")[1:]


def test_a_prompt_that_starts_with_markup_is_parsed(model: lh.Model) -> None:
    text = "<|start|>the</s>"
    assert prompt_tokens(model, "p", text).tolist() == lh.tokenize(
        model, text, parse_special=True
    )
    inside = "the <think>"
    assert prompt_tokens(model, "p", inside).tolist() == lh.tokenize(model, inside)
