"""`llamaherd recalibrate`: input files, output files, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from coded_texts import coded_texts
from llamaherd.cli.main import main
from llamaherd.tables.whole import read_whole

if TYPE_CHECKING:
    from pathlib import Path


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
def test_wrong_use(
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
