"""`llamaherd validate` and `estimate`: the numbers of Python, from files alone."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from coded_texts import coded_texts
from llamaherd.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

N = 300


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Create files of coded texts, and a coded gold sample."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    data = coded_texts([f"text {i}" for i in range(N)], 80)
    data["party"], data["year"] = rng.choice(["a", "b"], N), rng.integers(1990, 2000, N)
    data.to_csv("coded.csv", index=False)
    data.to_parquet("coded.parquet")
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
