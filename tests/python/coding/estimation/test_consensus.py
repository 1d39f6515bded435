"""Tests of coders who err, many intervals at once, and hints about the design."""

from __future__ import annotations

import re
from dataclasses import replace

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from llamaherd.coding.estimation.inputs import agreement_line

# The samples are small, so estimate() warns.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 600
RNG = np.random.default_rng(7)
SPEAKER = RNG.integers(0, 40, N)
CODE = np.where(RNG.random(N) < RNG.random(40)[SPEAKER], "yes", "no")
DATA = pd.DataFrame(
    {
        "id": range(N),
        "label": np.where(RNG.random(N) < 0.2, "no", CODE),
        "party": RNG.choice(["A", "B"], N),
        "speaker": [f"s{i}" for i in SPEAKER],
    }
)
PLAIN = DATA[["id", "label", "party"]]


def gold(rights: tuple[float, ...] = (0.95, 0.8, 0.8)) -> lh.GoldSample:
    drawn = lh.gold_sample(DATA, 150, label="label", seed=3)
    truth, rng = CODE[drawn.rows], np.random.default_rng(1)
    other = np.where(truth == "yes", "no", "yes")
    codes = {
        f"coder {j}": np.where(rng.random(150) < right, truth, other).tolist()
        for j, right in enumerate(rights)
    }
    return drawn.with_codes(codes)


def test_labels_and_coders_of_the_model() -> None:
    consensus = lh.dawid_skene(gold())
    assert consensus.names == ("no", "yes")
    assert consensus.probs.shape == (150, 2)
    assert consensus.accuracy["coder 0"] > consensus.accuracy["coder 1"]
    assert consensus.to_pandas().columns.tolist() == ["id", "label", "p_no", "p_yes"]
    assert "coder 0: right in" in str(consensus)


def test_few_coders_are_refused() -> None:
    with pytest.raises(ValueError, match="3 coders at least"):
        lh.dawid_skene(gold((0.9, 0.8)))


def test_agreement_is_printed_beside_estimates() -> None:
    estimates = lh.estimate(PLAIN, gold(), outcome="yes")
    alpha = lh.krippendorff_alpha(gold().codes).value
    assert "3 coders agree in" in estimates.agreement
    assert f"{alpha:.2f}" in estimates.agreement
    assert estimates.agreement in str(estimates)
    assert not lh.estimate(PLAIN, gold((1.0,)), outcome="yes").agreement


def test_intervals_that_hold_together_are_wider() -> None:
    separate, bonferroni = (
        lh.estimate(PLAIN, gold(), by="party", methods=["gold"], simultaneous=way)
        for way in (None, "bonferroni")
    )
    alone = lh.estimate(
        PLAIN, gold(), by="party", methods=["gold"], level=1 - 0.05 / len(separate.rows)
    )
    for one, two, three in zip(separate.rows, bonferroni.rows, alone.rows, strict=True):
        assert one.high - one.low < two.high - two.low
        assert (two.low, two.high) == pytest.approx((three.low, three.high))
        assert one.estimate == two.estimate
    assert bonferroni.level == 0.95
    assert "simultaneous (Bonferroni)" in str(bonferroni)
    with pytest.raises(ValueError, match=r"simultaneous must .*'bonferroni'"):
        lh.estimate(PLAIN, gold(), simultaneous="max_t")  # type: ignore[arg-type]


def test_a_column_by_which_texts_cluster_is_hinted_at() -> None:
    estimates = lh.estimate(DATA, gold(), outcome="yes")
    hint = next(note for note in estimates.notes if "'speaker'" in note)
    named = lh.estimate(DATA, gold(), outcome="yes", cluster="speaker")
    ratio = (named.rows[0].high - named.rows[0].low) / (
        estimates.rows[0].high - estimates.rows[0].low
    )
    assert f"{ratio:.1f} times as wide" in hint
    assert not any("'speaker'" in note for note in named.notes)


@pytest.mark.filterwarnings("ignore:.*(few|fewer|have codes):UserWarning")
def test_copies_of_texts_are_one_cluster() -> None:
    """Thirty texts of twenty copies each were taken for 600 texts: coverage of 85%."""
    rng = np.random.default_rng(5)
    code = np.repeat(rng.random(30) < 0.4, 20)
    label = np.where(np.repeat(rng.random(30) < 0.2, 20), ~code, code)
    names = np.array(["no", "yes"])
    data = {
        "text": [f"text {i // 20}" for i in range(600)],
        "label": names[label.astype(int)].tolist(),
    }
    codes = [names[int(code[i])] if i % 4 == 0 else None for i in range(600)]
    options = {"outcome": "yes", "prob": "simple", "methods": ["dsl", "gold"]}
    estimates = lh.estimate(data, codes, text="text", **options)
    assert any("570 texts of 600 are copies of other texts" in n for n in estimates.notes)
    other = {**data, "text": [f"text {i}" for i in range(600)]}
    plain = lh.estimate(other, codes, text="text", **options)
    assert not any("copies" in note for note in plain.notes)
    for row, alone in zip(estimates.rows, plain.rows, strict=True):
        assert row.estimate == alone.estimate
        assert row.std_error > 2 * alone.std_error
    few = {**other, "text": ["text 1", *other["text"][1:]]}
    assert not any(
        "copies" in n for n in lh.estimate(few, codes, text="text", **options).notes
    )


def test_columns_without_clusters_are_not_hinted_at() -> None:
    mixed = RNG.permutation(DATA["speaker"].to_numpy())
    data = PLAIN.assign(other=mixed, number=RNG.normal(size=N), unique=range(N))
    assert not any("similar labels" in n for n in lh.estimate(data, gold()).notes)


def test_codes_of_picked_texts_are_hardly_simple() -> None:
    picked = np.where((DATA["label"] == "yes") & (np.arange(N) % 2 == 0), CODE, None)
    with pytest.warns(UserWarning, match="hardly a simple sample"):
        estimates = lh.estimate(PLAIN, picked.tolist(), prob="simple", methods=["gold"])
    assert estimates.label_check is not None
    assert estimates.label_check.n_coded[0] == 0
    checked = lh.validate(PLAIN, picked.tolist(), label="label")
    assert any("hardly a simple sample" in line for line in checked.warnings)


def test_codes_of_a_simple_sample_are_believed() -> None:
    codes = [code if i % 3 == 0 else None for i, code in enumerate(CODE)]
    estimates = lh.estimate(PLAIN, codes, prob="simple", methods=["gold"])
    assert estimates.label_check is not None
    assert estimates.label_check.p_value > 0.05
    assert "labels of the coded texts" in str(estimates)


def test_the_agreement_of_coders_has_the_scale_of_the_sample() -> None:
    levels = ["high", "low", "mid"]
    drawn = lh.gold_sample(DATA, 150, names=[*levels, "no", "yes"], seed=3)
    codes = {
        name: RNG.choice(levels, 150, p=[0.2, 0.3, 0.5]).tolist() for name in ("a", "b")
    }
    sample = replace(
        drawn.with_codes(codes),
        names=("low", "mid", "high"),
        design={**drawn.design, "scale": "ordinal"},
    )
    alpha = lh.krippendorff_alpha(
        list(codes.values()), scale="ordinal", levels=["low", "mid", "high"]
    )
    assert agreement_line(sample).endswith(
        f"(Krippendorff's alpha, ordinal: {alpha.value:.2f})"
    )
    assert "alpha, nominal: " in agreement_line(drawn.with_codes(codes))
    data = DATA.assign(label=RNG.normal(size=N))
    numbers = lh.gold_sample(data, 50, label="label", seed=3)
    first = [float(data["label"].iloc[row]) for row in numbers.rows]
    coders = {"a": first, "b": [number + 0.5 for number in first]}
    alpha = lh.krippendorff_alpha(list(coders.values()), scale="interval")
    estimates = lh.estimate(data, numbers.with_codes(coders)).agreement
    assert estimates.endswith(f"(Krippendorff's alpha, interval: {alpha.value:.2f})")


def test_notes_list_only_the_first_groups() -> None:
    data = DATA.assign(group=[f"g{i % 100}" for i in range(N)])
    estimates = lh.estimate(data, gold(), outcome="yes", by="group")
    few = next(note for note in estimates.notes if "have few codes" in note)
    # 12 groups, each with its number of codes in parentheses
    assert few.count(" (") == 13  # and one around all
    assert re.search(r"\) and \d+ more\)\. A group needs", few)
    assert max(map(len, estimates.notes)) < 600
