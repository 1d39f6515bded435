"""`llamaherd validate` and `estimate`: the numbers of Python, from files alone."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from llamaherd.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

N, NAMES = 300, ["no", "yes"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Create files of coded texts, and a coded gold sample."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    code = rng.integers(0, 2, N)
    yes = 1 / (1 + np.exp(-(1 + 2 * (code - 0.5) + rng.normal(size=N))))
    data = pd.DataFrame(
        {
            "text": [f"text {i}" for i in range(N)],
            "label": np.where(yes > 0.5, "yes", "no"),
            "p_no": 1 - yes,
            "p_yes": yes,
            "party": rng.choice(["a", "b"], N),
            "year": rng.integers(1990, 2000, N),
        }
    )
    data.to_csv("coded.csv", index=False)
    data.to_parquet("coded.parquet")
    gold = lh.gold_sample(data, 80, text="text", label="label", names=NAMES, seed=1)
    gold.write("gold.csv", coders=["anna"])
    sheet = pd.read_csv("gold.csv", dtype=str, encoding="utf-8-sig")
    sheet["anna"] = [NAMES[code[int(each) - 1]] for each in sheet["id"]]
    sheet.to_csv("gold.csv", index=False)
    return data


def table(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, str]]:
    """Return the table that a command prints with `-o -`."""
    capsys.readouterr()
    assert main([*arguments, "--gold", "gold.csv", "-o", "-"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        ([], {}),
        (["--by", "party"], {"by": "party"}),
        (["--method", "dsl", "--level", "0.9"], {"methods": ["dsl"], "level": 0.9}),
        (["label == 'yes' ~ year + party"], {"formula": "label == 'yes' ~ year + party"}),
        (["label == 'yes' ~ C(year)"], {"formula": "label == 'yes' ~ C(year)"}),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.filterwarnings("ignore:There are too few codes")
def test_estimates_are_those_of_python(
    data: pd.DataFrame,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    settings: dict[str, Any],
    kind: str,
) -> None:
    found = table(capsys, "estimate", f"coded.{kind}", *flags)
    expected = lh.estimate(data, lh.read_gold("gold.csv"), **settings).to_dicts()
    assert [row["method"] for row in found] == [row["method"] for row in expected]
    for row, right in zip(found, expected, strict=True):
        for name in ("estimate", "std_error", "low", "high"):
            assert float(row[name]) == pytest.approx(right[name], rel=1e-9)


def test_a_validation_is_that_of_python(
    data: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = lh.validate(data, lh.read_gold("gold.csv"))
    found = table(capsys, "validate", "coded.csv")
    assert [row["measure"] for row in found] == [row[1] for row in expected.rows()]
    assert float(found[0]["value"]) == pytest.approx(expected.accuracy.accuracy.value)
    assert main(["validate", "coded.csv", "--gold", "gold.csv", "-o", "all.csv"]) == 0
    assert capsys.readouterr().out.strip() == repr(expected)
    assert main(["validate", "coded.csv", "--gold", "gold.csv", "-o", "all.csv"]) == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["label == 'yes' ~ yeer"], "did you mean 'year'?"),
        (["--by", "partei"], "by must be a column of the table, not 'partei'"),
        (["--label", "lab"], "label must be a column of the table, not 'lab'"),
        (["--level", "3"], "level must be above 0 and below 1, not 3"),
    ],
)
@pytest.mark.usefixtures("data")
def test_mistakes_are_named(
    capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert main(["estimate", "coded.csv", "--gold", "gold.csv", *flags]) == 2
    assert message in capsys.readouterr().err
