"""Prompt and continuation have the tokens of the joined text."""

from __future__ import annotations

import random

import llamaherd as lh
import pytest
from llamaherd.engine.core.errors import TokenizeError
from llamaherd.engine.model.tokens import Joiner, prompt_tokens
from llamaherd.engine.native import vocabulary

pytestmark = pytest.mark.model

WORDS = ["great", "The", " weather", "345", " 12", " a", "x" * 9, "é", "日本", "😀"]
OTHERS = ["\n", "\n\n", " ", "  ", ".", ":", "!?", "#tag", "@user", "'s", "\t", "<b>"]
PIECES = [*WORDS, *OTHERS, " \u200b", "_", "(", ")"]
LABELS = [
    " positive",
    "positive",
    " negative one",
    "s",
    " 7",
    "\n",
    ".",
    "é",
    " Sportlich",
    "  x",
]


@pytest.fixture(params=["smollm2", "gemma3"])
def model(request: pytest.FixtureRequest) -> lh.Model:
    return request.getfixturevalue(request.param)


def check(model: lh.Model, prompt: str, labels: list[str], parse: bool | str) -> None:
    joiner = Joiner(model, parse)
    alone = joiner.prompt("prompt", prompt)
    joint = joiner.join(prompt, alone, labels)
    wholes = [prompt_tokens(model, "prompt", prompt + text, parse) for text in labels]
    for whole, tokens in zip(wholes, joint.continuations, strict=True):
        assert joint.prompt + tokens == whole
        assert len(tokens) > 0
    n = len(joint.prompt)
    assert joint.prompt == alone[:n]
    # The prompt is cut to this length, so that all labels start at the same position.
    is_longest = n == len(alone) or len({whole[n] for whole in wholes} | {alone[n]}) > 1
    assert is_longest


def test_random_texts_join_as_one_text(model: lh.Model) -> None:
    draw = random.Random(5)
    for _ in range(400):
        prompt = "".join(draw.choices(PIECES, k=draw.randint(1, 60)))
        check(
            model,
            "A" + prompt,
            draw.sample(LABELS, 4),
            draw.choice([True, False, "auto"]),
        )


def test_a_space_at_the_end_joins_what_follows(smollm2: lh.Model) -> None:
    joiner = Joiner(smollm2, "auto")
    for prompt in ("Sentiment: ", "A tweet about the weather of tomorrow. Sentiment: "):
        joint = joiner.join(prompt, joiner.prompt("p", prompt), ["positive", "negative"])
        texts = [lh.detokenize(smollm2, tokens) for tokens in joint.continuations]
        assert texts == [" positive", " negative"]
        assert joint.prompt == joiner.prompt("p", prompt.rstrip())


def test_special_tokens_of_a_chat_stay_and_labels_are_text(smollm2: lh.Model) -> None:
    prompt = lh.apply_chat_template(
        smollm2, [{"role": "user", "content": "Is <|im_end|> a word, in your opinion?"}]
    )
    joiner = Joiner(smollm2, parse_special=True)
    alone = joiner.prompt("p", prompt)
    labels = ["yes", "no, not at all", "<|im_end|>"]
    joint = joiner.join(prompt, alone, labels)
    assert joint.prompt == alone
    end = lh.tokenize(smollm2, "<|im_end|>", parse_special=True)
    assert joint.continuations[0].tolist() == lh.tokenize(smollm2, "yes")
    assert joint.continuations[2].tolist() != end
    assert lh.detokenize(smollm2, joint.continuations[2]) == "<|im_end|>"
    # Without such a label, only the end of the prompt is tokenized with each label.
    assert joiner.join(prompt, alone, labels[:2]).continuations == joint.continuations[:2]


def test_token_ids_stay_as_they_are(smollm2: lh.Model) -> None:
    joiner = Joiner(smollm2, "auto")
    ids = joiner.prompt("p", [1, 2, 3])
    joint = joiner.join([1, 2, 3], ids, [" yes"])
    assert joint.prompt.tolist() == [1, 2, 3]
    assert joint.continuations[0].tolist() == lh.tokenize(smollm2, " yes")


def test_what_tokenizing_raises_is_the_error_of_its_text(
    model: lh.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise lh.NativeError("an injected exception", -3)

    joiner = Joiner(model, "auto")
    tokens = joiner.prompt("prompt", "A text. It is")
    monkeypatch.setattr(vocabulary, "tokenize_prompt", fail)
    for prompt in ("A text. It is", list(tokens)):
        monkeypatch.setattr(vocabulary, "tokenize_inside", fail)
        with pytest.raises(TokenizeError, match="tokenized: an injected exception"):
            joiner.join(prompt, tokens, [" good"])
