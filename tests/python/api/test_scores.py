"""Scoring calls: their results on a real model, and their arguments."""

from __future__ import annotations

import json
import math
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pytest
from llamaherd import _r
from llamaherd.calls.journal.journal import Journal
from plain_forms import plain, value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.model

PROMPTS = ["The weather was great. Sentiment:", "I hate it. Sentiment:"]


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2, flash_attn=True) as context:
        yield context


# ---- what they say ---------------------------------------------------------------------


def test_labels_are_scored_as_continuations(context: lh.Context) -> None:
    labels = ["positive", "negative", "positively charged"]
    labelled = lh.classify_parallel(context, PROMPTS, labels)
    assert labelled.labels == ["positive", "negative"]
    scores = lh.score_parallel(context, PROMPTS, [[f" {text}" for text in labels]] * 2)
    assert labelled.logprobs == pytest.approx(np.array(scores.logprob), abs=1e-6)
    assert labelled.probs.sum(axis=1) == pytest.approx(1)
    shares = np.exp(labelled.logprobs) / np.exp(labelled.logprobs).sum(
        axis=1, keepdims=True
    )
    assert labelled.probs == pytest.approx(shares)
    assert labelled.errors == [None, None]
    assert labelled.finish_reasons == ["stop", "stop"]
    assert labelled.stats.n_prompts == 2


def test_labels_of_many_steps_are_told(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llamaherd.calls.api.classify._MANY_STEPS", 2)
    monkeypatch.setattr("llamaherd.calls.api.classify._warned", set())
    labels = ["positively charged", "negatively charged", "neutral"]
    with pytest.warns(UserWarning, match="3 labels take 2 steps of the model for each"):
        lh.classify_parallel(context, PROMPTS, labels)


def test_labels_of_one_token_cost_nothing_beyond_the_prompt(context: lh.Context) -> None:
    labelled = lh.classify_parallel(context, PROMPTS, ["positive", "negative", "neutral"])
    assert labelled.stats.n_prefill_tokens == labelled.stats.n_prompt_tokens
    assert labelled.stats.n_generated_tokens == 0
    alone = lh.generate_parallel(context, PROMPTS, max_tokens=1, logprobs=1024)
    for i, result in enumerate(alone):
        top = result.top_logprobs[0]
        for j, name in enumerate(labelled.names):
            [token] = lh.tokenize(context.model, f" {name}")
            if token in top:
                assert labelled.logprobs[i, j] == pytest.approx(top[token], abs=1e-6)


def test_a_label_is_no_likelier_for_being_the_beginning_of_another(
    context: lh.Context,
) -> None:
    labelled = lh.classify_parallel(context, PROMPTS, ["very", "very good"])
    plain = lh.score_parallel(context, PROMPTS, [[" very", " very good"]] * 2)
    for i in range(2):
        very, both = plain.logprob[i]
        assert labelled.logprobs[i, 1] == pytest.approx(both, abs=1e-6)
        # "very", followed by any token except "good".
        assert math.exp(labelled.logprobs[i, 0]) == pytest.approx(
            math.exp(very) - math.exp(both), rel=1e-4
        )
    assert (labelled.coverage < 1).all()


def test_readings_of_one_name_add_up(context: lh.Context) -> None:
    separate = lh.classify_parallel(context, PROMPTS, ["good", "great", "bad"])
    both = lh.classify_parallel(
        context, PROMPTS, {"good": "plus", "great": "plus", "bad": "minus"}
    )
    assert both.names == ("plus", "minus")
    assert both.probs[:, 0] == pytest.approx(separate.probs[:, :2].sum(axis=1))
    assert both.coverage == pytest.approx(separate.coverage)


def test_normalizations_are_what_they_say(context: lh.Context) -> None:
    labels = ["good", "not good at all"]

    def scores(normalize: lh.core.scores.Normalize) -> lh.types.ClassifyResults:
        return lh.classify_parallel(context, PROMPTS, labels, normalize=normalize)

    plain = scores("sum")

    def softmax(values: np.ndarray) -> np.ndarray:
        shares = np.exp(values)
        return shares / shares.sum(axis=1, keepdims=True)

    n_tokens = [len(lh.tokenize(context.model, f" {text}")) for text in labels]
    assert n_tokens == [1, 4]
    for normalize, divisor in (("token", n_tokens), ("byte", [4, 15])):
        labelled = scores(normalize)
        assert labelled.logprobs == pytest.approx(plain.logprobs, abs=1e-6)
        assert labelled.probs == pytest.approx(
            softmax(plain.logprobs / np.array(divisor)), abs=1e-6
        )
    start = [context.model.info.bos]  # the model adds no token to a text
    prior = lh.score_parallel(context, [start], [[f" {text}" for text in labels]])
    labelled = scores("pmi")
    assert len(labelled) == 2
    assert labelled.logprobs == pytest.approx(plain.logprobs, abs=1e-6)
    assert labelled.probs == pytest.approx(
        softmax(plain.logprobs - np.array(prior.logprob)), abs=1e-5
    )
    labelled_pmi = lh.classify_parallel(
        context, PROMPTS, labels, normalize="pmi", pmi_prompt="Sentiment:"
    )
    prior = lh.classify_parallel(context, ["Sentiment:"], labels)
    assert labelled_pmi.probs == pytest.approx(
        softmax(plain.logprobs - prior.logprobs), abs=1e-5
    )


def test_chats_are_scored_where_the_answer_begins(context: lh.Context) -> None:
    texts = ["Is fire hot? Answer yes or no.", [{"role": "user", "content": "Hi"}]]
    labelled = lh.classify_parallel(
        context, texts, ["Yes", "No", "<|im_end|>"], chat=True, system="Be brief."
    )
    prompts = [
        lh.apply_chat_template(
            context.model, [{"role": "system", "content": "Be brief."}, *messages]
        )
        for messages in ([{"role": "user", "content": texts[0]}], texts[1])
    ]
    scores = lh.score_parallel(context, prompts, [["Yes", "No"]] * 2)
    assert labelled.logprobs[:, :2] == pytest.approx(np.array(scores.logprob), abs=1e-5)
    pmi = lh.classify_parallel(context, texts, ["Yes", "No"], chat=True, normalize="pmi")
    assert pmi.errors == [None, None]


def test_perplexity_is_that_of_each_token_after_those_before(context: lh.Context) -> None:
    texts = ["The capital of France is Paris.", "Hi", "The weather is nice. " * 60]
    perplexities = lh.perplexity(context, texts)
    tokens = lh.tokenize(context.model, texts[0])
    assert perplexities.tokens[0] == tokens
    parts = lh.score_parallel(
        context, [tokens[:1]], [lh.detokenize(context.model, tokens[1:])]
    )
    assert perplexities.token_logprobs[0] == pytest.approx(
        parts.token_logprobs[0][0], abs=1e-5
    )
    assert perplexities.perplexity[0] == pytest.approx(
        math.exp(-parts.logprob[0][0] / (len(tokens) - 1))
    )
    assert "1 token: none can be predicted" in perplexities.errors[1]
    assert np.isnan(perplexities.perplexity[1])
    assert perplexities.n_tokens[2] == len(lh.tokenize(context.model, texts[2])) - 1
    assert perplexities.perplexity[2] < 2


def test_log_probabilities_of_answers_are_the_model_s_own(context: lh.Context) -> None:
    draw = {"max_tokens": 12, "temperature": 1.5, "penalty_repeat": 1.5, "seed": 3}
    results = lh.generate_parallel(
        context, PROMPTS, repeat_last_n=-1, logit_bias={28: 5.0}, logprobs=3, **draw
    )
    for prompt, result in zip(PROMPTS, results, strict=True):
        tokens = lh.tokenize(context.model, prompt)
        texts = lh.perplexity(context, [tokens + result.tokens])
        expected = texts.token_logprobs[0][len(tokens) - 1 :]
        assert result.logprobs == pytest.approx(expected, abs=1e-5)
        for top, token, logprob in zip(
            result.top_logprobs, result.tokens, result.logprobs, strict=True
        ):
            assert len(top) == 3
            assert list(top.values()) == sorted(top.values(), reverse=True)
            assert top.get(token, logprob) == logprob
            assert max(top.values()) >= logprob
    plain = lh.generate_parallel(context, PROMPTS, max_tokens=2)
    assert plain[0].logprobs is None
    handle = context.submit(PROMPTS[0], max_tokens=2, logprobs=0)
    assert len(handle.result().logprobs) == 2
    assert handle.result().top_logprobs == [{}, {}]


@pytest.mark.parametrize(
    "constraint",
    [
        {"choices": [" positive", " negative", " not so good"]},
        {"regex": " [0-9]{3,6} (stars|points)"},
        {"schema": {"type": "object", "properties": {"score": {"type": "integer"}}}},
        {"grammar": 'root ::= " " [a-z]{4,9} "!"'},
    ],
    ids=lambda constraint: next(iter(constraint)),
)
def test_log_probabilities_are_from_before_a_constraint(
    context: lh.Context, constraint: dict[str, object]
) -> None:
    results = lh.generate_parallel(
        context, PROMPTS, max_tokens=24, temperature=1.0, logprobs=0, **constraint
    )
    for prompt, result in zip(PROMPTS, results, strict=True):
        tokens = lh.tokenize(context.model, prompt)
        [scored] = lh.perplexity(context, [tokens + result.tokens]).token_logprobs
        logprobs = np.array(result.logprobs)
        is_drawn = ~np.isnan(logprobs)  # other tokens were forced, and no row was read
        assert is_drawn.any()
        expected = scored[len(tokens) - 1 :]
        assert logprobs[is_drawn] == pytest.approx(expected[is_drawn], abs=1e-4)


# ---- failures, journals, progress ------------------------------------------------------


def test_a_prompt_that_fails_fails_alone(context: lh.Context) -> None:
    prompts = [PROMPTS[0], "", [10**6], "x " * 20_000, PROMPTS[1]]
    labelled = lh.classify_parallel(context, prompts, ["positive", "negative"])
    assert [error is None for error in labelled.errors] == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert labelled.labels[::4] == ["positive", "negative"]
    assert labelled.labels[1:4] == [None] * 3
    assert np.isnan(labelled.probs[1:4]).all()
    assert "empty" in labelled.errors[1]
    joined = lh.score_parallel(context, ["a"], ["b"], space=False)
    assert "and its continuation begin with one token" in joined.errors[0]
    assert labelled.finish_reasons[1:4] == ["error"] * 3
    scored = lh.score_parallel(context, prompts, " positive")
    assert [continuations is None for continuations in scored.continuations] == [
        False, True, True, True, False,
    ]  # fmt: skip
    assert (
        "longest continuation"
        in lh.classify_parallel(
            context, [[1] * 8190], ["yes and no and yes and no"]
        ).errors[0]
    )
    with pytest.raises(lh.GenerationError, match=r"prompts\[1\] failed") as caught:
        lh.classify_parallel(context, prompts, ["a", "b"], on_error="stop")
    assert isinstance(caught.value.results, lh.types.ClassifyResults)
    assert len(caught.value.results) == 5


def test_labels_that_are_the_same_tokens_are_refused(context: lh.Context) -> None:
    # Each label would get the whole probability, and coverage could be above 1.
    both = ["no", "yes", " yes"]
    message = "labels 'yes' and ' yes' have the same tokens after "
    with pytest.raises(ValueError, match=message + r"prompts\[0\]"):
        lh.classify_parallel(context, PROMPTS, both)
    with pytest.raises(ValueError, match=message + r"prompts\[1\]"):
        lh.classify_parallel(
            context, ["Yes or no? ", PROMPTS[0]], dict.fromkeys(both, "x")
        )
    pmi = {"normalize": "pmi", "pmi_prompt": "Sentiment:"}
    with pytest.raises(ValueError, match=message + "pmi_prompt"):
        lh.classify_parallel(context, ["Yes or no? "], both, **pmi)
    labelled = lh.classify_parallel(context, PROMPTS, both, space=False)
    assert (labelled.coverage <= 1).all()


@pytest.mark.parametrize("on_error", ["continue", "return", "stop"])
def test_without_its_prior_no_prompt_has_probabilities(
    context: lh.Context, on_error: lh.run.call.OnError
) -> None:
    seen: list[lh.types.Progress] = []

    def run(prompts: list[str], pmi_prompt: str) -> lh.types.ClassifyResults:
        settings = {"normalize": "pmi", "pmi_prompt": pmi_prompt, "on_error": on_error}
        return lh.classify_parallel(
            context, prompts, ["good", "bad"], progress=seen.append, **settings
        )

    if on_error == "stop":
        why = r"prompts\[0\] failed: pmi_prompt failed: .* tokens"
        with pytest.raises(lh.GenerationError, match=why) as caught:
            run(PROMPTS, "x " * 20_000)
        labelled = caught.value.results
    else:
        labelled = run(PROMPTS, "x " * 20_000)
    assert all("pmi_prompt failed: " in error for error in labelled.errors)
    assert labelled.finish_reasons == ["error"] * 2
    for values in (labelled.probs, labelled.logprobs, labelled.coverage):
        assert np.isnan(values).all()
    assert labelled.labels == [None, None]
    assert (labelled.stats.n_prompts, labelled.stats.n_failed) == (2, 2)
    assert {progress.n_total for progress in seen} == {2}
    assert run([], "Sentiment:").probs.shape == (0, 2)


def test_the_prompt_of_a_prior_is_in_no_count(
    context: lh.Context, tmp_path: Path
) -> None:
    seen: list[lh.types.Progress] = []
    settings = {"normalize": "pmi", "pmi_prompt": PROMPTS[0], "progress": seen.append}
    settings["journal"] = tmp_path / "journal.sqlite"

    def counts(prompts: list[str]) -> tuple[int, ...]:
        stats = lh.classify_parallel(context, prompts, ["good", "bad"], **settings).stats
        n_tokens = sum(len(lh.tokenize(context.model, prompt)) for prompt in prompts)
        assert stats.n_prompt_tokens == n_tokens
        assert stats.n_prompts == stats.n_samples == len(prompts)
        return stats.n_copied, stats.n_journal

    assert counts(PROMPTS[:1]) == (0, 0)  # it is a copy of the prompt's result
    assert (seen[-1].n_done, seen[-1].n_total) == (1, 1)
    assert counts(PROMPTS[1:]) == (0, 0)  # and is found in the journal
    assert counts(PROMPTS) == (0, 2)


def test_texts_that_fail_are_called_texts(context: lh.Context) -> None:
    with pytest.raises(lh.GenerationError, match=r"^texts\[1\] failed: the text has 1"):
        lh.perplexity(context, [PROMPTS[0], "Hi"], on_error="stop")


def test_a_journal_knows_what_was_scored(context: lh.Context, tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    labels = ["positive", "negative", "not so good"]
    calls = [
        lambda: lh.classify_parallel(context, PROMPTS, labels, journal=path),
        lambda: lh.score_parallel(context, PROMPTS, " yes, it is", journal=path),
        lambda: lh.perplexity(context, PROMPTS, journal=path),
    ]
    first = [call() for call in calls]
    again = [call() for call in calls]
    assert [results.stats.n_journal for results in first] == [0, 0, 0]
    assert [results.stats.n_journal for results in again] == [2, 2, 2]
    assert first[0].probs.tolist() == again[0].probs.tolist()
    assert first[1].logprob == again[1].logprob
    assert first[2].perplexity.tolist() == again[2].perplexity.tolist()
    other = lh.classify_parallel(context, PROMPTS, ["good", "bad"], journal=path)
    assert other.stats.n_journal == 0
    settings = {"max_tokens": 5, "journal": path}
    answers = [
        lh.generate_parallel(context, PROMPTS, logprobs=2, **settings) for _ in range(2)
    ]
    assert [results.stats.n_journal for results in answers] == [0, 2]
    assert [r.logprobs for r in answers[0]] == [r.logprobs for r in answers[1]]
    assert [r.top_logprobs for r in answers[0]] == [r.top_logprobs for r in answers[1]]
    assert lh.generate_parallel(context, PROMPTS, **settings).stats.n_journal == 0


ALIKE = [  # texts with the same number of tokens and the same beginning
    "The cat sat on the mat",
    "The dog ran in the sun",
    "The sum was not paid out",
]


def test_a_journal_never_returns_numbers_of_another_text(
    context: lh.Context, tmp_path: Path
) -> None:
    labels = ["yes", "no"]
    calls: list[Callable[..., list[object]]] = [
        lambda **j: list(lh.perplexity(context, ALIKE, **j).perplexity),
        lambda **j: (
            lh.score_parallel(
                context,
                ["The capital of France is"] * 3,
                [" Paris", " London", " Rome"],
                **j,
            ).logprob
        ),
        lambda **j: (
            lh.score_parallel(
                context, ["Hello", "The capital of Spain is"], [" a", " Madrid"], **j
            ).logprob
        ),
        lambda **j: (
            lh.score_parallel(
                context, ["Hello", "The capital of Spain is"], [" a", " banana"], **j
            ).logprob
        ),
        lambda **j: (
            lh.classify_parallel(
                context, ["Label: ", "Label:", "Label:\n"], labels, space=False, **j
            )
            .probs[:, 0]
            .tolist()
        ),
    ]
    path = tmp_path / "journal.sqlite"
    alone = [call() for call in calls]
    for _ in range(2):
        for call, expected in zip(calls, alone, strict=True):
            values = np.asarray(call(journal=path), dtype=float)
            assert values == pytest.approx(np.asarray(expected), abs=1e-3)
    assert lh.perplexity(context, ALIKE, journal=path).stats.n_journal == 3


def test_scores_of_earlier_versions_are_not_read(
    context: lh.Context, tmp_path: Path
) -> None:
    path = tmp_path / "journal.sqlite"
    first = lh.perplexity(context, ALIKE, journal=path)
    old = json.dumps({"max_tokens": 5, "score": "0" * 64, "stop": []})
    entries = [
        replace(entry, settings=old, text="", key=f"{i:064}")
        for i, entry in enumerate(lh.journal_read(path))
    ]
    path.unlink()
    with closing(Journal(path)) as journal:
        journal.add(entries)
    with pytest.warns(lh.JournalWarning, match="has 3 scores of an earlier version"):
        assert lh.journal_read(path) == []
    with pytest.warns(lh.JournalWarning, match="not read, but computed again"):
        again = lh.perplexity(context, ALIKE, journal=path)
    assert again.stats.n_journal == 0
    assert again.perplexity.tolist() == pytest.approx(first.perplexity.tolist(), rel=1e-4)
    lh.generate_parallel(context, ALIKE, max_tokens=2, journal=path)  # no note
    assert lh.perplexity(context, ALIKE, journal=path).stats.n_journal == 3


def test_a_job_tells_how_far_it_is_and_may_be_cancelled(context: lh.Context) -> None:
    seen: list[lh.types.Progress] = []
    many = [f"{i}: {prompt}" for i in range(20) for prompt in PROMPTS]
    lh.classify_parallel(context, many, ["good", "very bad"], progress=seen.append)
    assert seen[-1].n_done == seen[-1].n_total == 40
    job = lh.start_perplexity(context, [f"{i} " + "no, yes, " * 900 for i in range(9)])
    job.cancel()
    results = job.results()
    assert "cancelled" in results.finish_reasons
    assert len(results) == 9
    assert lh.classify_parallel(context, [], ["a", "b"]).probs.shape == (0, 2)
    assert lh.score_parallel(context, [], []).continuations == []


def test_calibration_runs_what_it_needs(context: lh.Context) -> None:
    labels = ["positive", "negative"]
    plain = lh.classify_parallel(context, PROMPTS, labels)
    batch = lh.classify_calibrated(context, PROMPTS, labels)
    assert batch.probs == pytest.approx(
        plain.calibrated(lh.calibrate_batch(plain)).probs, abs=1e-6
    )
    free = ["N/A Sentiment:", " Sentiment:"]
    calibrated = lh.classify_calibrated(
        context, PROMPTS, labels, method="contextual", content_free=free
    )
    prior = lh.classify_parallel(context, free, labels).probs.mean(axis=0)
    shares = plain.probs / prior
    assert calibrated.probs == pytest.approx(
        shares / shares.sum(axis=1, keepdims=True), abs=1e-6
    )
    assert calibrated.calibration.method == "contextual"
    stored = lh.classify_calibrated(
        context, PROMPTS[:1], labels, calibration=calibrated.calibration
    )
    assert stored.probs[0] == pytest.approx(calibrated.probs[0], abs=1e-6)
    with pytest.raises(ValueError, match=r"for the labels .*, not a, b"):
        # This is checked first: there are no prompts.
        lh.classify_calibrated(context, 3, ["a", "b"], calibration=calibrated.calibration)
    with pytest.raises(TypeError, match=r"calibration must be .*, not 'batch'"):
        plain.calibrated("batch")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"calibration must be .*, not 5"):
        lh.classify_calibrated(context, PROMPTS, labels, calibration=5)  # type: ignore[arg-type]
    for wrong in ({"method": "contextual"}, {"content_free": free}):
        with pytest.raises(ValueError, match="needs content_free"):
            lh.classify_calibrated(context, PROMPTS, labels, **wrong)


# ---- arguments -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"labels": "yes"}, TypeError, "labels must be a list of texts, or a map"),
        ({"labels": 3}, TypeError, "labels must be a list of texts"),
        ({"labels": {"a", "b"}}, TypeError, "to names, not a set: its elements"),
        ({"labels": []}, ValueError, "labels must be 1 to 100000 texts, such as"),
        ({"labels": ["a", ""]}, ValueError, r"labels\[1\] must not be empty"),
        ({"labels": ["a", " "]}, ValueError, r"labels\[1\] must not be empty"),
        ({"labels": ["a", "b", "a"]}, ValueError, r"labels\[2\] is given twice: 'a'"),
        ({"labels": ["a", 1]}, TypeError, r"labels\[1\] must be a text, not 1"),
        ({"labels": {"a": 1}}, TypeError, r"labels\[0\]\.name must be a text, not 1"),
        ({"labels": ["\ud800"]}, ValueError, r"labels\[0\] is not valid Unicode"),
        (
            {"normalize": "mean"},
            ValueError,
            "normalize must be one of 'sum', 'token', 'b",
        ),
        ({"space": "yes"}, ValueError, "space must be one of 'auto', True, False"),
        ({"pmi_prompt": 1, "normalize": "pmi"}, TypeError, "pmi_prompt must be a text"),
        ({"pmi_prompt": "a", "normalize": "sum"}, ValueError, "pmi_prompt needs norm"),
        ({"on_error": "no"}, ValueError, "on_error must be one of 'continue'"),
        ({"parse_special": "x"}, ValueError, "parse_special must be one of 'auto'"),
        ({"system": "x"}, ValueError, "system needs chat=True"),
        ({"thinking": 3}, ValueError, "thinking needs chat=True"),
        ({"prefix": "x"}, ValueError, "prefix needs chat=True"),
        ({"chat": 1}, TypeError, "chat must be true or false"),
        ({"prompts": "text"}, TypeError, "prompts must be a list of prompts, not str"),
        ({"prompts": [1.5]}, TypeError, r"prompts\[0\] must be text or a sequence of to"),
        ({"journal": "/nowhere/x"}, lh.JournalError, "there is no folder"),
    ],
)
def test_bad_arguments_are_named(
    context: lh.Context,
    arguments: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    call = {"prompts": PROMPTS, "labels": ["a", "b"]} | arguments
    with pytest.raises(error, match=message):
        lh.classify_parallel(context, **call)
    with pytest.raises(error, match=message):
        lh.start_classify(context, **call)


@pytest.mark.parametrize(
    ("continuations", "error", "message"),
    [
        (1, TypeError, "continuations must be a text, or for each prompt a text or a"),
        ({" a", " b"}, TypeError, "a list of texts, not a set: its elements"),
        ([" a"], ValueError, "continuations must be 2, one for each prompt, not 1"),
        ([" a", 1], TypeError, r"continuations\[1\] must be a text or a list of texts"),
        ({" a": 1, " b": 2}, TypeError, "must be a text, or for each prompt a text or a"),
        ([" a", {" b": 1}], TypeError, r"continuations\[1\] must be a text or a list of"),
        ([" a", {" b"}], TypeError, "not a set: its elements have no order"),
        ([" a", [1]], TypeError, r"continuations\[1\]\[0\] must be a text, not 1"),
        ([" a", []], ValueError, r"continuations\[1\] must not be empty"),
        ([" a", [""]], ValueError, r"continuations\[1\] must not be empty"),
    ],
)
def test_bad_continuations_are_named(
    context: lh.Context, continuations: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lh.score_parallel(context, PROMPTS, continuations)
    with pytest.raises(error, match=message):
        lh.start_score(context, PROMPTS, continuations)


@pytest.mark.parametrize(("logprobs", "error"), [(-1, ValueError), ("2", TypeError)])
def test_wrong_numbers_of_logprobs_are_named(
    context: lh.Context, logprobs: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match="logprobs must be"):
        lh.generate_parallel(context, PROMPTS, logprobs=logprobs)


# ---- what R calls ----------------------------------------------------------------------


def test_r_gets_columns(context: lh.Context) -> None:
    options = {"parse_special": "auto", "on_error": "continue"}

    def started(
        task: str, texts: list[object], arguments: dict[str, object]
    ) -> dict[str, object]:
        return _r.model_start(task, context, texts, {**options, **arguments})

    def result(status: dict[str, object]) -> dict[str, object]:
        return plain(value(_r.job_result(value(status)["job"])))

    prompts = [PROMPTS[0], None, PROMPTS[1]]
    labels = {
        "labels": ["good", "bad"],
        "names": ["plus", "minus"],
        "normalize": "pmi",
        "space": "auto",
    }
    for chat in ({}, {"chat": True, "system": "Judge."}):
        columns = result(started("classify", prompts, {**labels, **chat}))
        assert columns["label"][1] is None
        assert (
            len(columns["p_plus"])
            == len(columns["p_minus"])
            == len(columns["errors"])
            == 3
        )
        assert [len(row) for row in columns["logprobs"]] == [2, 2, 2]
        assert columns["errors"][1] is not None
    refused = started("classify", prompts, {**labels, "labels": ["good", "good"]})
    assert "twice" in refused["message"]
    rows = list(map(list, zip(columns["p_plus"], columns["p_minus"], strict=True)))
    fitted = plain(value(_r.calibration_fit(rows, ["plus", "minus"], "batch")))
    status = _r.calibration_apply(fitted["json"], rows, ["plus", "minus"])
    applied = plain(value(status))
    assert applied["label"][1] is None
    sums = np.array([applied["p_plus"], applied["p_minus"]])[:, ::2].sum(axis=0)
    assert sums == pytest.approx(1)
    assert plain(value(_r.calibration_fit(rows, [], "batch")))["names"] is None
    assert "no row" in _r.calibration_fit([], ["a"], "batch")["message"]
    scored = {"continuations": [[" a", " b c"], [" a"], [" a"]], "space": "auto"}
    columns = result(started("score", prompts, scored))
    assert [row and len(row) for row in columns["token_logprobs"]] == [1, 2, None, 1]
    assert len(columns["logprob"]) == 4
    assert len(columns["errors"]) == 3
    columns = result(started("perplexity", prompts, {"parse_special": False}))
    assert np.isnan(columns["n_tokens"][1])
    assert columns["perplexity"][0] > 1
    stopped = result(started("classify", [None], {**labels, "on_error": "stop"}))
    assert stopped["finish_reason"] == ["error"]


def test_a_wrong_prompt_is_named_with_its_place(context: lh.Context) -> None:
    calls = {
        "prompts": lambda texts: lh.classify_parallel(context, texts, ["a", "b"]),
        "texts": lambda texts: lh.perplexity(context, texts),
    }
    for name, call in calls.items():
        with pytest.raises(lh.ArgumentTypeError) as caught:
            call(["a", 7])
        assert (caught.value.argument, caught.value.place) == (name, (1,))
