"""Figures that the benchmark computes, and their tables in documents."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from llamaherd.memory.plan import MAX_HOLD

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    names = ("shape", "summary", "report", "scheduling", "workloads")
    return SimpleNamespace(**{name: importlib.import_module(name) for name in names})


def test_a_shape_counts_every_shared_beginning_once(bench: SimpleNamespace) -> None:
    prompts = [[1, 2, 3], [1, 2, 4, 5], [9], [1, 2, 3]]
    shape = bench.shape.measure_shape(prompts, [4, 5, 6, 7], greedy=True)
    assert shape.n_prompt_tokens == 11
    assert shape.n_unique_tokens == 6  # 1 2 3, 4 5, 9
    assert shape.unique_depth == (0 + 1 + 2 + 2 + 3 + 0) / 6
    assert sorted(shape.lengths) == [5, 6, 7]  # equal greedy prompts: the longer answer
    sampled = bench.shape.measure_shape(prompts, [4, 5, 6, 7], greedy=False)
    assert sampled.lengths == [4, 5, 6, 7]


def test_a_prompt_that_begins_another_adds_nothing(bench: SimpleNamespace) -> None:
    shape = bench.shape.measure_shape([[1, 2], [1, 2, 3], [1]], [1, 1, 1], greedy=True)
    assert shape.n_unique_tokens == 3


def test_the_best_rate_interpolates_and_prefers_faster_small_batches(
    bench: SimpleNamespace,
) -> None:
    rates = {1: 10.0, 4: 40.0, 8: 30.0}
    best = bench.shape.best_rate
    assert best(1, rates) == 10
    assert best(2, rates) == 20
    assert best(8, rates) == 40
    assert best(100, rates) == 40
    assert best(1, {4: 40.0}) == 40  # in favour of the ideal


def test_the_ideal_time_follows_the_live_answers(bench: SimpleNamespace) -> None:
    shape = bench.shape.measure_shape([[1], [2]], [3, 1], greedy=True)
    seconds = bench.shape.ideal_seconds(shape, 4.0, {1: 10.0, 2: 20.0})
    # Two prompt tokens at 4/s; then a step with two answers and two steps with one.
    assert seconds == pytest.approx(2 / 4 + 2 / 20 + 2 * (1 / 10))


def test_workloads_are_of_the_sizes_that_the_documents_say(
    bench: SimpleNamespace,
) -> None:
    loads = bench.workloads.make_workloads()
    sizes = {name: len(load.prompts) for name, load in loads.items()}
    assert sizes.items() >= {
        ("distinct", 64),
        ("annotate", 100),
        ("tree", 120),
        ("mixed", 64),
        ("samples", 64),
        ("long", 8),
    }
    for name in ("distinct", "annotate", "tree", "long"):
        assert len(set(loads[name].prompts)) == sizes[name]
    assert len(set(loads["samples"].prompts)) == 8
    assert min(loads["mixed"].max_tokens) >= 4
    assert max(loads["mixed"].max_tokens) == 256
    assert loads == bench.workloads.make_workloads()


def test_ten_thousand_prompts_are_scheduled(bench: SimpleNamespace) -> None:
    # A hundred questions about each of a hundred documents, which are computed once.
    requests = bench.scheduling.make_requests(100, 100)
    results, engine = bench.scheduling.schedule(requests)
    assert results.finish_reasons == ["length"] * 10_000
    assert engine.n_submitted == 10_100
    assert len(engine.requests) <= MAX_HOLD  # only prefixes are left


def test_scheduling_grows_with_the_number_of_prompts_only(bench: SimpleNamespace) -> None:
    def n_calls(n_questions: int) -> int:
        """Count Python's function calls, which do not depend on the load."""
        counted = Counter()
        requests = bench.scheduling.make_requests(20, n_questions)
        sys.setprofile(lambda _frame, event, _arg: counted.update((event,)))
        try:
            bench.scheduling.schedule(requests)
        finally:
            sys.setprofile(None)
        return counted["call"] + counted["c_call"]

    assert n_calls(100) < 11 * n_calls(10)


def session(summary_about: tuple[str, ...]) -> list[dict]:
    """Return records of a workload: two rounds of this project, one of others."""
    about: dict[str, object] = dict.fromkeys(summary_about, "")
    about |= {"session": "s", "quick": False, "model": "SmolLM2-x.gguf", "i_run": 0}
    about |= {"workload": "distinct", "model_bytes": 100 * 2**20}
    shape = {
        "n_prompts": 2,
        "n_prompt_tokens": 4,
        "n_unique_tokens": 4,
        "unique_depth": 0.5,
        "prompt_length": 2.0,
        "lengths": [2, 2],
    }
    rates = {"prefill": 4.0, "decode": {"2": 8.0}}  # T* is 1.5 s
    own = {"engine": "llamaherd", "peak_bytes": 160 * 2**20, "kv_bytes": 20 * 2**20}
    peer = {"peak_bytes": 2**30, "texts": ["a", "x"]}
    records = [
        {"engine": "count", "shape": shape},
        {"engine": "rates-before", **rates},
        {"engine": "rates-after", **rates},
        {**own, "seconds": [2.0], "texts": ["a", "b"]},
        {**own, "seconds": [9.0], "texts": ["a", "b"], "i_run": 1},
        {"engine": "server-8", "seconds": [7.0], **peer},
        {"engine": "server-16", "seconds": [4.0], **peer},
        {"engine": "alone", "seconds": [5.0], "texts": ["c", "b"]},
    ]
    return [about | record for record in records]


def test_a_summary_compares_within_rounds(bench: SimpleNamespace) -> None:
    summary = bench.summary.summarise(session(bench.summary.ABOUT))
    load = summary["models"]["SmolLM2-x.gguf"]["distinct"]
    assert load["ideal_s"] == 1.5
    own, server = load["engines"]["llamaherd"], load["engines"]["server"]
    assert own["seconds"] == 5.5
    assert own["to_ideal"] == pytest.approx(2 / 1.5, abs=1e-4)  # round 2 lacks rates
    assert own["over_bytes"] == 40 * 2**20
    assert own["equal_alone"] == 0.5
    assert server["setting"] == "16"
    assert server["to_llamaherd"] == 2.0
    assert server["equal_alone"] == 0.0
    assert "loop" not in load["engines"]


def test_a_call_from_r_is_compared_with_making_the_context(
    bench: SimpleNamespace,
) -> None:
    records = session(bench.summary.ABOUT)
    own = next(r for r in records if r["engine"] == "llamaherd")
    own["setup_s"] = 0.5
    through_r = {"engine": "r", "seconds": [3.0], "bridge_s": 0.1, "convert_s": 0.2}
    records.append(own | through_r)
    load = bench.summary.summarise(records)["models"]["SmolLM2-x.gguf"]["distinct"]
    assert load["engines"]["llamaherd"]["setup_s"] == 0.5
    assert load["bridge"]["to_llamaherd"] == pytest.approx(3.0 / 2.5)


def test_many_calls_and_the_cost_of_scheduling(bench: SimpleNamespace) -> None:
    about = session(bench.summary.ABOUT)[0] | {"workload": "many"}
    resident = [2**20] * 9 + [3 * 2**20]
    calls = {"seconds": [0.1] * 9 + [0.2], "resident_bytes": resident, "to_new": [1.5]}
    records = [
        about | {"engine": "llamaherd"} | calls,
        about | {"engine": "scheduling", "seconds": [0.51], "n_prompts": 10_000},
    ]
    shown = bench.report.steadiness(bench.summary.summarise(records))
    assert "10 small calls: the first tenth took 100.0 ms each, the last 200.0" in shown
    assert "1.0 MiB after the first tenth and 3.0 MiB at the end" in shown
    assert "10,000 prompts of 500 tokens" in shown
    assert "took 0.51 s." in shown


def test_a_document_gets_its_figures_between_the_markers(bench: SimpleNamespace) -> None:
    summary = bench.summary.summarise(session(bench.summary.ABOUT))
    text = "before\n<!-- figures: overview -->\nold\n<!-- end of figures -->\nafter\n"
    filled = bench.report.fill(text, summary)
    assert filled.startswith("before\n<!-- figures: overview -->\n| workload |")
    assert "| SmolLM2-135M, Q4_1: distinct | 1.33 | - | 2.00 x | 50% | - |" in filled
    assert filled.endswith("|\n<!-- end of figures -->\nafter\n")
    assert bench.report.fill(filled, summary) == filled


def test_every_part_of_the_documents_can_be_rendered(bench: SimpleNamespace) -> None:
    summary = bench.summary.summarise(session(bench.summary.ABOUT))
    markers = [
        name
        for path, figures in bench.report.DOCUMENTS.items()
        if figures == bench.report.SUMMARY
        for _, name, _ in bench.report._MARKED.findall(path.read_text(encoding="utf-8"))
    ]
    assert sorted(markers) == sorted(bench.report.PARTS)
    for part in bench.report.PARTS.values():
        assert "None" not in part(summary)


def test_the_documents_hold_what_the_summaries_say(bench: SimpleNamespace) -> None:
    for path, summary in bench.report.DOCUMENTS.items():
        text = path.read_text(encoding="utf-8")
        assert bench.report.fill(text, bench.report.read(summary)) == text
