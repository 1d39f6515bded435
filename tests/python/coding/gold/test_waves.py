"""Tests of samples drawn in waves, and of data from which rows were removed."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest

if TYPE_CHECKING:
    from pathlib import Path

# The samples are small, so estimate() warns.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 400
RNG = np.random.default_rng(5)
CODE = RNG.choice(["no", "yes"], N, p=[0.7, 0.3])
DATA = pd.DataFrame(
    {
        "id": [f"t{i}" for i in range(N)],
        "text": [f"Text {i}." for i in range(N)],
        "label": np.where(RNG.random(N) < 0.2, "no", CODE),
        "party": RNG.choice(["A", "B", "C"], N, p=[0.5, 0.3, 0.2]),
    }
)


def coded(sample: lh.GoldSample) -> lh.GoldSample:
    return sample.with_codes(CODE[sample.rows].tolist())


def first(n: int = 60, **options: Any) -> lh.GoldSample:
    arguments = {"text": "text", "label": "label", "seed": 1, **options}
    return coded(lh.gold_sample(DATA, n, **arguments))


def adaptive(before: lh.GoldSample, n: int = 40) -> lh.GoldSample:
    return coded(lh.gold_sample(DATA, n, after=before, prob=sizes(before), seed=2))


def sizes(before: lh.GoldSample) -> list[float]:
    """Return sizes that are larger for parties with more errors so far."""
    wrong = dict.fromkeys("ABC", 0.5)
    for row, code in zip(before.rows, before.gold, strict=True):
        wrong[DATA["party"][row]] += code != DATA["label"][row]
    return [wrong[party] for party in DATA["party"]]


def test_the_ids_of_later_waves_are_those_of_the_first_wave() -> None:
    twice = DATA.assign(id=["t0", "t0", *DATA["id"][2:]])
    options = {"text": "text", "label": "label", "seed": 1}
    with pytest.warns(UserWarning, match="row numbers from 1") as caught:
        before = coded(lh.gold_sample(twice, 60, **options))
    assert len(caught) == 1
    for later in (twice, DATA):  # also if the user gives each text an id meanwhile
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            both = lh.gold_sample(later, 40, after=before, seed=2)
        assert both.ids == [str(row + 1) for row in both.rows]
        assert both.design["id"] is None


def test_a_second_simple_wave_makes_one_simple_sample() -> None:
    before = first()
    both = lh.gold_sample(DATA, 40, after=before, seed=2)
    assert len(both) == 100
    assert set(before.rows) < set(both.rows)
    assert np.unique(both.all_probs).tolist() == [0.25]
    assert both.design["kind"] == "simple"
    assert sum(code is not None for code in both.gold) == 60
    kept = [code for code in both.gold if code is not None]
    assert kept == before.gold
    assert [wave["n"] for wave in both.history] == [60, 40]
    assert [wave["N"] for wave in both.history] == [400, 340]
    assert [wave["n_coded"] for wave in both.history] == [0, 60]


def test_strata_are_pooled_where_both_waves_have_the_same() -> None:
    before = first(60, by="party", allocation="equal")
    both = coded(lh.gold_sample(DATA, 30, after=before, by="party", seed=4))
    for party, group in DATA.groupby("party"):
        drawn = sum(DATA["party"][row] == party for row in both.rows)
        assert both.all_probs[group.index] == pytest.approx(drawn / len(group))
        assert both.design["drawn"][party] == drawn
    assert not both.waves
    estimated = lh.estimate(DATA, both, outcome="yes", methods=["gold"]).rows[0]
    shares = [
        (len(group), np.mean([CODE[i] == "yes" for i in both.rows if i in group.index]))
        for _, group in DATA.groupby("party")
    ]
    assert estimated.estimate == pytest.approx(sum(n * p for n, p in shares) / N)


def test_without_a_design_the_wave_is_drawn_as_before() -> None:
    before = first(60, by="party", allocation="equal")
    assert lh.gold_sample(DATA, 30, after=before, seed=4).design["by"] == "party"


def test_a_wave_that_depends_on_codes_is_weighted() -> None:
    both = adaptive(first())
    assert both.design["kind"] == "waves"
    assert (both.all_probs > 0).all()
    assert (both.all_probs <= 1).all()
    weights = 1 / both.probs
    yes = CODE[both.rows] == "yes"
    hat = (DATA["label"] == "yes").to_numpy()
    estimates = lh.estimate(DATA, both, outcome="yes", methods=["gold", "dsl"])
    by = {row.method: row for row in estimates.rows}
    assert by["gold"].estimate == pytest.approx(weights @ yes / weights.sum())
    expected = hat.mean() + weights @ (yes - 1.0 * hat[both.rows]) / N
    assert by["dsl"].estimate == pytest.approx(expected)
    accuracy = lh.validate(DATA, both, label="label").accuracy.accuracy.value
    right = CODE[both.rows] == DATA["label"].to_numpy()[both.rows]
    assert accuracy == pytest.approx(weights @ right / weights.sum())


@pytest.mark.long(reason="repeats an estimate for many forms of the same data")
def test_its_intervals_are_of_the_length_of_its_errors() -> None:
    """Compare 60 draws from the same texts, for estimates of these texts."""
    draws = []
    for seed in range(60):
        before = first(80, seed=10 * seed)
        both = coded(
            lh.gold_sample(DATA, 60, after=before, prob=sizes(before), seed=10 * seed + 1)
        )
        row = lh.estimate(
            DATA[["id", "text", "label"]],
            both,
            outcome="yes",
            methods=["dsl"],
            target="texts",
        ).rows[0]
        draws.append((row.estimate - (CODE == "yes").mean(), row.std_error))
    errors, lengths = np.array(draws).T
    spread = errors.std()
    assert abs(errors.mean()) < 3 * spread / np.sqrt(60)
    assert 0.7 < np.median(lengths) / spread < 1.5


def test_waves_are_stored_and_sorted_with_the_data(tmp_path: Path) -> None:
    both = adaptive(adaptive(first()), 20)
    assert len(both.waves) == 3
    both.write(tmp_path / "codes.csv")
    again = lh.read_gold(tmp_path / "codes.csv")
    assert again.history == both.history
    expected = lh.estimate(DATA, both, outcome="yes")
    mixed = DATA.sample(frac=1, random_state=3)
    for data, sample in ((DATA, again), (mixed, both)):
        estimates = lh.estimate(data, sample, outcome="yes")
        for one, other in zip(expected.rows, estimates.rows, strict=True):
            assert one.estimate == pytest.approx(other.estimate)
            assert one.std_error == pytest.approx(other.std_error)
    changed = both.to_json().replace('"n_left": 400', '"n_left": 900')
    with pytest.raises(ValueError, match="were changed"):
        lh.GoldSample.from_json(changed)


def test_coders_get_a_sheet_of_the_new_texts_alone(tmp_path: Path) -> None:
    before, path = first(), tmp_path / "second.csv"
    both = lh.gold_sample(DATA, 40, after=before, seed=2)
    both.write(path, uncoded=True)
    sheet = pd.read_csv(path)
    assert len(sheet) == 40
    sheet["code"] = [CODE[int(key[1:])] for key in sheet["id"]]
    sheet.to_csv(path, index=False)
    assert lh.read_gold(path, both).gold == CODE[both.rows].tolist()


def test_a_wave_without_codes_is_left_out_until_it_has_some() -> None:
    before = first()
    open_wave = lh.gold_sample(DATA, 40, after=before, prob=sizes(before), seed=2)
    one = lh.estimate(DATA, before, outcome="yes")
    other = lh.estimate(DATA, open_wave, outcome="yes")
    assert str(one.rows) == str(other.rows)
    assert any("40 texts of the last wave" in note for note in other.notes)
    assert lh.validate(DATA, open_wave, label="label").n_gold == 60


def test_half_a_wave_counts_as_a_random_part_of_it() -> None:
    both = adaptive(first())
    codes = [c if i % 2 else None for i, c in enumerate(both.gold)]
    with pytest.warns(UserWarning, match="50 of 100 texts of the gold sample"):
        estimates = lh.estimate(DATA, both.with_codes(codes), outcome="yes")
    assert all(row.std_error > 0 for row in estimates.rows)


def test_all_texts_can_be_drawn() -> None:
    rest = coded(lh.gold_sample(DATA, N - 60, after=first(), seed=2))
    assert np.unique(rest.all_probs).tolist() == [1.0]
    with pytest.raises(ValueError, match="has all texts already"):
        lh.gold_sample(DATA, 1, after=rest)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n": 341}, "n must be"),
        ({"prob": [0.0, 1.0] * (N // 2)}, "above 0"),
        ({"prob": [-1.0] * N}, "finite and at least 0"),
        (
            {"by": "party", "allocation": {"A": 2, "B": 2, "C": 36}},
            "at most .* of a stratum",
        ),
    ],
)
def test_what_cannot_be_a_wave_is_refused(options: dict[str, Any], match: str) -> None:
    arguments = {"n": 40, "seed": 1, **options}
    with pytest.raises(ValueError, match=match):
        lh.gold_sample(DATA, arguments.pop("n"), after=first(), **arguments)


def test_other_data_and_split_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="drawn from other data"):
        lh.gold_sample(DATA.assign(text="Other."), 10, after=first())
    with pytest.raises(ValueError, match="before gold_split"):
        lh.gold_sample(DATA, 10, after=lh.gold_split(first(), seed=1))
    with pytest.raises(ValueError, match="waves of different designs"):
        lh.gold_split(adaptive(first()))


@pytest.mark.parametrize("kind", ["one", "waves"])
def test_filtered_data_are_a_part_of_the_texts(kind: str) -> None:
    sample = first(200) if kind == "one" else adaptive(first(120), 80)
    part = DATA[DATA["party"] != "C"].iloc[::-1]
    estimates = lh.estimate(part, sample, outcome="yes", methods=["dsl", "gold"])
    label = np.where(DATA["party"] == "C", None, DATA["label"])
    whole = lh.estimate(DATA.assign(label=label), sample, outcome="yes", methods=["dsl"])
    assert estimates.by("dsl")[0].estimate == pytest.approx(whole.rows[0].estimate)
    assert estimates.by("dsl")[0].std_error == pytest.approx(whole.rows[0].std_error)
    assert estimates.n_texts == len(part)
    assert any(f"{len(part)} of {N} texts from" in note for note in estimates.notes)
    checked = lh.validate(part, sample, label="label")
    assert checked.n_gold == estimates.n_gold


@pytest.mark.parametrize("kind", ["one", "waves"])
def test_a_stored_part_keeps_the_codes_of_the_other_texts(kind: str) -> None:
    sample = first(200) if kind == "one" else adaptive(first(120), 80)
    kept = np.flatnonzero(DATA["party"] != "C").tolist()
    part, part_data = sample.among(kept), DATA.iloc[kept]
    read = lh.GoldSample.from_json(part.to_json())

    def errors(gold: lh.GoldSample) -> list[float]:
        fit = lh.estimate(part_data, gold, "label == 'yes' ~ party", methods=["dsl"])
        return [row.std_error for row in fit.rows]

    assert errors(read) == pytest.approx(errors(part), rel=1e-12)
    assert errors(part) == pytest.approx(errors(sample), rel=1e-12)


def test_filtered_data_need_ids() -> None:
    without = DATA.drop(columns="id")
    sample = coded(lh.gold_sample(without, 100, text="text", label="label", seed=1))
    with pytest.raises(ValueError, match="with a column of ids"):
        lh.estimate(without[without["party"] == "A"], sample)
