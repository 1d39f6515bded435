"""Draws of a simulation in several processes and parts, from the sources alone."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("draws")


def given(draws: ModuleType, *options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    draws.add_options(parser, 25, 3)
    return parser.parse_args(options)


def one_draw(case: str, seed: int, k: int) -> list[object]:
    return [case, seed, k]


def simulation(draws: ModuleType, name: str = "some") -> object:
    return draws.Simulation(name=name, cases=["a", "b"], draw=one_draw, parts={"b": 0.5})


def test_each_draw_runs_once_with_its_number_and_the_seed(draws: ModuleType) -> None:
    found = draws.results(simulation(draws), given(draws))
    assert found.cases["a"] == [["a", 3, k] for k in range(25)]
    assert found.cases["b"] == [["b", 3, k] for k in range(12)]
    assert (found.seed, found.n_draws) == (3, 25)


def test_parts_of_several_machines_make_the_whole(
    draws: ModuleType, tmp_path: Path
) -> None:
    whole = draws.results(simulation(draws), given(draws, "--draws", "30"))
    files = [tmp_path / "sub" / "b.json", tmp_path / "a.json"]
    for skip, file in zip(("20", "0"), files, strict=True):
        n = "10" if skip == "20" else "20"
        options = ("--draws", n, "--skip", skip, "--save", str(file))
        assert draws.results(simulation(draws), given(draws, *options)) is None
    merge = given(draws, "--merge", *map(str, files))
    assert draws.results(simulation(draws), merge).cases == whole.cases


def test_parts_that_do_not_belong_together_are_refused(
    draws: ModuleType, tmp_path: Path
) -> None:
    for name, seed in (("a", "1"), ("b", "2")):
        options = ("--draws", "2", "--seed", seed, "--save", str(tmp_path / name))
        draws.results(simulation(draws), given(draws, *options))
    with pytest.raises(ValueError, match="simulation some with one seed"):
        draws.merged(simulation(draws), [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(ValueError, match="a: several files contain the same draws"):
        draws.merged(simulation(draws), [tmp_path / "a", tmp_path / "a"])
    with pytest.raises(ValueError, match="simulation other"):
        draws.merged(simulation(draws, "other"), [tmp_path / "a"])


FROM_SOURCES = """
import importlib.metadata as metadata
import json
import sys

real = metadata.distribution


def distribution(name):
    if name == "llamaherd":
        raise metadata.PackageNotFoundError(name)
    return real(name)


metadata.distribution = distribution
import coverage_heads, coverage_quantiles, coverage_steps, coverage_waves
import llamaherd.research.statistics.heads as one

args = ["x", "--only", "coders", "--draws", "1", "--workers", sys.argv[1]]
sys.argv = [*args, "--save", sys.argv[2]]
coverage_waves.main()
print(json.dumps([one.__file__, "llamaherd.cli" in sys.modules]))
"""


@pytest.mark.slow(reason="three processes import the package and simulate")
def test_simulations_run_from_the_sources_without_the_engine(tmp_path: Path) -> None:
    """The engine is not imported, and processes give the same results as one."""
    found = []
    for workers in ("1", "2"):
        file = tmp_path / f"{workers}.json"
        done = subprocess.run(
            [sys.executable, "-c", FROM_SOURCES, workers, str(file)],
            cwd=BENCHMARKS,
            capture_output=True,
            text=True,
            check=True,
        )
        path, has_engine = json.loads(done.stdout.splitlines()[-1])
        assert Path(path).is_relative_to(BENCHMARKS.parent / "python_core")
        assert not has_engine
        cases = json.loads(file.read_text(encoding="utf-8"))["cases"]
        found.append({name: sorted(pairs) for name, pairs in cases.items()})
    assert len(found[0]) == 9
    assert found[0] == found[1]
