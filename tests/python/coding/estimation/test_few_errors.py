"""Tests of strata that have few errors but most texts, and of similar samples."""

from __future__ import annotations

import warnings
from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llamaherd.coding.gold import waves
from llamaherd.coding.gold.waves import Wave
from llamaherd.coding.statistics import dsl, sampling
from llamaherd.coding.statistics.dsl import Problem
from llamaherd.coding.statistics.influences import Influences
from llamaherd.coding.statistics.uncertainty import heaviest
from scipy.stats import norm, t

N = 3000


def texts(seed: int = 0, share: float = 0.03, recall: float = 0.6) -> dict[str, Any]:
    """Return texts with a rare label, which the model finds in part."""
    rng = np.random.default_rng(seed)
    code = rng.random(N) < share
    label = np.where(code, rng.random(N) < recall, rng.random(N) < 0.01)
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


def messages(caught: list[warnings.WarningMessage]) -> str:
    return "\n".join(str(warning.message) for warning in caught)


@pytest.mark.more(reason="repeats an estimate for many forms of the same data", cases=1)
@pytest.mark.parametrize("target", ["population", "texts"])
def test_a_rare_label_with_equal_strata(target: Any) -> None:
    """Wald's interval covered the share in 39 to 83% of samples, without a warning."""
    held = n_told = 0
    for seed in range(12):
        data = texts(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit = lh.estimate(data, coded(data, seed), outcome="threat", target=target)
        n_told += "correction of the labels for 'threat' is uncertain" in messages(caught)
        truth = np.mean([code == "threat" for code in data["code"]])
        rows = [row for row in fit.rows if row.method != "naive"]
        held += all(row.low <= truth <= row.high for row in rows)
    assert held >= 11
    assert n_told >= 10  # other samples show at least five errors


def test_recall_is_bounded_by_the_texts_that_could_hold_misses() -> None:
    """The simple interval of recall was 1.00 [0.94, 1.00]; the true recall is 0.6."""
    held, n_told = np.zeros(3), 0
    for seed in range(12):
        data = texts(seed)
        checks = lh.validate(data, coded(data, seed), label="label")
        scores = next(e for e in checks.accuracy.per_label if e.label == "threat")
        measures = [scores.recall, scores.f1, checks.accuracy.balanced_accuracy]
        truths = [0.6, 0.62, 0.8]
        held += [m.low <= t <= m.high for m, t in zip(measures, truths, strict=True)]
        n_told += any("Recall of 'threat' may be as low as" in e for e in checks.warnings)
    assert held.min() >= 10
    assert n_told >= 10


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
        estimates = lh.estimate(data, gold, outcome="a", methods=["dsl"])
    assert estimates.rows[0].high - estimates.rows[0].low > 0.1


@pytest.mark.filterwarnings("ignore:.*ha(s|ve) a wrong label:UserWarning")
def test_events_and_not_codes_count_in_a_logit() -> None:
    rng = np.random.default_rng(4)
    label = np.where(rng.random(1000) < 0.04, "yes", "no")
    code = [name if i < 300 else None for i, name in enumerate(label.tolist())]
    code[0] = "yes" if code[0] == "no" else "no"
    data = {"label": label.tolist(), "x": rng.normal(size=1000).tolist()}
    with pytest.warns(UserWarning, match="The rarer outcome has [0-9]+ codes"):
        lh.estimate(data, code, "label == 'yes' ~ x", model="logit", prob="simple")


def test_leverage() -> None:
    rng = np.random.default_rng(5)
    x = np.exp(2 * rng.normal(size=500))
    label = np.where(rng.random(500) < 0.5, "yes", "no")
    code = [name if i < 100 else None for i, name in enumerate(label.tolist())]
    data = {"label": label.tolist(), "x": x.tolist()}
    with pytest.warns(UserWarning, match="leverage of 0"):
        lh.estimate(data, code, "label == 'yes' ~ x", prob="simple", methods=["gold"])
    data["x"][3] = np.inf
    with pytest.raises(ValueError, match=r"up to 1e\+50, but 'x' is inf for 1 text"):
        lh.estimate(data, code, "label == 'yes' ~ x", prob="simple")


@pytest.mark.filterwarnings("ignore:.*ha(s|ve) a wrong label:UserWarning")
def test_clusters() -> None:
    rng = np.random.default_rng(6)
    label = np.where(rng.random(600) < 0.5, "yes", "no").tolist()
    code = [name if i % 3 else None for i, name in enumerate(label)]
    code[1] = "yes" if code[1] == "no" else "no"
    data = {"label": label, "who": [i % 5 for i in range(600)], "one": [1] * 600}
    with pytest.warns(UserWarning, match="5 clusters have codes"):
        estimates = lh.estimate(data, code, outcome="yes", prob="simple", cluster="who")
    assert {row.df for row in estimates.by("naive")} == {4}
    assert not any("target='texts'" in note for note in estimates.notes)
    with pytest.raises(ValueError, match="cluster must have two values at least"):
        lh.estimate(data, code, outcome="yes", prob="simple", cluster="one")


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
        estimates = lh.estimate(
            data, code, outcome="yes", by="grp", methods=["gold"], **options
        )
    return {row.group: (row.estimate, row.low, row.high) for row in estimates.rows}


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
    far = 1 + t.ppf(0.975, max(n_coded - 1, 1))  # one unseen case, and its variance
    assert yes["b"][1] == pytest.approx(max(1 - far / n_coded, 0), abs=0.02)


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
            estimates = lh.estimate(data, gold, outcome="yes", by="grp", methods=["gold"])
        row = estimates.rows[0]
        assert row.group == "one"
        limits[value] = row.low, row.high
    assert limits["yes"] == pytest.approx((1 - limits["no"][1], 1.0))
    assert limits["yes"][0] < 1 - 2.9 / 10


@pytest.mark.parametrize("labels", [["yes", "no", "no", "yes"], ["no"] * 4])
def test_codes_of_all_texts_leave_no_unseen_errors(labels: list[str]) -> None:
    """With all texts coded, DSL's interval was wider than that of the codes."""
    data = {"text": [f"text {i}" for i in range(100)], "label": labels * 25}
    drawn = lh.gold_sample(data, 100, text="text", label="label", names=["no", "yes"])
    gold = drawn.with_codes([data["label"][row] for row in drawn.rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimates = lh.estimate(data, gold, outcome="no", methods=["dsl", "gold"])
    dsl, by_codes = estimates.rows
    limits = by_codes.low, by_codes.high
    assert (dsl.low, dsl.high) == pytest.approx(limits)
    assert by_codes.high - by_codes.low > 0.029  # also if all codes are equal


@pytest.mark.parametrize("n_coded", [100, 60])
def test_a_share_of_1_has_an_interval_if_no_text_differs(n_coded: int) -> None:
    """If all labels and codes were equal, no method gave an interval."""
    data = {"text": [f"text {i}" for i in range(100)], "label": ["no"] * 100}
    drawn = lh.gold_sample(data, n_coded, text="text", label="label", names=["no", "yes"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimates = lh.estimate(data, drawn.with_codes(["no"] * n_coded), outcome="no")
    far = (1 + t.ppf(0.975, n_coded - 1)) / n_coded
    rows = {row.method: row for row in estimates.rows if not np.isnan(row.estimate)}
    for method in ("dsl", "gold"):
        limits = rows[method].low, rows[method].high
        assert limits == pytest.approx((1 - far, 1.0), abs=0.002)


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


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_errors_of_a_cluster_count_once(lam: float) -> None:
    """Twenty errors in eight clusters are eight cases, those of one cluster are one."""
    n = 400
    clusters = np.repeat(np.arange(40), 10)
    seen = {}
    for n_wrong in (8, 1):
        code = (clusters < n_wrong).astype(float)
        for name, units in (("texts", None), ("clusters", clusters)):
            study = problem_with(units, code, np.zeros(n))
            theta = dsl.solution_at(study, lam)
            influences = Influences.of(study, lam, theta, np.ones((1, 1)))
            higher = influences.cases((0.0, 1.0), 0.95)[0]
            seen[n_wrong, name] = higher.fade[0]
    assert seen[8, "texts"] == 0
    assert seen[8, "clusters"] == 0
    assert seen[1, "clusters"] == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_waves", [1, 3])
def test_a_rate_without_cases_has_a_limit_that_draws_can_exclude(
    n_waves: int, seed: int
) -> None:
    """Draw unequal waves; if as many texts as the limit were cases, one would be seen.

    The cases are the texts that the waves draw most rarely.
    """
    rng = np.random.default_rng(seed)
    n, size = 2000, 60
    none, drawn, past = np.ones(n), np.zeros(0, dtype=np.int64), []
    for _ in range(n_waves):
        left = np.setdiff1d(np.arange(n), drawn)
        most = waves.shares([*(wave.n for wave in past), size], n)[-1]
        chances = waves.bounded_probs(rng.gamma(1.0, size=len(left)), size, 0.3, most)
        probs = np.zeros(n)
        probs[left] = chances
        rows = left[sampling.draw_unequal(chances, rng).rows]
        strata = np.where(probs > 0, 0, -1)
        past.append(Wave(rows=rows, probs=probs, strata=strata, n=size, n_left=len(left)))
        drawn = np.concatenate([drawn, rows])
        none *= 1 - probs
    all_probs = waves.combine(past).all_probs
    heavy = heaviest(1 / all_probs, all_probs, 0.95)
    high = heavy * (1 + norm.ppf(0.975))  # V = 0: one unseen case, and its variance
    missed = np.prod(np.sort(none)[::-1][: int(np.ceil(high))])
    assert missed < 0.1  # 0.05 with equal probabilities
    assert high < n / 4  # the limit is not trivial


@pytest.mark.parametrize("prob", ["simple", "stratified"])
def test_a_share_of_half_a_percent_is_warned_of(prob: Any) -> None:
    """Its intervals by codes alone covered 90 to 93% in simulations."""
    rng = np.random.default_rng(8)
    code = np.where(rng.random(4000) < 0.005, "yes", "no")
    label = np.where(rng.random(4000) < 0.99, code, "no")
    data = pd.DataFrame({"text": [f"text {i}" for i in range(4000)], "label": label})
    gold = lh.gold_sample(data, 400, prob=prob, seed=1)
    gold = gold.with_codes([code[row] for row in gold.rows])
    with pytest.warns(UserWarning, match=r"unreliable|uncertain|too short"):
        lh.estimate(data, gold, outcome="yes")
