"""Calls of functions by name, as R makes them: forms, warnings, errors, Ctrl-C."""

from __future__ import annotations

import json
import warnings
from threading import Event
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd import _r
from llamaherd._r import arguments, forms, functions, jobs
from llamaherd._r.arguments import convert_argument
from llamaherd._r.boundary import clean, form_of
from llamaherd.engine.core.keeping import keep
from llamaherd.engine.core.outcome import TextPiece
from llamaherd.engine.core.stats import Progress
from plain_forms import plain, value
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TEXTS = [f"text {i}" for i in range(6)]
BOOK = lh.Codebook("Which?", ["a", "b"])
FRAME = {".class": "frame", "content": {"text": TEXTS}}


def book_of_r(book: lh.Codebook = BOOK) -> dict[str, str]:
    return {".class": "codebook", "content": json.dumps(book.to_dict())}


def started(name: str, **arguments: Any) -> lh.Job[Any]:
    return value(_r.call_start(name, arguments, "4.5.0"))["job"]


def result(job: lh.Job[Any]) -> dict[str, Any]:
    while not value(_r.job_wait(job, 0.05))["done"]:
        pass
    return _r.call_result(job)


def called(name: str, **arguments: Any) -> Any:
    return value(result(started(name, **arguments)))


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with (
        lh.Model(tiny_path("llama")) as model,
        lh.Context(model, n_seq_max=2, n_threads=1) as context,
    ):
        yield context


def part(form: dict[str, Any], name: str) -> dict[str, Any]:
    return next(part for part in form["parts"] if part["name"] == name)


def column(table: dict[str, Any], name: str) -> list[Any]:
    (column,) = [column for column in table["columns"] if column["name"] == name]
    return column["values"]


# ---- arguments and forms ----


def test_arguments_are_objects_of_python() -> None:
    values = [2.5, "x", None, True]
    assert convert_argument({"a": [1.0, *values]}) == {"a": [1, *values]}
    assert convert_argument(book_of_r()) == BOOK
    assert convert_argument(FRAME) == {"text": TEXTS}
    candidate = convert_argument(
        {".class": "candidate", "book": book_of_r()["content"], "context": None,
         "settings": {"max_tokens": 4.0}}
    )  # fmt: skip
    assert (candidate.codebook, candidate.settings) == (BOOK, {"max_tokens": 4})
    np.testing.assert_array_equal(
        convert_argument({".class": "array", "content": [[1.0], [2.0]]}), [[1], [2]]
    )


@pytest.mark.parametrize("text", ["one", "größe", "a\0b"])
def test_pieces_of_texts_cross_as_texts(text: str) -> None:
    assert type(clean(TextPiece(text))) is str


def test_missing_values_and_odd_characters_cross() -> None:
    assert forms.vector("number", [1, None])["values"] == pytest.approx(
        [1, np.nan], nan_ok=True
    )
    assert forms.vector("text", ["a\0\ud800", None, 3])["values"] == ["a�?", None, "3"]
    assert forms.vector("flag", [True, None])["values"] == [True, None]
    assert forms.factor(["b", None, "x"], ["a", "b"])["values"] == [2, 0, 0]
    table = forms.table(
        [forms.vector("flag", [1], "is_x")], 1, "t", level=forms.value(0.9)
    )
    assert (table["class"], table["attributes"][0]["name"]) == ("llamaherd_t", "level")
    some = forms.parts(one=None, other=table)
    assert [part["type"] for part in some["parts"]] == ["value", "table"]
    assert forms.page_lines("<Pairs: 3 texts>\nmore", "p") == ["<p> 3 texts", "more"]
    assert forms.page_lines("<Pairs>", "p") == ["<p>"]
    assert forms.page_lines("2 of <3>", "p") == ["2 of <3>"]


def test_robustness_is_one_call(context: lh.Context) -> None:
    form = called(
        "robustness",
        frame=FRAME,
        text="text",
        codebooks={"own": book_of_r()},
        contexts={"1": context},
        orders=1,
        seeds=[],
        seed=1234.0,
        settings={"normalize": "token"},
    )
    expected = lh.robustness(
        {"text": TEXTS}, "text", {"own": BOOK}, context, orders=1, normalize="token"
    )
    assert form["class"] == "llamaherd_robustness"
    assert form["page"][0] == "<llamaherd_robustness> 6 texts, 2 variants"
    assert column(part(form, "summary"), "variant") == ["own order", "order 2"]
    labels = part(form, "labels")
    assert column(labels, "row") == [1, 2, 3, 4, 5, 6]
    names = labels["columns"][2]["levels"]
    codes = column(labels, "order 2")
    assert [names[code - 1] for code in codes] == expected.labels[1]
    run = json.loads(part(form, "runs")["values"][0])
    assert run["versions"]["R"] == "4.5.0"
    assert run["settings"]["normalize"] == "token"
    assert json.loads(form["json"])["variants"] == ["own order", "order 2"]
    again = called(
        "robustness",
        frame={".class": "coded", "text": "text", "texts": TEXTS,
               "run": json.dumps(run)},
        text="text",
        contexts={"1": context},
        orders=1,
        settings=[],
    )  # fmt: skip
    assert part(again, "summary")["columns"][0]["values"] == ["own order", "order 2"]


def test_places_in_errors_count_from_one(context: lh.Context) -> None:
    arguments = {"frame": FRAME, "text": "text", "codebooks": {"1": book_of_r()}}
    job = started(
        "robustness", **arguments, contexts=[context], orders=[["b", "a"], ["a"]]
    )
    status = result(job)
    assert status["error_type"] == "ArgumentError"
    assert status["message"].startswith("`orders[2]` must have each label once")
    levels = [False, 4.0, {"budget": 8.0}]
    job = started("robustness", **arguments, contexts=[context], thinking=levels)
    assert result(job)["message"].startswith("`thinking` needs `chat = TRUE`")
    status = _r.call_start("candidate", {"settings": ["batch"]}, "4.5.0")
    assert "list with names" in status["message"]


def test_codebooks_are_compared_chosen_and_evaluated(
    context: lh.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [f"Text {i} says {'this' if i % 3 else 'that'}" for i in range(60)]
    gold = lh.gold_sample({"text": texts}, 60, text="text", names=["a", "b"], seed=1)
    gold = gold.with_codes(["a" if row % 3 else "b" for row in gold.rows])
    split = called(
        "gold_split",
        gold={".class": "gold", "content": gold.to_json()},
        explore=0.0,
        select=0.5,
        evaluate=0.5,
        seed=2.0,
    )
    sample = {".class": "gold", "content": split["json"]}
    status = _r.call_start(
        "compare_codebooks",
        {
            "data": None,
            "candidates": {"one": book_of_r(), "other": book_of_r()},
            "gold": sample,
            "context": context,
            "journal": True,
            "settings": [],
        },
        "4.5.0",
    )
    assert value(status)["journal"].endswith(".journal")
    form = value(result(status["value"]["job"]))
    assert column(part(form, "summary"), "candidate") == ["one", "other"]
    assert part(form, "summary")["columns"][-2]["type"] == "integer"
    choice = called(
        "best_codebook", comparison={".class": "comparison", "content": form["json"]}
    )
    assert plain(choice)["codebook"]["hash"] == BOOK.hash
    evaluation = called(
        "evaluate_codebook",
        choice={".class": "choice", "content": choice["json"]},
        gold=sample,
        context=context,
    )
    assert part(evaluation, "first")["value"] is True
    assert part(evaluation, "gold")["class"] == "llamaherd_gold"
    assert part(evaluation, "n")["values"] == [30]


def test_pairs_are_stored_as_json(context: lh.Context) -> None:
    form = called(
        "compare_pairs", texts=dict(zip("abc", TEXTS, strict=False)), question="Which?",
        context=context, settings={},
    )  # fmt: skip
    stored = lh.types.PairComparison.from_json(form["json"])
    assert stored.to_json() == form["json"]
    assert str(stored).splitlines()[1:] == form["page"][1:]
    assert part(form, "position_bias")["names"] == ["value", "low", "high"]
    rows = called(
        "pair_agreement",
        comparison={".class": "pairs", "content": form["json"]},
        known=[1.0, 2.0, 3.0],
    )
    assert plain(rows)["measure"] == ["pearson", "spearman"]
    for text in ("{}", "[1]", '{"llamaherd_pairs": 2}', "no"):
        with pytest.raises(lh.ArgumentError, match="not a stored comparison"):
            lh.types.PairComparison.from_json(text)


def test_plain_values_stay_as_they_are() -> None:
    assert called("sha256", texts=["a", None])[1] is None
    assert form_of({"a": 1}) == {"a": 1}
    assert called("candidate", codebook=book_of_r(), settings={"chat": True}) is None


# ---- how calls end ----


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[..., Any]]:
    """Return functions that R can call, to which a test adds its own."""
    known_functions = dict(functions.FUNCTIONS)
    monkeypatch.setattr(functions, "FUNCTIONS", known_functions)
    return known_functions


def test_warnings_of_the_thread_arrive_with_the_result(
    known: dict[str, Callable[..., Any]],
) -> None:
    gate = Event()

    def warns(fails: bool) -> None:
        warnings.warn("the texts are few", UserWarning, stacklevel=1)
        assert gate.wait(60)
        if fails:
            raise lh.ArgumentError("is wrong", argument="gold")

    known["warns"] = warns
    before = warnings.filters, warnings.showwarning
    for fails in (False, True):
        gate.clear()
        job = started("warns", fails=fails)
        assert not value(_r.job_wait(job, 0.01))["done"]
        gate.set()
        status = result(job)
        assert status["ok"] is not fails
        assert status["warnings"] == ["the texts are few"]
    assert (warnings.filters, warnings.showwarning) == before


def test_a_problem_of_a_journal_is_told_while_the_call_runs(
    known: dict[str, Callable[..., Any]],
) -> None:
    gate = Event()

    def warns() -> None:
        warnings.warn(lh.JournalWarning("the disk is full"), stacklevel=1)
        assert gate.wait(60)

    known["warns"] = warns
    job = started("warns")
    wait_until(lambda: job._work.problem == "the disk is full")
    assert value(_r.job_wait(job, 0))["problem"] == "journal: the disk is full"
    assert value(_r.job_wait(job, 0))["problem"] == ""
    gate.set()
    assert result(job)["warnings"] == ["journal: the disk is full"]


def progress_of(n_done: int) -> Progress:
    return Progress(
        n_done=n_done, n_failed=0, n_total=9, n_prompt_tokens=0,
        n_prompt_tokens_total=0, n_generated_tokens=0, elapsed_s=1.0,
    )  # fmt: skip


def test_ctrl_c_keeps_what_is_finished_and_what_was_running(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = None

    def cancelled_in(second: bool) -> dict[str, Any]:
        nonlocal job
        report = jobs.CallWork._report

        def watched(work: jobs.CallWork, progress: Progress) -> None:
            if progress.n_done >= (7 if second else 1):
                work._is_cancelled = True
            report(work, progress)

        monkeypatch.setattr(jobs.CallWork, "_report", watched)
        job = started(
            "robustness", frame=FRAME, text="text", codebooks={"1": book_of_r()},
            contexts=[context], orders=1, settings={},
        )  # fmt: skip
        form = value(result(job))
        monkeypatch.setattr(jobs.CallWork, "_report", report)
        assert form["type"] == "ended"
        return form

    form = cancelled_in(second=True)
    assert form["line"].endswith("of 12 prompts")
    assert column(part(form["finished"], "summary"), "variant") == ["own order"]
    assert len(column(form["running"], "label")) == 6
    form = cancelled_in(second=False)
    assert form["finished"] is None
    assert column(form["running"], "text") == TEXTS


@pytest.mark.parametrize("reports", [True, False])
def test_a_call_without_reports_ends_as_by_ctrl_c(
    known: dict[str, Callable[..., Any]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    reports: bool,
) -> None:
    monkeypatch.setattr(jobs, "_GRACE_S", 0.01)
    running = Event()

    def endless() -> None:
        running.set()
        while True:
            pass

    def endless_with_progress(progress: Any) -> None:
        progress(progress_of(1))
        endless()

    known["endless"] = endless_with_progress if reports else endless
    job = started("endless")
    assert running.wait(60)
    assert value(_r.job_cancel(job)) is None
    form = value(result(job))
    counts = "1 of 9 prompts" if reports else None
    assert form == {"type": "ended", "finished": None, "running": None, "line": counts}


def test_an_error_keeps_the_results_that_it_has(
    known: dict[str, Callable[..., Any]],
) -> None:
    def fails() -> None:
        error = lh.ContextError("no memory")
        keep(error, BOOK)
        raise error

    known["fails"] = fails
    job = started("fails")
    assert result(job)["message"] == "no memory"
    assert value(_r.job_keep(job)) is None
    assert value(result(job))["finished"]["class"] == "llamaherd_codebook"


def test_statistics_run_as_jobs() -> None:
    assert result(started("gold_size", width=0.1)) == _r.gold_size(0.1)
    job = value(_r.call_start("gold_size", [0.1]))["job"]
    assert result(job) == _r.gold_size(width=0.1)
    assert not result(started("gold_size", width=2.0))["ok"]


def test_r_calls_own_functions_and_public_ones_by_name() -> None:
    assert value(_r.sha256(["a", None]))[1] is None
    tagged = {".class": "codebook", "content": json.dumps(BOOK.to_dict())}
    assert plain(value(_r.prompt_preview(tagged, "T", chat=False)))["tokens"] is None
    refused = _r.ready_codebook("no such codebook")
    assert (refused["error_type"], refused["argument"]) == ("ArgumentError", "name")
    assert column(value(_r.list_ready_codebooks()), "n_labels")
    for name in ("no_such_function", "__wrapped__"):
        with pytest.raises(AttributeError):
            getattr(_r, name)


def test_integers_of_64_bits_are_texts() -> None:
    numbers = np.array([0, -5, 1 << 62, -(1 << 63)], dtype="<i8")
    texts = value(_r.integer64_texts(bytearray(numbers.tobytes())))
    assert texts == ["0", "-5", str(1 << 62), None]


def test_data_frames_of_r_may_have_columns_of_any_name() -> None:
    frame = {".class": ["x"], "seed": [1.0], "label": ["b", "a"]}
    table = convert_argument({".class": "frame", "content": frame, "label": "label",
                  "levels": ["a", "b"], "ordered": True})  # fmt: skip
    assert (table[".class"], table["seed"]) == (["x"], [1.0])
    assert (table["label"].names, table["label"].ordered) == (("a", "b"), True)
    assert table.codebook is None


def test_no_interrupt_reaches_a_thread_that_has_ended() -> None:
    for _ in range(50):
        work = jobs.CallWork(lambda _: 3, reports=False)
        job: lh.Job[Any] = lh.Job(work)
        job.cancel()
        results = job.results()
        assert results == 3 or isinstance(results, jobs.Ended)
    wait_until(lambda: work._thread is None)


def test_several_results_of_r_are_read() -> None:
    stored = {".class": "stored", "content": '{"title": "a"}', "title": "b"}
    read = arguments.read_argument({"estimates": [stored, stored]})["estimates"]
    assert [estimates.content for estimates in read] == [{"title": "b"}] * 2
    assert arguments.read_argument([1.0, {"a": 1.0}]) == [1.0, {"a": 1.0}]
