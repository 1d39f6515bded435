"""Tests of tables and reliability in the form of R's package localLLM."""

from __future__ import annotations

import math
from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest

TWO = {
    "sample_id": [1, 2, 3, 1, 2, 3],
    "model_id": ["m2", "m2", "m2", "m1", "m1", "m1"],
    "label": ["A", "B", "A", "A", "B", "B"],
}


def test_tables() -> None:
    table = lh.compute_confusion_matrices({**TWO, "truth": ["A", "B", "A"] * 2})
    assert table.levels == ("A", "B")
    assert list(table.vs_gold) == ["m1", "m2"]  # sorted by name
    assert table.vs_gold["m1"].tolist() == [[1, 0], [1, 1]]  # rows are the model's labels
    assert table.vs_gold["m2"].tolist() == [[2, 0], [0, 1]]
    assert list(table.pairwise) == ["m2 vs m1"]  # in the order of the data
    assert table.pairwise["m2 vs m1"].tolist() == [[1, 1], [0, 1]]
    assert lh.compute_confusion_matrices(TWO, pairwise=False).pairwise == {}


def test_without_gold_there_are_no_tables_of_zeros() -> None:
    assert lh.compute_confusion_matrices(TWO).vs_gold == {}
    nothing = {**TWO, "truth": [None] * 6}
    assert lh.compute_confusion_matrices(nothing).vs_gold == {}


@pytest.mark.parametrize(
    "gold", [["A", "B", "A"], {1: "A", 2: "B", 3: "A"}, "hers", {3: "A", 2: "B", 1: "A"}]
)
def test_gold_comes_in_many_kinds(gold: Any) -> None:
    frame = pd.DataFrame({**TWO, "hers": [None, "B", "A", "A", None, None]})
    tables = lh.compute_confusion_matrices(frame, gold)
    assert tables.vs_gold["m1"].tolist() == [[1, 0], [1, 1]]


def test_other_names_of_columns_are_honoured() -> None:
    names = {"sample_id": "text", "model_id": "who", "label": "code"}
    frame = {names[name]: column for name, column in TWO.items()}
    columns = {"sample_col": "text", "model_col": "who", "label_col": "code"}
    tables = lh.compute_confusion_matrices(frame, ["A", "B", "A"], **columns)
    base = lh.compute_confusion_matrices(TWO, ["A", "B", "A"])
    assert tables.pairwise["m2 vs m1"].tolist() == base.pairwise["m2 vs m1"].tolist()
    assert tables.vs_gold["m1"].tolist() == base.vs_gold["m1"].tolist()
    assert lh.intercoder_reliability(frame, **columns) == lh.intercoder_reliability(TWO)


def test_kappa_of_pairs() -> None:
    pairs = lh.intercoder_reliability(TWO).cohen
    assert [(p.model_a, p.model_b) for p in pairs] == [("m2", "m1")]
    # Observed 2/3; expected by chance 2/3 * 1/3 + 1/3 * 2/3 = 4/9; kappa (6 - 4) / (9 -
    # 4).
    assert pairs[0].observed == pytest.approx(2 / 3)
    assert pairs[0].expected == pytest.approx(4 / 9)
    assert pairs[0].kappa == pytest.approx(0.4)
    constant = {**TWO, "label": ["A"] * 6}
    assert math.isnan(lh.intercoder_reliability(constant).cohen[0].kappa)


def long(codes: list[list[Any]]) -> dict[str, list[Any]]:
    n = len(codes[0])
    return {
        "sample_id": list(range(n)) * len(codes),
        "model_id": [f"m{j}" for j in range(len(codes)) for _ in range(n)],
        "label": [code for row in codes for code in row],
    }


def irrs_alpha(codes: list[list[Any]]) -> float:
    """Compute alpha as irr's `kripp.alpha` does.

    A unit's pairs are divided by m - 1 or, if no code is missing at all, by 1.
    """
    levels = sorted({code for row in codes for code in row if code is not None})
    complete = all(code is not None for row in codes for code in row)
    table = np.zeros((len(levels), len(levels)))
    for unit in zip(*codes, strict=True):
        indices = [levels.index(code) for code in unit if code is not None]
        for i, a in enumerate(indices):
            for j, b in enumerate(indices):
                if i != j:
                    table[a, b] += 1 if complete else 1 / (len(indices) - 1)
    n = table.sum(axis=1)
    apart = table.sum() - np.trace(table)
    return float(1 - (n.sum() - 1) * apart / (n.sum() ** 2 - (n**2).sum()))


def test_alpha_is_irrs() -> None:
    generator = np.random.default_rng(0)
    for i in range(200):
        m = int(generator.integers(2, 5))
        truth = generator.choice(list("abc"), 30)
        codes = [
            np.where(generator.random(30) < 0.6, truth, generator.choice(list("abc"), 30))
            .astype(object)
            .tolist()
            for _ in range(m)
        ]
        if i % 2:
            codes[0][3] = codes[1][5] = None
        alpha = lh.intercoder_reliability(long(codes)).krippendorff
        assert alpha is not None
        assert alpha.alpha == pytest.approx(irrs_alpha(codes))
        exact = lh.krippendorff_alpha(codes).value
        assert alpha.alpha_exact == pytest.approx(exact)
        if m == 2 or i % 2:
            assert alpha.alpha == pytest.approx(exact)
        else:
            assert alpha.alpha != pytest.approx(exact, abs=1e-6)


def test_items_and_categories() -> None:
    codes = [["a", "a", "b", None], ["a", "b", "b", "c"], ["a", "a", None, None]]
    reliability = lh.intercoder_reliability(long(codes), method="krippendorff")
    assert reliability.cohen == ()
    alpha = reliability.krippendorff
    assert alpha is not None
    assert alpha.per_item == pytest.approx(
        {"0": 1, "1": 1 / 3, "2": 1, "3": math.nan}, nan_ok=True
    )
    assert alpha.category_proportions == pytest.approx(
        {"a": 5 / 9, "b": 3 / 9, "c": 1 / 9}
    )
    assert lh.intercoder_reliability(long(codes), method="cohen").krippendorff is None


def test_edges() -> None:
    alpha = lh.intercoder_reliability(long([["a", "b"], ["a", "b"]])).krippendorff
    assert alpha is not None
    assert alpha.alpha == 1
    one = lh.intercoder_reliability(long([["a", "b"]]))
    assert one.cohen == ()
    assert one.krippendorff is not None
    assert math.isnan(one.krippendorff.alpha)
    empty = {name: [] for name in TWO}
    assert lh.compute_confusion_matrices(empty).pairwise == {}
    nothing = lh.intercoder_reliability(empty)
    assert nothing.cohen == ()
    levels = lh.compute_confusion_matrices(TWO, label_levels=["B", "A", "C"])
    assert levels.pairwise["m2 vs m1"].tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label_col": "code"}, r"missing required column\(s\): code"),
        ({"gold": ["A"]}, "aligned with unique samples, of which there are 3"),
        ({"gold": "hers"}, "gold must be a column"),
        ({"label_levels": ["A"]}, "'B' is missing"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lh.compute_confusion_matrices(TWO, **arguments)


def test_two_labels_of_one_text_are_refused() -> None:
    twice = {name: [*column, column[0]] for name, column in TWO.items()}
    with pytest.raises(ValueError, match="two labels of the text 1 by 'm2'"):
        lh.intercoder_reliability(twice)
    with pytest.raises(ValueError, match="method must be one of"):
        lh.intercoder_reliability(TWO, method="fleiss")  # type: ignore[arg-type]
