"""lm_eval: log-likelihoods equal those of /v1/score, four requests at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from conftest import NAME
from lm_eval.api.instance import Instance
from lm_eval.models.api_models import JsonChatStr
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI

if TYPE_CHECKING:
    import openai

PAIRS = [
    ("The capital of France is", " Paris"),
    ("The capital of France is", " the town of Rome"),
    ("Two plus two is", " four"),
    ("Roses are red, violets are", " blue, and so on"),
    ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", " 17"),
    ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", " 71"),
]


@pytest.fixture(scope="module")
def model(base_url: str) -> Any:
    """Return a model whose tokenizer is the server's."""
    return LocalCompletionsAPI(
        model=NAME,
        base_url=f"{base_url}/completions",
        tokenizer_backend="remote",
        batch_size=4,
        max_length=1024,
    )


def _instances(kind: str, arguments: list[Any]) -> list[Any]:
    return [Instance(kind, {}, row, i) for i, row in enumerate(arguments)]


def test_log_likelihoods(model: Any, sdk: openai.OpenAI) -> None:
    likelihoods = model.loglikelihood(_instances("loglikelihood", PAIRS))
    scores: Any = sdk.post(
        "/score",
        cast_to=object,
        body={
            "prompts": [context for context, _ in PAIRS],
            "continuations": [ending for _, ending in PAIRS],
        },
    )
    expected = [row["continuations"][0]["logprob"] for row in scores["data"]]
    assert [value for value, _ in likelihoods] == pytest.approx(expected, abs=1e-6)


def test_an_own_answer_is_greedy(model: Any, sdk: openai.OpenAI) -> None:
    start = "Count: one, two,"
    body: dict[str, Any] = {"model": NAME, "temperature": 0, "max_tokens": 4}
    text = sdk.completions.create(prompt=start, **body).choices[0].text
    pairs = [(start, text), (start, " nonsense indeed")]
    likelihoods = model.loglikelihood(_instances("loglikelihood", pairs))
    assert [is_greedy for _, is_greedy in likelihoods] == [True, False]


def test_rolling_log_likelihoods(model: Any) -> None:
    texts = [("A short text about nothing.",), ("Another one.",)]
    likelihoods = model.loglikelihood_rolling(_instances("loglikelihood_rolling", texts))
    assert all(value < 0 for value in likelihoods)


def test_generated_texts(model: Any, base_url: str) -> None:
    options = {"until": ["\n"], "max_gen_toks": 8, "do_sample": False}
    requests: list[Any] = [("Count: one, two,", options), ("A, b, c,", options)]
    texts = model.generate_until(_instances("generate_until", requests))
    assert len(texts) == 2
    assert all(isinstance(text, str) and text for text in texts)
    chats = LocalChatCompletion(model=NAME, base_url=f"{base_url}/chat/completions")
    requests = [(JsonChatStr('[{"role": "user", "content": "Say hello."}]'), options)]
    assert chats.generate_until(_instances("generate_until", requests))[0]
