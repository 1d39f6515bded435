"""`llamaherd gold`, `validate`, `estimate`, `recalibrate`: as in Python, from files."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from coded_texts import coded_texts
from llamaherd.cli.main import main
from llamaherd.tables.whole import read_whole

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


N_CODED = 300


@pytest.fixture
def labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Create files of coded texts, and a coded gold sample."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    labelled = coded_texts([f"text {i}" for i in range(N_CODED)], 80)
    labelled["party"], labelled["year"] = (
        rng.choice(["a", "b"], N_CODED),
        rng.integers(1990, 2000, N_CODED),
    )
    labelled.to_csv("coded.csv", index=False)
    labelled.to_parquet("coded.parquet")
    return labelled


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
    labelled: pd.DataFrame,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    settings: dict[str, Any],
    kind: str,
) -> None:
    found = table(capsys, "estimate", f"coded.{kind}", *flags)
    expected = lh.estimate(labelled, lh.read_gold("gold.csv"), **settings).to_dicts()
    assert [row["method"] for row in found] == [row["method"] for row in expected]
    for row, right in zip(found, expected, strict=True):
        for name in ("estimate", "std_error", "low", "high"):
            assert float(row[name]) == pytest.approx(right[name], rel=1e-9)


def test_a_validation_is_that_of_python(
    labelled: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = lh.validate(labelled, lh.read_gold("gold.csv"))
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
@pytest.mark.usefixtures("labelled")
def test_mistakes_are_named(
    capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert main(["estimate", "coded.csv", "--gold", "gold.csv", *flags]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create files of coded texts in three formats, and a coded gold sample."""
    monkeypatch.chdir(tmp_path)
    texts = [f'Grüße, "{i}"\nzwei' for i in range(200)]
    data = coded_texts(texts, 60, shift=2.5).assign(error=None)
    data.to_csv("coded.csv", index=False)
    data.to_csv("coded.tsv", index=False, sep="\t")
    data.to_parquet("coded.parquet")
    data.to_json("coded.jsonl", orient="records", lines=True, double_precision=15)
    return tmp_path


def test_files_of_all_formats_give_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {}
    for kind in ("csv", "tsv", "parquet", "jsonl"):
        out = f"out.{kind}"
        assert (
            main(["recalibrate", f"coded.{kind}", "--gold", "gold.csv", "-o", out]) == 0
        )
        made[kind] = read_whole(str(folder / out), ("p_*", "raw_p_*"))
    shown = capsys.readouterr()
    assert not shown.out
    assert "difference +" in shown.err
    csv = made["csv"]
    new = csv["p_yes"]
    assert csv["raw_p_yes"] == pd.read_csv("coded.csv")["p_yes"].tolist()
    assert (np.array(csv["label"]) == np.where(np.array(new) > 0.5, "yes", "no")).all()
    assert sum(each is not None for each in csv["fold"]) == 60
    for kind in ("tsv", "parquet", "jsonl"):
        other = made[kind]
        values = other["p_yes"]
        found = values.to_pylist() if hasattr(values, "to_pylist") else values
        assert found == pytest.approx(new, abs=1e-9)
    again = lh.estimate(pd.read_csv("out.csv"), lh.read_gold("gold.csv"))
    assert again.predictions == "recalibrated"


@pytest.mark.usefixtures("folder")
def test_stdout_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["recalibrate", "coded.csv", "--gold", "gold.csv", "-o"]
    assert main([*run, "-", "--folds", "3", "--seed", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("raw_label,raw_p_no,raw_p_yes,fold")
    assert main([*run, "out.csv"]) == 0
    assert main([*run, "out.csv"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*run, "out.csv", "--overwrite"]) == 0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("coded.csv", "Missing option '--gold'"),
        ("coded.csv --gold none.csv", "'none.csv' cannot be used"),
        ("none.csv --gold gold.csv", "none.csv"),
        ("coded.csv --gold gold.csv --features embeddings", "embeddings must be"),
        ("coded.csv --gold gold.csv --label topic", "topic"),
        ("coded.csv --gold gold.csv --folds 1", "from 2 to 20"),
    ],
)
def test_wrong_use_of_recalibrate(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recalibrate", *arguments.split(), "-o", "x.csv"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_a_cell_that_is_no_number_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    data = pd.read_csv("coded.csv").astype({"p_no": str})
    data.loc[3, "p_no"] = "much"
    data.to_csv("odd.csv", index=False)
    assert main(["recalibrate", "odd.csv", "--gold", "gold.csv", "-o", "x.csv"]) == 2
    assert "column 'p_no', not 'much'" in capsys.readouterr().err
