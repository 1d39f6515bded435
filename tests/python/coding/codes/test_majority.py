"""One rule makes one code of the codes of several people, wherever it is needed."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import hypothesis.strategies as st
import llamaherd as lh
import numpy as np
import pytest
from hypothesis import given
from llamaherd.coding.codes.coders import majority, majority_of_sets
from llamaherd.coding.selection.parts import codes_of_part

CODES = st.lists(st.one_of(st.none(), st.sampled_from("abc")), max_size=6)


@given(CODES)
def test_the_first_of_the_most_frequent_codes_counts(codes: list[str | None]) -> None:
    code, is_tie = majority(codes)
    given_codes = [entry for entry in codes if entry is not None]
    if not given_codes:
        assert (code, is_tie) == (None, False)
        return
    most = max(map(given_codes.count, given_codes))
    best = [entry for entry in given_codes if given_codes.count(entry) == most]
    assert (code, is_tie) == (best[0], len(set(best)) > 1)


@given(CODES)
def test_a_set_of_one_label_or_none_is_decided_as_yes_or_no(
    codes: list[str | None],
) -> None:
    sets = [None if entry is None else ("x",) if entry == "a" else () for entry in codes]
    yes = [None if entry is None else str(entry == "a") for entry in codes]
    labels, is_tie = majority_of_sets(sets)
    code, is_tie_of_yes = majority(yes)
    assert (labels, is_tie) == (
        None if code is None else ["x"] if code == "True" else [],
        is_tie_of_yes,
    )


@pytest.mark.parametrize("order", [("ann", "ben"), ("ben", "ann")])
@pytest.mark.parametrize("several", [False, True])
def test_all_functions_use_the_same_code(
    order: tuple[str, str], *, several: bool
) -> None:
    """With two coders every disagreement is a tie, which the first coder decides."""
    rng = np.random.default_rng(1)
    n = 160
    label, ann, ben = (rng.choice(["x", "y"], n).tolist() for _ in range(3))
    data = {"text": [f"text {i}" for i in range(n)], "label": label}
    names: dict[str, Any] = {"names": ["x", "y"], "several": several}
    drawn = lh.gold_sample(data, 100, text="text", label="label", seed=1, **names)
    by_coder = {"ann": ann, "ben": ben}
    codes = {coder: [by_coder[coder][row] for row in drawn.rows] for coder in order}
    two, one = drawn.with_codes(codes), drawn.with_codes(codes[order[0]])
    if not several:
        assert two.gold == one.gold

    def results(gold: lh.GoldSample) -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            validation = lh.validate(data, gold, label="label")
            estimates = lh.estimate(data, gold, by="label", label="label")
        part = codes_of_part(lh.gold_split(gold, 0.2, 0.4, 0.4, seed=1), "select")
        rows = [(r.outcome, r.group, r.method, r.estimate) for r in estimates.rows]
        measured = validation.accuracy
        return [validation.n_gold, measured.n, measured.accuracy, repr(rows), part.right]

    if several:  # a label of one of two coders: the first decides, too
        assert all(set(a.split("; ")) <= {*"xy"} for a in two.gold if a)
        assert results(two)[:2] == results(one)[:2] == [100, 100]
        two = drawn.with_codes({order[0]: codes[order[0]], "copy": codes[order[0]]})
    assert results(two) == results(one)


def test_numbers_of_several_coders_are_averaged_for_means() -> None:
    """`estimate` averages as `validate` does; the order of coders has no effect."""
    rng = np.random.default_rng(2)
    n = 120
    truth = rng.normal(5, 1, n)
    data = {"text": [f"text {i}" for i in range(n)], "label": truth.round(3).tolist()}
    drawn = lh.gold_sample(data, 60, text="text", label="label", seed=1)
    codes = {
        name: [round(float(truth[row] + rng.normal()), 3) for row in drawn.rows]
        for name in "abc"
    }
    means = np.mean(list(codes.values()), axis=0)
    alone = drawn.with_codes([round(mean, 12) for mean in means.tolist()])
    turned = drawn.with_codes({name: codes[name] for name in "cab"})
    for outcome in ("mean", "median"):
        expected = lh.estimate(data, alone, outcome=outcome, label="label")
        for gold in (drawn.with_codes(codes), turned):
            estimates = lh.estimate(data, gold, outcome=outcome, label="label")
            assert not any("tie" in note for note in estimates.notes)
            for row, other in zip(estimates.rows, expected.rows, strict=True):
                assert row.estimate == pytest.approx(other.estimate, abs=1e-9)
                assert row.low == pytest.approx(other.low, abs=1e-9)


@pytest.mark.filterwarnings("ignore:.*(code|gave this label):UserWarning")
def test_scores_of_labels_are_averaged_too() -> None:
    data = {"label": ["bad", "good"] * 40}
    drawn = lh.gold_sample(data, 80, label="label", seed=1)
    gold = drawn.with_codes({"a": ["good"] * 80, "b": ["bad", "good"] * 40})
    estimates = lh.estimate(data, gold, outcome={"bad": -1, "good": 1}, methods=["gold"])
    assert estimates.rows[0].estimate == pytest.approx(0.5)
    shares = lh.estimate(data, gold, outcome="good", methods=["gold"])
    assert shares.rows[0].estimate == 1
    three = dataclasses.replace(
        gold, coders=["a", "b", "c"], codes=[*gold.codes, ["unclear", *["good"] * 79]]
    )
    with pytest.raises(ValueError, match="must have a number for each label, also for"):
        lh.estimate(data, three, outcome={"bad": -1, "good": 1})
