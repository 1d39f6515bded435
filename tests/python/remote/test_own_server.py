"""An engine on llamaherd's own server, in another process, equals a context here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
import tiny_models
from served import started_with

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEMPLATE = (
    "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
PROMPTS = ["the answer", "yes or no", "an answer", "the answer"]
# The model is random: its answers seldom end, and its labels are improbable.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[lh.Context, lh.RemoteEngine]]:
    path = tmp_path_factory.mktemp("own") / "tiny.gguf"
    tiny_models.write(path, "llama", chat_template=TEMPLATE)
    with lh.Model(path) as model, started_with(str(path)) as client:
        context = lh.Context(model, n_threads=1)
        with lh.connect(client.url) as engine:
            yield context, engine


SETTINGS: list[dict[str, Any]] = [
    {"max_tokens": 7},
    {"chat": True, "system": "an answer", "max_tokens": 7},
    {"max_tokens": 9, "stop": ["e"], "penalty_repeat": 1.3, "ignore_eos": True},
    {"choices": ["yes", "no", "answer"]},
    {"regex": "[ab]{2}"},
    {"grammar": 'root ::= "yes" | "no"'},
    {
        "schema": {"type": "object", "properties": {"n": {"enum": ["one", "two"]}}},
        "max_tokens": 60,
        "chat": True,
    },
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_answers_are_those_of_a_context(
    both: tuple[lh.Context, lh.RemoteEngine], settings: dict[str, Any]
) -> None:
    here, remote = (lh.generate_parallel(host, PROMPTS, **settings) for host in both)
    assert remote.texts == here.texts
    assert remote.parsed == here.parsed
    assert remote.finish_reasons == here.finish_reasons
    counts = [[one.n_generated_tokens for one in out] for out in (here, remote)]
    assert counts[0] == counts[1]


def test_probabilities_are_those_of_a_context(
    both: tuple[lh.Context, lh.RemoteEngine], tmp_path: Path
) -> None:
    labels = {"yes": "Yes", "no": "No", "an answer": "No"}
    for settings in ({}, {"normalize": "byte"}, {"normalize": "pmi"}, {"chat": True}):
        here, remote = (
            lh.classify_parallel(host, PROMPTS, labels, **settings)  # type: ignore[arg-type]
            for host in both
        )
        np.testing.assert_allclose(remote.probs, here.probs, atol=1e-4)
        np.testing.assert_allclose(remote.logprobs, here.logprobs, atol=1e-3)
        assert remote.labels == here.labels
        assert [note[:18] for note in remote.notes] == ["Median coverage is"]
        assert [note[:18] for note in here.notes] == ["Median coverage is"]
    journal = tmp_path / "labels.journal"
    first, again = (
        lh.classify_parallel(both[1], PROMPTS, labels, journal=journal) for _ in range(2)
    )
    assert again.stats.n_journal == len(PROMPTS)
    np.testing.assert_array_equal(first.probs, again.probs)


def test_texts_are_coded_as_by_a_context(
    both: tuple[lh.Context, lh.RemoteEngine], tmp_path: Path
) -> None:
    data = {"text": ["the answer", "yes", None, "the answer"]}
    fields = {"type": "object", "properties": {"n": {"type": "integer"}}}
    books = (
        lh.Codebook("Is it?", ["yes", "no"]),
        lh.Codebook("Which?", ["yes", "no"], type="multiple"),
        lh.Codebook("Count.", schema=fields, type="fields"),
    )
    for book in books:
        here, remote = (
            lh.annotate(data, "text", book, host, max_tokens=20)
            if book.schema
            else lh.annotate(data, "text", book, host)
            for host in both
        )
        assert set(remote.frame) == set(here.frame)
        if not book.schema:
            assert list(remote.frame["label"]) == list(here.frame["label"])
            np.testing.assert_allclose(
                np.array(remote.frame["p_yes"], float),
                np.array(here.frame["p_yes"], float),
                atol=2e-3,
            )
    page = tmp_path / "report.html"
    lh.report(remote, page)
    assert both[1].url in page.read_text()


def test_vectors_are_those_of_a_context(
    both: tuple[lh.Context, lh.RemoteEngine],
) -> None:
    here, remote = (
        lh.embed_parallel(host, [*PROMPTS, ""], pooling="last") for host in both
    )
    np.testing.assert_allclose(remote.vectors, here.vectors, atol=1e-5)
    assert [error is None for error in remote.errors] == [True] * 4 + [False]


def test_samples_differ_between_prompts_and_repeat(
    both: tuple[lh.Context, lh.RemoteEngine],
) -> None:
    settings: Any = {"temperature": 1.0, "n": 3, "max_tokens": 12}
    one, two = (
        lh.generate_parallel(both[1], ["the", "the"], **settings) for _ in range(2)
    )
    texts = [sample.text for samples in one.samples for sample in samples]
    assert len(set(texts)) > 3
    assert texts == [sample.text for samples in two.samples for sample in samples]


def test_a_prompt_that_fails_has_the_reason(
    both: tuple[lh.Context, lh.RemoteEngine],
) -> None:
    out = lh.generate_parallel(both[1], ["a", "e" * 5000, None, ""], max_tokens=2)
    assert [error is None for error in out.errors] == [True, False, False, False]
    assert out.error_codes[2:] == ["missing", "empty"]
    with pytest.raises(lh.ArgumentError) as caught:
        lh.generate_parallel(both[1], ["a"], template="x", chat=True)
    assert caught.value.argument == "template"
