"""Tests of strata that have few errors but most texts, and of similar samples."""

from __future__ import annotations

import warnings
from typing import Any

import llamaherd as lh
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llamaherd.research.estimation import few_errors
from llamaherd.research.statistics import counts, sampling, waves
from llamaherd.research.statistics.dsl import Problem
from llamaherd.research.statistics.waves import Wave
from scipy.stats import binomtest

N = 3000


def texts(seed: int = 0, share: float = 0.03, found: float = 0.6) -> dict[str, Any]:
    """Return texts with a rare label, which the model finds in part."""
    rng = np.random.default_rng(seed)
    code = rng.random(N) < share
    label = np.where(code, rng.random(N) < found, rng.random(N) < 0.01)
    names = np.array(["other", "threat"])
    return {
        "text": [f"text {i}" for i in range(N)],
        "label": names[label.astype(int)].tolist(),
        "code": names[code.astype(int)].tolist(),
    }


def coded(data: dict[str, Any], seed: int = 0, **options: Any) -> lh.GoldSample:
    drawn = lh.gold_sample(
        data, 200, by="label", allocation="equal", text="text", label="label",
        seed=seed, **options,
    )  # fmt: skip
    return drawn.with_codes([data["code"][i] for i in drawn.rows])


def told(caught: list[warnings.WarningMessage]) -> str:
    return "\n".join(str(each.message) for each in caught)


@pytest.mark.more(reason="repeats an estimate for many forms of the same data", cases=1)
@pytest.mark.parametrize("target", ["population", "texts"])
def test_a_rare_label_with_equal_strata(target: Any) -> None:
    """Wald's interval covered the share in 39 to 83% of samples, without a warning."""
    held = n_told = 0
    for seed in range(12):
        data = texts(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = lh.estimate(data, coded(data, seed), outcome="threat", target=target)
        n_told += "correction of the labels for 'threat' is uncertain" in told(caught)
        truth = np.mean([each == "threat" for each in data["code"]])
        rows = [row for row in found.rows if row.method != "naive"]
        held += all(row.low <= truth <= row.high for row in rows)
    assert held >= 11
    assert n_told >= 10  # other samples show at least five errors


def test_recall_is_bounded_by_the_texts_that_could_hold_misses() -> None:
    """The simple interval of recall was 1.00 [0.94, 1.00]; the true recall is 0.6."""
    held, n_told = np.zeros(3), 0
    for seed in range(12):
        data = texts(seed)
        found = lh.validate(data, coded(data, seed), label="label", n_bootstrap=200)
        scores = next(e for e in found.accuracy.per_label if e.label == "threat")
        measures = [scores.recall, scores.f1, found.accuracy.balanced_accuracy]
        truths = [0.6, 0.62, 0.8]
        held += [m.low <= t <= m.high for m, t in zip(measures, truths, strict=True)]
        n_told += any("Recall of 'threat' may be as low as" in e for e in found.warnings)
    assert held.min() >= 10
    assert n_told >= 10


def test_few_one_sided_errors_are_warned_of_for_each_target() -> None:
    label = ["a" if i % 2 else "b" for i in range(1000)]
    code: list[str | None] = [*label[:100], *[None] * 900]
    code[1] = "b"
    for target in ("population", "texts"):
        with pytest.warns(UserWarning, match="Few coded texts have a wrong label"):
            found = lh.estimate(
                {"label": label}, code, outcome="a", prob="simple", target=target
            )
        row = found.by("dsl")[0]
        # the model may have missed more texts
        assert row.estimate - row.low > row.high - row.estimate


def test_sure_texts_with_few_codes_are_warned_of() -> None:
    rng = np.random.default_rng(1)
    data = {
        "text": [str(i) for i in range(1000)],
        "label": rng.choice(["a", "b"], 1000).tolist(),
        "sure": np.where(rng.random(1000) < 0.95, 1.0, rng.random(1000)).tolist(),
    }
    drawn = lh.gold_sample(
        data, 50, prob="uncertainty", confidence="sure", text="text", label="label",
        seed=2,
    )  # fmt: skip
    gold = drawn.with_codes([data["label"][i] for i in drawn.rows])
    with pytest.warns(UserWarning, match=r"9\d% of the texts, those with the lowest"):
        found = lh.estimate(data, gold, outcome="a", methods=["dsl"])
    assert found.rows[0].high - found.rows[0].low > 0.1


def test_response_that_depends_on_the_label_is_weighted_by_label() -> None:
    """Coders coded 90% of one label and 50% of the other; unweighted coverage was 65%."""
    rng = np.random.default_rng(3)
    code = rng.random(N) < 0.4
    label = np.where(rng.random(N) < 0.85, code, ~code)
    names = np.array(["no", "yes"])
    data = {
        "text": [f"{i}" for i in range(N)],
        "label": names[label.astype(int)].tolist(),
    }
    drawn = lh.gold_sample(data, 300, text="text", label="label", seed=1)
    given: list[str | None] = [names[int(code[i])] for i in drawn.rows]
    for k, i in enumerate(drawn.rows):
        if rng.random() > (0.9 if label[i] else 0.5):
            given[k] = None
    with pytest.warns(
        UserWarning, match=r"not at random: .* Codes are weighted by label"
    ):
        found = lh.estimate(data, drawn.with_codes(given), outcome="yes")
    for row in found.rows:
        if row.method in {"dsl", "gold"}:
            assert row.estimate == pytest.approx(0.4, abs=0.07)


@pytest.mark.filterwarnings("ignore:.*ha(s|ve) a wrong label:UserWarning")
def test_events_and_not_codes_count_in_a_logit() -> None:
    rng = np.random.default_rng(4)
    label = np.where(rng.random(1000) < 0.04, "yes", "no")
    code = [each if i < 300 else None for i, each in enumerate(label.tolist())]
    code[0] = "yes" if code[0] == "no" else "no"
    data = {"label": label.tolist(), "x": rng.normal(size=1000).tolist()}
    with pytest.warns(UserWarning, match="The rarer outcome has [0-9]+ codes"):
        lh.estimate(data, code, "label == 'yes' ~ x", model="logit", prob="simple")


def test_leverage() -> None:
    rng = np.random.default_rng(5)
    x = np.exp(2 * rng.normal(size=500))
    label = np.where(rng.random(500) < 0.5, "yes", "no")
    code = [each if i < 100 else None for i, each in enumerate(label.tolist())]
    data = {"label": label.tolist(), "x": x.tolist()}
    with pytest.warns(UserWarning, match="leverage of 0"):
        lh.estimate(data, code, "label == 'yes' ~ x", prob="simple", methods=["gold"])
    data["x"][3] = np.inf
    with pytest.raises(ValueError, match="finite numbers, but 'x' is inf for 1 text"):
        lh.estimate(data, code, "label == 'yes' ~ x", prob="simple")


@pytest.mark.filterwarnings("ignore:.*ha(s|ve) a wrong label:UserWarning")
def test_clusters() -> None:
    rng = np.random.default_rng(6)
    label = np.where(rng.random(600) < 0.5, "yes", "no").tolist()
    code = [each if i % 3 else None for i, each in enumerate(label)]
    code[1] = "yes" if code[1] == "no" else "no"
    data = {"label": label, "who": [i % 5 for i in range(600)], "one": [1] * 600}
    with pytest.warns(UserWarning, match="5 clusters have codes"):
        found = lh.estimate(data, code, outcome="yes", prob="simple", cluster="who")
    assert {row.df for row in found.by("naive")} == {4}
    assert not any("target='texts'" in note for note in found.notes)
    with pytest.raises(ValueError, match="cluster must have two values at least"):
        lh.estimate(data, code, outcome="yes", prob="simple", cluster="one")


@pytest.mark.parametrize(("k", "n"), [(0, 50), (1, 40), (7, 200), (40, 40)])
def test_a_total_with_equal_weights_has_wilsons_limits(k: int, n: int) -> None:
    weight = 20.0
    found = counts.total(np.full(k, weight), weight, n * weight, 0.95)
    wanted = binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert found.high / (n * weight) == pytest.approx(wanted.high)
    assert found.low / (n * weight) == pytest.approx(wanted.low)


def test_a_ratio_is_fiellers_where_limits_are_symmetric() -> None:
    above = counts.ConfidenceLimits(value=3.0, low=2.0, high=4.0)
    below = counts.ConfidenceLimits(value=10.0, low=8.0, high=12.0)
    found = counts.ratio(above, below)
    for each in (found.low, found.high):  # (3 - r 10)^2 = 1 + r^2 4
        assert (3 - each * 10) ** 2 == pytest.approx(1 + 4 * each**2)
    none = counts.ConfidenceLimits(value=0.0, low=0.0, high=0.0)
    assert counts.ratio(above, none).high == np.inf


def test_satterthwaite() -> None:
    parts = counts.satterthwaite(np.array([1.0, 1.0]), np.array([4.0, 4.0]), 0.0)
    assert parts == 8
    assert counts.satterthwaite(np.zeros(2), np.ones(2), 1.0) == np.inf


def by_group(
    value: str, n_coded: int, *, has_probs: bool
) -> dict[str, tuple[float, ...]]:
    """Return interval and standard error of codes alone that are all `value`."""
    n, n_gold = 1000, 40
    group = ["a"] * 500 + ["b"] * 500
    rows = [*range(n_gold - n_coded), *range(500, 500 + n_coded)]
    code: list[str | None] = [None] * n
    for i in rows:
        code[i] = value
    data = {"label": ["yes", "no"] * 500, "grp": group}
    options: dict[str, Any] = {"prob": "simple"}
    if has_probs:
        options["prob"] = [n_gold / n] * n
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = lh.estimate(
            data, code, outcome="yes", by="grp", methods=["gold"], **options
        )
    return {row.group: (row.estimate, row.low, row.high) for row in found.rows}


@settings(max_examples=29, deadline=None)
@given(n_coded=st.integers(2, 30), has_probs=st.booleans())
def test_equal_codes_of_a_group_have_an_interval(n_coded: int, has_probs: bool) -> None:
    """A group with fewer codes than expected had the interval [1, 1] for a share of 1."""
    yes = by_group("yes", n_coded, has_probs=has_probs)
    no = by_group("no", n_coded, has_probs=has_probs)
    for name in ("a", "b"):
        assert yes[name][0] == pytest.approx(1)
        assert yes[name][1] == pytest.approx(1 - no[name][2])  # shares mirror each other
        assert yes[name][2] == pytest.approx(1 - no[name][1])
        assert yes[name][2] - yes[name][1] > 0.05
    assert yes["b - a"][1] < 0 < yes["b - a"][2]
    n = n_coded
    wanted = binomtest(n, n).proportion_ci(0.95, method="wilson")
    assert yes["b"][1] == pytest.approx(wanted.low, abs=0.01)


def test_a_stratum_without_codes_of_a_group_moves_both_limits() -> None:
    data = {
        "label": (["yes", "no"] * 50) * 2,
        "text": [f"text {i}" for i in range(200)],
        "topic": ["a"] * 100 + ["b"] * 100,
        "grp": ["one"] * 100 + ["one", "two"] + ["two"] * 98,
    }
    drawn = lh.gold_sample(
        data, 20, by="topic", allocation="equal", text="text", label="label", seed=1
    )
    assert 100 not in drawn.rows  # the only text of its group in its stratum
    limits = {}
    for value in ("yes", "no"):
        gold = drawn.with_codes([value] * 20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = lh.estimate(data, gold, outcome="yes", by="grp", methods=["gold"])
        row = found.rows[0]
        assert row.group == "one"
        limits[value] = row.low, row.high
    assert limits["yes"] == pytest.approx((1 - limits["no"][1], 1.0))
    assert limits["yes"][0] < 1 - 1.96**2 / (10 + 1.96**2)  # Wilson's, of ten codes


@pytest.mark.parametrize("labels", [["yes", "no", "no", "yes"], ["no"] * 4])
def test_codes_of_all_texts_leave_no_unseen_errors(labels: list[str]) -> None:
    """With all texts coded, DSL's interval was wider than that of the codes."""
    data = {"text": [f"text {i}" for i in range(100)], "label": labels * 25}
    drawn = lh.gold_sample(data, 100, text="text", label="label", names=["no", "yes"])
    gold = drawn.with_codes([data["label"][row] for row in drawn.rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = lh.estimate(data, gold, outcome="no", methods=["dsl", "gold"])
    dsl, by_codes = found.rows
    limits = by_codes.low, by_codes.high
    assert (dsl.low, dsl.high) == pytest.approx(limits)
    assert by_codes.high - by_codes.low > 0.03  # also if all codes are equal


@pytest.mark.parametrize("n_coded", [100, 60])
def test_a_share_of_1_has_an_interval_if_no_text_differs(n_coded: int) -> None:
    """If all labels and codes were equal, no method gave an interval."""
    data = {"text": [f"text {i}" for i in range(100)], "label": ["no"] * 100}
    drawn = lh.gold_sample(data, n_coded, text="text", label="label", names=["no", "yes"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = lh.estimate(data, drawn.with_codes(["no"] * n_coded), outcome="no")
    wanted = binomtest(n_coded, n_coded).proportion_ci(0.95, method="wilson")
    rows = {row.method: row for row in found.rows if not np.isnan(row.estimate)}
    for method in ("dsl", "gold"):
        limits = rows[method].low, rows[method].high
        assert limits == pytest.approx((wanted.low, 1.0), abs=0.002)


def problem_with(clusters: Any, code: Any, label: Any) -> Problem:
    """Return the share of a simple random sample of every fourth text."""
    n = len(code)
    rows = np.arange(0, n, 4)
    return Problem(
        kind="ols",
        x_hat=np.ones((n, 1)),
        y_hat=label,
        rows=rows,
        x=np.ones((len(rows), 1)),
        y=code[rows],
        probs=np.full(len(rows), 0.25),
        strata=np.zeros(len(rows), dtype=np.int64),
        clusters=clusters,
        all_probs=np.full(n, 0.25),
        all_strata=np.zeros(n, dtype=np.int64),
    )


@pytest.mark.parametrize("has_labels", [True, False])
def test_errors_of_a_cluster_count_once(has_labels: bool) -> None:
    """Fifteen errors in three clusters are three cases: their rate is hardly known."""
    n = 400
    clusters = np.repeat(np.arange(40), 10)
    code = (clusters < 8).astype(float)
    label = np.zeros(n)
    far = np.array([2.0])
    numbers = {}
    for name, own in (("texts", None), ("clusters", clusters)):
        made = problem_with(own, code, label)
        numbers[name] = next(
            each.n_cases
            for each in few_errors.cells(made, 0, (0.0, 1.0), has_labels=has_labels)
        )
        reach = few_errors.reach(made, 0.95, far, ends=(0.0, 1.0), has_labels=has_labels)
        assert (reach.above[0] > 0) == (name == "clusters")
    assert numbers == {"texts": 20, "clusters": 8}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_waves", [1, 3])
def test_a_rate_without_cases_has_a_limit_that_draws_can_exclude(
    n_waves: int, seed: int
) -> None:
    """Draw unequal waves; if `high` texts were cases, a case is missed in 5% at most.

    The cases are the texts that the waves draw most rarely.
    """
    rng = np.random.default_rng(seed)
    n, size = 2000, 60
    none, drawn, made = np.ones(n), np.zeros(0, dtype=np.int64), []
    for _ in range(n_waves):
        left = np.setdiff1d(np.arange(n), drawn)
        most = waves.highest([*(wave.n for wave in made), size], n)
        own = waves.bounded(rng.gamma(1.0, size=len(left)), size, 0.3, most)
        probs = np.zeros(n)
        probs[left] = own
        rows = left[sampling.draw_unequal(own, rng).rows]
        strata = np.where(probs > 0, 0, -1)
        made.append(Wave(rows=rows, probs=probs, strata=strata, n=size, n_left=len(left)))
        drawn = np.concatenate([drawn, rows])
        none *= 1 - probs
    all_probs = waves.combined(made).all_probs
    heavy = counts.heaviest(all_probs, 0.95)
    high = counts.total(np.zeros(0), heavy, float(n), 0.95).high
    missed = np.prod(np.sort(none)[::-1][: int(np.ceil(high))])
    assert missed < 0.06
    assert high < n / 4  # the limit is not trivial

    # All codes are cases: the limits mirror those without cases.
    weights = np.full(size, n / size)
    all_cases = counts.total(weights, n / size, float(n), 0.95)
    no_case = counts.total(np.zeros(0), n / size, float(n), 0.95)
    assert all_cases.high == pytest.approx(n)
    assert all_cases.low == pytest.approx(n - no_case.high)
    assert no_case.low == 0
