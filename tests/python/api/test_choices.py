"""Answers with choices or a grammar, and whether they are complete."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd import SamplingParams

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.model

PROMPTS = [
    "Question: Is water wet? Answer:",
    "Question: Is fire cold? Answer: ",
    "The capital of France is",
    "1, 2, 3,",
    "\n",
]
ODD = [
    "\u00e9t\u00e9",
    "\U0001f600\U0001f680",
    '"quoted" \\"twice\\"',
    "a\nb\n",
    " ",
    "]",
]


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2, n_seq_max=4) as context:
        yield context


def chat(context: lh.Context, text: str) -> str:
    return lh.apply_chat_template(context.model, [{"role": "user", "content": text}])


@pytest.mark.more(reason="several calls of a real model", cases=2)
@pytest.mark.parametrize("temperature", [0.0, 2.0])
@pytest.mark.parametrize(
    "choices",
    [
        ["yes", "no"],
        ["no", "not sure", "not", "yes"],
        [" yes", "yes", "  yes"],
        ODD,
        ["root ::= x", "<|im_end|>", "NA", "None", "[ERROR] x"],
        [f"label number {i}" for i in range(3000)],
        ["the only one, and a long one at that: " + "word " * 60],
    ],
)
def test_each_answer_is_one_of_the_choices(
    context: lh.Context, choices: list[str], temperature: float
) -> None:
    prompts = [*PROMPTS, chat(context, "Is water wet? Answer yes or no.")]
    out = lh.generate_parallel(context, prompts, choices=choices, temperature=temperature)
    assert set(out.texts) <= set(choices)
    assert out.errors == [None] * len(prompts)
    assert out.complete == [True] * len(prompts)
    assert set(out.finish_reasons) == {"stop"}


def test_the_model_says_which(context: lh.Context) -> None:
    cities = ["Berlin", "Paris", "Rome", "Madrid"]
    prompts = [
        f"The capital of {country} is{end}"
        for country in ("France", "Germany", "Italy", "Spain")
        for end in ("", " ", " the city of")
    ]
    texts = lh.generate_parallel(context, prompts, choices=cities).texts
    right = ["Paris"] * 3 + ["Berlin"] * 3 + ["Rome"] * 3 + ["Madrid"] * 3
    assert sum(a == b for a, b in zip(texts, right, strict=True)) >= 10


def test_a_choice_can_be_the_beginning_of_another(context: lh.Context) -> None:
    cities = ["New York", "New York City Hall", "New Orleans"]
    prompts = [f"Name: {city}. " * 3 + "Name:" for city in cities[:2]]
    out = lh.generate_parallel(context, prompts, choices=cities)
    assert out.texts == cities[:2]


LABELS = ["Sports", "Business", "Science", "Politics", "Sport and games", "Business news"]


@pytest.mark.more(reason="several calls of a real model", cases=1)
@pytest.mark.parametrize("logprobs", [None, 0, 2])
@pytest.mark.parametrize("labels", [LABELS[:4], LABELS, ["a lot", "lots", "a little"]])
def test_the_choice_is_the_label_that_is_most_probable(
    context: lh.Context, labels: list[str], logprobs: int | None
) -> None:
    texts = ["The match ended 2:1", "Shares fell", "A new planet", "film number 0"]
    prompts = [
        make(text)
        for text in texts
        for make in (
            lambda text: f"{text} Topic:",
            lambda text: f"Review: the {text} was great. Sentiment:",
            lambda text: f"Headline: {text}\nLabel: ",
            lambda text: chat(context, f"Topic of this text? {text}"),
        )
    ]
    labelled = lh.classify_parallel(context, prompts, labels)
    out = lh.generate_parallel(context, prompts, choices=labels, logprobs=logprobs)
    assert out.texts == labelled.labels
    assert out.complete == [True] * len(prompts)
    if logprobs is not None:
        assert all(len(one.logprobs) == len(one.tokens) > 0 for one in out)


def test_a_choice_behind_an_opening_quote_has_no_space(context: lh.Context) -> None:
    prompt = 'The capital of France is "Paris". The capital of Italy is "'
    one = lh.generate(context, prompt, choices=["Rome", "Paris"])
    assert one.text == "Rome"
    assert lh.detokenize(context.model, one.tokens)[0] == "R"


def test_a_choice_is_drawn_as_often_as_it_is_probable(context: lh.Context) -> None:
    prompt = "Review: the film number 0 was great. Sentiment:"
    labelled = lh.classify_parallel(context, [prompt], LABELS)
    free = {"top_k": 0, "min_p": 0.0}
    drawn = lh.generate_parallel(
        context, [prompt] * 200, choices=LABELS, temperature=1.0, **free
    ).texts
    for label, p in zip(LABELS, labelled.probs[0], strict=True):
        assert abs(drawn.count(label) / 200 - p) < 0.12


def test_a_stop_text_cannot_cut_a_choice(context: lh.Context) -> None:
    cities = ["New York", "Boston"]
    with pytest.raises(ValueError, match="part of the choice 'New York'"):
        lh.generate(context, "a", choices=cities, stop=" ")
    message = "stop has no effect: an answer with choices"
    params = [SamplingParams(choices=cities, stop=" "), SamplingParams(max_tokens=1)]
    with pytest.warns(UserWarning, match=message):
        out = lh.generate_parallel(context, ["a", "b"], params=params)
    assert "part of the choice" in str(out.errors[0])
    assert out.errors[1] is None
    with pytest.warns(UserWarning, match=message):
        one = lh.generate(context, "I live in", choices=cities, stop="\n")
    assert one.complete


def test_choices_that_are_the_same_tokens_fail(context: lh.Context) -> None:
    out = lh.generate_parallel(context, ["The answer is "], choices=["yes", " yes"])
    assert out.texts[0] in {"yes", " yes", None}
    assert out.errors[0] is None or "same tokens" in out.errors[0]


def test_a_choice_that_is_known_takes_no_more_tokens(context: lh.Context) -> None:
    long = ["politics " + "and so on " * 30, "sports " + "and so on " * 30]
    out = lh.generate_parallel(context, ["It is about"], choices=long)
    assert out.texts[0] in long
    assert out[0].n_generated_tokens < 10


def test_choices_may_differ_from_prompt_to_prompt(context: lh.Context) -> None:
    params = [
        SamplingParams(choices=["cat", "dog"]),
        SamplingParams(choices={"red", "blue"}, temperature=1.0),
        SamplingParams(max_tokens=3),
        SamplingParams(grammar='root ::= "x"'),
    ]
    out = lh.generate_parallel(context, PROMPTS[:4], params=params)
    assert out.texts[0] in {"cat", "dog"}
    assert out.texts[1] in {"red", "blue"}
    assert out[2].n_generated_tokens == 3
    assert out.texts[3] == "x"
    assert out.complete == [True, True, False, True]


def test_a_single_prompt_and_a_stream_have_choices(context: lh.Context) -> None:
    choices = ["yes, it is", "yes, it was", "no"]
    result = lh.generate(context, PROMPTS[0], choices=choices)
    assert result.text in choices
    pieces = lh.generate(context, PROMPTS[0], choices=choices, stream=True)
    assert "".join(pieces) == result.text


def test_what_is_cut_off_is_not_complete(context: lh.Context) -> None:
    label = SamplingParams(grammar='root ::= "politics and society"')
    number = SamplingParams(grammar="root ::= [0-9]+")
    choices = SamplingParams(choices=["aaaaaaab", "aaaaaaac"])
    stopped = SamplingParams(grammar='root ::= "one;two"', stop=";")
    ended = SamplingParams(grammar='root ::= "one" (";two")?', stop=";", ignore_eos=True)
    params = [label, number, choices, stopped, ended]
    out = lh.generate_parallel(context, ["It is"] * 5, params=params, max_tokens=30)
    cut = lh.generate_parallel(context, ["It is"] * 5, params=params, max_tokens=1)
    assert out.complete[0] is True
    assert out.texts[0] == "politics and society"
    assert cut.complete[:3] == [False] * 3
    assert cut.finish_reasons[:3] == ["length"] * 3
    assert re.fullmatch("[0-9]+", cut.texts[1])
    assert "aaaaaaab".startswith(cut.texts[2])
    assert (out.texts[3], out.finish_reasons[3], out.complete[3]) == (
        "one",
        "stop",
        False,
    )
    assert (out.texts[4], out.finish_reasons[4], out.complete[4]) == ("one", "stop", True)


def test_answers_without_a_grammar_are_complete_when_they_end(
    context: lh.Context,
) -> None:
    prompt = chat(context, "Answer with one word: what is the capital of France?")
    out = lh.generate_parallel(context, [prompt, prompt, "", "Hi"], max_tokens=40)
    assert (out.finish_reasons[0], out.complete[0]) == ("stop", True)
    assert (out.finish_reasons[2], out.complete[2]) == ("error", False)
    short = lh.generate_parallel(context, ["Once upon a"], max_tokens=2)
    assert (short.finish_reasons, short.complete) == (["length"], [False])
    stopped = lh.generate_parallel(context, ["1, 2, 3,"], max_tokens=20, stop="5")
    assert (stopped.finish_reasons, stopped.complete) == (["stop"], [True])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grammar": "positive"}, "grammar cannot be parsed: .*; a label, or a list"),
        ({"grammar": "yes | no"}, "grammar cannot be parsed: .* a constraint by choices"),
        ({"grammar": "root ::= ("}, r"grammar cannot be parsed: line 1: expected \)"),
        ({"logit_bias": {49152: 1.0}}, "logit_bias.* 0 (to|and) 49151"),
    ],
)
def test_what_no_prompt_can_have_is_an_error_before_anything_runs(
    smollm2: lh.Model, settings: dict[str, object], message: str
) -> None:
    bad = SamplingParams(**settings)
    varied = [SamplingParams(**settings, temperature=t) for t in (0.0, 0.5)]
    with lh.Context(smollm2) as context:
        for params in (bad, [bad, bad], varied):
            with pytest.raises(ValueError, match=message):
                lh.generate_parallel(context, ["a", "b"], params=params)
        with pytest.raises(ValueError, match=message):
            lh.generate(context, "a", params=bad)
        assert context.plan is None  # no constraint was prepared
        out = lh.generate_parallel(
            context, ["a", "b"], params=[bad, SamplingParams()], max_tokens=2
        )
    assert out.errors[1] is None
    with pytest.raises(ValueError, match=message):
        raise ValueError(out.errors[0])


def test_choices_beside_params_or_a_grammar_are_refused(context: lh.Context) -> None:
    with pytest.raises(ValueError, match="choices is given in addition to params"):
        lh.generate(context, "a", choices=["a"], params=SamplingParams())
    with pytest.raises(ValueError, match="grammar and choices cannot be given together"):
        SamplingParams(choices=["a"], grammar='root ::= "a"')
    with pytest.raises(TypeError, match="choices must be a list of texts, not 'yes'"):
        lh.generate(context, "a", choices="yes")


def test_a_journal_knows_choices_and_what_was_complete(
    context: lh.Context, tmp_path: Path
) -> None:
    path = tmp_path / "run.sqlite"
    stopped = SamplingParams(grammar='root ::= "one;two"', stop=";")
    params = [stopped, SamplingParams(choices=["b", "a"]), SamplingParams(max_tokens=1)]
    first = lh.generate_parallel(context, ["x"] * 3, params=params, journal=path)
    params[1] = SamplingParams(choices=["a", "b"])
    again = lh.generate_parallel(context, ["x"] * 3, params=params, journal=path)
    assert again.stats.n_journal == 3
    assert again.texts == first.texts
    assert again.complete == first.complete == [False, True, False]
    entries = lh.journal_read(path)
    assert sorted(entry.complete for entry in entries) == [False, False, True]
    assert [entry.error for entry in entries] == [None] * 3
    params[1] = SamplingParams(choices=["a", "c"])
    other = lh.generate_parallel(context, ["x"] * 3, params=params, journal=path)
    assert other.stats.n_journal == 2


@pytest.mark.long(reason="several calls of a real model")
@pytest.mark.parametrize("name", ["dry_penalty_last_n", "repeat_last_n"])
def test_a_window_longer_than_the_text_is_no_other_and_takes_no_memory(
    context: lh.Context, name: str
) -> None:
    prompts = ["a b c d e f a b c d e f a b c d e f a b c"] * 4
    settings = {"dry_multiplier": 2.0, "penalty_repeat": 1.2, "repeat_last_n": 64}

    def texts(window: int) -> list[str | None]:
        params = SamplingParams(**(settings | {name: window}), temperature=0.8)
        return lh.generate_parallel(context, prompts, params=params, max_tokens=24).texts

    assert texts(4096) == texts(2**31 - 1) == texts(-1)
    assert texts(4096) != texts(1)
