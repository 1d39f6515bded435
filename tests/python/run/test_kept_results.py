"""Code of the caller that raises an error ends a call, and loses no finished result."""

from __future__ import annotations

import asyncio
import io
import itertools
import logging
import pickle
import signal
import sys
import warnings
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any, NoReturn

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from fake_calls import request
from fake_engine import FakeEngine
from journalled import FakeContext
from llamaherd import _r
from llamaherd.calls.api import classify
from llamaherd.calls.api.running import none_answered, run_to_end
from llamaherd.calls.journal.journal import Journal
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.embedding import EmbedCall
from llamaherd.calls.run.hosted import HostedCall
from llamaherd.calls.run.job import Job
from llamaherd.coding.annotation import coding, head_step, model_step
from llamaherd.coding.pairs import compare as pairs
from llamaherd.coding.selection import compare, evaluation, variants
from llamaherd.engine.core.errors import KEPT
from llamaherd.engine.core.keeping import keep, keep_made, keeping, kept_results
from llamaherd.engine.core.progress import ProgressBar, say
from llamaherd.engine.core.stats import Progress
from llamaherd.engine.native.embedder import NativeEmbedder
from plain_forms import plain
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from llamaherd.calls.run.handle import Handle

pytestmark = pytest.mark.filterwarnings("ignore:the model favours the first position")
TEXTS = [f"text {i}" for i in range(6)]
BOOK = lh.Codebook("Which?", ["a", "b"])
DATA = {"text": TEXTS}
MANY = {"text": [f"Text {i} says {'this' if i % 3 else 'that'}" for i in range(60)]}
CODES = ["a" if i % 3 else "b" for i in range(60)]


class OwnError(Exception):
    """Error of the caller's code."""


def fail(*_: object, **__: object) -> None:
    raise OwnError


class WithResultsError(Exception):
    """Error of the caller's code that cannot get an attribute `results`."""

    results = property(lambda _: "own")

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("results", "__notes__"):
            raise OwnError
        super().__setattr__(name, value)


# ---- all calls, and what they return ----


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with (
        lh.Model(tiny_path("llama")) as model,
        lh.Context(model, n_seq_max=2, n_threads=1) as context,
    ):
        yield context


def split_sample() -> lh.GoldSample:
    sample = lh.gold_sample(MANY, 30, text="text", names=["a", "b"], seed=1)
    sample = sample.with_codes([CODES[row] for row in sample.rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parts have few texts
        return lh.gold_split(sample, 1 / 3, 1 / 3, 1 / 3, seed=2)


def compared(context: lh.Context, progress: Any) -> lh.types.CodebookComparison:
    tried = {"one": BOOK, "other": lh.Codebook("Say which.", ["a", "b"])}
    return lh.compare_codebooks(MANY, tried, split_sample(), context, progress=progress)


CALLS: dict[str, Callable[[lh.Context, Any], Any]] = {
    "generate_parallel": lambda context, progress: lh.generate_parallel(
        context, TEXTS, max_tokens=4, n=2, temperature=1, progress=progress
    ),
    "classify_parallel": lambda context, progress: lh.classify_parallel(
        context, TEXTS, ["yes", "no"], progress=progress
    ),
    "score_parallel": lambda context, progress: lh.score_parallel(
        context, TEXTS, " yes", progress=progress
    ),
    "perplexity": lambda context, progress: lh.perplexity(
        context, TEXTS, progress=progress
    ),
    "embed_parallel": lambda context, progress: lh.embed_parallel(
        context.model, TEXTS, n_threads=1, progress=progress
    ),
    "annotate": lambda context, progress: lh.annotate(
        DATA, "text", BOOK, context, progress=progress
    ),
    "annotate in a data frame": lambda context, progress: lh.annotate(
        pd.DataFrame(DATA, index=[1] * 6), "text", BOOK, context, progress=progress
    ),
    "compare_pairs": lambda context, progress: lh.compare_pairs(
        TEXTS, "Which?", context, progress=progress
    ),
    "robustness": lambda context, progress: lh.robustness(
        DATA, "text", BOOK, context, orders=2, progress=progress
    ),
    "compare_codebooks": compared,
    "ask_all": lambda context, progress: lh.Chat(
        context, template="{% for m in messages %}{{ m.content }}{% endfor %}"
    ).ask_all(TEXTS, max_tokens=4, progress=progress),
}
WITH_NOTES = ("annotate", "classify_parallel", "compare_pairs")


# Finished answers in results of each kind, as values to compare.
ANSWERS: dict[type, Callable[[Any], list[Any]]] = {
    lh.Results: lambda results: [
        sample.tokens
        for samples in results.samples
        for sample in samples
        if sample.is_finished
    ],
    lh.types.ClassifyResults: lambda results: [
        row.tolist() for row in results.probs if np.isfinite(row).all()
    ],
    lh.types.ScoreResults: lambda results: [
        continuations[0].token_logprobs.tolist()
        for continuations in results.continuations
        if continuations
    ],
    lh.types.PerplexityResults: lambda results: [
        logprobs.tolist() for logprobs in results.token_logprobs if logprobs is not None
    ],
    lh.types.Embeddings: lambda results: [
        row.tolist() for row in results.vectors if np.isfinite(row).all()
    ],
    lh.Coded: lambda coded: [label for label in coded.labels if label is not None],
    lh.types.PairComparison: lambda comparison: [
        (pair.first, pair.second, pair.log_odds) for pair in comparison.pairs
    ],
    lh.types.Robustness: lambda result: [
        label for labels in result.labels for label in labels
    ],
    lh.types.CodebookComparison: lambda comparison: [
        label for candidate in comparison.candidates for label in candidate.labels
    ],
}


def answers(results: Any) -> list[Any]:
    return ANSWERS[type(results)](results)


def kept_answers(error: BaseException) -> list[Any]:
    """Return the answers in an error, also those of a variant that was running."""
    inner = vars(error).get("inner_results")
    return answers(kept_results(error)) + ([] if inner is None else answers(inner))


@pytest.fixture(scope="module")
def whole(context: lh.Context) -> dict[str, list[Any]]:
    """Return the answers of each call that nothing interrupts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: answers(run(context, False)) for name, run in CALLS.items()}


# ---- all ways in which the caller's code ends a call ----


def raising(
    error: BaseException, before: Callable[[], object] = lambda: None
) -> Callable[[Any], None]:
    """Return a function for progress that raises an error when all is computed."""

    def report(progress: Any) -> None:
        if progress.n_done == progress.n_total:
            before()
            raise error

    return report


def break_journals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every call warn, after half of its results, that its journal cannot be written.

    A pair is finished with both of its prompts. If more than half of all prompts are
    done, in any order, at least one pair is finished.
    """

    def problem(work: Any) -> str:
        progress = work.progress
        return "the disk is full" if 2 * progress.n_done > progress.n_total else ""

    for work in (HostedCall, EmbedCall, coding.Coding, pairs.PairRun):
        monkeypatch.setattr(work, "problem", property(problem))
    monkeypatch.setattr(HostedCall, "is_stepped", False)  # as calls with a journal


@contextmanager
def warnings_as_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("kind", [OwnError, WithResultsError, SystemExit])
@pytest.mark.parametrize("name", CALLS)
def test_an_error_of_a_function_for_progress(
    name: str, kind: type[BaseException], context: lh.Context, whole: dict[str, list[Any]]
) -> None:
    error = kind("stop")
    with pytest.raises(kind) as caught:
        CALLS[name](context, raising(error))
    assert caught.value is error
    assert kept_answers(error) == whole[name]


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_of_a_function_for_progress(
    name: str, context: lh.Context, whole: dict[str, list[Any]]
) -> None:
    with pytest.raises(lh.Interrupted) as caught:
        CALLS[name](context, raising(KeyboardInterrupt()))
    assert kept_answers(caught.value) == whole[name]


@pytest.mark.parametrize("name", CALLS)
def test_a_journal_warning_as_an_error(
    name: str,
    context: lh.Context,
    whole: dict[str, list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_journals(monkeypatch)
    with (
        warnings_as_errors(),
        pytest.raises(lh.JournalWarning, match="the disk is full") as caught,
    ):
        CALLS[name](context, False)
    finished = answers(kept_results(caught.value))
    assert finished
    # Two prompts run at once, so that those that are finished need not be the first.
    rest = iter(whole[name])
    assert all(answer in rest for answer in finished)


@pytest.mark.parametrize("kind", [OwnError, KeyboardInterrupt])
@pytest.mark.parametrize("name", CALLS)
def test_a_journal_warning_as_an_error_replaces_no_other_error(
    name: str,
    kind: type[BaseException],
    context: lh.Context,
    whole: dict[str, list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = raising(kind(), lambda: break_journals(monkeypatch))
    with warnings_as_errors(), pytest.raises(kind) as caught:
        CALLS[name](context, report)
    assert kept_answers(caught.value) == whole[name]


@pytest.mark.parametrize("name", WITH_NOTES)
def test_notes_as_errors(
    name: str, context: lh.Context, whole: dict[str, list[Any]]
) -> None:
    with warnings_as_errors(), pytest.raises(UserWarning, match="coverage") as caught:
        CALLS[name](context, False)
    assert kept_answers(caught.value) == whole[name]

    def show(*_: object, **__: object) -> None:
        raise OwnError

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        with pytest.raises(OwnError) as raised:
            CALLS[name](context, False)
    assert kept_answers(raised.value) == whole[name]


def test_results_of_a_job_whose_warning_is_an_error(
    context: lh.Context, whole: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_journals(monkeypatch)
    with warnings_as_errors():
        job = lh.start_classify(context, TEXTS, ["yes", "no"])
        assert job.wait(60)
        with pytest.raises(lh.JournalWarning) as caught:
            job.results()
    assert kept_results(caught.value) is job.results()
    assert answers(job.results()) == whole["classify_parallel"]


async def awaited(job: Job[Any]) -> Any:
    return await job


@pytest.mark.parametrize("wait", [Job.results, lambda job: asyncio.run(awaited(job))])
@pytest.mark.parametrize("is_running", [False, True])
def test_jobs_that_are_waited_for_while_a_warning_is_an_error(
    wait: Callable[[Job[Any]], Any], *, is_running: bool
) -> None:
    class Work:
        problem = "the disk is full"
        progress = None

        def __init__(self) -> None:
            self.is_cancelled = Event()

        def run(self) -> list[str]:
            return ["finished"] if not is_running or self.is_cancelled.wait(60) else []

        def cancel(self) -> None:
            self.is_cancelled.set()

    job: Job[list[str]] = Job(Work())
    assert is_running or job.wait(60)
    with warnings_as_errors(), pytest.raises(lh.JournalWarning) as caught:
        wait(job)
    assert kept_results(caught.value) == ["finished"] == job.results()


def test_a_warning_of_a_job_names_the_line_that_waits() -> None:
    class Work:
        problem = "the disk is full"
        progress = None

        def run(self) -> None:
            pass

        def cancel(self) -> None:
            pass

    job: Job[None] = Job(Work())
    with pytest.warns(lh.JournalWarning) as seen:
        job.results()
    assert seen[0].filename == __file__


def test_results_of_a_call_inside_of_the_call_are_kept(context: lh.Context) -> None:
    error = lh.GenerationError("a prompt of another call failed", ["its results"])
    with pytest.raises(lh.GenerationError) as caught:
        CALLS["generate_parallel"](context, raising(error))
    assert len(answers(error.results)) == 12
    assert caught.value.inner_results == ["its results"]


@pytest.mark.parametrize("kind", [OwnError, lh.GenerationError, KeyboardInterrupt])
@pytest.mark.parametrize("name", CALLS)
def test_an_error_that_is_raised_again_has_no_results_of_the_earlier_call(
    name: str, kind: type[BaseException], context: lh.Context, whole: dict[str, list[Any]]
) -> None:
    error = kind("stop") if kind is not lh.GenerationError else kind("stop", None)
    keep(error, "results of an earlier call")
    keep(error, "results of a second call")
    with pytest.raises(kind) as caught:
        CALLS[name](context, raising(error))
    assert kept_answers(caught.value) == whole[name]


def test_an_interrupt_of_a_call_inside_of_the_call_keeps_both_results(
    context: lh.Context,
) -> None:
    report = raising(lh.Interrupted("inner results"))
    with pytest.raises(lh.Interrupted) as caught:
        CALLS["generate_parallel"](context, report)
    assert len(answers(caught.value.results)) == 12
    assert caught.value.inner_results == "inner results"
    with pytest.raises(lh.Interrupted) as later, keeping("outer results"):
        raise caught.value
    assert later.value.inner_results is caught.value.results


@pytest.mark.parametrize(
    "error",
    [
        lh.Interrupted(None),
        lh.ArgumentTypeError("must be a bool", argument="chat"),
        lh.NativeError("failed", 3),
        lh.SamplerError("failed", 3, "grammar"),
        lh.ClusterError("failed", argument="num_cpus", remedy="raise it"),
        lh.GenerationError("failed", None),
        lh.JournalWarning("the disk is full", "path"),
        lh.ChatFullError("full", None, n_tokens=1, capacity=2, n_forget=3),
    ],
)
def test_kept_results_are_pickled(error: BaseException) -> None:
    keep(error, "inner")
    keep(error, "all")
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error)
    assert str(copied) == str(error)
    assert vars(copied) == vars(error)
    assert copied.inner_results == "inner"


def test_an_error_says_once_where_the_results_are(context: lh.Context) -> None:
    with pytest.raises(OwnError) as caught:
        CALLS["robustness"](context, raising(OwnError()))
    assert caught.value.__notes__ == [f"llamaherd: {KEPT}"]


# ---- errors while a call runs ----


class EngineError(Exception):
    """Unexpected error of an engine."""


class FailingEngine(FakeEngine):
    """Engine that fails when some prompts are answered."""

    def run(self, *args: Any, **options: Any) -> Any:
        if live[0].progress.n_done > 3:
            raise EngineError
        return super().run(*args, **options)


live: list[Call] = []


def test_a_call_whose_loop_fails_keeps_its_answers() -> None:
    live[:] = [Call([request([i, 1], 3) for i in range(40)], seed=1)]
    context = FakeContext(FailingEngine(4096, 12))
    with pytest.raises(EngineError) as caught:
        run_to_end(lambda: HostedCall(context, live[0]), False, range(40), none_answered)
    assert 3 < len(answers(kept_results(caught.value))) < 40
    assert kept_results(caught.value).finish_reasons.count("cancelled") > 0


class UncopiedError(Exception):
    """Error that cannot be copied."""

    def __init__(self, number: int, *, unit: str) -> None:
        super().__init__(f"{number} {unit}")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (EngineError("a", 1), EngineError),
        (MemoryError(), MemoryError),
        (lh.ContextClosedError("closed"), lh.ContextClosedError),
        (UncopiedError(2, unit="MB"), lh.ContextError),
    ],
)
def test_calls_that_end_together_keep_only_their_own_answers(
    error: Exception, kind: type[Exception]
) -> None:
    class Engine(FakeEngine):
        def run(self, *args: Any, **options: Any) -> Any:
            both_run.wait()
            if all(call.progress.n_done > 3 for call in calls):
                raise error from OSError("cause")
            return super().run(*args, **options)

    calls = [Call([request([i, n], 3) for i in range(n)], seed=1) for n in (300, 200)]
    context = FakeContext(Engine(4096, 12))
    both_run = Event()
    jobs = [Job(HostedCall(context, call)) for call in calls]
    wait_until(lambda: context.loop.load.n_waiting + context.loop.load.n_running == 500)
    both_run.set()
    for job, n in zip(jobs, (300, 200), strict=True):
        with pytest.raises(kind) as caught:
            job.results()
        assert type(caught.value) is kind
        assert str(error) in str(caught.value)
        assert isinstance(caught.value.__cause__, OSError)
        assert len(kept_results(caught.value)) == n
    assert kept_results(error) is None


def test_r_gets_the_answers_of_a_job_that_failed() -> None:
    live[:] = [Call([request([i, 1], 3) for i in range(40)], seed=1)]
    job = Job(HostedCall(FakeContext(FailingEngine(4096, 12)), live[0]))
    assert _r.job_result(job)["error_type"] == "EngineError"
    assert _r.job_keep(job)["ok"]
    texts = plain(_r.job_result(job)["value"])
    assert 3 < sum(text is not None for text in texts) < 40
    job.keep()
    assert len(job.results()) == 40


def test_an_error_before_the_first_answer_has_no_results(context: lh.Context) -> None:
    with pytest.raises(TypeError) as caught:
        lh.generate_parallel(context, ["a"], max_tokens="many")  # type: ignore[arg-type]
    assert not hasattr(caught.value, "results")


@contextmanager
def failing_job(k: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the k-th call of a prompt's job fail, after it has run."""
    n_runs = [0]
    run = HostedCall.run

    def failing(self: HostedCall[Any]) -> Any:
        results = run(self)
        n_runs[0] += 1
        if n_runs[0] == k:
            raise OwnError
        return results

    with monkeypatch.context() as patch:
        patch.setattr(HostedCall, "run", failing)
        yield


def test_coding_keeps_the_blocks_before_an_error(
    context: lh.Context, whole: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_step, "BLOCK", 2)
    with failing_job(3, monkeypatch), pytest.raises(OwnError) as caught:
        CALLS["annotate in a data frame"](context, False)
    assert list(caught.value.results.frame["label"][:4]) == whole["annotate"][:4]
    assert caught.value.results.frame["label"].isna().tolist() == [False] * 4 + [True] * 2


def test_rounds_of_pairs_are_kept_before_an_error(
    context: lh.Context, whole: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_job(2, monkeypatch), pytest.raises(OwnError) as caught:
        CALLS["compare_pairs"](context, False)
    pairs_before = answers(caught.value.results)
    assert pairs_before
    assert pairs_before == whole["compare_pairs"][: len(pairs_before)]


def test_rounds_of_pairs_are_no_calls_inside_of_the_comparison(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = HostedCall.run

    def failing(self: HostedCall[Any]) -> NoReturn:
        error = OwnError()
        keep(error, run(self))
        raise error

    monkeypatch.setattr(HostedCall, "run", failing)
    with pytest.raises(OwnError) as caught:
        CALLS["compare_pairs"](context, False)
    assert answers(caught.value.results)
    assert not hasattr(caught.value, "inner_results")


@pytest.mark.parametrize(
    ("name", "work", "function"),
    [
        ("generate_parallel", Call, "_collect_results"),
        ("embed_parallel", EmbedCall, "_embeddings"),
    ],
)
def test_results_that_cannot_be_made_do_not_replace_the_error(
    name: str,
    work: type,
    function: str,
    context: lh.Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: Any, *arguments: Any) -> Any:
        yield from run(self, *arguments)
        raise EngineError

    def broken_vectors(self: Any) -> None:
        compute(self)
        raise EngineError

    run, compute = Call._run_group, EmbedCall._compute
    monkeypatch.setattr(Call, "_run_group", broken)
    monkeypatch.setattr(EmbedCall, "_compute", broken_vectors)
    monkeypatch.setattr(work, function, fail)
    with pytest.raises(EngineError):
        CALLS[name](context, False)


def test_vectors_are_kept_before_an_error(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_runs = [0]
    run = NativeEmbedder.run

    def failing(self: NativeEmbedder, texts: Any) -> Any:
        n_runs[0] += 1
        if n_runs[0] == 2:
            raise MemoryError
        return run(self, texts)

    monkeypatch.setattr(NativeEmbedder, "run", failing)
    with pytest.raises(MemoryError) as caught:
        lh.embed_parallel(context.model, TEXTS, deterministic=True, n_threads=1)
    embeddings = caught.value.results
    assert len(answers(embeddings)) == 1
    assert embeddings.stats.n_failed == 5
    assert [error is None for error in embeddings.errors].count(False) == 5


def test_labels_are_kept_if_no_head_can_be_fitted(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_step.HeadStep, "_fit_head", fail)
    settings = {"until": 50, "embeddings": context.model}
    with pytest.raises(OwnError) as caught:
        lh.annotate(MANY, "text", BOOK, context, **settings)
    assert len(answers(caught.value.results)) == 50


# ---- errors when all is computed ----

# Functions of this package that make the value of a call from its answers, and the part
# of the answers that the error of such a function has.
MAKERS: dict[str, tuple[Any, str, Callable[[Any], list[Any]]]] = {
    "classify_parallel": (
        classify,
        "classify_results",
        lambda kept: [r.scores for r in kept],
    ),
    "annotate": (coding, "notes_of", lambda kept: list(kept[0].probs)),
    "compare_pairs": (pairs, "comparison_of", list),
    "robustness": (
        variants,
        "Robustness",
        lambda kept: [x for v in kept.values() for x in v.labels],
    ),
    "compare_codebooks": (
        compare,
        "compare",
        lambda kept: [x for v in kept.values() for x in v.labels],
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_answers_are_kept_if_no_value_can_be_made_from_them(
    name: str,
    context: lh.Context,
    whole: dict[str, list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, function, parts = MAKERS[name]
    monkeypatch.setattr(place, function, fail)
    with pytest.raises(OwnError) as caught:
        CALLS[name](context, False)
    assert len(parts(kept_results(caught.value))) == len(whole[name])


def test_labels_are_kept_if_they_give_no_estimate(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variants, "estimate", fail)
    gold = lh.gold_sample(MANY, 30, text="text", names=["a", "b"], seed=1)
    gold = gold.with_codes([CODES[row] for row in gold.rows])
    with pytest.raises(OwnError) as caught:
        lh.robustness(MANY, "text", BOOK, context, orders=1, gold=gold)
    assert len(answers(caught.value.results)) == 120


def test_labels_are_kept_if_they_cannot_be_evaluated(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = split_sample()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tried = {"one": BOOK, "other": lh.Codebook("Say which.", ["a", "b"])}
        choice = lh.best_codebook(lh.compare_codebooks(MANY, tried, gold, context))
    monkeypatch.setattr(evaluation, "evaluate_labels", fail)
    with pytest.raises(OwnError) as caught:
        lh.evaluate_codebook(choice, gold, context)
    assert len(answers(caught.value.results)) == 10


def test_a_journal_that_is_damaged_during_the_call(
    context: lh.Context,
    tmp_path: Path,
    whole: dict[str, list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: object) -> None:
        raise lh.JournalError("damaged")

    monkeypatch.setattr(Journal, "n_mixed_up", property(fail))
    settings = {"labels": ["yes", "no"], "journal": tmp_path / "a.journal"}
    with pytest.raises(lh.JournalError, match="damaged") as caught:
        lh.classify_parallel(context, TEXTS, **settings)
    assert answers(caught.value.results) == whole["classify_parallel"]


# ---- data frames ----


def test_a_data_frame_that_refuses_columns_is_refused_before_a_text_is_coded(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(frame: object, _new: object) -> object:
        raise OwnError(type(frame).__name__)

    monkeypatch.setattr(coding, "with_columns", refused)
    monkeypatch.setattr(HostedCall, "run", None)  # nothing runs
    with pytest.raises(OwnError, match="DataFrame"):
        CALLS["annotate in a data frame"](context, False)


def test_a_data_frame_that_refuses_columns_at_the_end(
    context: lh.Context, whole: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make, n_before = coding.with_columns, itertools.count()

    def refused_at_the_end(frame: Any, new: Any) -> Any:
        if isinstance(frame, pd.DataFrame) and next(n_before):
            raise OwnError
        return make(frame, new)

    monkeypatch.setattr(coding, "with_columns", refused_at_the_end)
    with pytest.raises(OwnError) as caught:
        CALLS["annotate in a data frame"](context, False)
    assert caught.value.results.frame["text"] == TEXTS
    assert caught.value.results.frame["label"] == whole["annotate"]


# ---- streams and logs ----


class BrokenStream(io.StringIO):
    """Stream whose every use raises an error."""

    encoding = "no such encoding"

    def write(self, _text: str) -> int:
        raise OwnError

    def flush(self) -> None:
        raise OwnError


@pytest.mark.parametrize("name", CALLS)
def test_a_stream_that_raises_errors_ends_no_call(
    name: str,
    context: lh.Context,
    whole: dict[str, list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEWRLLAMA_DEBUG", "1")
    monkeypatch.setattr(sys, "stderr", BrokenStream())
    assert answers(CALLS[name](context, True)) == whole[name]
    say("more")
    ProgressBar().close()


def test_an_error_of_a_handler_of_a_signal_is_no_error_of_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stream(io.StringIO):
        is_signalled = False

        def write(self, text: str) -> int:
            if self.is_signalled:
                signal.raise_signal(signal.SIGINT)
            return len(text)

    def stop(*_: object) -> None:
        raise OwnError

    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    progress = Progress(
        n_done=1,
        n_failed=0,
        n_total=2,
        n_prompt_tokens=0,
        n_prompt_tokens_total=0,
        n_generated_tokens=0,
        elapsed_s=1,
    )
    drawn, new = ProgressBar(), ProgressBar()
    drawn.show(progress)
    stream.is_signalled = True
    before = signal.signal(signal.SIGINT, stop)
    try:
        for write in (lambda: new.show(progress), drawn.close, lambda: say("more")):
            with pytest.raises(OwnError):
                write()
    finally:
        stream.is_signalled = False
        signal.signal(signal.SIGINT, before)


def test_a_log_that_raises_errors_ends_no_other_request(context: lh.Context) -> None:
    class BrokenHandler(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            raise OwnError

    def fail(_handle: Handle) -> None:
        raise ValueError

    log = logging.getLogger("llamaherd.calls.run.handle")
    handler = BrokenHandler()
    log.addHandler(handler)
    try:
        handles = [context.submit(text, max_tokens=4) for text in TEXTS]
        for handle in handles:
            handle.add_done_callback(fail)
        assert all(handle.result(60).is_finished for handle in handles)
        handles[0].add_done_callback(fail)
    finally:
        log.removeHandler(handler)


# ---- the functions ----


def test_errors_while_results_are_made_do_not_replace_the_error() -> None:
    def failing() -> object:
        raise OwnError

    def failing_with_results() -> object:
        error = OwnError()
        keep(error, "all that is finished")
        raise error

    error = ValueError()
    keep_made(error, failing)
    keep_made(error, lambda: None)
    assert kept_results(error) is None
    keep_made(error, failing_with_results)
    assert error.results == "all that is finished"


def test_ctrl_c_after_a_call_has_its_results() -> None:
    with pytest.raises(lh.Interrupted) as caught, keeping("all"):
        raise KeyboardInterrupt
    assert caught.value.results == "all"
