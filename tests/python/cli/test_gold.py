"""`llamaherd gold`, `validate`, `estimate`, `recalibrate`: as in Python, from files."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from llamaherd.tables.whole import read_whole

if TYPE_CHECKING:
    from commands import Commands


N = 120


@pytest.fixture
def data(cli: Commands) -> pd.DataFrame:
    """Return labelled texts; also write them as coded.csv and coded.parquet."""
    del cli  # they are in its folder
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "text": [f'=Größe {i}, "a"' for i in range(N)],
            "label": rng.choice(["no", "yes"], N),
            "margin": rng.random(N),
            "margin_note": "a word",  # first a number, then words
            "w": rng.integers(1, 4, N).astype(float),
        }
    )
    frame.to_csv("coded.csv", index=False)
    frame.to_parquet("coded.parquet")
    return frame


SAMPLE = "gold sample coded.csv"


def fill_in(path: str, frame: pd.DataFrame) -> None:
    """Code all texts of a sheet; the model's label is wrong in every fifth row."""
    sheet = pd.read_csv(path, dtype=str, encoding="utf-8-sig")
    rows = sheet["id"].astype(int) - 1
    labels = frame["label"].to_numpy()[rows]
    sheet["anna"] = np.where(rows % 5 == 0, "no", labels)
    sheet.to_csv(path, index=False)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("", {}),
        ("--by label --allocation equal", {"by": "label", "allocation": "equal"}),
        ("--by label --by w", {"by": ["label", "w"]}),
        ("--prob uncertainty", {"prob": "uncertainty", "confidence": "margin"}),
        ("--prob weights --weights w --floor 0.1",
         {"prob": "weights", "weights": "w", "floor": 0.1}),
    ],
    ids=["simple", "stratified", "two columns", "uncertainty", "weights"],
)  # fmt: skip
def test_draws_as_in_python(
    cli: Commands, data: pd.DataFrame, options: str, settings: dict[str, object]
) -> None:
    known = {"text": "text", "label": "label"}
    expected = lh.gold_sample(data, 40, seed=7, **known, **settings)
    for kind in ("csv", "parquet"):
        cli(f"gold sample coded.{kind} -n 40 --seed 7 {options} -o {kind}.csv")
        with pytest.warns(UserWarning, match="No text has a code in"):
            drawn = lh.read_gold(f"{kind}.csv")
        assert drawn.rows == expected.rows
        assert drawn.all_probs.tolist() == expected.all_probs.tolist()


def test_waves_as_in_python(cli: Commands, data: pd.DataFrame) -> None:
    cli(f"{SAMPLE} -n 30 --seed 1 --coders anna -o first.csv")
    fill_in("first.csv", data)
    before = lh.read_gold("first.csv")
    again = f"{SAMPLE} -n 20 --seed 2 --after first.csv -o"

    # With the same design, both waves are one sample with pooled probabilities.
    cli(again, "both.csv")
    both = lh.read_gold("both.csv")
    expected = lh.gold_sample(data, 20, seed=2, after=before)
    assert both.rows == expected.rows
    assert both.gold == expected.gold
    assert sum(code is not None for code in both.gold) == 30
    assert set(both.all_probs) == {50 / N}

    # Probabilities from a column: weights of waves, as in Python.
    cli(f"{again} errors.csv --prob-column w --uncoded")
    assert len(pd.read_csv("errors.csv")) == 20
    fill_in("errors.csv", data)
    weighted = lh.read_gold(["errors.csv", "first.csv"])
    expected = lh.gold_sample(data, 20, seed=2, after=before, prob=data["w"].tolist())
    assert weighted.probs.tolist() == expected.probs.tolist()
    assert sum(code is not None for code in weighted.gold) == 50

    # A third wave after two sheets of one sample, the newest first.
    more = "--after errors.csv --after first.csv --prob uncertainty"
    output = cli(f"{SAMPLE} -n 10 --seed 3 {more} -o third.csv")
    assert output.out.splitlines() == [
        "wave\tdesign\tdrawn\tfrom\tseed\tcoded_before",
        "1\tsimple\t30\t120\t1\t0",
        "2\tgiven\t20\t90\t2\t30",
        "3\tuncertainty\t10\t70\t3\t50",
    ]
    assert output.err == "60 texts, 50 coded\n"
    assert cli("gold show third.csv").out == output.out


def test_a_second_uncertainty_wave_finds_its_column(
    cli: Commands, data: pd.DataFrame
) -> None:
    cli(f"{SAMPLE} -n 30 --seed 1 --coders anna --prob uncertainty -o first.csv")
    fill_in("first.csv", data)
    cli(f"{SAMPLE} -n 9 --seed 2 --after first.csv -o second.csv")
    kinds = [wave["kind"] for wave in lh.read_gold("second.csv").history]
    assert kinds == ["uncertainty", "uncertainty"]


def test_an_existing_sheet_is_kept(cli: Commands, data: pd.DataFrame) -> None:
    sample = f"{SAMPLE} -n 40 --coders anna -o sheet.csv"
    cli(sample)
    fill_in("sheet.csv", data)
    cli(sample, status=2, err="--overwrite")
    assert sum(code is not None for code in lh.read_gold("sheet.csv").gold) == 40
    cli(sample, "--overwrite")
    with pytest.warns(UserWarning, match="No text has a code in"):
        assert isinstance(lh.read_gold("sheet.csv").design["seed"], int)  # random


def test_people_may_give_a_label_that_the_model_never_gave(
    cli: Commands, data: pd.DataFrame
) -> None:
    data = data.assign(label="no", p_no=0.6, p_unsure=0.3, p_yes=0.1)
    data.to_csv("never.csv", index=False)
    cli("gold sample never.csv -n 2 --seed 1 -o sheet.csv")
    sheet = pd.read_csv("sheet.csv", encoding="utf-8-sig")
    sheet.assign(code=["unsure", "yes"]).to_csv("sheet.csv", index=False)
    assert cli("gold show sheet.csv").err == "2 texts, 2 coded\n"
    assert lh.read_gold("sheet.csv").names == ("no", "unsure", "yes")


NAMES = ["no", "yes"]


def coded_texts(texts: list[str], n_gold: int, shift: float = 1.0) -> pd.DataFrame:
    """Return labelled texts, and write gold.csv with the codes of some of them."""
    rng = np.random.default_rng(2)
    code = rng.integers(0, 2, len(texts))
    yes = 1 / (1 + np.exp(-(shift + 2 * (code - 0.5) + rng.normal(size=len(texts)))))
    labels = np.where(yes > 0.5, "yes", "no")
    data = pd.DataFrame({"text": texts, "label": labels, "p_no": 1 - yes, "p_yes": yes})
    gold = lh.gold_sample(data, n_gold, text="text", label="label", names=NAMES, seed=1)
    gold = gold.with_codes({"anna": [NAMES[code[row]] for row in gold.rows]})
    gold.write("gold.csv")
    return data


@pytest.fixture
def labelled(cli: Commands) -> pd.DataFrame:
    """Write coded texts in four formats, and a coded gold sample; return the texts."""
    del cli  # they are in its folder
    n = 300
    rng = np.random.default_rng(3)
    texts = [f'Grüße, "{i}"\nzwei' for i in range(n)]
    data = coded_texts(texts, 80, shift=2.5).assign(error=None)
    data["party"] = rng.choice(["a", "b"], n)
    data["year"] = rng.integers(1990, 2000, n)
    data.to_csv("coded.csv", index=False)
    data.to_csv("coded.tsv", index=False, sep="\t")
    data.to_parquet("coded.parquet")
    data.to_json("coded.jsonl", orient="records", lines=True, double_precision=15)
    return data


def printed(cli: Commands, command: str, *arguments: str) -> list[dict[str, str]]:
    """Return the table that a command prints with `-o -`."""
    out = cli(f"{command} --gold gold.csv -o -", *arguments).out
    return list(csv.DictReader(io.StringIO(out)))


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
    cli: Commands,
    labelled: pd.DataFrame,
    flags: list[str],
    settings: dict[str, Any],
    kind: str,
) -> None:
    rows = printed(cli, f"estimate coded.{kind}", *flags)
    expected = lh.estimate(labelled, lh.read_gold("gold.csv"), **settings).to_dicts()
    assert [row["method"] for row in rows] == [row["method"] for row in expected]
    for row, right in zip(rows, expected, strict=True):
        for name in ("estimate", "std_error", "low", "high"):
            assert float(row[name]) == pytest.approx(right[name], rel=1e-9)


def test_a_validation_is_that_of_python(cli: Commands, labelled: pd.DataFrame) -> None:
    expected = lh.validate(labelled, lh.read_gold("gold.csv"))
    rows = printed(cli, "validate coded.csv")
    assert [row["measure"] for row in rows] == [row[1] for row in expected.rows()]
    assert float(rows[0]["value"]) == pytest.approx(expected.accuracy.accuracy.value)
    validate = "validate coded.csv --gold gold.csv -o all.csv"
    assert cli(validate).out.strip() == repr(expected)
    cli(validate, status=2)


@pytest.mark.usefixtures("labelled")
def test_files_of_all_formats_give_the_same(cli: Commands) -> None:
    tables = {}
    for kind in ("csv", "tsv", "parquet", "jsonl"):
        run = f"recalibrate coded.{kind} --gold gold.csv -o out.{kind}"
        assert cli(run, err="difference +").out == ""
        tables[kind] = read_whole(str(Path(f"out.{kind}").absolute()), ("p_*", "raw_p_*"))
    csv = tables["csv"]
    new = csv["p_yes"]
    assert csv["raw_p_yes"] == pd.read_csv("coded.csv")["p_yes"].tolist()
    assert (np.array(csv["label"]) == np.where(np.array(new) > 0.5, "yes", "no")).all()
    assert sum(fold is not None for fold in csv["fold"]) == 80
    for kind in ("tsv", "parquet", "jsonl"):
        values = tables[kind]["p_yes"]
        numbers = values.to_pylist() if hasattr(values, "to_pylist") else values
        assert numbers == pytest.approx(new, abs=1e-9)
    again = lh.estimate(pd.read_csv("out.csv"), lh.read_gold("gold.csv"))
    assert again.predictions == "recalibrated"


@pytest.mark.usefixtures("labelled")
def test_stdout_and_options(cli: Commands) -> None:
    run = "recalibrate coded.csv --gold gold.csv -o"
    head = cli(f"{run} - --folds 3 --seed 4").out.splitlines()[0]
    assert head.endswith("raw_label,raw_p_no,raw_p_yes,fold")
    cli(run, "out.csv")
    cli(run, "out.csv", status=2, err="--overwrite")
    cli(run, "out.csv", "--overwrite")


ESTIMATE = "estimate coded.csv --gold gold.csv"
RECALIBRATE = "recalibrate coded.csv -o x.csv --gold"
MISTAKES = [
    (f"{SAMPLE} -n 40 -o x.csv --prob simple --prob-column w", "exclude each other"),
    (f"{SAMPLE} -n 40 -o x.csv --prob-column none", "none"),
    (f"{SAMPLE} -n 40 -o x.csv --prob-column text", "must be a number in column 'text'"),
    (f"{SAMPLE} -n 40 -o x.csv --prob-column year", "a probability between 0 and 1"),
    (f"{SAMPLE} -n 40 -o x.csv --after missing.csv", "missing.csv"),
    (f"{SAMPLE} -n 40 -o x.csv --prob weights", "weights"),
    (f"{SAMPLE} -n 999 -o x.csv", "999"),
    (f"""{ESTIMATE} "label == 'yes' ~ yeer" """, "did you mean 'year'?"),
    (f"{ESTIMATE} --by partei", "by must be a column of the table, not 'partei'"),
    (f"{ESTIMATE} --label lab", "label must be a column of the table, not 'lab'"),
    (f"{ESTIMATE} --level 3", "level must be above 0 and below 1, not 3"),
    ("recalibrate coded.csv -o x.csv", "Missing option '--gold'"),
    (f"{RECALIBRATE} none.csv", "'none.csv' cannot be used"),
    ("recalibrate none.csv --gold gold.csv -o x.csv", "none.csv"),
    (f"{RECALIBRATE} gold.csv --features embeddings", "embeddings must be"),
    (f"{RECALIBRATE} gold.csv --label topic", "topic"),
    (f"{RECALIBRATE} gold.csv --folds 1", "from 2 to 20"),
    ("recalibrate odd.csv --gold gold.csv -o x.csv", "column 'p_no', not 'much'"),
]


@pytest.mark.parametrize(("line", "message"), MISTAKES)
def test_mistakes_are_named(
    cli: Commands, labelled: pd.DataFrame, line: str, message: str
) -> None:
    odd = labelled.astype({"p_no": object})
    odd.loc[3, "p_no"] = "much"
    odd.to_csv("odd.csv", index=False)
    cli(line, status=2, err=message)


def test_a_file_that_does_not_exist_is_named(cli: Commands) -> None:
    assert cli("gold sample none.csv -n 2 -o sheet.csv", status=2).err == (
        "llamaherd: 'none.csv' cannot be used: No such file or directory\n"
    )
