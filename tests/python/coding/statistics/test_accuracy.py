"""Tests of accuracy, calibration and coverage: by hand, and against other packages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from llamaherd.coding.statistics.accuracy import accuracy_of
from llamaherd.coding.statistics.calibration import (
    brier_score,
    calibration_error,
    coverage_curve,
    for_people,
)
from llamaherd.coding.statistics.intervals import (
    effective_n,
    share,
    share_limits,
    student_quantile,
    wilson,
)
from scipy import stats
from sklearn import metrics
from statsmodels.stats.proportion import proportion_confint
from thorough import sized


@pytest.mark.parametrize("df", [1, 2, 5, 30, 500, 9_999, 20_000, 1e6])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_quantiles_of_t(df: float, level: float) -> None:
    expected = stats.t.ppf((1 + level) / 2, df)
    assert student_quantile(level, df) == pytest.approx(expected, rel=1e-7)
    assert student_quantile(level, 0) == math.inf


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (3, 10), (10, 10), (499, 500), (0, 40)])
def test_wilson(hits: int, n: int) -> None:
    expected = proportion_confint(hits, n, alpha=0.1, method="wilson")
    assert wilson(hits / n, n, 0.9) == pytest.approx(expected, abs=1e-12)
    interval = share(np.arange(n) < hits, np.full(n, 3.0), 0.9)
    assert (interval.low, interval.high) == pytest.approx(
        share_limits(hits / n, n, 0.9), abs=1e-12
    )
    assert interval.n == n


def test_wilson_of_nothing() -> None:
    assert wilson(0.3, 0, 0.95) == (0, 1)
    assert share_limits(0.3, 0, 0.95) == (0, 1)


@pytest.mark.parametrize("n", [30, 50, 100, 300])
def test_intervals_of_shares_hold_however_near_1(n: int) -> None:
    """Exact coverage; Wilson's interval of 50 codes covers 91% where 99% are right."""
    hits = np.arange(n + 1)
    low, high = np.array([share_limits(k / n, n, 0.95) for k in hits]).T
    shares = np.linspace(0.5, 1 - 0.2 / n, 200)
    coverage = [
        stats.binom.pmf(hits, n, p)[(low <= p) & (p <= high)].sum() for p in shares
    ]
    assert min(coverage) >= 0.937
    assert np.mean(coverage) <= 0.97
    plain = np.diff([wilson(k / n, n, 0.95) for k in hits], axis=1)[:, 0]
    expected = stats.binom.pmf(hits, n, 1 - 5 / n)
    assert expected @ (high - low) <= 1.05 * (expected @ plain)
    empty = share(np.zeros(0), np.zeros(0), 0.95)
    assert math.isnan(empty.value)
    assert math.isnan(empty.low)


def test_effective_numbers_by_hand() -> None:
    # All hits: Kish's (1 + 3)^2 / (1 + 9) = 1.6. Otherwise p = 3/4, the variance
    # ((1/4 * 3)^2 + (-3/4)^2) / 16 * 2 = 0.140625, and 3/16 / 0.140625 = 4/3.
    w = np.array([3.0, 1.0])
    assert effective_n(np.ones(2), w, 1.0) == pytest.approx(1.6)
    assert effective_n(np.array([1.0, 0.0]), w, 0.75) == pytest.approx(4 / 3)
    # Weights that do not depend on hits: the result is near Kish's number, below n.
    generator = np.random.default_rng(0)
    weights = generator.choice([1.0, 5.0], 20_000)
    hits = (generator.random(20_000) < 0.3).astype(float)
    kish = weights.sum() ** 2 / (weights**2).sum()
    effective = effective_n(hits, weights, float(np.average(hits, weights=weights)))
    assert effective == pytest.approx(kish, rel=0.02)


@pytest.mark.parametrize(("pi_right", "pi_wrong"), [(0.05, 0.02), (0.02, 0.05)])
def test_intervals_of_weighted_shares_cover(pi_right: float, pi_wrong: float) -> None:
    # A sample in which errors are more frequent is more informative than a simple sample.
    # Its interval is too wide, because the effective number is never above n.
    generator = np.random.default_rng(1)
    right = generator.random(20_000) < 0.8
    pi = np.where(right, pi_right, pi_wrong)
    covered = plain = 0
    for _ in range(400):
        drawn = generator.random(20_000) < pi
        interval = share(right[drawn], 1 / pi[drawn], 0.95)
        covered += interval.low <= right.mean() <= interval.high
        naive = share(right[drawn], np.ones(drawn.sum()), 0.95)
        plain += naive.low <= right.mean() <= naive.high
    assert covered / 400 >= 0.925
    assert pi_right < pi_wrong or covered / 400 <= 0.975
    assert plain == 0  # without weights no interval contains the true value


def random_labels(generator: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    k, n = int(generator.integers(2, 6)), int(generator.integers(5, 80))
    names = np.array(list("abcdef"))[:k]
    truth = generator.choice(names, n)
    guess = generator.choice(names, n)
    predicted = np.where(generator.random(n) < 0.6, truth, guess)
    return predicted, truth, generator.uniform(0.5, 4, n), k


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
@pytest.mark.more(reason="200 of 1000 tables")
@pytest.mark.filterwarnings("ignore")
def test_scores_are_scikit_learns() -> None:
    generator = np.random.default_rng(7)
    for i in range(sized(200, 1000)):
        predicted, truth, weights, _ = random_labels(generator)
        w = weights if i % 2 else None
        result = accuracy_of(predicted.tolist(), truth.tolist(), unit_weights=w)
        arguments = {"y_true": truth, "y_pred": predicted, "sample_weight": w}
        p, r, f, _ = metrics.precision_recall_fscore_support(
            **arguments, labels=list(result.labels), zero_division=np.nan
        )
        for j, scores in enumerate(result.per_label):
            for ours, theirs in ((scores.precision, p), (scores.recall, r)):
                assert ours.value == pytest.approx(theirs[j], nan_ok=True)
            if not math.isnan(f[j]):
                assert scores.f1.value == pytest.approx(f[j])
        macro = metrics.precision_recall_fscore_support(
            **arguments, average="macro", zero_division=0
        )
        ours = (result.macro_precision, result.macro_recall, result.macro_f1)
        assert [mean.value for mean in ours] == pytest.approx(macro[:3])
        assert result.accuracy.value == pytest.approx(metrics.accuracy_score(**arguments))
        assert result.balanced_accuracy.value == pytest.approx(
            metrics.balanced_accuracy_score(**arguments)
        )
        # Rows are the labels given; scikit-learn has a row for each true label.
        theirs = metrics.confusion_matrix(truth, predicted, labels=list(result.labels))
        assert result.confusion.T.tolist() == theirs.tolist()


def test_intervals_and_baseline() -> None:
    truth = ["a"] * 70 + ["b"] * 30
    predicted = ["a"] * 60 + ["b"] * 35 + ["a"] * 5
    scores = accuracy_of(predicted, truth, labels=["b", "a", "never"])
    assert scores.labels == ("b", "a", "never")
    assert scores.majority_label == "a"
    assert scores.majority_accuracy.value == pytest.approx(0.7)
    assert scores.accuracy.value == pytest.approx(0.85)
    for measure in (scores.balanced_accuracy, scores.macro_f1, scores.per_label[0].f1):
        assert measure.low < measure.value < measure.high
    precision = scores.per_label[1].precision
    assert (precision.low, precision.high) == pytest.approx(
        share_limits(60 / 65, 65, 0.95)
    )
    never = scores.per_label[2]
    assert (never.n_gold, never.n_predicted, never.share) == (0, 0, 0)
    assert math.isnan(never.precision.value)
    assert math.isnan(never.f1.value)
    again = accuracy_of(predicted, truth, labels=scores.labels)
    assert again.macro_f1 == scores.macro_f1
    wide = accuracy_of(predicted, truth, level=0.99).macro_f1
    assert wide.high - wide.low > scores.macro_f1.high - scores.macro_f1.low


def test_a_rare_label_has_an_unseen_hit_and_an_unseen_miss() -> None:
    truth = ["a"] * 49 + ["b"] * 49 + ["rare"] * 2
    predicted = ["a"] * 49 + ["b"] * 49 + ["a", "b"]
    scores = accuracy_of(predicted, truth)
    assert scores.macro_f1.value == pytest.approx(2 / 3, abs=0.01)
    assert scores.macro_f1.low < scores.macro_f1.value < scores.macro_f1.high - 0.1
    found_both = accuracy_of(predicted[:98] + ["rare"] * 2, truth)
    assert 0 < found_both.per_label[2].f1.low < 0.5
    assert 0.5 < found_both.macro_f1.low < 0.8
    # The mean and its interval leave out labels that no text has.
    more = accuracy_of(predicted, truth, labels=["a", "b", "rare", "never"])
    assert more.macro_f1 == scores.macro_f1


def test_where_all_are_right_intervals_have_a_width() -> None:
    right = accuracy_of(["a", "b", "a"] * 10, ["a", "b", "a"] * 10)
    for score in (right.macro_f1, right.per_label[0].f1):
        assert (score.value, score.high, score.n > 0) == (1, 1, True)
        assert 0.8 < score.low < 0.95
    assert right.accuracy.low == pytest.approx(share_limits(1, 30, 0.95)[0])
    # MOVER of both recalls, which are 20 of 20 and 10 of 10
    arms = [1 - share_limits(1, n, 0.95)[0] for n in (20, 10)]
    mean = right.balanced_accuracy
    assert (mean.low, mean.high) == pytest.approx((1 - math.hypot(*arms) / 2, 1.0))
    never = accuracy_of(["a"] * 20, ["a"] * 18 + ["b"] * 2).per_label[1]
    assert never.f1.value == 0
    assert (never.f1.value, never.f1.low) == (0, 0)
    assert never.f1.high > 0.5  # few codes show that it is never found
    sure = brier_score(np.eye(2)[[0, 1, 0]], [0, 1, 0])
    assert sure.value == 0
    assert math.isnan(sure.high)


@pytest.mark.parametrize("share", [0.3, 0.1])
def test_means_of_shares_hold_for_few_units(share: float) -> None:
    """Percentiles of a bootstrap held the balanced accuracy in 87 to 91% of samples."""
    generator = np.random.default_rng(4)
    n, recalls = (50, (0.9, 0.9)) if share == 0.3 else (100, (0.97, 0.7))
    hits = {"balanced_accuracy": 0, "macro_precision": 0}
    cells = np.array([[1 - share], [share]]) * [
        [recalls[0], 1 - recalls[0]],
        [1 - recalls[1], recalls[1]],
    ]
    truth = {
        "balanced_accuracy": sum(recalls) / 2,
        "macro_precision": float((np.diag(cells) / cells.sum(axis=0)).mean()),
    }
    n_draws = 400
    for _ in range(n_draws):
        drawn = generator.choice(4, n, p=cells.ravel())
        scores = accuracy_of((drawn % 2).tolist(), (drawn // 2).tolist())
        for name, value in truth.items():
            interval = getattr(scores, name)
            hits[name] += interval.low <= value <= interval.high
    assert min(hits.values()) / n_draws >= 0.915


@pytest.mark.parametrize("false", [0.01, 0.05])
def test_f1_of_the_frequent_label_includes_errors_that_no_code_shows(
    false: float,
) -> None:
    """With equal strata, 95% intervals of this F1 held the true value in half of them."""
    rng = np.random.default_rng(0)
    n_texts, n = 4000, 100
    gold = rng.random(n_texts) < 0.03
    labels = np.where(gold, rng.random(n_texts) < 0.8, rng.random(n_texts) < false)
    truth = accuracy_of(labels.tolist(), gold.tolist())
    parts = [np.flatnonzero(labels == label) for label in (False, True)]
    n_held = {"f1": 0, "macro": 0}
    n_draws = 60
    for _ in range(n_draws):
        rows = np.concatenate([rng.choice(part, n, replace=False) for part in parts])
        scores = accuracy_of(
            labels[rows].tolist(),
            gold[rows].tolist(),
            unit_weights=np.repeat([len(part) / n for part in parts], n),
        )
        f1, true = scores.per_label[0].f1, truth.per_label[0].f1.value
        n_held["f1"] += f1.low <= true <= f1.high
        macro = scores.macro_f1
        n_held["macro"] += macro.low <= truth.macro_f1.value <= macro.high
    assert min(n_held.values()) / n_draws >= 0.91


@pytest.mark.parametrize("right", [0.95, 0.97, 0.98, 0.99])
def test_few_misses_of_two_labels_are_covered(right: float) -> None:
    """Exact coverage of 25 codes of each label; MOVER alone covers 93.5% at 98%."""
    n, covered = 25, 0.0
    probs = stats.binom.pmf(np.arange(10), n, 1 - right)
    truth = ["a"] * n + ["b"] * n
    for i, j in np.ndindex(10, 10):
        labels = ["b"] * i + ["a"] * (n - i) + ["a"] * j + ["b"] * (n - j)
        balanced = accuracy_of(labels, truth).balanced_accuracy
        covered += probs[i] * probs[j] * (balanced.low <= right <= balanced.high)
    assert covered >= 0.95


def test_a_mean_of_shares_with_many_misses_is_movers() -> None:
    truth = ["a"] * 60 + ["b"] * 40
    accuracy = accuracy_of(["a"] * 50 + ["b"] * 10 + ["b"] * 35 + ["a"] * 5, truth)
    recalls = [scores.recall for scores in accuracy.per_label]
    above = math.hypot(*(recall.high - recall.value for recall in recalls)) / 2
    mean = accuracy.balanced_accuracy
    assert mean.high == pytest.approx(mean.value + above)


def test_few_effective_missed_cases_are_reported() -> None:
    """Six missed cases, of which one has nearly all the weight, are few."""
    labels = ["yes"] * 20 + ["no"] * 80
    truth = ["yes"] * 26 + ["no"] * 74
    for heavy, is_few in ((1.1, False), (50.0, True)):
        weights = [1.0] * 20 + [heavy] + [1.0] * 79
        scores = accuracy_of(labels, truth, unit_weights=weights).per_label
        unfound = {label.label: label.unfound for label in scores}["yes"]
        assert (unfound is not None) == is_few


def test_missing_labels_are_left_out_and_nothing_gives_nothing() -> None:
    scores = accuracy_of(["a", None, "b", "b"], ["a", "a", None, "a"])
    assert (scores.n, scores.accuracy.value) == (2, 0.5)
    for none in (accuracy_of([], []), accuracy_of([None], ["a"])):
        assert none.n == 0
        assert none.majority_label is None
        values = (none.accuracy, none.macro_f1, none.majority_accuracy)
        assert all(math.isnan(score.value) for score in values)


def test_weights_that_are_continuous_are_drawn_with_their_units() -> None:
    generator = np.random.default_rng(9)
    predicted, truth, weights, _ = random_labels(generator)
    scores = accuracy_of(predicted.tolist(), truth.tolist(), unit_weights=weights)
    twice = accuracy_of(predicted.tolist(), truth.tolist(), unit_weights=2 * weights)
    assert scores.macro_f1 == twice.macro_f1
    assert scores.macro_f1.low < scores.macro_f1.value < scores.macro_f1.high


def test_calibration_by_hand() -> None:
    # Two bins of equal mass: in the first, with confidence 0.6, 1 of 2 is right; in the
    # second, with confidence 0.9, both are right.
    error = calibration_error([0.6, 0.6, 0.9, 0.9], [True, False, True, True], n_bins=2)
    assert error.ece == pytest.approx((0.1 + 0.1) / 2)
    assert error.overconfidence == pytest.approx(0)
    assert [b.accuracy.value for b in error.bins] == [0.5, 1]
    assert [b.weight for b in error.bins] == [0.5, 0.5]
    # With the weights 3 and 1, the share of right units in the first bin is 3/4.
    weighted = calibration_error(
        [0.6, 0.6, 0.9, 0.9],
        [True, False, True, True],
        n_bins=2,
        unit_weights=[3, 1, 2, 2],
    )
    assert weighted.ece == pytest.approx((0.15 + 0.1) / 2)


def test_calibration_does_not_depend_on_the_order() -> None:
    generator = np.random.default_rng(4)
    sure = np.round(generator.uniform(0.5, 1, 500), 2)  # many values are equal
    right = generator.random(500) < sure
    calibration = calibration_error(sure, right)
    order = generator.permutation(500)
    again = calibration_error(sure[order], right[order])
    assert again.ece == pytest.approx(calibration.ece)
    assert len(calibration.bins) == 10
    assert sum(b.weight for b in calibration.bins) == pytest.approx(1)
    assert all(0.07 < b.weight < 0.13 for b in calibration.bins)
    assert calibration.ece < 0.1  # for calibrated probabilities about sqrt(10 / 500) / 3
    one = calibration_error(np.full(500, 0.75), right)
    assert len(one.bins) == 1
    assert one.ece == pytest.approx(abs(0.75 - right.mean()))


def test_brier() -> None:
    probs = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [math.nan] * 3, [1, 0, 0]])
    brier = brier_score(probs, [0, 1, 0, -1])
    expected = (0.09 + 0.04 + 0.01 + 0.09 + 0.49 + 0.16) / 2
    assert brier.value == pytest.approx(expected)
    assert brier.n == 2
    generator = np.random.default_rng(5)
    two = generator.random(300)
    truth = (generator.random(300) < two).astype(int)
    brier = brier_score(np.stack([1 - two, two], axis=1), truth)
    assert brier.value == pytest.approx(2 * metrics.brier_score_loss(truth, two))
    errors = 2 * (truth - two) ** 2
    low, high = stats.t.interval(
        0.95, 299, errors.mean(), errors.std(ddof=1) / math.sqrt(300)
    )
    assert (brier.low, brier.high) == pytest.approx((low, high))
    assert math.isnan(brier_score(np.zeros((0, 2)), []).value)


def test_coverage_by_hand() -> None:
    sure = [0.9, 0.5, 0.9, 0.7, math.nan]
    right = [True, False, True, False, True]
    curve = coverage_curve(sure, right)
    assert curve.threshold.tolist() == [0.9, 0.7, 0.5]
    assert curve.coverage.tolist() == [0.5, 0.75, 1]
    assert curve.accuracy == pytest.approx(np.array([1, 2 / 3, 0.5]))
    assert (curve.low[0], curve.high[0]) == pytest.approx(share_limits(1, 2, 0.95))
    assert curve.threshold_for(0.6) == 0.7
    assert curve.threshold_for(0.5) == 0.5
    assert curve.threshold_for(0.6, sure=True) == math.inf
    assert for_people(sure, 0.7) == [4, 1]
    assert for_people(sure, math.inf) == [4, 1, 3, 0, 2]
    weighted = coverage_curve(sure, right, unit_weights=[1, 2, 1, 4, 1])
    assert weighted.coverage == pytest.approx(np.array([2, 6, 8]) / 8)
    assert weighted.accuracy == pytest.approx(np.array([1, 2 / 6, 2 / 8]))


def test_coverage_of_nothing() -> None:
    curve = coverage_curve([], [])
    assert (curve.n, len(curve.threshold), curve.threshold_for(0)) == (0, 0, math.inf)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="as many elements as confidence, 2, not 1"):
        calibration_error([0.1, 0.2], [True])
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        coverage_curve([1.5], [True])
    with pytest.raises(ValueError, match="n_bins must be between 1 and 1000"):
        calibration_error([0.5], [True], n_bins=0)
    with pytest.raises(ValueError, match="a row for each of 1 text"):
        brier_score(np.zeros((2, 2)), [0])
    with pytest.raises(ValueError, match="truth must be columns of 2, not 2"):
        brier_score(np.zeros((1, 2)), [2])
    with pytest.raises(ValueError, match="threshold must be between 0 and 1"):
        for_people([0.5], 2)
    with pytest.raises(ValueError, match="confidence must be between 0 and 1, not 50 to"):
        for_people([50.0, math.nan, 90.0], 0.7)
    with pytest.raises(ValueError, match="accuracy must be between 0 and 1"):
        coverage_curve([0.5], [True]).threshold_for(90)


def test_labels_of_the_same_units_are_not_independent() -> None:
    """Two labels that always occur together contain the information of one."""
    rng = np.random.default_rng(5)
    truth = [("a", "b") if row else () for row in rng.random(200) < 0.5]
    model = [
        row if right else ()
        for row, right in zip(truth, rng.random(200) < 0.8, strict=True)
    ]
    both = accuracy_of(model, truth, several=True)
    one = accuracy_of(
        [row[:1] for row in model], [row[:1] for row in truth], several=True
    )
    for name in ("macro_recall", "balanced_accuracy", "macro_f1"):
        of_both, of_one = getattr(both, name), getattr(one, name)
        assert of_both.value == pytest.approx(of_one.value)
        assert of_both.high - of_both.low == pytest.approx(of_one.high - of_one.low)
