from __future__ import annotations

import dataclasses
import sys

import pandas as pd
import pytest
from llamaherd import Result, Results, Stats
from llamaherd.calls.api.running import none_answered


def result(index: int, error: str | None = None) -> Result:
    return Result(
        index=index,
        text=None if error else f"text {index}",
        tokens=[1, 2],
        finish_reason="error" if error else "stop",
        complete=error is None,
        error=error,
        n_prompt_tokens=3,
        n_reused_tokens=0,
        seed=7,
    )


@pytest.fixture
def results() -> Results:
    rows = [result(0), result(1, "too long"), result(2)]
    return Results(rows, Stats(n_prompts=3, n_failed=1))


def test_results_are_a_sequence_with_columns(results: Results) -> None:
    assert len(results) == 3
    assert [result.index for result in results] == [0, 1, 2]
    assert results.complete == [True, False, True]
    assert results[-1].text == "text 2"
    assert [result.index for result in results[1:]] == [1, 2]
    assert results.texts == ["text 0", None, "text 2"]
    assert results.errors == [None, "too long", None]
    assert results.finish_reasons == ["stop", "error", "stop"]
    assert results[0].n_generated_tokens == 2
    assert repr(results) == "<Results: 2 of 3 prompts answered, 1 failed>"


def test_a_notebook_shows_results_as_a_table(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [dataclasses.replace(result, text="<b>") for result in results]
    html = Results(rows, results.stats)._repr_html_() or ""
    assert html.startswith("<p>&lt;Results: 3 of 3 prompts answered, 1 failed&gt;</p>")
    assert "<td>too long</td>" in html
    assert "&lt;b&gt;" in html
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert results._repr_html_() is None


def thought(text: str | None, n: int, *, complete: bool | None) -> dict[str, object]:
    return {
        "thinking": text,
        "n_thinking_tokens": n,
        "thinking_complete": complete,
    }


def test_tables_have_columns_of_thoughts_where_there_could_be_some() -> None:
    thoughts = [
        thought("I see.", 4, complete=True),
        thought(None, 0, complete=None),
        thought("", 9, complete=False),
    ]
    rows = [dataclasses.replace(result(i), **fields) for i, fields in enumerate(thoughts)]
    results = Results(rows, Stats(n_prompts=3), has_thoughts=True)
    frame = results.to_pandas()
    names = ["text", "thinking", "n_thinking_tokens", "thinking_complete", "error"]
    assert list(frame) == names
    assert frame["n_thinking_tokens"].tolist() == [4, 0, 9]
    assert frame["thinking_complete"].dtype == "boolean"
    assert frame["thinking_complete"].tolist() == [True, pd.NA, False]
    table = results.to_arrow()
    assert table.column_names == names
    assert table.column("thinking_complete").to_pylist() == [True, None, False]
    assert str(table.schema.field("n_thinking_tokens").type) == "int64"
    assert results.thinking == ["I see.", None, ""]
    # One prompt failed before its thought, another one after its thought.
    failed = [
        result(0, "too long"),
        dataclasses.replace(result(1, "no JSON"), **thought("Hm.", 3, complete=True)),
    ]
    broken = Results(failed, Stats(n_prompts=2), has_thoughts=True)
    assert broken.to_arrow()["n_thinking_tokens"].to_pylist() == [None, 3]
    assert broken.to_pandas()["n_thinking_tokens"].tolist() == [pd.NA, 3]
    assert broken.to_arrow()["thinking"].to_pylist() == [None, "Hm."]
    assert broken.n_thinking_tokens == [0, 3]
    without = Results(rows, Stats(n_prompts=3))
    assert (
        list(without.to_pandas()) == without.to_arrow().column_names == ["text", "error"]
    )


def test_results_cannot_be_changed(results: Results) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        results[0].text = "x"
    with pytest.raises(dataclasses.FrozenInstanceError):
        results.stats.n_prompts = 5
    with pytest.raises(TypeError):
        results[0] = result(0)


def test_statistics_are_one_line() -> None:
    stats = Stats(n_prompts=5, n_failed=1, wall_s=1.5, n_slots=4, seed=9)
    text = str(stats)
    assert text.startswith("5 prompts (1 failed) in 1.50 s")
    assert "seed 9" in text
    assert "\n" not in text
    assert dataclasses.asdict(stats)["n_slots"] == 4


def test_samples_are_grouped_by_prompt() -> None:
    rows = [dataclasses.replace(result(i), sample=j) for i in range(3) for j in range(2)]
    out = Results(rows, Stats(n_prompts=3, n_samples=6), 2)
    assert len(out) == 3
    assert [result.sample for result in out] == [0, 0, 0]
    assert [[(r.index, r.sample) for r in samples] for samples in out.samples] == [
        [(i, 0), (i, 1)] for i in range(3)
    ]
    assert repr(out) == (
        "<Results: 6 of 6 samples (2 for each of 3 prompts) answered, 0 failed>"
    )
    assert str(out.stats).startswith("3 prompts x 2 samples (0 failed)")
    plain = Results(rows[::2], Stats())
    assert plain.samples == tuple((row,) for row in rows[::2])


def test_a_prompt_that_was_not_computed_says_so_in_tables() -> None:
    results = none_answered(2)
    assert results.errors == [None, None]
    table = results.to_pandas()
    assert table["error"].tolist() == ["not computed: the call ended before"] * 2
    assert results.to_arrow()["error"].to_pylist() == table["error"].tolist()
