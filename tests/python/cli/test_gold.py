"""`llamaherd gold`: the same draws as in Python, waves, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from llamaherd.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

N = 120


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Return labelled texts; also write them as coded.csv and coded.parquet."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "text": [f'=Größe {i}, "a"' for i in range(N)],
            "label": rng.choice(["no", "yes"], N),
            "margin": rng.random(N),
            "margin_note": "a word",  # first a number, then words
            "w": rng.integers(1, 4, N).astype(float),
            "word": "a",
        }
    )
    frame.to_csv("coded.csv", index=False)
    frame.to_parquet("coded.parquet")
    return frame


def run(*arguments: object) -> int:
    return main(["gold", *map(str, arguments)])


def fill_in(path: str, frame: pd.DataFrame) -> None:
    """Code all texts of a sheet; the model's label is wrong in every fifth row."""
    sheet = pd.read_csv(path, dtype=str, encoding="utf-8-sig")
    rows = sheet["id"].astype(int) - 1
    labels = frame["label"].to_numpy()[rows]
    sheet["anna"] = np.where(rows % 5 == 0, "no", labels)
    sheet.to_csv(path, index=False)


KNOWN = {"text": "text", "label": "label"}


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ([], {}),
        (["--by", "label", "--allocation", "equal"],
         {"by": "label", "allocation": "equal"}),
        (["--by", "label", "--by", "w"], {"by": ["label", "w"]}),
        (["--prob", "uncertainty"], {"prob": "uncertainty", "confidence": "margin"}),
        (["--prob", "weights", "--weights", "w", "--floor", 0.1],
         {"prob": "weights", "weights": "w", "floor": 0.1}),
    ],
    ids=["simple", "stratified", "two columns", "uncertainty", "weights"],
)  # fmt: skip
def test_draws_as_in_python(
    data: pd.DataFrame, options: list[object], settings: dict[str, object]
) -> None:
    wanted = lh.gold_sample(data, 40, seed=7, **KNOWN, **settings)
    for kind in ("csv", "parquet"):
        sheet = f"sheet_{kind}.csv"
        table = f"coded.{kind}"
        assert run("sample", table, "-n", 40, "--seed", 7, *options, "-o", sheet) == 0
        with pytest.warns(UserWarning, match="No text has a code in"):
            drawn = lh.read_gold(sheet)
        assert drawn.rows == wanted.rows
        assert drawn.all_probs.tolist() == wanted.all_probs.tolist()


def test_waves_as_in_python(
    data: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    first = ["sample", "coded.csv", "-n", 30, "--seed", 1, "--coders", "anna"]
    assert run(*first, "-o", "first.csv") == 0
    fill_in("first.csv", data)
    before = lh.read_gold("first.csv")
    again = ["sample", "coded.csv", "-n", 20, "--seed", 2, "--after", "first.csv", "-o"]

    # With the same design, both waves are one sample with pooled probabilities.
    assert run(*again, "both.csv") == 0
    both = lh.read_gold("both.csv")
    wanted = lh.gold_sample(data, 20, seed=2, after=before)
    assert both.rows == wanted.rows
    assert both.gold == wanted.gold
    assert sum(code is not None for code in both.gold) == 30
    assert set(both.all_probs) == {50 / N}

    # Probabilities from a column: weights of waves, as in Python.
    assert run(*again, "errors.csv", "--prob-column", "w", "--uncoded") == 0
    assert len(pd.read_csv("errors.csv")) == 20
    fill_in("errors.csv", data)
    weighted = lh.read_gold(["errors.csv", "first.csv"])
    wanted = lh.gold_sample(data, 20, seed=2, after=before, prob=data["w"].tolist())
    assert weighted.probs.tolist() == wanted.probs.tolist()
    assert sum(code is not None for code in weighted.gold) == 50

    # A third wave after two sheets of one sample, the newest first.
    more = ["--after", "errors.csv", "--after", "first.csv", "--prob", "uncertainty"]
    capsys.readouterr()
    third = ["sample", "coded.csv", "-n", 10, "--seed", 3, *more, "-o", "third.csv"]
    assert run(*third) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "wave\tdesign\tdrawn\tfrom\tseed\tcoded_before",
        "1\tsimple\t30\t120\t1\t0",
        "2\tgiven\t20\t90\t2\t30",
        "3\tuncertainty\t10\t70\t3\t50",
    ]
    assert shown.err == "60 texts, 50 coded\n"
    assert run("show", "third.csv") == 0
    assert capsys.readouterr().out == shown.out


def test_a_second_uncertainty_wave_finds_its_column(data: pd.DataFrame) -> None:
    first = ["sample", "coded.csv", "-n", 30, "--seed", 1, "--coders", "anna"]
    assert run(*first, "--prob", "uncertainty", "-o", "first.csv") == 0
    fill_in("first.csv", data)
    more = ["sample", "coded.csv", "-n", 9, "--seed", 2, "--after", "first.csv"]
    assert run(*more, "-o", "second.csv") == 0
    kinds = [each["kind"] for each in lh.read_gold("second.csv").history]
    assert kinds == ["uncertainty", "uncertainty"]


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prob", "simple", "--prob-column", "w"], "exclude each other"),
        (["--prob-column", "none"], "none"),
        (["--prob-column", "word"], "must be a number in column 'word'"),
        (["--prob-column", "w"], "a probability between 0 and 1"),
        (["--after", "missing.csv"], "missing.csv"),
        (["--prob", "weights"], "weights"),
        (["-n", "999"], "999"),
    ],
)
def test_wrong_use(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("sample", "coded.csv", "-n", 40, "-o", "sheet.csv", *options) == 2
    assert message in capsys.readouterr().err


def test_an_existing_sheet_is_kept(
    data: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = ["sample", "coded.csv", "-n", 40, "--coders", "anna", "-o", "sheet.csv"]
    assert run(*sample) == 0
    fill_in("sheet.csv", data)
    assert run(*sample) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert sum(code is not None for code in lh.read_gold("sheet.csv").gold) == 40
    assert run(*sample, "--overwrite") == 0
    with pytest.warns(UserWarning, match="No text has a code in"):
        assert isinstance(lh.read_gold("sheet.csv").design["seed"], int)  # random


def test_people_may_give_a_label_that_the_model_never_gave(
    data: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    data = data.assign(label="no", p_no=0.6, p_unsure=0.3, p_yes=0.1)
    data.to_csv("never.csv", index=False)
    assert run("sample", "never.csv", "-n", "2", "--seed", "1", "-o", "sheet.csv") == 0
    sheet = pd.read_csv("sheet.csv", encoding="utf-8-sig")
    sheet.assign(code=["unsure", "yes"]).to_csv("sheet.csv", index=False)
    capsys.readouterr()
    assert run("show", "sheet.csv") == 0
    assert capsys.readouterr().err == "2 texts, 2 coded\n"
    assert lh.read_gold("sheet.csv").names == ("no", "unsure", "yes")


def test_a_file_that_does_not_exist_is_named(
    data: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(data) > 0
    assert run("sample", "none.csv", "-n", "2", "-o", "sheet.csv") == 2
    assert capsys.readouterr().err == (
        "llamaherd: 'none.csv' cannot be used: No such file or directory\n"
    )
