"""R and Python split samples, compare, choose and evaluate codebooks equally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
import rscript
from llamaherd.coding.selection import evaluation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXTS = [f"Text {i} says {'this' if i % 3 else 'größer'}" for i in range(80)]
CODES = ["a" if i % 3 else "b" for i in range(80)]


def compare_scales(from_r: dict[str, Any], context: lh.Context) -> None:
    """For codebooks of numbers, R and Python return the same errors and differences."""
    names = list(map(str, range(5)))
    gold = lh.gold_sample({"text": TEXTS}, 60, text="text", names=names, seed=3)
    anna = [row % 5 for row in gold.rows]
    codes = {"anna": anna, "ben": [min(each + 1, 4) for each in anna]}
    gold = gold.with_codes({name: list(map(str, own)) for name, own in codes.items()})
    gold = lh.gold_split(gold, 0, 1 / 2, 1 / 2, seed=4)
    tried = {
        name: lh.Codebook(task, type="scale", scale=lh.number_scale(0, 4))
        for name, task in (("one", "How angry?"), ("other", "Rate the anger."))
    }
    found = lh.compare_codebooks(None, tried, gold, context)
    rows = found.to_dicts()
    for name in ("mae", "low", "high", "difference"):
        np.testing.assert_allclose(
            from_r["scales"][name], [row[name] for row in rows], rtol=1e-9
        )
    assert from_r["scales"]["verdict"] == [row["verdict"] for row in rows]
    np.testing.assert_allclose(from_r["scale_pairs"]["low"], found.differences[0].low)
    value = lh.evaluate_codebook(lh.best_codebook(found), gold, context).value
    assert from_r["scale_value"]["measure"] == ["mae"]
    assert from_r["scale_value"]["value"] == pytest.approx([value.value])


@pytest.mark.slow(reason="R loads a model and codes 380 texts")
def test_r_says_what_python_says(
    tiny_path: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_OPENED", {})
    model = tiny_path("llama")
    job = {
        "model": str(model),
        "texts": TEXTS,
        "codes": CODES,
        "sheet": str(tmp_path / "r.csv"),
    }
    from_r = rscript.results("numbers.R selection", tmp_path, job)

    data = {"text": TEXTS}
    gold = lh.gold_sample(data, 60, text="text", names=["a", "b"], seed=1)
    gold = gold.with_codes([CODES[row] for row in gold.rows])
    gold = lh.gold_split(gold, 1 / 3, 1 / 3, 1 / 3, seed=2)
    assert from_r["parts"] == gold.parts
    np.testing.assert_allclose(from_r["probs"], lh.gold_part(gold, "select").probs)
    book = lh.Codebook("Which?", ["a", "b"])
    shots = lh.choose_examples(gold, 3, book)
    assert from_r["shots"] == [shots.hash]
    tried = {
        "plain": book,
        "batch": lh.candidate(book, calibrate="batch"),
        "shots": shots,
    }
    with lh.Model(model) as loaded, lh.Context(loaded, n_threads=1) as context:
        found = lh.compare_codebooks(data, tried, gold, context, measure="macro_f1")
        choice = lh.best_codebook(found, name="plain")
        first = lh.evaluate_codebook(choice, gold, context)
        coded = lh.annotate(data, "text", book, context)
        with pytest.warns(UserWarning, match="The 3 examples") as told:
            lh.choose_examples(gold, 3, book, context=context, calibrate="batch")
        compare_scales(from_r, context)
    table = {
        name: [row[name] for row in found.to_dicts()] for name in found.to_dicts()[0]
    }
    for name in ("macro_f1", "low", "high", "difference"):
        np.testing.assert_allclose(from_r["summary"][name], table[name], rtol=1e-9)
    for name in ("candidate", "verdict", "hash"):
        assert from_r["summary"][name] == table[name]
    assert all(seconds > 0 for seconds in from_r["summary"]["seconds"])
    pairs = found.pairs()
    assert from_r["pairs"]["first"] == [each["first"] for each in pairs]
    np.testing.assert_allclose(
        from_r["pairs"]["low"], [each["low"] for each in pairs], rtol=1e-9
    )
    assert from_r["tied"] == [found.names[i] for i in found.tied]
    assert from_r["plotted"]["name"] == list(found.names)
    np.testing.assert_allclose(from_r["plotted"]["value"], table["macro_f1"], rtol=1e-9)
    assert from_r["hash"] == [choice.hash]
    assert from_r["value"]["value"] == pytest.approx([first.value.value])
    assert from_r["value"]["high"] == pytest.approx([first.value.high])
    assert from_r["first"] == [True, False]
    assert from_r["opened"] == ["plain", "shots"]
    assert "EVALUATE WAS OPENED BEFORE" in from_r["again"][0]
    assert from_r["stored"] == [20]
    wrong = lh.disagreements(coded, gold)
    assert from_r["wrong"]["id"] == wrong.columns["id"]
    np.testing.assert_allclose(from_r["wrong"]["prob"], wrong.columns["prob"], rtol=1e-9)
    hard = lh.choose_examples(gold, 3, book, by="hardest", coded=coded)
    assert from_r["hardest"] == [hard.hash]
    assert from_r["effect"][0].replace("\n", " ") == f"{told[0].message}."
    assert from_r["size"] == [lh.gold_size(compare=0.05).gold]
