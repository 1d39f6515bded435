"""R, Python and the command line draw the same samples and compute the same numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
import rscript
from llamaherd.cli.main import main
from llamaherd.engine.core.words import R, spoken_in

if TYPE_CHECKING:
    from pathlib import Path


few_codes = pytest.mark.filterwarnings(
    "ignore:few codes:UserWarning",
    "ignore:.*code more texts:UserWarning",
    "ignore:.*intervals may be too short:UserWarning",
)

# ---- estimates -----------------------------------------------------------------------


def labelled_texts(n: int = 600) -> dict[str, list[Any]]:
    rng = np.random.default_rng(4)
    code = rng.choice(["a", "b", "c"], n, p=[0.4, 0.4, 0.2])
    party = rng.choice(["X", "Y"], n)
    wrong = rng.random(n) < np.where(party == "X", 0.1, 0.3)
    return {
        "text": [f'=Größe {i}, "quoted"\n東京' for i in range(n)],
        "label": np.where(wrong, "a", code).tolist(),
        "code": code.tolist(),
        "party": party.tolist(),
        "age": (rng.integers(20, 80, n) / 2 + 5 * (code == "b")).tolist(),
        "sure": rng.beta(4, 2, n).tolist(),
        "speaker": [f"s{i // 3}" for i in range(n)],
        "key": [1e4 * (n - i) for i in range(n)],
    }


def plain_fits(data: pd.DataFrame, gold: lh.GoldSample) -> dict[str, lh.types.Estimates]:
    b = "label == 'b' ~ party + age"
    return {
        "shares": lh.estimate(data, gold),
        "groups": lh.estimate(data, gold, outcome="b", by="party"),
        "factor": lh.estimate(
            data, gold, outcome="b", by="party", order={"party": ["Y", "W", "X"]}
        ),
        "score": lh.estimate(
            data, gold, outcome={"a": -1, "b": 0, "c": 1}, target="texts"
        ),
        "ols": lh.estimate(data, gold, b, cluster="speaker"),
        "logit": lh.estimate(data, gold, b, model="logit"),
        "right": lh.estimate(data, gold, "age ~ label + party", level=0.9),
    }


@few_codes
def test_samples_and_estimates_are_equal(tmp_path: Path) -> None:
    columns = labelled_texts()
    from_r = rscript.results("numbers.R estimates", tmp_path, columns)

    data = pd.DataFrame(columns)
    known = {"text": "text", "label": "label"}
    drawn = {
        "simple": lh.gold_sample(data, 150, seed=11, **known),
        "stratified": lh.gold_sample(
            data, 150, by=["label", "party"], allocation="equal", seed=12, **known
        ),
        "uncertainty": lh.gold_sample(
            data,
            150,
            prob="uncertainty",
            confidence="sure",
            id="key",
            seed=2**40,
            **known,
        ),
    }
    for name, sample in drawn.items():
        gold = sample.with_codes([columns["code"][i] for i in sample.rows])
        in_r = from_r[name]
        assert [row - 1 for row in in_r["rows"]] == gold.rows
        assert in_r["probs"] == pytest.approx(gold.all_probs.tolist(), rel=1e-14)
        assert in_r["codes"] == gold.gold
        with spoken_in(R):
            fits = plain_fits(data, gold)
        for title, fit in fits.items():
            rows = in_r["fits"][title]
            assert rows["method"] == [row.method for row in fit.rows], (name, title)
            notes = [note.replace('"', "'") for note in rows["notes"]]  # of regressions
            # R and formulaic name the coefficients of labels in their own way.
            expected = [note.replace('"', "'") for note in fit.notes]
            assert notes == [re.sub(r"\[T\.(\w+)\]", r"\1", note) for note in expected]
            assert rows["group"] == [row.group for row in fit.rows]
            for column in ("estimate", "std_error", "low", "high"):
                values = [getattr(row, column) for row in fit.rows]
                np.testing.assert_allclose(rows[column], values, rtol=1e-9, atol=1e-12)
            lams = [np.nan if lam is None else lam for lam in rows["lam"]]
            np.testing.assert_allclose(lams, [row.lam for row in fit.rows], rtol=1e-9)


# ---- recalibrated labels -------------------------------------------------------------

N_SCORED, NAMES = 400, ["a", "b", "c"]


def scored_texts() -> dict[str, list[Any]]:
    rng = np.random.default_rng(4)
    code = rng.choice(3, N_SCORED, p=[0.4, 0.4, 0.2])
    scores = (
        rng.normal(size=(N_SCORED, 3)) + 1.5 * np.eye(3)[code] + np.array([2.0, 0, 0])
    )
    probs = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    vectors = rng.normal(size=(N_SCORED, 3)) * 0.5 + np.eye(3)[code]
    return {
        "text": [f"Größe {i}" for i in range(N_SCORED)],
        "label": [NAMES[j] for j in probs.argmax(axis=1)],
        **{f"p_{name}": probs[:, j].tolist() for j, name in enumerate(NAMES)},
        **{f"v{j + 1}": vectors[:, j].tolist() for j in range(3)},
        "code": [NAMES[j] for j in code],
        "age": (rng.integers(20, 80, N_SCORED) + 5.0 * (code == 1)).tolist(),
        "speaker": [f"s{i // 4}" for i in range(N_SCORED)],
    }


def test_recalibrated_labels_are_equal(tmp_path: Path) -> None:
    columns = scored_texts()
    from_r = rscript.results("numbers.R recalibrated", tmp_path, columns)

    data = pd.DataFrame(columns)
    gold = lh.gold_sample(data, 120, text="text", label="label", seed=11)
    gold = gold.with_codes([columns["code"][row] for row in gold.rows])
    better = lh.recalibrate(data, gold, seed=5)
    both = lh.recalibrate(
        data,
        gold,
        ("probs", "embeddings"),
        embeddings=data[["v1", "v2", "v3"]].to_numpy(),
        cluster="speaker",
    )
    for name, recalibrated in (("better", better), ("both", both)):
        other = from_r[name]
        assert list(other) == list(recalibrated.frame.columns)
        assert other["label"] == recalibrated.labels
        assert other["fold"] == recalibrated.folds
        for label in NAMES:
            for column in (f"p_{label}", f"raw_p_{label}"):
                values = recalibrated.frame[column].tolist()
                assert other[column] == pytest.approx(values, abs=1e-9)
    assert from_r["line"] == better.summary()
    fits = {
        "shares": lh.estimate(better, gold),
        "probs": lh.estimate(data, gold, outcome="b", predictions="probs"),
        "ols": lh.estimate(better, gold, "label == 'b' ~ age"),
        "right": lh.estimate(better, gold, "age ~ label"),
    }
    for name, fit in fits.items():
        rows, widths = (from_r["fits"][name][part] for part in ("rows", "widths"))
        assert [row["method"] for row in rows] == [row.method for row in fit.rows]
        for field in ("estimate", "low", "high"):
            expected = [getattr(row, field) for row in fit.rows]
            assert [row[field] for row in rows] == pytest.approx(expected, abs=1e-7)
        assert [row["predictions"] for row in widths] == [
            width.predictions for width in fit.widths
        ]
        expected = [width.width for width in fit.widths]
        assert [row["width"] for row in widths] == pytest.approx(expected, abs=1e-7)


# ---- waves of codes and survey weights -----------------------------------------------

N_SURVEYED = 400
KNOWN = {"text": "text", "label": "label"}


def surveyed_texts() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    code = rng.choice(["a", "b", "c"], N_SURVEYED, p=[0.4, 0.4, 0.2])
    party = rng.choice(["X", "Y"], N_SURVEYED)
    wrong = rng.random(N_SURVEYED) < np.where(party == "X", 0.1, 0.3)
    frame = pd.DataFrame(
        {
            "id": [7 * i + 3 for i in range(N_SURVEYED)],
            "text": [f'=Größe {i}, "quoted"\n東京' for i in range(N_SURVEYED)],
            "label": np.where(wrong, "a", code),
            "code": code,
            "party": party,
            "age": rng.integers(20, 80, N_SURVEYED) / 2 + 5 * (code == "b"),
            "sure": rng.beta(4, 2, N_SURVEYED),
            "w": rng.choice([0.5, 1.0, 3.0], N_SURVEYED),
        }
    )
    for coder, right in (("ann", 0.95), ("bo", 0.8), ("cy", 0.7)):
        other = rng.choice(["a", "b", "c"], N_SURVEYED)
        frame[coder] = np.where(rng.random(N_SURVEYED) < right, code, other)
    return frame


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return surveyed_texts()


@pytest.fixture(scope="module")
def from_r(
    data: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("waves")
    columns = data.to_dict(orient="list")
    return rscript.results("numbers.R waves", folder, columns)


def samples(data: pd.DataFrame) -> dict[str, lh.GoldSample]:
    def coded(gold: lh.GoldSample) -> lh.GoldSample:
        return gold.with_codes({"ann": data["code"].to_numpy()[gold.rows].tolist()})

    def draw(n: int, seed: int, **settings: Any) -> lh.GoldSample:
        return coded(lh.gold_sample(data, n, seed=seed, **settings))

    first = draw(90, 21, **KNOWN)
    by = draw(60, 25, by=["label", "party"], **KNOWN)
    sizes = data["w"].tolist()
    errors = draw(60, 23, after=first, prob=sizes)
    return {
        "simple": draw(60, 22, after=first),
        "errors": draw(60, 2**40, after=first, prob=sizes),
        "uncertainty": draw(40, 24, after=errors, prob="uncertainty", confidence="sure"),
        "strata": draw(60, 26, after=by),
        "weights": draw(90, 27, prob="weights", weights="w", floor=0.2, **KNOWN),
    }


def weighted_fits(
    data: pd.DataFrame, gold: lh.GoldSample
) -> dict[str, lh.types.Estimates]:
    b = "label == 'b' ~ party"
    part = data[data["party"] == "X"]
    return {
        "shares": lh.estimate(data, gold),
        "weighted": lh.estimate(data, gold, weights="w"),
        "groups": lh.estimate(data, gold, outcome="b", by="party", weights="w"),
        "ols": lh.estimate(data, gold, f"{b} + age", weights=data["w"].tolist()),
        "logit": lh.estimate(data, gold, b, model="logit", weights="w"),
        "part": lh.estimate(part, gold),
    }


WAVES = ("simple", "errors", "uncertainty", "strata", "weights")


@few_codes
@pytest.mark.parametrize("name", WAVES)
def test_waves_and_weights_are_equal(
    name: str, data: pd.DataFrame, from_r: dict[str, Any]
) -> None:
    gold, in_r = samples(data)[name], from_r[name]
    assert [row - 1 for row in in_r["rows"]] == gold.rows
    for column in ("probs", "all_probs"):
        probs = getattr(gold, column).tolist()
        assert in_r[column] == pytest.approx(probs, rel=1e-14)
    for wave, expected in zip(in_r["history"], gold.history, strict=True):
        assert wave == {key: expected[key] for key in wave}
    checked = lh.validate(data, gold, label="label", weights="w").to_pandas()
    measures = pd.DataFrame(in_r["measures"])
    assert measures["measure"].tolist() == checked["measure"].tolist()
    for column in ("value", "low", "high"):
        np.testing.assert_allclose(
            measures[column].astype(float), checked[column], rtol=1e-12
        )
    for title, expected in weighted_fits(data, gold).items():
        fit = in_r["fits"][title]
        assert fit["method"] == [row.method for row in expected.rows], title
        for column in ("estimate", "std_error", "low", "high"):
            values = [getattr(row, column) for row in expected.rows]
            np.testing.assert_allclose(fit[column], values, rtol=1e-9, atol=1e-12)
        notes = [note.replace('"', "'") for (note,) in fit["notes"]]
        assert notes == [note.replace('"', "'") for note in expected.notes], title


@few_codes
@pytest.mark.filterwarnings("ignore:No text has a code")
def test_the_command_line_draws_as_r(
    data: pd.DataFrame,
    from_r: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    data.to_csv("data.csv", index=False)

    def draw(*options: str, out: str) -> lh.GoldSample:
        assert main(["gold", "sample", "data.csv", *options, "-o", out]) == 0
        gold = lh.read_gold(out)
        gold.with_codes({"ann": data["code"].to_numpy()[gold.rows].tolist()}).write(
            out, overwrite=True
        )
        return gold

    draw("-n", "90", "--seed", "21", out="first.csv")
    after = ("--after", "first.csv")
    golds = {
        "simple": draw("-n", "60", "--seed", "22", *after, out="simple.csv"),
        "errors": draw(
            *("-n", "60", "--seed", str(2**40), *after, "--prob-column", "w"),
            out="errors.csv",
        ),
        "weights": draw(
            *("-n", "90", "--seed", "27", "--prob", "weights", "--weights", "w"),
            *("--floor", "0.2"),
            out="weights.csv",
        ),
    }
    for name, gold in golds.items():
        assert [row - 1 for row in from_r[name]["rows"]] == gold.rows
        assert from_r[name]["probs"] == pytest.approx(gold.probs.tolist(), rel=1e-14)
