"""Tests of recalibrated labels: accuracy, cross-fitting, minimum numbers of codes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from llamaherd.coding.estimation.recalibrated import coded_of
from llamaherd.coding.statistics import dsl, label_weight
from ppi_py import ppi_mean_ci
from simulated_texts import by_dsl

N, N_GOLD = 600, 150
NAMES = ["negative", "neutral", "positive"]


def texts() -> pd.DataFrame:
    """Return texts with a model that gives "positive" too often."""
    rng = np.random.default_rng(6)
    code = rng.choice(3, N, p=[0.3, 0.5, 0.2])
    scores = rng.normal(size=(N, 3)) + 1.5 * np.eye(3)[code] + np.array([0, 0, 2.0])
    probs = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    columns = {f"p_{name}": probs[:, j] for j, name in enumerate(NAMES)}
    return pd.DataFrame(
        {
            "id": [f"t{i}" for i in range(N)],
            "text": [f"Text {i}." for i in range(N)],
            "label": np.array(NAMES)[probs.argmax(axis=1)],
            "prob": probs.max(axis=1),
            **columns,
            "code": np.array(NAMES)[code],
            "group": rng.choice(["A", "B"], N),
            "votes": 2.0 * (code == 0) + rng.normal(size=N),
            "speaker": np.arange(N) // 5,
        }
    )


DATA = texts()
VECTORS = (
    np.random.default_rng(9).normal(size=(N, 8)) * 0.5
    + np.eye(3, 8)[[NAMES.index(code) for code in DATA["code"]]]
)


def gold(**options: Any) -> lh.GoldSample:
    arguments = {"text": "text", "label": "label", "seed": 3, **options}
    drawn = lh.gold_sample(DATA, arguments.pop("n", N_GOLD), **arguments)
    return drawn.with_codes(DATA["code"].to_numpy()[drawn.rows].tolist())


GOLD = gold()
BETTER = lh.recalibrate(DATA, GOLD)


def right(labels: Any) -> float:
    return float((np.asarray(labels) == DATA["code"].to_numpy()).mean())


def test_labels_are_better_and_their_accuracy_is_honest() -> None:
    assert right(BETTER.labels) > right(DATA["label"]) + 0.1
    uncoded = [i for i, fold in enumerate(BETTER.folds) if fold is None]
    elsewhere = (np.array(BETTER.labels) == DATA["code"])[uncoded].mean()
    accuracy = BETTER.cross_validated.accuracy
    assert accuracy.low < elsewhere < accuracy.high
    assert BETTER.raw.accuracy.value == pytest.approx(
        (DATA["label"] == DATA["code"]).to_numpy()[GOLD.rows].mean()
    )
    gap = accuracy.value - BETTER.raw.accuracy.value
    assert BETTER.gain.value == pytest.approx(gap)
    assert BETTER.gain.low < gap < BETTER.gain.high
    assert BETTER.cross_validated.brier.value < BETTER.raw.brier.value
    assert f"model {BETTER.raw.accuracy.value:.3f}" in BETTER.summary()
    assert BETTER.summary() in repr(BETTER)


def test_columns_keep_their_names_and_the_models_stay() -> None:
    frame = BETTER.frame
    assert frame["label"].tolist() == BETTER.labels
    assert frame["raw_label"].tolist() == DATA["label"].tolist()
    for j, name in enumerate(NAMES):
        assert (frame[f"p_{name}"] == BETTER.probs[:, j]).all()
        assert (frame[f"raw_p_{name}"] == DATA[f"p_{name}"]).all()
    assert BETTER.probs.sum(axis=1) == pytest.approx(1)
    assert frame["prob"].tolist() == BETTER.probs.max(axis=1).tolist()
    coded = np.flatnonzero(frame["fold"].notna())
    assert coded.tolist() == sorted(GOLD.rows)
    assert set(frame["fold"].dropna()) == {1, 2, 3, 4, 5}
    assert "raw_label" not in DATA


def test_no_label_depends_on_its_own_code() -> None:
    changed = DATA["code"].to_numpy().copy()
    fold = [row for row in GOLD.rows if BETTER.folds[row] == 1]
    changed[fold] = "positive"
    other = lh.recalibrate(DATA, GOLD.with_codes(changed[GOLD.rows].tolist()))
    assert other.folds == BETTER.folds
    # The head of the first fold does not use the codes of this fold.
    assert (other.probs[fold] == BETTER.probs[fold]).all()
    assert (other.probs != BETTER.probs).any()


@pytest.mark.parametrize("kind", [pl.DataFrame, pa.table, dict])
def test_any_data_frame_gives_the_same(kind: Any) -> None:
    data = kind({name: DATA[name].tolist() for name in DATA})
    better = lh.recalibrate(data, GOLD)
    assert better.labels == BETTER.labels
    assert (better.probs == BETTER.probs).all()
    assert type(better.frame) is type(data)


def test_a_seed_decides_the_folds() -> None:
    again, other = lh.recalibrate(DATA, GOLD), lh.recalibrate(DATA, GOLD, seed=1)
    assert (again.probs == BETTER.probs).all()
    assert other.folds != BETTER.folds


def test_embeddings_add_what_the_model_does_not_know() -> None:
    both = lh.recalibrate(DATA, GOLD, ("probs", "embeddings"), embeddings=VECTORS)
    alone = lh.recalibrate(DATA, GOLD, ["embeddings"], embeddings=VECTORS)
    assert right(both.labels) > right(alone.labels) > right(DATA["label"])
    assert right(both.labels) > right(BETTER.labels)
    holes = VECTORS.copy()
    holes[0] = np.nan
    with pytest.warns(UserWarning, match="1 text has no embedding"):
        lh.recalibrate(DATA, GOLD, ["embeddings"], embeddings=holes)


def test_missing_labels_stay_missing() -> None:
    data = DATA.copy()
    lost = [GOLD.rows[0], 5]
    data.loc[lost, ["label", *(f"p_{name}" for name in NAMES)]] = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        better = lh.recalibrate(data, GOLD)
    assert [better.labels[i] for i in lost] == [None, None]
    assert np.isnan(better.probs[lost]).all()
    assert better.folds[GOLD.rows[0]] is None
    assert sum(label is None for label in better.labels) == 2


def test_copies_of_a_text_share_a_fold() -> None:
    data = DATA.assign(text=[f"Text {i // 2}." for i in range(N)])
    for column in ("label", "prob", "code", *(f"p_{name}" for name in NAMES)):
        data[column] = np.repeat(data[column].to_numpy()[::2], 2)
    drawn = lh.gold_sample(data, N_GOLD, text="text", label="label", seed=3)
    drawn = drawn.with_codes(data["code"].to_numpy()[drawn.rows].tolist())
    better = lh.recalibrate(data, drawn)
    assert better.labels[::2] == better.labels[1::2]
    assert (better.probs[::2] == better.probs[1::2]).all()
    folds = list(zip(better.folds[::2], better.folds[1::2], strict=True))
    assert any(None not in pair for pair in folds)
    assert all(a == b for a, b in folds if None not in (a, b))


def test_clusters_share_a_fold() -> None:
    better = lh.recalibrate(DATA, GOLD, cluster="speaker")
    of_speaker: dict[int, set[int]] = {}
    for speaker, fold in zip(DATA["speaker"], better.folds, strict=True):
        if fold is not None:
            of_speaker.setdefault(speaker, set()).add(fold)
    assert {len(folds) for folds in of_speaker.values()} == {1}
    estimates = lh.estimate(better, GOLD, outcome="negative", cluster="speaker")
    assert not any("several folds" in note for note in estimates.notes)
    estimates = lh.estimate(BETTER, GOLD, outcome="negative", cluster="speaker")
    assert any("several folds" in note for note in estimates.notes)


def few(n: int) -> list[str | None]:
    rows = set(GOLD.rows[:n])
    return [code if i in rows else None for i, code in enumerate(DATA["code"])]


@pytest.mark.parametrize(
    ("arguments", "code", "argument"),
    [
        ({"gold": few(25), "prob": "simple"}, "too_few_codes", "gold"),
        (
            {
                "gold": ["negative"] * 57 + ["neutral"] * 3 + [None] * 540,
                "prob": "simple",
            },
            "too_few_codes",
            "gold",
        ),
        ({"gold": ["negative"] * N, "prob": "simple"}, "too_few_codes", "gold"),
        ({"coded": DATA.assign(label=None)}, "no_rows", "coded"),
        ({"coded": DATA[:0], "gold": [], "prob": "simple"}, "no_rows", "coded"),
        (
            {"gold": ["negative"] * 300 + ["mixed"] * 300, "prob": "simple"},
            "unknown_choice",
            "gold",
        ),
        ({"features": ("probs", "words")}, "unknown_choice", "features"),
        ({"features": ["embeddings"]}, "missing", "embeddings"),
        ({"embeddings": VECTORS}, "conflict", "embeddings"),
        (
            {"features": ["embeddings"], "embeddings": VECTORS[:5]},
            "wrong_length",
            "embeddings",
        ),
        ({"n_folds": 1}, "out_of_range", "n_folds"),
        ({"seed": -1}, "out_of_range", "seed"),
        ({"coded": BETTER.frame}, "conflict", "coded"),
        (
            {"coded": DATA.drop(columns=["p_negative", "p_neutral"])},
            "no_probabilities",
            "coded",
        ),
        ({"coded": DATA.assign(p_neutral=2.0)}, "out_of_range", "coded"),
    ],
)
def test_wrong_use_is_refused(
    arguments: dict[str, Any], code: str, argument: str
) -> None:
    with pytest.raises(lh.ArgumentError) as caught:
        lh.recalibrate(**{"coded": DATA, "gold": GOLD, **arguments})
    assert (caught.value.code, caught.value.argument) == (code, argument)


def test_types_are_checked() -> None:
    with pytest.raises(lh.ArgumentTypeError, match="features must be a list"):
        lh.recalibrate(DATA, GOLD, 3)  # type: ignore[arg-type]
    with pytest.raises(lh.ArgumentTypeError, match="embeddings must be a model"):
        lh.recalibrate(DATA, GOLD, ["embeddings"], embeddings="model.gguf")


def test_a_label_without_codes_gets_probability_0() -> None:
    data = DATA.assign(p_mixed=0.01)
    with pytest.warns(UserWarning, match="No text has the code 'mixed'"):
        better = lh.recalibrate(data, GOLD)
    assert better.names == (*NAMES, "mixed")
    assert (better.probs[:, 3] == 0).all()


def test_a_good_model_is_said_to_need_no_help() -> None:
    data = DATA.assign(label=DATA["code"])
    for name in NAMES:
        data[f"p_{name}"] = np.where(DATA["code"] == name, 0.98, 0.01)
    drawn = lh.gold_sample(data, N_GOLD, text="text", label="label", seed=3)
    drawn = drawn.with_codes(data["code"].to_numpy()[drawn.rows].tolist())
    with pytest.warns(UserWarning, match="Recalibration does not help here"):
        better = lh.recalibrate(data, drawn)
    assert better.notes[0].startswith("Recalibration does not help")


def test_probabilities_that_say_nothing_are_no_better_than_a_constant() -> None:
    """Most codes are equal, and the probabilities say nothing about them."""
    rng = np.random.default_rng(2)
    probs = rng.dirichlet(np.ones(3), N)
    columns = {f"p_{name}": probs[:, j] for j, name in enumerate(NAMES)}
    data = DATA.assign(**columns, label=np.array(NAMES)[probs.argmax(axis=1)])
    codes = ["neutral" if i % 7 else NAMES[i // 7 % 2 * 2] for i in range(N)]
    drawn = lh.gold_sample(data, N_GOLD, text="text", label="label", seed=3)
    drawn = drawn.with_codes([codes[row] for row in drawn.rows])
    with pytest.warns(UserWarning, match="say more than a constant"):
        better = lh.recalibrate(data, drawn)
    assert better.gain.low > 0  # the head is better than the model, but so is a constant
    share = np.mean([code == "neutral" for code in drawn.codes[0]])
    assert better.constant.accuracy.value == pytest.approx(share)
    assert not better.gain_on_constant.low > 0
    assert "A constant, the shares of the codes, has an accuracy of" in better.summary()
    assert "the codes do not show that the new probabilities say more" in better.summary()
    assert "say more than a constant" not in BETTER.summary()


def test_recalibrating_again_starts_from_the_model() -> None:
    again = lh.recalibrate(BETTER, GOLD)
    assert (again.probs == BETTER.probs).all()
    assert list(again.frame.columns) == list(BETTER.frame.columns)


def test_other_functions_take_the_result() -> None:
    validation = lh.validate(BETTER, GOLD)
    assert validation.accuracy.accuracy.value == BETTER.cross_validated.accuracy.value
    drawn = lh.gold_sample(BETTER, 50, by="label", seed=1)
    assert drawn.names == tuple(NAMES)
    with pytest.raises(lh.ArgumentError) as caught:
        lh.report(BETTER, "report.html")
    assert caught.value.code == "no_record"
    part = BETTER[[2, 0]]
    assert isinstance(part, lh.types.Recalibrated)
    assert part.labels == [BETTER.labels[2], BETTER.labels[0]]
    assert part.original.labels == [DATA["label"][2], DATA["label"][0]]
    assert part.folds == [BETTER.folds[2], BETTER.folds[0]]


def test_dsl_and_ppi_of_probabilities_follow_their_formulas() -> None:
    estimates = lh.estimate(DATA, GOLD, outcome="negative", predictions="probs")
    hat = DATA["p_negative"].to_numpy()
    y = (DATA["code"] == "negative").to_numpy(float)[GOLD.rows]
    corrected = hat.mean() + (y - hat[GOLD.rows]).mean()
    assert estimates.by("dsl")[0].estimate == pytest.approx(corrected)
    others = np.delete(hat, GOLD.rows)
    row = estimates.by("ppi")[0]
    assert row.lam == label_weight.best_lam(y, hat[GOLD.rows], others)
    low, high = ppi_mean_ci(y, hat[GOLD.rows], others, alpha=0.05, lam=row.lam)
    assert row.estimate == pytest.approx((low[0] + high[0]) / 2)
    # t instead of the normal distribution, and a correction for lam.
    assert 0.99 < (row.high - row.low) / (high[0] - low[0]) < 1.1
    assert estimates.predictions == "probs"


def test_cross_prediction_follows_its_formula() -> None:
    estimates = lh.estimate(BETTER, GOLD, outcome="negative", target="texts")
    hat = BETTER.probs[:, 0]
    y = (DATA["code"] == "negative").to_numpy(float)[GOLD.rows]
    gaps = y - hat[GOLD.rows]
    row = estimates.by("dsl")[0]
    assert estimates.predictions == "recalibrated"
    assert row.estimate == pytest.approx(hat.mean() + gaps.mean())
    left = 1 - N_GOLD / N
    assert row.std_error == pytest.approx(
        np.sqrt(left * gaps.var(ddof=1) / N_GOLD), rel=1e-6
    )


def test_the_draws_variance_is_that_of_a_bootstrap() -> None:
    estimates = lh.estimate(BETTER, GOLD, outcome="negative")
    hat, rng = BETTER.probs[:, 0], np.random.default_rng(1)
    y = (DATA["code"] == "negative").to_numpy(float)
    is_coded = np.isin(np.arange(N), GOLD.rows)
    gaps = (y - hat)[is_coded]
    draws = [
        rng.choice(hat, N).mean() + rng.choice(gaps, N_GOLD).mean() for _ in range(4000)
    ]
    assert estimates.by("dsl")[0].std_error == pytest.approx(np.std(draws), rel=0.1)


def test_widths_say_what_each_prediction_gained() -> None:
    estimates = lh.estimate(BETTER, GOLD)
    of = {(line.predictions, line.method): line.width for line in estimates.widths}
    assert list(of) == [
        ("", "gold"),
        *((kind, "dsl") for kind in ("labels", "probs", "recalibrated")),
        *((kind, "ppi") for kind in ("labels", "probs", "recalibrated")),
    ]
    by_labels = lh.estimate(DATA, GOLD)
    for method in ("dsl", "ppi"):
        rows = by_labels.by(method)  # type: ignore[arg-type]
        width = np.mean([row.high - row.low for row in rows])
        assert of["labels", method] == pytest.approx(width)
    assert of["recalibrated", "dsl"] < of["probs", "dsl"] < of["labels", "dsl"]
    assert f"{of['recalibrated', 'dsl']:.4f} by recalibrated prob" in str(estimates)
    assert by_labels.widths == ()
    assert by_labels.predictions == "labels"
    assert "Mean width" not in str(by_labels)


def test_a_file_of_recalibrated_data_is_recognized() -> None:
    estimates = lh.estimate(BETTER.frame, GOLD, outcome="negative")
    direct = lh.estimate(BETTER, GOLD, outcome="negative")
    assert estimates.to_dicts() == direct.to_dicts()
    assert estimates.widths == direct.widths
    by_labels = lh.estimate(BETTER, GOLD, outcome="negative", predictions="labels")
    assert by_labels.to_dicts() != direct.to_dicts()
    assert not any("another label" in note for note in estimates.notes)


def test_regressions_average_over_labels() -> None:
    left = lh.estimate(DATA, GOLD, "label == 'negative' ~ group", predictions="probs")
    hat = DATA["p_negative"].to_numpy()
    is_b = (DATA["group"] == "B").to_numpy(float)
    x = np.column_stack([np.ones(N), is_b])
    y = (DATA["code"] == "negative").to_numpy(float)[GOLD.rows]
    rows = np.array(GOLD.rows)
    expected = by_dsl(
        dsl.Problem(
            kind="ols",
            x_hat=x,
            y_hat=hat,
            rows=rows,
            x=x[rows],
            y=y,
            probs=np.full(N_GOLD, N_GOLD / N),
        )
    )
    assert [row.estimate for row in left.by("dsl")] == pytest.approx(
        expected.theta.tolist()
    )
    right_side = lh.estimate(DATA, GOLD, "votes ~ label", predictions="probs")
    naive = np.linalg.lstsq(
        np.column_stack([np.ones(N), DATA["p_neutral"], DATA["p_positive"]]),
        DATA["votes"],
        rcond=None,
    )[0]
    points = [row.estimate for row in right_side.by("naive")]
    assert points == pytest.approx(naive.tolist())
    logit = lh.estimate(BETTER, GOLD, "label == 'negative' ~ group", model="logit")
    assert logit.predictions == "recalibrated"
    assert len({width.predictions for width in logit.widths}) == 4


def test_scores_are_expected_values() -> None:
    scale = {"negative": -1, "neutral": 0, "positive": 1}
    estimates = lh.estimate(DATA, GOLD, outcome=scale, predictions="probs")
    hat = (DATA["p_positive"] - DATA["p_negative"]).to_numpy()
    y = np.array([scale[code] for code in DATA["code"]])[GOLD.rows]
    corrected = hat.mean() + (y - hat[GOLD.rows]).mean()
    assert estimates.by("dsl")[0].estimate == pytest.approx(corrected)


@pytest.mark.parametrize(
    ("data", "predictions", "code"),
    [
        (DATA, "words", "unknown_choice"),
        (DATA[["text", "label"]], "probs", "no_probabilities"),
        (DATA.drop(columns="p_neutral"), "probs", "no_probabilities"),
        (DATA.assign(p_neutral=None), "probs", "no_probabilities"),
    ],
)
def test_predictions_are_checked(data: pd.DataFrame, predictions: Any, code: str) -> None:
    with pytest.raises(lh.ArgumentError) as caught:
        lh.estimate(data, GOLD, predictions=predictions)
    assert caught.value.code == code


def test_a_mapping_names_the_columns() -> None:
    data = DATA.rename(columns={f"p_{name}": f"of_{name}" for name in NAMES})
    fit = lh.estimate(data, GOLD, predictions={name: f"of_{name}" for name in NAMES})
    direct = lh.estimate(DATA, GOLD, predictions="probs")
    assert fit.to_dicts() == direct.to_dicts()


def test_a_scale_of_numbers_keeps_numbers_and_gets_new_moments() -> None:
    probs = DATA[[f"p_{name}" for name in NAMES]].to_numpy()
    values = np.array([0.0, 5.0, 10.0])
    scale = lh.Codebook("How much?", lh.number_scale(0, 10, 5))
    data = DATA[["text"]].assign(
        label=values[probs.argmax(axis=1)].astype(int),
        mean=0.0,
        sd=-1.0,
        **{f"p_{n}": probs[:, j] for j, n in enumerate(scale.names)},
    )
    model = replace(
        coded_of(data, "label", "text", roles={"mean": "mean", "sd": "sd"}, ordered=True),
        codebook=scale,
    )
    codes = [int(values[NAMES.index(code)]) for code in DATA["code"]]
    drawn = lh.gold_sample(data, N_GOLD, text="text", label="label", seed=3)
    drawn = drawn.with_codes([codes[i] for i in drawn.rows])
    better = lh.recalibrate(model, drawn)
    frame = better.frame
    assert frame["label"].dtype.kind in "iI"
    assert frame["raw_label"].tolist() == data["label"].tolist()
    new = frame[[f"p_{n}" for n in scale.names]].to_numpy()
    np.testing.assert_allclose(frame["mean"], new @ values)
    away = values[None, :] - (new @ values)[:, None]
    np.testing.assert_allclose(frame["sd"], np.sqrt((new * away**2).sum(axis=1)))
