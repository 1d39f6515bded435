"""Corrected outcomes and replicate weights, in regressions by statsmodels and numpy."""

from __future__ import annotations

from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N, N_REPLICATES = 800, 400
WITHIN = 0.13  # 3.5 standard errors of a standard error by 400 replicates


def data(seed: int = 5) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    party, age = rng.choice(["A", "B"], N), rng.normal(size=N)
    speaker = rng.integers(0, 100, N)
    log_odds = 0.8 * (party == "B") - 0.4 + 0.5 * age + rng.normal(size=100)[speaker]
    code = np.where(rng.random(N) < 1 / (1 + np.exp(-log_odds)), "yes", "no")
    other = np.where(code == "yes", "no", "yes")
    label = np.where(rng.random(N) < np.where(party == "A", 0.15, 0.3), other, code)
    frame = pd.DataFrame(
        {
            "text": [f"text {i}" for i in range(N)],
            "label": label,
            "party": party,
            "age": age,
            "speaker": speaker,
            "sure": rng.random(N),
            "w": rng.random(N) + 0.2,
        }
    )
    return frame, code


DATA, CODE = data()


def coded(sample: lh.GoldSample) -> lh.GoldSample:
    return sample.with_codes([CODE[row] for row in sample.rows])


def drawn(n: int = 200, **options: Any) -> lh.GoldSample:
    return coded(lh.gold_sample(DATA, n, text="text", label="label", seed=1, **options))


def waves() -> lh.GoldSample:
    first = drawn(120)
    return drawn(80, by="label", allocation="equal", after=first)


def part_missing() -> lh.GoldSample:
    sample = drawn(250)
    codes = [CODE[row] if i % 5 else None for i, row in enumerate(sample.rows)]
    return sample.with_codes(codes)


DESIGNS = {
    "simple": (drawn, {}),
    "half of the texts": (lambda: drawn(400), {}),
    "equal strata": (lambda: drawn(by="label", allocation="equal"), {}),
    "uncertainty": (lambda: drawn(prob="uncertainty", confidence="sure", floor=0.7), {}),
    "waves": (waves, {}),
    "missing codes": (part_missing, {}),
    "clusters": (drawn, {"cluster": "speaker"}),
    "weights": (drawn, {"weights": "w"}),
}


def solved(x: np.ndarray[Any, Any], y: Any, w: Any) -> Any:
    weighted = x * w[:, None]
    return np.linalg.solve(weighted.T @ x, weighted.T @ y)


@pytest.mark.parametrize("design", DESIGNS)
def test_a_regression_of_the_corrected_outcome_is_that_of_estimate(design: str) -> None:
    make, options = DESIGNS[design]
    gold = make()
    formula = "label == 'yes' ~ party + age"
    estimates = lh.estimate(DATA, gold, formula, methods=["dsl"], **options)
    table = lh.corrected(DATA, gold, "yes")
    assert table.columns.tolist() == [*DATA.columns, "corrected"]
    y = table["corrected"].to_numpy()
    x = np.column_stack([np.ones(N), DATA["party"] == "B", DATA["age"]])
    w = DATA["w"].to_numpy() if "weights" in options else np.ones(N)
    weights = lh.replicate_weights(DATA, gold, n=N_REPLICATES, **options)
    assert weights.shape == (N, N_REPLICATES)
    assert weights.min() > 0
    points = solved(x, y, w)
    assert points == pytest.approx([row.estimate for row in estimates.rows], abs=1e-6)
    changes = np.array([solved(x, y, one) for one in weights.T]) - points
    errors = np.sqrt(4 * (changes**2).mean(axis=0))
    assert errors == pytest.approx([row.std_error for row in estimates.rows], rel=WITHIN)


def test_statsmodels_uses_both() -> None:
    smf = pytest.importorskip("statsmodels.formula.api")
    gold = drawn()
    table = lh.corrected(DATA, gold, "yes")
    weights = lh.replicate_weights(DATA, gold, n=100)
    formula = "corrected ~ party + age"
    fit = smf.ols(formula, table).fit()
    again = [smf.wls(formula, table, weights=w).fit().params for w in weights.T]
    errors = np.sqrt(4 * ((np.array(again) - fit.params.to_numpy()) ** 2).mean(axis=0))
    estimates = lh.estimate(DATA, gold, "label == 'yes' ~ party + age", methods=["dsl"])
    assert fit.params.tolist() == pytest.approx(
        [row.estimate for row in estimates.rows], abs=1e-6
    )
    assert errors == pytest.approx([row.std_error for row in estimates.rows], rel=0.25)


def test_means_are_those_of_estimate() -> None:
    gold = drawn(by="label", allocation="equal")
    by = {row.outcome: row.estimate for row in lh.estimate(DATA, gold).by("dsl")}
    table = lh.corrected(DATA, gold)
    for name, share in by.items():
        assert table[f"corrected_{name}"].mean() == pytest.approx(share, abs=1e-9)
    scores = {"yes": 3.0, "no": 1.0}
    (mean,) = lh.estimate(DATA, gold, outcome=scores, methods=["dsl"]).rows
    assert lh.corrected(DATA, gold, scores)["corrected"].mean() == pytest.approx(
        mean.estimate
    )


def test_rows_without_a_label_are_missing_and_have_no_weight() -> None:
    frame = DATA.copy()
    frame.loc[[3, 7], "label"] = None
    gold = drawn()
    table = lh.corrected(frame, gold, "yes")
    assert np.flatnonzero(table["corrected"].isna()).tolist() == [3, 7]
    weights = lh.replicate_weights(frame, gold, n=5)
    assert not weights[[3, 7]].any()
    assert (np.delete(weights, [3, 7], axis=0) > 0).all()
    assert (weights == lh.replicate_weights(frame, gold, n=5)).all()
    assert (weights != lh.replicate_weights(frame, gold, n=5, seed=1)).any()


def test_what_cannot_be_corrected_is_refused() -> None:
    gold = drawn()
    with pytest.raises(ValueError, match="not 'median'"):
        lh.corrected(DATA, gold, "median")
    with pytest.raises(ValueError, match="has a column 'corrected' already"):
        lh.corrected(lh.corrected(DATA, gold, "yes"), gold, "yes")
    with pytest.raises(ValueError, match="among the labels"):
        lh.corrected(DATA, gold, "perhaps")
    with pytest.raises(ValueError, match="n must be"):
        lh.replicate_weights(DATA, gold, n=1)


@pytest.mark.parametrize("design", [name for name in DESIGNS if name != "clusters"])
def test_replicates_for_these_texts_vary_with_the_draw_alone(design: str) -> None:
    make, options = DESIGNS[design]
    gold = make()
    options = {**options, "target": "texts"}
    x = np.column_stack([np.ones(N), DATA["party"] == "B", DATA["age"]])
    w = DATA["w"].to_numpy() if "weights" in options else np.ones(N)
    y = lh.corrected(DATA, gold, "yes")["corrected"].to_numpy()
    weights = lh.replicate_weights(DATA, gold, "yes", n=N_REPLICATES, **options)
    assert weights.min() > 0
    for formula, used in (
        ("label == 'yes' ~ 1", x[:, :1]),
        ("label == 'yes' ~ party + age", x),
    ):
        estimates = lh.estimate(DATA, gold, formula, methods=["dsl"], **options)
        points = solved(used, y, w)
        changes = np.array([solved(used, y, one) for one in weights.T]) - points
        errors = np.sqrt(4 * (changes**2).mean(axis=0))
        expected = [row.std_error for row in estimates.rows]
        assert errors == pytest.approx(expected, rel=WITHIN + 0.03)  # fitted values


def test_replicates_for_these_texts_belong_to_one_outcome() -> None:
    gold = drawn()
    with pytest.raises(ValueError, match="outcome must be one label"):
        lh.replicate_weights(DATA, gold, target="texts")
    with pytest.raises(ValueError, match="outcome has no effect without target"):
        lh.replicate_weights(DATA, gold, "yes")
    with pytest.raises(ValueError, match="target"):
        lh.replicate_weights(DATA, gold, "yes", target="texts", cluster="speaker")
