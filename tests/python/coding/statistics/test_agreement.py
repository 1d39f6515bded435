"""Tests of agreement: published examples, other packages, and undefined values."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import krippendorff
import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from irrCAC.raw import CAC
from llamaherd.coding.statistics.agreement import cohen_kappa
from llamaherd.coding.statistics.intervals import share_limits
from llamaherd.coding.statistics.many_coders import (
    _alpha,
    gwet_ac1,
    krippendorff_alpha,
    percent_agreement,
)
from llamaherd.coding.statistics.ratings import CodesByCoder, ratings_of
from same_results import same_results
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa
from thorough import sized

sys.path.insert(0, str(Path(__file__).parent))
import published as facts

Table = np.ndarray[Any, Any]
SCALES = ("nominal", "ordinal", "interval", "ratio")


def near(value: float) -> Any:
    return pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("scale", SCALES)
def test_alpha_of_krippendorffs_example(scale: Any) -> None:
    alpha = krippendorff_alpha(facts.KRIPPENDORFF_2011, scale=scale)
    assert round(alpha.value, 3) == facts.ALPHA_2011[scale]
    assert (alpha.n_units, alpha.n_coders) == (11, 4)
    data = np.array(facts.KRIPPENDORFF_2011, dtype=float)
    other = krippendorff.alpha(data, level_of_measurement=scale)
    assert alpha.value == pytest.approx(other, abs=1e-12)


def test_nominal_alpha_by_hand() -> None:
    alpha = krippendorff_alpha(facts.KRIPPENDORFF_2011)
    assert alpha.value == pytest.approx(facts.ALPHA_2011_NOMINAL, abs=1e-12)
    assert alpha.observed == pytest.approx(8 / 40)
    assert alpha.low < alpha.value < alpha.high <= 1


@pytest.mark.parametrize(("raters", "weights", "kappa"), facts.ANXIETY_KAPPA)
def test_kappa_of_irrs_example(raters: Any, weights: Any, kappa: float) -> None:
    first, second = (facts.ANXIETY[i] for i in raters)
    assert cohen_kappa(first, second, weights=weights).value == near(kappa)


def test_kappa_of_other_examples() -> None:
    assert round(cohen_kappa(*facts.DIAGNOSES).value, 3) == facts.DIAGNOSES_KAPPA
    first, second = facts.codes_of(facts.COHEN_1968)
    assert round(cohen_kappa(first, second).value, 3) == 0.492
    weighted = cohen_kappa(first, second, weights=facts.COHEN_1968_WEIGHTS)
    assert round(weighted.value, 3) == 0.348
    assert (weighted.observed, weighted.expected) == pytest.approx((0.85, 0.77))
    first, second = facts.codes_of(facts.SAS_TABLE)
    for kappa, printed in (
        (cohen_kappa(first, second), facts.SAS_KAPPA),
        (cohen_kappa(first, second, weights="linear"), facts.SAS_WEIGHTED),
    ):
        for name, value in printed.items():
            assert round(getattr(kappa, name), 4) == value


def test_ac1_of_gwets_examples() -> None:
    ac1 = gwet_ac1(facts.GWET_2014)
    for name, value in facts.GWET_2014_AC1.items():
        assert round(getattr(ac1, name), 5) == value
    ac1 = gwet_ac1(facts.codes_of(facts.GWET_2014_TABLE))
    assert round(ac1.value, 5) == facts.GWET_2014_TABLE_AC1["value"]


def random_table(generator: np.random.Generator) -> Table:
    """Return codes with some agreement and some missing values, float64[m, n]."""
    m, n, q = (int(generator.integers(*of)) for of in ((2, 6), (5, 60), (2, 7)))
    truth = generator.integers(1, q + 1, n)
    noise = generator.integers(1, q + 1, (m, n))
    table = np.where(generator.random((m, n)) < 0.6, truth, noise).astype(float)
    table[generator.random((m, n)) < generator.choice([0, 0.1, 0.4])] = np.nan
    table[0, 0], table[1, 0], table[0, 1], table[1, 1] = (
        1,
        2,
        2,
        2,
    )  # at least two codes to compare
    return table


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
@pytest.mark.more(reason="200 of 1000 tables")
def test_alpha_and_ac1_of_a_thousand_tables_are_those_of_other_packages() -> None:
    generator = np.random.default_rng(20261123)
    for _ in range(sized(200, 1000)):
        table = random_table(generator)
        for scale in SCALES:
            alpha = krippendorff_alpha(table, scale=scale)
            other = krippendorff.alpha(table, level_of_measurement=scale)
            assert alpha.value == pytest.approx(other, abs=1e-9)
        ours = gwet_ac1(table)
        # With pandas 3, CAC would count NaN as a category, because stack() keeps NaN.
        kinds = sorted(set(table[~np.isnan(table)]))
        cac = CAC(pd.DataFrame(table.T), categories=kinds, digits=12)
        theirs = cac.gwet()["est"]
        for name, key in (
            ("value", "coefficient_value"),
            ("se", "se"),
            ("observed", "pa"),
            ("expected", "pe"),
        ):
            assert getattr(ours, name) == pytest.approx(theirs[key], abs=1e-9)


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
@pytest.mark.more(reason="200 of a thousand tables by three packages")
def test_kappa_of_a_thousand_tables_is_that_of_other_packages() -> None:
    generator = np.random.default_rng(11)
    for _ in range(sized(200, 1000)):
        table = random_table(generator)
        first, second = table[:2]
        both = ~np.isnan(table[:2]).any(axis=0)
        counts = pd.crosstab(first[both], second[both])
        kinds = np.unique(table[:2, both])
        counts = counts.reindex(index=kinds, columns=kinds, fill_value=0).to_numpy()
        for weights, theirs in (("none", None), ("linear",) * 2, ("quadratic",) * 2):
            kappa = cohen_kappa(first, second, weights=weights)
            other = cohen_kappa_score(first[both], second[both], weights=theirs)
            assert kappa.value == pytest.approx(other, abs=1e-9)
            with np.errstate(all="ignore"):  # its test of kappa = 0 may have no variance
                wider = cohens_kappa(counts, wt=theirs, return_results=True)
            assert kappa.se == pytest.approx(math.sqrt(max(wider.var_kappa, 0)), abs=1e-7)
        assert kappa.n_units == both.sum()


@pytest.mark.more(
    reason="simulates studies or compares with other packages on many samples", cases=1
)
@pytest.mark.parametrize(
    ("name", "n", "share", "recall"),
    [
        ("kappa", 200, 0.05, 0.7),
        ("ac1", 200, 0.05, 0.7),
        ("kappa", 50, 0.3, 0.9),
        ("ac1", 50, 0.3, 0.9),
    ],
)
def test_intervals_near_1_hold_the_true_value(
    name: str, n: int, share: float, recall: float
) -> None:
    """Intervals that are symmetric around the value held it in 88 to 92% of samples."""
    false = 0.01 if share < 0.1 else 0.1
    cells = np.array(
        [
            [share * recall, share * (1 - recall)],
            [(1 - share) * false, (1 - share) * (1 - false)],
        ]
    )
    alike, rows, columns = np.trace(cells), cells.sum(axis=1), cells.sum(axis=0)
    middle = (rows + columns) / 2
    chance = float(rows @ columns) if name == "kappa" else 2 * float(middle.prod())
    truth = (alike - chance) / (1 - chance)
    rng = np.random.default_rng(9)
    below = above = known = 0
    for _ in range(500):
        drawn = rng.choice(4, n, p=cells.ravel())
        one, other = (drawn // 2).tolist(), (drawn % 2).tolist()
        measure = cohen_kappa(one, other) if name == "kappa" else gwet_ac1([one, other])
        known += not math.isnan(measure.low)
        below += truth < measure.low
        above += truth > measure.high
    assert 1 - (below + above) / known > 0.935
    assert below / known < 0.05


def test_weighted_kappa_of_two_labels_is_kappa() -> None:
    first, second = [0, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 1]
    plain = cohen_kappa(first, second)
    for weights in ("linear", "quadratic", [0, 7], [[0, 2], [2, 0]]):
        kappa = cohen_kappa(first, second, weights=weights)
        assert kappa.value == pytest.approx(plain.value)
        assert kappa.se == pytest.approx(plain.se)
        assert kappa.name == "weighted kappa"


def test_levels_nobody_used_count_as_distance() -> None:
    first, second = [1, 5, 1, 5, 1], [1, 5, 5, 5, 1]
    close = cohen_kappa([1, 3, 1, 5, 1], [1, 5, 5, 5, 1], weights="linear")
    apart = cohen_kappa(
        [1, 3, 1, 5, 1], [1, 5, 5, 5, 1], weights="linear", levels=range(1, 6)
    )
    assert close.value == pytest.approx(apart.value)  # 1, 3 and 5 are equally far apart
    odd = cohen_kappa([1, 2, 1, 5, 1], [1, 5, 5, 5, 1], weights="linear")
    even = cohen_kappa(
        [1, 2, 1, 5, 1], [1, 5, 5, 5, 1], weights="linear", levels=range(1, 6)
    )
    assert odd.value > even.value + 0.01
    assert cohen_kappa(first, second, levels=[5, 4, 1]).value == pytest.approx(
        cohen_kappa(first, second).value
    )


def test_ordinal_labels_need_their_order() -> None:
    codes = [["low", "high", "mid", "low"], ["low", "mid", "mid", "high"]]
    with pytest.raises(ValueError, match="levels must give the order"):
        krippendorff_alpha(codes, scale="ordinal")
    levels = ["low", "mid", "high"]
    alpha = krippendorff_alpha(codes, scale="ordinal", levels=levels)
    numbers = [[levels.index(code) for code in row] for row in codes]
    assert alpha.value == pytest.approx(
        krippendorff_alpha(numbers, scale="ordinal").value
    )
    with pytest.raises(ValueError, match="must be numbers"):
        krippendorff_alpha(codes, scale="interval")
    texts = [[str(code) for code in row] for row in numbers]
    assert krippendorff_alpha(texts, scale="interval").value == pytest.approx(
        krippendorff_alpha(numbers, scale="interval").value
    )


def test_percent_agreement() -> None:
    codes = [["a", "b", "a", None], ["a", "b", "b", "a"], ["a", "a", "b", None]]
    agreement = percent_agreement(codes)
    assert agreement.value == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)
    assert agreement.n_units == 3
    assert percent_agreement(codes, kind="all").value == pytest.approx(1 / 3)
    # All three raters agree on none of 20 subjects; on some they agree within one degree.
    assert percent_agreement(facts.ANXIETY, kind="all").value == 0
    spread = np.ptp(np.array(facts.ANXIETY), axis=0)
    within = percent_agreement(facts.ANXIETY, kind="all", tolerance=1)
    assert within.value == pytest.approx((spread <= 1).mean())


def test_percent_agreement_of_pairs_within_a_tolerance() -> None:
    codes = [[1, 5, 2, None, 3], [2, 1, 2, 4, None], [3, 1, None, 5, None]]
    agreement = percent_agreement(codes, tolerance=1)
    assert agreement.value == pytest.approx((2 / 3 + 1 / 3 + 1 + 1) / 4)
    assert agreement.n_units == 4
    # So small a tolerance has no effect.
    exact = percent_agreement(codes, tolerance=1e-9)
    assert exact.value == pytest.approx(percent_agreement(codes).value)
    assert percent_agreement([[], []], tolerance=1).n_units == 0


def test_missing_is_none_nan_or_na() -> None:
    plain = [["a", "b", "a", None], ["a", "a", "a", "b"]]
    for missing in (math.nan, pd.NA, np.float64("nan")):
        codes = [["a", "b", "a", missing], ["a", "a", "a", "b"]]
        for of in (krippendorff_alpha, gwet_ac1, percent_agreement):
            assert same_results(of(codes), of(plain))
        assert same_results(cohen_kappa(*codes), cohen_kappa(*plain))


def test_where_chance_cannot_disagree_there_is_no_value() -> None:
    equal = [["a", "a", "a"], ["a", "a", "a"]]
    assert math.isnan(cohen_kappa(*equal).value)
    assert math.isnan(krippendorff_alpha(equal).value)
    assert math.isnan(gwet_ac1(equal).value)
    assert gwet_ac1(equal, levels=["a", "b"]).value == pytest.approx(1)
    assert percent_agreement(equal).value == 1
    # the limit of `share_limits` for 3 of 3
    assert percent_agreement(equal).low == pytest.approx(share_limits(1, 3, 0.95)[0])
    nothing = [["a", None], [None, "b"]]
    for measure in (
        cohen_kappa(*nothing),
        krippendorff_alpha(nothing),
        gwet_ac1(nothing),
        percent_agreement(nothing),
    ):
        assert math.isnan(measure.value)
        assert math.isnan(measure.low)
        assert measure.n_units == 0
    for of in (krippendorff_alpha, gwet_ac1, percent_agreement):
        assert math.isnan(of([[], []]).value)


def test_where_all_agree_one_more_disagreement_gives_the_width() -> None:
    alike = [["a", "b", "a", "c"] * 8] * 2
    weights = np.linspace(1, 3, 32)
    for w in (None, weights):
        for measure in (
            cohen_kappa(*alike, unit_weights=w),
            cohen_kappa(*alike, weights="quadratic", levels=["a", "b", "c"]),
            krippendorff_alpha(alike, unit_weights=w),
            gwet_ac1(alike, unit_weights=w),
        ):
            assert measure.value == pytest.approx(1)
            assert 0.7 < measure.low < 0.95
            assert measure.high == 1


@pytest.mark.parametrize("n_both", [5, 20])
def test_ac1_of_few_units_with_two_codes_holds_the_true_value(n_both: int) -> None:
    rng, error, n_draws = np.random.default_rng(5), 0.05, 400
    share = 0.3 * (1 - error) + 0.7 * error
    chance = 2 * share * (1 - share)
    truth = ((1 - error) ** 2 + error**2 - chance) / (1 - chance)
    n_held = 0
    for _ in range(n_draws):
        right = rng.random(200) < 0.3
        one, other = (right ^ (rng.random(200) < error) for _ in range(2))
        some = [bool(code) if i < n_both else None for i, code in enumerate(other)]
        ac1 = gwet_ac1([one.tolist(), some], levels=[False, True])
        n_held += ac1.low <= truth <= ac1.high
    assert n_held / n_draws > 0.93


def test_unit_weights_of_alpha_repeat_units() -> None:
    generator = np.random.default_rng(3)
    table = random_table(generator)[:2]
    times = generator.integers(1, 4, table.shape[1])
    repeated = np.repeat(table, times, axis=1)
    # Alpha's correction for few codes, (n - 1) / n, uses the number of codes without
    # weights.
    weighted = krippendorff_alpha(table, unit_weights=times.astype(float))
    more = krippendorff_alpha(repeated)
    n, n_more = 2 * weighted.n_units, 2 * more.n_units
    assert (1 - weighted.value) * n / (n - 1) == pytest.approx(
        (1 - more.value) * n_more / (n_more - 1)
    )
    constant = krippendorff_alpha(table, unit_weights=np.full(len(times), 5.0))
    assert same_results(constant, krippendorff_alpha(table))


def test_intervals_of_alpha_cover() -> None:
    # Two coders who share 70% of their codes: for large n, alpha is 0.49.
    generator = np.random.default_rng(5)
    hits = 0
    for _ in range(300):
        truth = generator.integers(0, 4, 150)
        table = np.where(
            generator.random((2, 150)) < 0.7, truth, generator.integers(0, 4, (2, 150))
        )
        alpha = krippendorff_alpha(table)
        hits += alpha.low <= 0.49 <= alpha.high
    assert 0.90 <= hits / 300 <= 0.99  # at most four standard errors from 95%
    again = krippendorff_alpha(table)
    assert (again.low, again.high) == (alpha.low, alpha.high)


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval", "ratio"])
def test_slopes_of_alpha_are_its_derivatives(scale: Any) -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(1, 5, (3, 40)).astype(float)
    codes[rng.random(codes.shape) < 0.1] = np.nan
    ratings = ratings_of(codes, scale=scale)
    used = (ratings.indices >= 0).sum(axis=0) >= 2
    w = rng.uniform(0.5, 2, int(used.sum()))
    exact = _alpha(ratings, scale, used, w)[0]
    assert w @ exact.slopes == pytest.approx(0, abs=1e-9)

    def alpha(i: int, step: float) -> float:
        moved = w + step * (np.arange(len(w)) == i)
        return _alpha(ratings, scale, used, moved)[0].value

    numeric = [(alpha(i, 1e-5) - alpha(i, -1e-5)) / 2e-5 for i in range(len(w))]
    np.testing.assert_allclose(
        np.subtract(numeric, numeric[0]), exact.slopes - exact.slopes[0], atol=1e-8
    )


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
def test_many_different_measurements_need_no_table() -> None:
    generator = np.random.default_rng(0)
    truth = generator.normal(size=50_000)
    codes = truth + generator.normal(scale=0.5, size=(2, 50_000))
    alpha = krippendorff_alpha(codes, scale="interval")
    assert alpha.value == pytest.approx(1 / 1.25, abs=0.01)  # the intraclass correlation
    with pytest.raises(ValueError, match="for measurements use scale='interval'"):
        krippendorff_alpha(np.abs(codes), scale="ratio")


def test_a_ratio_scale_has_no_numbers_below_zero() -> None:
    codes = [[-1, 1, 3], [1, -1, 3]]  # -1 and 1 would be equal: their sum is 0
    with pytest.raises(ValueError, match="at least 0 for scale='ratio'"):
        krippendorff_alpha(codes, scale="ratio")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"codes": [[1, 2]]}, "at least 2 coders, not 1"),
        ({"codes": [[1, 2], [1]]}, r"same number of units for each coder, not \[2, 1\]"),
        ({"codes": [[1], [2]], "levels": [1]}, "among the levels"),
        ({"codes": [[1], [2]], "levels": [1, 1, 2]}, "levels must be different"),
        ({"codes": [[1], [2]], "unit_weights": [1, 2]}, "must be 1 numbers"),
        ({"codes": [[1], [2]], "unit_weights": [-1]}, "not negative"),
        ({"codes": [[1], [2]], "level": 95}, "level must be between 0.5 and 0.9999"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    for of in (krippendorff_alpha, gwet_ac1):
        with pytest.raises(ValueError, match=message):
            of(**arguments)


def test_other_arguments_that_do_not_fit() -> None:
    with pytest.raises(TypeError, match="a list for each coder"):
        percent_agreement("ab")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must have 2 units, as first has"):
        cohen_kappa([1, 2], [1])
    with pytest.raises(ValueError, match="weights must be one of"):
        cohen_kappa([1, 2], [1, 2], weights="equal")
    with pytest.raises(ValueError, match="2 numbers by distance, or 2 x 2"):
        cohen_kappa([1, 2], [1, 2], weights=[0, 1, 2])
    with pytest.raises(ValueError, match="0 for the same label"):
        cohen_kappa([1, 2], [1, 2], weights=[1, 0])
    with pytest.raises(ValueError, match="scale must be one of"):
        krippendorff_alpha([[1], [2]], scale="metric")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind must be one of"):
        percent_agreement([[1], [2]], kind="some")  # type: ignore[arg-type]


def test_numbers_may_be_texts_on_every_scale() -> None:
    """Codes of a gold sample are texts, but must be ordered as numbers: 10 after 9."""
    numbers = [[1, 9, 10, 2, 10], [2, 10, 10, 2, 1]]
    texts = [[str(number) for number in column] for column in numbers]
    for weights in ("linear", "quadratic"):
        expected = cohen_kappa(*numbers, weights=weights)
        assert float(cohen_kappa(*texts, weights=weights)) == float(expected)
    for scale in ("ordinal", "interval"):
        alpha = krippendorff_alpha(numbers, scale=scale)
        by_text = krippendorff_alpha(texts, scale=scale)
        assert float(by_text) == pytest.approx(float(alpha))
    with pytest.raises(ValueError, match="levels must give the order"):
        cohen_kappa(["1", "one"], ["1", "1"], weights="linear")


def test_a_table_with_a_row_per_unit_is_noticed() -> None:
    table = np.random.default_rng(1).integers(0, 3, (60, 2))
    for function in (lh.krippendorff_alpha, lh.percent_agreement):
        with pytest.warns(UserWarning, match="60 coders of 2 units: a row is a coder"):
            function(table)
        assert function(table.T).n_units == 60
        assert function(CodesByCoder(table.tolist())).n_units == 2


def test_kappa_takes_both_coders_as_alpha_does() -> None:
    first, second = ["a", "b", "b", "a"], ["a", "b", "a", "a"]
    assert lh.cohen_kappa([first, second]) == lh.cohen_kappa(first, second)
    with pytest.raises(ValueError, match="first must be codes of two coders, not 3"):
        lh.cohen_kappa([first, second, first])
