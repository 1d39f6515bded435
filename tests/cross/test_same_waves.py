"""Waves of codes and survey weights: R, Python and the command line agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
import rscript
from llamaherd.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings(
    "ignore:few codes:UserWarning",
    "ignore:.*code more texts:UserWarning",
    "ignore:.*intervals may be too short:UserWarning",
)
N = 400
KNOWN = {"text": "text", "label": "label"}


def texts() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    code = rng.choice(["a", "b", "c"], N, p=[0.4, 0.4, 0.2])
    party = rng.choice(["X", "Y"], N)
    wrong = rng.random(N) < np.where(party == "X", 0.1, 0.3)
    frame = pd.DataFrame(
        {
            "id": [7 * i + 3 for i in range(N)],
            "text": [f'=Größe {i}, "quoted"\n東京' for i in range(N)],
            "label": np.where(wrong, "a", code),
            "code": code,
            "party": party,
            "age": rng.integers(20, 80, N) / 2 + 5 * (code == "b"),
            "sure": rng.beta(4, 2, N),
            "w": rng.choice([0.5, 1.0, 3.0], N),
        }
    )
    for coder, right in (("ann", 0.95), ("bo", 0.8), ("cy", 0.7)):
        other = rng.choice(["a", "b", "c"], N)
        frame[coder] = np.where(rng.random(N) < right, code, other)
    return frame


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return texts()


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


def estimates(data: pd.DataFrame, gold: lh.GoldSample) -> dict[str, lh.types.Estimates]:
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


NAMES = ("simple", "errors", "uncertainty", "strata", "weights")


@pytest.mark.parametrize("name", NAMES)
def test_r_draws_and_estimates_as_python(
    name: str, data: pd.DataFrame, from_r: dict[str, Any]
) -> None:
    gold, found = samples(data)[name], from_r[name]
    assert [row - 1 for row in found["rows"]] == gold.rows
    for column in ("probs", "all_probs"):
        wanted = getattr(gold, column).tolist()
        assert found[column] == pytest.approx(wanted, rel=1e-14)
    for made, own in zip(found["history"], gold.history, strict=True):
        assert made == {key: own[key] for key in made}
    checked = lh.validate(data, gold, label="label", weights="w").to_pandas()
    measures = pd.DataFrame(found["measures"])
    assert measures["measure"].tolist() == checked["measure"].tolist()
    for column in ("value", "low", "high"):
        np.testing.assert_allclose(
            measures[column].astype(float), checked[column], rtol=1e-12
        )
    for title, own in estimates(data, gold).items():
        fit = found["fits"][title]
        assert fit["method"] == [row.method for row in own.rows], title
        for column in ("estimate", "std_error", "low", "high"):
            values = [getattr(row, column) for row in own.rows]
            np.testing.assert_allclose(fit[column], values, rtol=1e-9, atol=1e-12)
        notes = [note.replace('"', "'") for (note,) in fit["notes"]]
        assert notes == [note.replace('"', "'") for note in own.notes], title


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
    made = {
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
    for name, gold in made.items():
        assert [row - 1 for row in from_r[name]["rows"]] == gold.rows
        assert from_r[name]["probs"] == pytest.approx(gold.probs.tolist(), rel=1e-14)
