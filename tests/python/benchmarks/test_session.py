"""Stored measurements of a session, and detection of a busy machine."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    names = ("session", "disturbance", "workloads")
    return SimpleNamespace(**{name: importlib.import_module(name) for name in names})


def test_a_session_goes_on_with_what_it_measured(
    bench: SimpleNamespace, tmp_path: Path
) -> None:
    path = tmp_path / "results" / "a.jsonl"
    key = {"model": "m.gguf", "workload": "tree", "engine": "loop", "i_run": 1}
    bench.session.Session(path, {"seed": 3}).add(key | {"seconds": [2.5]})
    again = bench.session.Session(path, {"seed": 3})
    assert again.get(*key.values()) == {"seed": 3, **key, "seconds": [2.5]}
    assert again.get("m.gguf", "tree", "loop", 0) is None


def test_a_small_call_takes_the_next_prompts(bench: SimpleNamespace) -> None:
    load = bench.workloads.Workload(list("abcdef"), [1] * 6, n_calls=4, n_each=2)
    parts = [load.prompts[load.call(i)] for i in range(load.n_calls)]
    assert parts == [["a", "b"], ["c", "d"], ["e", "f"], ["a", "b"]]
    assert bench.workloads.Workload(["a", "b"], [1, 1]).call(7) == slice(2)


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="no processor times to read")
def test_processors_that_others_keep_busy(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stat = tmp_path / "stat"
    tick = os.sysconf("SC_CLK_TCK")
    clock = iter([100.0, 110.0])
    monkeypatch.setattr(bench.disturbance, "_STAT", stat)
    fake = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr(bench.disturbance, "time", fake)
    times = SimpleNamespace(
        times=lambda: (1.0, 1.0, 1.0, 1.0, 0.0), sysconf=lambda _name: tick
    )
    monkeypatch.setattr(bench.disturbance, "os", times)
    # user nice system idle iowait irq softirq steal guest guest_nice
    stat.write_text(f"cpu {9 * tick} 0 0 77 77 0 0 0 0 0\ncpu0 1 2\n")
    record: dict[str, object] = {"engine": "loop"}
    with bench.disturbance.watch(record):
        steps = f"{10 * tick} {tick} {tick} 990 990 {tick} {tick} {2 * tick}"
        stat.write_text(f"cpu {steps} 0 0\n")
    assert record == {"engine": "loop", "others_cpus": 0.7}  # 7 s more in 10 s


def test_without_processor_times_nothing_is_claimed(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench.disturbance, "_STAT", tmp_path / "none")
    record: dict[str, object] = {}
    with bench.disturbance.watch(record):
        pass
    assert record == {"others_cpus": None}
