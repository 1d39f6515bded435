"""Tests that a report refuses results that were computed from other labels."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.coding.annotation.record import notes_of
from llamaherd.coding.annotation.texts import Source
from llamaherd.coding.reports.report_data import read_report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOOK = lh.Codebook("Which?", ["a", "b", "c"])
OTHER = lh.Codebook("Which of these is it?", ["a", "b", "c"])
TEXTS = [f"Text {i} of {i * 7 % 11} words." for i in range(40)]
ONE = {"text": TEXTS}


def coded_by(context: lh.Context, texts: list[str] = TEXTS, **options: Any) -> lh.Coded:
    with warnings.catch_warnings():
        # notes on the labels of a random model
        warnings.simplefilter("ignore", UserWarning)
        book = options.pop("book", BOOK)
        return lh.annotate({"text": texts}, "text", book, context, **options)


@pytest.fixture(scope="module")
def coded(context: lh.Context) -> lh.Coded:
    return coded_by(context, calibrate="batch")


def gold_of(coded: lh.Coded) -> lh.GoldSample:
    drawn = lh.gold_sample(coded, 30, seed=1)
    return drawn.with_codes(["abc"[i % 3] for i in drawn.rows])


def estimates_of(coded: lh.Coded) -> lh.types.Estimates:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return lh.estimate(coded, gold_of(coded), methods=["dsl"])


def validation_of(coded: lh.Coded) -> lh.types.Validation:
    return lh.validate(coded, gold_of(coded))


PARTS = {"validation": validation_of, "estimates": estimates_of}


@pytest.mark.parametrize("name", PARTS)
def test_results_of_other_labels_are_refused_by_name(
    coded: lh.Coded, context: lh.Context, name: str, tmp_path: Path
) -> None:
    make, path = PARTS[name], tmp_path / "r.json"
    matching = make(coded)
    for result in (matching, pickle.loads(pickle.dumps(matching))):
        lh.report(coded, path, **{name: result})
    contents = read_report(path)
    part = contents[name][0] if name == "estimates" else contents[name]
    assert part["source"] == contents["source"]
    raw = coded_by(context)  # without the calibration
    assert raw.labels != coded.labels
    shorter = coded_by(context, TEXTS[:30], calibrate="batch")
    speeches = coded_by(context, [f"Speech {i}" for i in range(40)], calibrate="batch")
    message = f"{name} does not belong to these labels: it was computed from "
    for others in (raw, shorter, speeches):
        with pytest.raises(ValueError, match=message):
            lh.report(coded, path, **{name: make(others)})
    with pytest.raises(ValueError, match=message):
        lh.report(coded[:30], path, **{name: matching})
    old = dataclasses.replace(matching, source=None)
    with pytest.raises(ValueError, match=f"{name} does not record the texts and labels"):
        lh.report(coded, path, **{name: old})


def test_the_same_rows_in_another_order(coded: lh.Coded, tmp_path: Path) -> None:
    back = coded[list(range(len(coded)))[::-1]]
    lh.report(back, tmp_path / "r.json", estimates=estimates_of(coded))
    with pytest.raises(
        ValueError, match=r"validation .* the same texts in another order"
    ):
        lh.report(back, tmp_path / "r.json", validation_of(coded))


def test_columns_without_texts_are_compared_by_labels(
    coded: lh.Coded, tmp_path: Path
) -> None:
    codes = ["abc"[i % 3] for i in range(40)]
    lh.report(coded, tmp_path / "r.json", lh.validate(coded.labels, codes))
    first = "b" if coded.labels[0] == "a" else "a"
    validation = lh.validate([first, *coded.labels[1:]], codes)
    with pytest.raises(ValueError, match=r"validation does not belong .* other labels"):
        lh.report(coded, tmp_path / "r.json", validation)


def test_robustness_starts_from_how_labels_were_made(
    coded: lh.Coded, context: lh.Context, tmp_path: Path
) -> None:
    trial = lh.robustness(coded, contexts=context, codebooks=OTHER, orders=1)
    assert trial.variants[0] == "codebook coded"
    assert trial.labels[0] == coded.labels
    for run in trial.runs:
        assert run["settings"] == coded.run["settings"]
    path = lh.report(coded, tmp_path / "r.json", robustness=trial)
    assert read_report(path)["robustness"]["estimates"] is None
    with pytest.raises(
        ValueError, match="text must be 'text', which was coded, not 'other'"
    ):
        lh.robustness(coded, "other", OTHER, context)
    with pytest.raises(TypeError, match="contexts must be a context"):
        lh.robustness(coded, codebooks=OTHER)
    with pytest.raises(TypeError, match="text and codebooks must be given"):
        lh.robustness(ONE, contexts=context)


def test_robustness_of_another_coding_is_refused(
    coded: lh.Coded, context: lh.Context, tmp_path: Path
) -> None:
    def refused(message: str, trial: lh.types.Robustness, of: lh.Coded = coded) -> None:
        with pytest.raises(ValueError, match=f"robustness does not .*{message}"):
            lh.report(of, tmp_path / "r.json", robustness=trial)

    options: dict[str, Any] = {"orders": 1, "n_texts": 24}
    plain = lh.robustness(ONE, "text", BOOK, context, **options)
    refused("calibrate is None, and was 'batch'", plain)
    other = lh.robustness(ONE, "text", OTHER, context, calibrate="batch", **options)
    refused("the codebook differs", other)
    chat = lh.robustness(coded, contexts=context, normalize="token", **options)
    refused("normalize is 'token', and was 'sum'", chat)
    matching = lh.robustness(coded, contexts=context, **options)
    lh.report(coded, tmp_path / "r.json", robustness=matching)
    refused("other texts", matching, coded[:10])
    refused("other texts", matching, coded[list(range(40))[::-1]])
    refused("record the texts", dataclasses.replace(matching, source=None))


def test_the_model_must_be_that_of_the_labels(
    coded: lh.Coded, tiny_path: Callable[[str], Path]
) -> None:
    with (
        lh.Model(tiny_path("qwen2")) as model,
        lh.Context(model) as context,
        pytest.raises(
            ValueError, match="contexts must begin with a context of the model"
        ),
    ):
        lh.robustness(coded, contexts=context, orders=1)


def test_seeds_start_from_that_of_the_labels(context: lh.Context) -> None:
    coded = coded_by(context, method="generate", temperature=2.0, seed=5)
    trial = lh.robustness(coded, contexts=context, seeds=[6], n_texts=5)
    assert trial.variants == ("seed 5", "seed 6")


def test_estimates_of_variants_are_on_the_page(
    coded: lh.Coded, context: lh.Context, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        gold = gold_of(coded)
        trial = lh.robustness(coded, contexts=context, orders=1, gold=gold, outcome="b")
    path = lh.report(coded, tmp_path / "r.json", robustness=trial)
    estimates = read_report(path)["robustness"]["estimates"]
    assert estimates["rows"] == trial.estimate_rows()
    page = lh.report(coded, tmp_path / "r.html", robustness=trial).read_text("utf-8")
    assert "corrected by the same codes" in page
    for row in estimates["rows"]:
        assert f"{row['low']:.3f} to {row['high']:.3f}" in page  # as print does
    assert "have another label than when" not in page


def test_results_from_a_journal_are_not_told_as_time_of_coding(
    context: lh.Context, tmp_path: Path
) -> None:
    journal = str(tmp_path / "all.journal")
    first = coded_by(context, TEXTS[:10], journal=journal)
    page = lh.report(first, tmp_path / "a.html").read_text("utf-8")
    assert "from the journal" not in page
    some = coded_by(context, journal=journal)
    page = lh.report(some, tmp_path / "b.html").read_text("utf-8")
    assert "(10 of 40 prompts from the journal, the other 30 in " in page
    again = coded_by(context, journal=journal)
    page = lh.report(again, tmp_path / "c.html").read_text("utf-8")
    assert "(40 of 40 prompts from the journal), " in page
    assert "duration" not in page


def test_notes_tell_of_labels_that_say_little(context: lh.Context) -> None:
    how = {"method": "classify", "calibrate": None, "chat": False}
    alike = ["a"] * 98 + ["b"] * 2
    fitted = {**how, "calibrate": "batch"}
    (few,) = notes_of(["a", "b", None], None, BOOK, fitted)
    assert few.startswith("calibrate='batch' was fitted to only 2 texts")
    (one,) = notes_of(["a"], None, BOOK, fitted)
    assert "1 text, which makes all labels equally probable" in one
    (note,) = notes_of(alike, None, BOOK, how)
    assert note.startswith("98 of 100 texts have the label 'a'. Try examples ")
    assert "Only if people would give all labels about equally often, calibrate=" in note
    assert "examples in the codebook" in note
    assert "chat=True" in note
    assert notes_of(["a"] * 97 + ["b"] * 3, None, BOOK, how) == []
    assert notes_of(["a"] * 19, None, BOOK, how) == []
    (note,) = notes_of(alike, None, BOOK, {**how, "calibrate": "batch", "chat": True})
    assert "calibrate" not in note
    assert "chat" not in note
    mixed = ["a", "b"] * 20
    (note,) = notes_of(mixed, np.array([0.01] * 39 + [np.nan]), BOOK, how)
    assert note.startswith("Median coverage is 0.01: ")
    assert "calibrate" not in note  # it gives labels no coverage
    assert notes_of(mixed, np.full(40, 0.06), BOOK, how) == []
    raw = np.tile([0.9, 0.1], (15, 1))
    (note,) = notes_of(["a"] * 4 + ["b"] * 11, None, BOOK, fitted, raw=raw)
    assert note.startswith("calibrate='batch' gave 11 of 15 texts with the label 'a' ano")
    assert notes_of(["a"] * 13 + ["b"] * 2, None, BOOK, fitted, raw=raw) == []
    assert notes_of(["a"] * 4 + ["b"] * 11, None, BOOK, how, raw=raw) == []
    # The labels of a random model contain no information.
    with pytest.warns(UserWarning, match="have the label|Median coverage"):
        labelled = lh.annotate(ONE, "text", BOOK, context)
    assert labelled.notes
    assert "\nNote: " in repr(labelled)


def test_hashes_do_not_depend_on_how_values_are_kept() -> None:
    base = Source.of(["é", None], [1, None])
    assert Source.of(["e\u0301", None], ["1", float("nan")]) == base
    assert Source.from_dict(base.to_dict()) == base
    assert Source.of(["\ud800"], ["a"]) != Source.of(["\ud801"], ["a"])
    assert Source.of(["é", "x"], [1, 2]).problem_with(base).startswith("other texts")


@pytest.mark.filterwarnings("ignore::UserWarning")  # few codes
def test_a_page_has_the_waves_of_the_sample(coded: lh.Coded, tmp_path: Path) -> None:
    drawn = lh.gold_sample(coded, 20, seed=1)
    first = drawn.with_codes({name: ["abc"[i % 3] for i in drawn.rows] for name in "xyz"})
    sizes = [1.0 + i % 2 for i in range(len(TEXTS))]
    both = lh.gold_sample(coded, 8, after=first, prob=sizes, seed=2)
    both = both.with_codes({name: ["abc"[i % 3] for i in both.rows] for name in "xyz"})
    estimates = lh.estimate(
        coded,
        both,
        methods=["dsl"],
        simultaneous="bonferroni",
        weights=[1.0 + i % 3 for i in range(len(TEXTS))],
    )
    path = tmp_path / "r.html"
    lh.report(coded, path, lh.validate(coded, both), estimates)
    page = path.read_text(encoding="utf-8")
    assert "in waves of different designs" in page
    assert "8 of 20, at random, with given probabilities; 20 codes before it" in page
    assert "The intervals of each method are simultaneous" in page
    assert "3 coders agree in 100%" in page
    assert "drawn in 2 waves (20 and 8 texts) of different designs" in page
    assert "(Zrnic and Cand\u00e8s 2024b)" in page
    assert "(Farquhar et al. 2021)" in page
    assert "All estimates use survey weights" in page
