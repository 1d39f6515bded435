"""Tests of codebooks that are compared on "select", frozen, and evaluated once."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.coding.plots.description import Points
from llamaherd.coding.plots.plot import plot_of
from llamaherd.coding.selection import evaluation
from llamaherd.coding.selection.parts import part_of
from plotted import the

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOOK = lh.Codebook("Which?", ["a", "b"])
OTHER = lh.Codebook("Say which.", ["a", "b"])
DATA = {"text": [f"Text {i} says {'this' if i % 3 else 'that'}" for i in range(80)]}
CODES = ["a" if i % 3 else "b" for i in range(80)]


@pytest.fixture
def gold(monkeypatch: pytest.MonkeyPatch) -> lh.GoldSample:
    """Return a coded and split sample; this process has not used "evaluate" yet."""
    monkeypatch.setattr(evaluation, "_OPENED", {})
    sample = lh.gold_sample(DATA, 60, text="text", names=["a", "b"], seed=1)
    sample = sample.with_codes([CODES[row] for row in sample.rows])
    return lh.gold_split(sample, 1 / 3, 1 / 3, 1 / 3, seed=2)


@pytest.fixture
def ranking(gold: lh.GoldSample, context: lh.Context) -> lh.types.CodebookComparison:
    tried = {"one": BOOK, "other": lh.candidate(OTHER, calibrate="batch")}
    return lh.compare_codebooks(DATA, tried, gold, context)


def test_all_code_the_texts_of_select(
    ranking: lh.types.CodebookComparison, gold: lh.GoldSample, context: lh.Context
) -> None:
    part = lh.gold_part(gold, "select")
    assert sorted(ranking.ids) == sorted(part.ids)
    texts = {"text": [DATA["text"][int(key) - 1] for key in ranking.ids]}
    assert list(ranking.candidates[0].labels) == (
        lh.annotate(texts, "text", BOOK, context).labels
    )
    assert ranking.candidates[1].settings["calibrate"] == "batch"
    labels = dict(zip(ranking.ids, ranking.candidates[0].labels, strict=True))
    hits = [labels[key] == CODES[int(key) - 1] for key in ranking.ids]
    assert ranking.candidates[0].value.value == pytest.approx(sum(hits) / len(hits))
    assert len(ranking.to_dicts()) == 2
    assert ranking.pairs()[0]["first"] == "one"
    again = lh.types.CodebookComparison.from_json(ranking.to_json())
    assert again.to_json() == ranking.to_json()
    page = str(ranking)
    assert page.startswith("<CodebookComparison: 2 candidates, 20 texts of select>")
    assert "evaluate_codebook()" in page


def test_the_same_candidates_cannot_be_told_apart(
    gold: lh.GoldSample, context: lh.Context
) -> None:
    ranking = lh.compare_codebooks(None, [BOOK, BOOK], gold, context)
    assert ranking.names == ("1", "2")
    assert ranking.verdict(1 - ranking.best) == "cannot be told apart"
    assert "cannot be told apart by 20 texts" in ranking.conclusion
    assert "'1' and '2' are the same: codebook, settings and model" in ranking.notes
    assert lh.best_codebook(ranking).tied == (ranking.names[1 - ranking.best],)


def test_only_what_is_new_runs(
    gold: lh.GoldSample, context: lh.Context, tmp_path: Path
) -> None:
    journal = tmp_path / "compare.journal"
    first = lh.compare_codebooks(None, {"one": BOOK}, gold, context, journal=journal)
    both = lh.compare_codebooks(
        None, {"one": BOOK, "other": OTHER}, gold, context, journal=journal
    )
    assert both.candidates[0].labels == first.candidates[0].labels
    assert both.candidates[0].seconds == first.candidates[0].seconds > 0
    assert both.candidates[1].seconds > 0
    times = json.loads((tmp_path / "compare.journal.times.json").read_text())
    assert len(times) == 2


def test_plot_is_agreement_and_seconds_side_by_side(
    ranking: lh.types.CodebookComparison,
) -> None:
    plot = plot_of(ranking)
    assert plot.y.names == ["one", "other"]
    assert plot.panels[1] == "seconds per text"
    points = the(plot, Points)
    n = len(ranking.candidates)
    assert points.panel == [0] * n + [1] * n
    assert points.x[:n] == [row.value.value for row in ranking.candidates]
    assert points.high[:n] == [row.value.high for row in ranking.candidates]
    assert points.x[n:] == [row.seconds for row in ranking.candidates]
    unknown = replace(
        ranking,
        candidates=tuple(replace(c, seconds=float("nan")) for c in ranking.candidates),
    )
    assert plot_of(unknown).panels == ()
    import matplotlib as mpl  # takes 0.3 s

    mpl.use("agg")
    drawn = lh.plot(ranking).child_axes
    assert drawn[1].get_title(loc="left") == "seconds per text"
    assert drawn[1].get_xlim()[0] <= 0


def refused(kind: str, message: str, call: Any, *args: Any, **options: Any) -> None:
    with pytest.raises(lh.BadArgumentError, match=message) as caught:
        call(*args, **options)
    assert caught.value.code == kind


def test_what_is_wrong(gold: lh.GoldSample, context: lh.Context) -> None:
    def compare(tried: Any, data: Any = None, **more: Any) -> Any:
        return lambda: lh.compare_codebooks(data, tried, gold, context, **more)

    others = lh.Codebook("q", ["x", "y"])
    refused("other_labels", "has the labels x, y", compare({"n": others}))
    several = lh.Codebook("q", ["a", "b"], type="multiple")
    refused("conflict", "one label per text", compare({"n": several}))
    fields = lh.Codebook("q", type="fields", schema={"properties": {"x": {}}})
    refused("no_labels", "only labels of whole texts", compare({"n": fields}))
    refused("unknown_argument", "is not a setting", compare(BOOK, calibrat="batch"))
    refused("unknown_argument", "is not a setting", lh.candidate, BOOK, columns="x")
    refused("wrong_type", "must be a Codebook, or made by", compare({"n": 3}))
    refused("out_of_range", "must not be empty", compare({}))
    refused("unknown_choice", "measure must be", compare(BOOK, measure="f1"))
    moved = {"text": DATA["text"][::-1]}
    refused("invalid_value", "drawn from other data", compare(BOOK, moved))
    closed = part_of(gold, "evaluate").texts[0]
    leaking = lh.Codebook("q", ["a", "b"], examples=[(f" {closed} ", "a")])
    refused("closed_examples", "texts of evaluate", compare({"n": leaking}))
    explored = lh.gold_part(gold, "explore").texts[0]
    fine = lh.Codebook("q", ["a", "b"], examples=[(explored, "a")])
    assert compare({"n": fine})().n == 20
    late = compare({"n": BOOK, "m": lh.candidate(BOOK, 3)})  # type: ignore[arg-type]
    with pytest.raises(lh.ArgumentTypeError, match="context must be") as caught:
        late()
    assert getattr(caught.value, "results", None) is None  # nothing was coded
    refused("wrong_type", "context is missing", lh.compare_codebooks, None, BOOK, gold)
    uncoded = replace(gold, codes=[], coders=[])
    with pytest.raises(lh.ArgumentError, match="has codes of 0 of 20 texts"):
        lh.compare_codebooks(None, BOOK, uncoded, context)


def test_choice_is_frozen(ranking: lh.types.CodebookComparison) -> None:
    choice = lh.best_codebook(ranking, name="other")
    assert choice.codebook == OTHER
    assert choice.settings["calibrate"] == "batch"
    assert lh.types.CodebookChoice.from_json(choice.to_json()) == choice
    stored = json.loads(choice.to_json())
    stored["content"]["question"] = "Another?"
    read = lh.types.CodebookChoice.from_json
    refused("changed", "after it was frozen", read, json.dumps(stored))
    for damage in ({"hash": 3}, {"measure": "x"}, {"model": 1}, {"n_candidates": "x"}):
        text = json.dumps({**json.loads(choice.to_json()), **damage})
        refused("invalid_value", "is not a stored choice", read, text)
    best = lh.best_codebook
    refused("unknown_choice", "must be one of 'one', 'other'", best, ranking, name="x")
    refused("wrong_type", "compare_codebooks", best, 3)
    fastest = lh.best_codebook(ranking, prefer="speed").name
    seconds = {
        c.name: c.seconds for i, c in enumerate(ranking.candidates) if ranking.is_tied(i)
    }
    assert seconds[fastest] == min(seconds.values())


def test_evaluated_once(
    ranking: lh.types.CodebookComparison,
    gold: lh.GoldSample,
    context: lh.Context,
    tmp_path: Path,
) -> None:
    path = tmp_path / "gold.csv"
    gold.write(path)
    choice = lh.best_codebook(ranking, name="one")
    first = lh.evaluate_codebook(choice, path, context)
    assert first.is_first
    assert first.notes == ()
    part = lh.gold_part(first.gold, "evaluate")
    assert first.n == len(part) == 20
    assert first.value.value == pytest.approx(first.validation.accuracy.accuracy.value)
    assert "opened for the first time" in str(first)
    stored = lh.read_gold(path)
    (record,) = stored.design["split"]["opened"]
    assert record["choice"] == choice.hash
    lh.gold_part(stored, "evaluate")
    with pytest.warns(UserWarning, match="opened before for this same choice"):
        again = lh.evaluate_codebook(choice, path, context)
    assert again.value == first.value
    with pytest.warns(UserWarning, match="EVALUATE WAS OPENED BEFORE for another choice"):
        other = lh.evaluate_codebook(
            lh.best_codebook(ranking, name="other"), path, context
        )
    assert len(other.opened) == len(lh.read_gold(path).design["split"]["opened"]) == 3
    assert not other.is_first
    assert "! EVALUATE WAS OPENED BEFORE" in str(other)


def test_openings_of_this_process_count(
    ranking: lh.types.CodebookComparison, gold: lh.GoldSample, context: lh.Context
) -> None:
    choice = lh.best_codebook(ranking)
    assert lh.evaluate_codebook(choice, gold, context).is_first
    with pytest.warns(UserWarning, match="opened before"):
        assert not lh.evaluate_codebook(choice, gold, context).is_first


def test_changed_codes_are_said(
    ranking: lh.types.CodebookComparison, gold: lh.GoldSample, context: lh.Context
) -> None:
    choice = lh.best_codebook(ranking)
    lh.evaluate_codebook(choice, gold, context)
    other = gold.with_codes(["b" if code == "a" else "a" for code in gold.gold])
    with pytest.warns(UserWarning, match="3 warnings") as caught:
        lh.evaluate_codebook(choice, other, context)
    for note in ("opened before", "CODES OF EVALUATE CHANGED", "CODES OF SELECT CHANGED"):
        assert note in str(caught[0].message)


def test_given_labels_are_evaluated(
    ranking: lh.types.CodebookComparison, gold: lh.GoldSample, context: lh.Context
) -> None:
    choice = lh.best_codebook(ranking, name="one")
    coded = lh.annotate(DATA, "text", BOOK, context)
    by_labels = lh.evaluate_codebook(choice, gold, coded=coded)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_context = lh.evaluate_codebook(choice, gold, context)
    assert by_labels.value == by_context.value
    wrong = lh.annotate(DATA, "text", OTHER, context)

    def evaluate(**more: Any) -> Any:
        return lambda: lh.evaluate_codebook(choice, gold, **more)

    refused("changed", "other codebook or examples", evaluate(coded=wrong))
    refused("missing", "has no labels of", evaluate(coded=coded[:5]))
    refused("wrong_type", "context or coded", evaluate())
    coded.frame["label"][0] = "corrected"
    refused("conflict", "was changed after coding", evaluate(coded=coded))
    refused("conflict", "was changed after coding", lh.disagreements, coded, gold)


def test_other_models_and_splits_are_refused(
    ranking: lh.types.CodebookComparison, gold: lh.GoldSample, context: lh.Context,
    tiny_path: Callable[[str], Path],
) -> None:  # fmt: skip
    choice = lh.best_codebook(ranking)
    with lh.Model(tiny_path("qwen2")) as model, lh.Context(model) as other:
        refused("other_model", "chosen model", lh.evaluate_codebook, choice, gold, other)
    design = {k: v for k, v in gold.design.items() if k != "split"}
    again = lh.gold_split(replace(gold, design=design), 0.2, 0.4, 0.4, seed=9)
    refused("other_split", "another split", lh.evaluate_codebook, choice, again, context)
    assert not evaluation._OPENED


def test_examples_come_from_explore(gold: lh.GoldSample, context: lh.Context) -> None:
    explored = lh.gold_part(gold, "explore")
    book = lh.choose_examples(gold, 6, BOOK)
    assert len(book.examples) == 6
    assert {example.text for example in book.examples} <= set(explored.texts)
    assert sorted(example.label for example in book.examples) == ["a"] * 3 + ["b"] * 3
    assert book == lh.choose_examples(gold, 6, BOOK)
    for example in book.examples:
        assert example.label == CODES[DATA["text"].index(example.text)]
    more = lh.choose_examples(gold, 2, book)
    assert more.examples[:6] == book.examples
    assert len({example.text for example in more.examples}) == 8
    coded = lh.annotate(DATA, "text", BOOK, context)
    hard = lh.choose_examples(gold, 4, BOOK, by="hardest", coded=coded)
    wrong = {row["text"] for row in lh.disagreements(coded, gold)}
    by_label = {"a": 0, "b": 0}
    for text in wrong:
        by_label[CODES[DATA["text"].index(text)]] += 1
    for label, n in by_label.items():
        texts = [example.text for example in hard.examples if example.label == label]
        assert sum(text in wrong for text in texts) == min(n, len(texts))
    with pytest.warns(UserWarning, match="20 examples instead of 50"):
        lh.choose_examples(gold, 50, BOOK)

    def choose(**more: Any) -> Any:
        return lambda: lh.choose_examples(gold, 2, BOOK, **more)

    refused("conflict", "coded is needed", choose(by="hardest"))
    refused("wrong_length", "embeddings must have a row", choose(embeddings=[[1.0]]))
    refused("wrong_length", "not 2 x 3 values", choose(embeddings=np.ones((2, 3))))


def test_diverse_examples_are_far_apart(gold: lh.GoldSample) -> None:
    at = {text: i for i, text in enumerate(gold.texts)}
    explored = lh.gold_part(gold, "explore")
    vectors = [[1.0, 0.01 * i] for i in range(len(gold))]
    a = [text for text in explored.texts if CODES[DATA["text"].index(str(text))] == "a"]
    vectors[at[a[0]]] = [-1.0, 0.0]
    book = lh.choose_examples(gold, 4, BOOK, embeddings=vectors)
    assert [example.text for example in book.examples if example.label == "a"][1] == a[0]


def test_texts_of_other_parts_are_no_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_OPENED", {})
    data = {"text": [f"Text {i % 30}" for i in range(60)]}
    sample = lh.gold_sample(data, 60, text="text", names=["a", "b"], seed=1)
    sample = sample.with_codes(["a" if row % 2 else "b" for row in sample.rows])
    gold = lh.gold_split(sample, 1 / 3, 1 / 3, 1 / 3, seed=2)
    closed = {*part_of(gold, "select").texts, *part_of(gold, "evaluate").texts}
    with pytest.warns(UserWarning, match="instead of 20"):
        book = lh.choose_examples(gold, 20, BOOK)
    texts = [example.text for example in book.examples]
    assert not closed & set(texts)
    assert len(set(texts)) == len(texts)


def test_disagreements(gold: lh.GoldSample, context: lh.Context) -> None:
    coded = lh.annotate(DATA, "text", BOOK, context)
    explored = lh.gold_part(gold, "explore")
    cases = lh.disagreements(coded, gold)
    label = dict(zip(DATA["text"], coded.labels, strict=True))
    code = dict(zip(DATA["text"], CODES, strict=True))
    expected = {text for text in explored.texts if label[str(text)] != code[str(text)]}
    assert {row["text"] for row in cases} == expected
    assert cases.n_compared == len(explored)
    probs = cases.columns["prob"]
    assert probs == sorted(probs, reverse=True)
    assert all(row["prob_code"] < row["prob"] for row in cases)
    assert list(cases.to_pandas().columns) == list(cases.columns)
    assert str(cases).startswith(f"<Disagreements: {len(expected)} of {len(explored)}")
    refused("closed", "is locked until", lh.disagreements, coded, gold, "evaluate")
    with pytest.warns(UserWarning, match="read while it was locked"):
        lh.disagreements(coded, gold, ["select", "evaluate"], peek=True)
    few = lh.disagreements(coded[[int(i) - 1 for i in explored.ids[:3]]], gold)
    assert few.n_compared == 3
    refused("wrong_type", "result of annotate", lh.disagreements, 3, gold)


def test_coders_have_columns_of_their_own(
    gold: lh.GoldSample, context: lh.Context
) -> None:
    coded = lh.annotate(DATA, "text", BOOK, context)
    both = gold.with_codes({"ben": gold.gold, "cy": ["a"] * len(gold)})
    cases = lh.disagreements(coded, both)
    assert "code_ben" in cases.columns
    assert set(cases.columns["code_cy"]) <= {"a"}


def test_ties_and_several_labels(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_OPENED", {})
    sample = lh.gold_sample(DATA, 60, text="text", names=["a", "b"], seed=1, several=True)
    codes = [["a; b", "a", "none"][row % 3] for row in sample.rows]
    gold = lh.gold_split(sample.with_codes(codes), 0.2, 0.4, 0.4, seed=1)
    book = lh.Codebook("Which?", ["a", "b"], type="multiple")
    ranking = lh.compare_codebooks(None, {"one": book}, gold, context, measure="macro_f1")
    done = lh.evaluate_codebook(lh.best_codebook(ranking), gold, context)
    assert 0 <= done.value.value <= 1
    assert done.value.value == pytest.approx(done.validation.accuracy.macro_f1.value)
    shots = lh.choose_examples(gold, 3, book)
    assert sorted(map(len, (example.label for example in shots.examples))) == [0, 1, 2]
    one = lh.gold_sample(DATA, 60, text="text", names=["a", "b"], seed=1)
    tied = one.with_codes({"ben": ["a"] * 60, "cy": ["a", "b"] * 30})
    split = lh.gold_split(tied, 0.2, 0.4, 0.4, seed=1)
    ranking = lh.compare_codebooks(None, {"one": BOOK}, split, context)
    assert ranking.n == 24
    assert re.match(
        r"In the part 'select', \d+ of 24 codes are ties, decided by", ranking.notes[0]
    )
    ties = {sample.texts[i] for i in range(1, 60, 2)}
    shots = lh.choose_examples(split, 3, BOOK)
    assert not ties & {example.text for example in shots.examples}
    one_tie = one.with_codes({"ben": ["a"] * 60, "cy": ["b", *["a"] * 59]})
    for seed in range(1, 9):
        split = lh.gold_split(one_tie, 0.2, 0.4, 0.4, seed=seed)
        if split.parts[0] == "select":
            break
    ranking = lh.compare_codebooks(None, {"one": BOOK}, split, context)
    assert ranking.notes[0].startswith(
        "In the part 'select', 1 of 24 codes is a tie, decided by the fi"
    )
