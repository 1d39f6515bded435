"""The benchmarks of thinking run on a tiny model with given rates."""

from __future__ import annotations

import importlib
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
# The labels have no probability in the tiny model.
pytestmark = pytest.mark.filterwarnings("ignore:median coverage")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    names = ("thinking", "thinking_accuracy", "peers")
    return SimpleNamespace(**{name: importlib.import_module(name) for name in names})


def test_all_tokens_of_thoughts_are_in_the_ideal_time(
    bench: SimpleNamespace,
    tiny_path: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def rates(path: str, shape: Any, n_threads: int, ubatches: Any) -> dict[str, Any]:
        asked.append((path, shape, n_threads, ubatches))
        return {"prefill": 100.0, "ubatch": 512, "decode": {1: 10.0}}

    monkeypatch.setattr(bench.peers, "measure_rates", rates)
    path = tiny_path("llama")
    options = Namespace(model=path, threads=1, quick=True, rounds=2)
    *_, row = bench.thinking.against_ideal(options)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(asked) == 4
    shape = asked[-1][1]
    n_answer = bench.thinking.QUICK_MAX_TOKENS * int(cells[1])
    assert sum(shape.lengths) == int(cells[2]) + n_answer
    # The forced tokens are added to the tokens of the prompts.
    assert shape.n_unique_tokens > shape.n_prompt_tokens
    ideal = shape.n_unique_tokens / 100 + sum(shape.lengths) / 10
    assert float(cells[5]) == pytest.approx(ideal, abs=0.01)
    assert asked[0][3] == (512, 1024)
    assert asked[-1][3] == (512,)


def test_ways_of_thinking_are_compared(
    bench: SimpleNamespace, tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    accuracy = bench.thinking_accuracy
    texts = tmp_path / "texts.csv"
    labels = np.resize(accuracy.LABELS, 6)
    rows = "".join(f"Tweet {i},{label}\n" for i, label in enumerate(labels))
    texts.write_text(f"text,label\n{rows}", encoding="utf-8")
    output = tmp_path / "rows.jsonl"
    options = Namespace(
        texts=texts, model=tiny_path("llama"), output=output, n=6, threads=1
    )
    accuracy.run(options)
    accuracy.run(options)  # nothing is missing
    lines = [accuracy.json.loads(line) for line in output.read_text().splitlines()]
    assert len(lines) == len(accuracy.WAYS)
    assert [row["thinking_tokens"] > 0 for row in lines] == [False, *[True] * 4]
    table = accuracy.table(lines).splitlines()
    assert len(table) == 4 + len(lines)
    assert {line.count("|") for line in table[2:]} == {10}
    with pytest.raises(SystemExit, match="another run"):
        accuracy.run(Namespace(**{**vars(options), "n": 5}))
