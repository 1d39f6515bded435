"""Tests of gold samples: drawn, written for people, and read."""

from __future__ import annotations

import csv
import json
import math
import pickle
from collections import Counter
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from llamaherd import _r
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.gold import forms
from llamaherd.coding.gold.population import Population
from llamaherd.engine.core.stats import Stats

if TYPE_CHECKING:
    from pathlib import Path

NASTY = [
    "=SUM(A1:A9)",
    "+1",
    "-1",
    "@cmd",
    "\ttab",
    "\rreturn",
    "'quoted'",
    "'=already",
    "''=twice",
    "''plain",
    'say "yes", or; no',
    "two\nlines",
    "größer 東京 🎉",
    "",
    " spaces ",
]


def frame(n: int = 60) -> dict[str, list[Any]]:
    return {
        "text": [
            f"{nasty}{i if i >= len(NASTY) or not nasty else ''}"
            for i, nasty in enumerate(islice(cycle(NASTY), n))
        ],
        "label": [
            ("yes", "no", "no", "rare" if i < 8 else "no")[i % 4] for i in range(n)
        ],
        "party": ["A" if i % 3 else "B" for i in range(n)],
        "sure": [(i % 10) / 10 for i in range(n)],
    }


def sample(**options: Any) -> lh.GoldSample:
    n = options.pop("n", 20)
    arguments = {"text": "text", "label": "label", "seed": 5, **options}
    return lh.gold_sample(frame(), n, **arguments)


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_any_data_frame_gives_the_same_sample(kind: Any) -> None:
    drawn = lh.gold_sample(kind(frame()), 20, text="text", label="label", seed=5)
    plain = sample()
    assert (drawn.rows, drawn.ids, drawn.texts) == (plain.rows, plain.ids, plain.texts)
    assert drawn.design == plain.design
    assert drawn.names == ("no", "rare", "yes")
    assert drawn.ids == [str(row + 1) for row in drawn.rows]
    assert drawn.probs.tolist() == [1 / 3] * 20


def test_the_seed_decides_and_is_told() -> None:
    assert sample(seed=6).rows != sample().rows
    drawn = lh.gold_sample(frame(), 20)
    again = lh.gold_sample(frame(), 20, seed=drawn.design["seed"])
    assert again.rows == drawn.rows


def test_strata() -> None:
    gold = sample(prob="stratified", allocation="equal", n=9)
    drawn = Counter(gold.labels).values()
    assert max(drawn) - min(drawn) <= 2
    assert gold.design["strata"] == {"yes": 15, "no": 43, "rare": 2}
    crossed = sample(by=["party", "label"])
    assert "A / no" in crossed.design["strata"]
    by_party = sample(by="party", allocation={"A": 15, "B": 5})
    assert Counter(frame()["party"][i] for i in by_party.rows) == {"A": 15, "B": 5}
    assert by_party.all_probs[0] == pytest.approx(5 / 20)


def test_uncertainty_with_a_floor() -> None:
    gold = sample(prob="uncertainty", confidence="sure", floor=0.5)
    assert gold.all_probs.sum() == pytest.approx(20)
    assert gold.all_probs.min() >= 0.5 * 20 / 60
    sure = np.array(frame()["sure"])
    assert gold.all_probs[sure == 0].min() > gold.all_probs[sure == 0.9].max()
    repeated = sample(prob="uncertainty", confidence=frame()["sure"], floor=0.5)
    assert repeated.rows == gold.rows


@pytest.mark.parametrize(
    "options",
    [
        {"allocation": "equal"},
        {"allocation": {"yes": 5, "no": 15}},
        {"confidence": "sure"},
        {"floor": 0.5},
        {"by": "party", "floor": 0.5},
        {"prob": "uncertainty", "confidence": "sure", "allocation": "equal"},
        {"prob": np.full(60, 1 / 3), "allocation": "equal"},
    ],
)
def test_an_argument_that_the_design_ignores_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(lh.ArgumentError, match="has no effect in this design") as caught:
        sample(**options)
    assert caught.value.argument == list(options)[-1]


@pytest.mark.parametrize("texts", [[], ["", None, "  "]])
def test_data_without_a_text_are_refused(texts: list[str | None]) -> None:
    data = {"text": texts, "label": ["a"] * len(texts)}
    with pytest.raises(lh.ArgumentError, match="no text to draw"):
        lh.gold_sample(data, 1, text="text", label="label")


def test_names_of_ordered_categories_keep_their_order() -> None:
    levels = ["low", "mid", "high"]
    values = pd.Categorical((levels * 20)[:50], [*levels, "top"], ordered=True)
    data = pd.DataFrame({"label": values})
    drawn = lh.gold_sample(data, 30, label="label", seed=1)
    assert drawn.names == ("low", "mid", "high", "top")
    codes = (levels * 10)[:30]
    validation = lh.validate(data, drawn.with_codes(codes), label="label")
    labels = [data["label"][row] for row in drawn.rows]
    alpha = lh.krippendorff_alpha([labels, codes], scale="ordinal", levels=levels)
    assert validation.model_agreement[3].value == pytest.approx(alpha.value)
    plain = data.astype(str)
    again = lh.validate(plain, drawn.with_codes(codes), label="label")
    assert again.model_agreement[3].value == pytest.approx(alpha.value)
    given_names = lh.gold_sample(data, 30, label="label", names=["low", "mid", "high"])
    assert given_names.names == ("low", "mid", "high")


def test_probabilities_that_are_given() -> None:
    probs = np.linspace(0.1, 0.9, 60)
    probs *= 20 / probs.sum()
    gold = sample(prob=probs)
    assert gold.all_probs == pytest.approx(probs)
    assert gold.design["kind"] == "given"
    with pytest.raises(ValueError, match="prob must sum to n=21, not to 20"):
        sample(prob=probs, n=21)
    with pytest.raises(ValueError, match="prob must have 60 values"):
        sample(prob=[0.5] * 40)
    data = {"text": ["", "one", "two"], "label": ["a", "a", "b"]}
    message = r"^prob\[2\] must be a probability between 0 and 1, not missing$"
    for function, first in ((lh.gold_sample, 1), (lh.estimate, ["a", "a", None])):
        with pytest.raises(ValueError, match=message):
            function(data, first, prob=[0.5, 1.0, math.nan], text="text", label="label")


def test_missing_texts_are_not_drawn() -> None:
    data = frame()
    data["text"][3] = data["text"][40] = None
    data["label"][10] = None
    gold = lh.gold_sample(data, 58, text="text", label="label", by="label")
    assert {3, 40}.isdisjoint(gold.rows)
    assert gold.all_probs[[3, 40]].tolist() == [0, 0]
    assert gold.all_probs[10] == 1
    assert gold.design["strata"]["(none)"] == 1
    assert gold.design["n_missing"] == 2
    with pytest.raises(ValueError, match="n must be at most 58, not 59: 58 texts"):
        lh.gold_sample(data, 59, text="text")


def test_what_annotate_returned_knows_its_columns() -> None:
    data = frame()
    coded = Coded(
        frame=pd.DataFrame(data),
        text="text",
        codebook=None,  # type: ignore[arg-type]
        columns={"label": "label", "margin": "sure"},
        names=("yes", "no", "rare", "never"),
        labels=data["label"],
        probs=None,
        errors=[None] * 60,
        run={},
        stats=Stats(),
    )
    gold = lh.gold_sample(coded, 20, prob="uncertainty", seed=5)
    assert gold.names == ("yes", "no", "rare", "never")
    assert gold.rows == sample(prob="uncertainty", confidence="sure").rows
    assert gold.texts[0] is not None


def coded_with(texts: list[str | None], examples: list[Any]) -> Coded:
    labels: list[str | None] = [("yes", "no")[i % 2] for i in range(len(texts))]
    return Coded(
        frame={"text": texts, "label": labels},
        text="text",
        codebook=Codebook("Which?", ["yes", "no"], examples=examples),
        columns={"label": "label"},
        names=("yes", "no"),
        labels=labels,
        probs=None,
        errors=[None] * len(texts),
        run={},
        stats=Stats(),
    )


def test_texts_that_are_examples_of_the_codebook_are_told() -> None:
    texts: list[str | None] = [f"Text {i}." for i in range(20)]
    coded = coded_with(texts, [("Text  3.\n", "no"), ("Text 7.", "no"), ("x", "yes")])
    match = r"2 of 20 texts of the gold sample are examples .*\(ids 4, 8\).* Remove"
    with pytest.warns(UserWarning, match=match):
        gold = lh.gold_sample(coded, 20)
    one = coded_with(texts, [("Text 7.", "no")])
    match = "1 of 20 texts of the gold sample is an example of the codebook"
    with pytest.warns(UserWarning, match=match):
        lh.gold_sample(one, 20)
    checks = lh.validate(coded, gold.with_codes(coded.labels))
    assert any(line.startswith("2 texts with codes are ex") for line in checks.warnings)
    from_r = {
        **dict.fromkeys(("by", "prob", "id", "confidence")), "text": "text",
        "label": "label", "floor": 0.3, "allocation": "proportional", "names": [],
        "seed": 1.0, "several": False, "each": [],
    }  # fmt: skip
    book = json.dumps(coded.codebook.to_dict())
    data = {".class": "frame", "content": coded.frame, "book": book}
    reply = _r.gold_draw(data, 20, **from_r)
    assert reply["warnings"][0].startswith("2 of 20 texts")


def test_blank_texts_are_not_drawn() -> None:
    texts = ["a", " ", "\n", "", "b", None]
    drawn = lh.gold_sample(coded_with(texts, []), 2)
    assert drawn.texts == ["a", "b"]
    assert drawn.design["n_missing"] == 4
    assert drawn.all_probs.tolist() == [1, 0, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"prob": "convenient"}, "prob must be one of 'simple', 'stratified'"),
        (
            {"prob": "simple", "by": "party"},
            "by has no effect in this design: it is for prob='stratified'",
        ),
        ({"by": "colour"}, "by must be a column of the data frame, not 'colour'"),
        ({"prob": "uncertainty"}, "confidence must be a column"),
        ({"prob": "uncertainty", "confidence": [2.0] * 60}, "between 0 and 1"),
        ({"id": "party"}, "id must differ from text to text: 'A' occurs twice"),
        ({"n": 100}, "n must be at most 60, not 100: 60 texts"),
        ({"seed": -1}, "seed must be between 0"),
        ({"by": "party", "allocation": {"A": 20}}, r"\(A, B\), but has numbers for A"),
        ({"by": ["party", "party"]}, "by names the column 'party' twice"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        sample(**options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"prob": 5}, "prob must be a list of numbers, not 5"),
        ({"prob": ["a"] * 60}, r"prob\[0\] must be a number, not 'a'"),
        ({"prob": "weights", "weights": 5}, "weights must be a list of numbers, not 5"),
        ({"prob": "weights", "weights": "party"}, r"weights\[0\] must be a number"),
        ({"prob": "weights", "weights": {"a": 1}}, "weights must be a list of numbers"),
        ({"prob": "uncertainty", "confidence": 5}, "confidence must be a list of numb"),
        ({"prob": "uncertainty", "confidence": "party"}, r"confidence\[0\] must be a nu"),
        ({"by": 5}, "by must be the name of a column, or a list of names, not 5"),
        ({"by": {"party"}}, "not a set: its elements have no order"),
        ({"by": [5]}, "by must be a text"),
        ({"names": 5}, "names must be a list of labels, not 5"),
        ({"names": "yes"}, "names must be a list of labels, not 'yes'"),
        ({"after": 5}, "after must be a gold sample, not 5"),
    ],
)
def test_arguments_of_other_types_are_named(options: dict[str, Any], match: str) -> None:
    with pytest.raises(TypeError, match=match):
        sample(**options)


@pytest.mark.parametrize("prefix", ["", "llm_"])
def test_people_may_give_a_label_that_the_model_never_gave(prefix: str) -> None:
    label = f"{prefix}label"
    data = {
        "text": [f"text {i}" for i in range(6)],
        label: ["no", "no", "yes", "no", None, "no"],
        **{f"{prefix}p_{name}": [0.3] * 6 for name in ("yes", "unsure", "no")},
    }
    drawn = lh.gold_sample(data, 2, text="text", label=label, seed=1)
    assert drawn.names == ("no", "unsure", "yes")
    assert drawn.with_codes(["unsure", "no"]).codes == [["unsure", "no"]]
    other = data | {label: ["no", "other", "no", "no", "no", "no"]}
    drawn = lh.gold_sample(other, 2, text="text", label=label, seed=1)
    assert drawn.names == ("no", "other")


def test_codes_that_are_no_list_are_named() -> None:
    with pytest.raises(TypeError, match="codes of 'code' must be a list, not 5"):
        sample().with_codes(5)


def test_it_is_stored_exactly() -> None:
    gold = sample(prob="uncertainty", confidence="sure").with_codes(["yes"] * 20, "ann")
    for other in (
        pickle.loads(pickle.dumps(gold)),
        lh.GoldSample.from_json(gold.to_json()),
    ):
        assert other.all_probs.tolist() == gold.all_probs.tolist()
        assert other.strata.tolist() == gold.strata.tolist()
        assert other.to_json() == gold.to_json()
    stored = json.loads(gold.to_json())
    stored["all_probs"][3] += 1e-12
    with pytest.raises(ValueError, match="were changed"):
        lh.GoldSample.from_json(json.dumps(stored))
    with pytest.raises(ValueError, match="not a stored gold sample"):
        lh.GoldSample.from_json("{}")
    stored["llamaherd_gold"] = 9
    with pytest.raises(ValueError, match="another format, 9"):
        lh.GoldSample.from_json(json.dumps(stored))


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": [999] * 20},
        {"rows": [0] * 20},
        {"ids": ["1"]},
        {"texts": []},
        {"labels": []},
        {"strata": [0]},
        {"strata": [-9] * 60},
        {"codes": [["yes"]]},
        {"coders": []},
        {"design": {}},
        {"all_ids": ["1"]},
        {"label_marks": [1]},
        {"rows": "abc"},
        {"waves": [{"rows": [999], "probs": [1], "strata": [0], "n": 1, "n_left": 2}]},
    ],
    ids=lambda changes: f"{next(iter(changes))} {str(changes)[-9:-2]}",
)
def test_a_sample_of_which_a_part_is_lost_is_refused(changes: dict[str, Any]) -> None:
    stored = json.loads(sample().with_codes(["yes"] * 20).to_json())
    match = "not a stored gold sample|of which a part was removed or changed"
    with pytest.raises(lh.ArgumentError, match=match) as caught:
        lh.GoldSample.from_json(json.dumps(stored | changes))
    assert caught.value.argument == "text"


@pytest.mark.parametrize("cell", NASTY)
def test_no_cell_is_a_formula_and_all_come_back(cell: str) -> None:
    assert forms.unescape_cell(forms.escape_cell(cell)) == cell
    assert not forms.escape_cell(cell).startswith(("=", "+", "-", "@", "\t", "\r"))


def coded_file(path: Path, codes: dict[str, list[str]], **changes: Any) -> None:
    """Write codes by id into a file, as a person does in a spreadsheet."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row.update({coder: by_id[row["id"]] for coder, by_id in codes.items()})
    delimiter = changes.get("delimiter", ",")
    with path.open("w", encoding=changes.get("encoding", "utf-8"), newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize(
    ("delimiter", "encoding"), [(",", "utf-8-sig"), (";", "utf-8"), ("\t", "utf-16")]
)
def test_codes_come_back(tmp_path: Path, delimiter: str, encoding: str) -> None:
    gold = sample(n=40)
    path = tmp_path / "gold.csv"
    gold.write(path, coders=["ann", "ben"])
    raw = path.read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf")
    assert b"label" not in raw.splitlines()[0]
    ann = dict.fromkeys(gold.ids, "yes")
    ben = {identifier: "" if i < 10 else "no" for i, identifier in enumerate(gold.ids)}
    coded_file(path, {"ann": ann, "ben": ben}, delimiter=delimiter, encoding=encoding)
    for read in (lh.read_gold(path), lh.read_gold(path, gold)):
        assert read.coders == ["ann", "ben"]
        assert read.codes == [["yes"] * 40, [None] * 10 + ["no"] * 30]
        assert read.gold == ["yes"] * 40  # on a tie the first coder's code
        assert read.all_probs.tolist() == gold.all_probs.tolist()
        assert read.texts == gold.texts


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_files_for_spreadsheets_of_all_countries(tmp_path: Path, delimiter: Any) -> None:
    path, drawn = tmp_path / "gold.csv", sample().with_codes({"a;b,c": ["yes"] * 20})
    drawn.write(path, delimiter=delimiter)
    first = path.read_text(encoding="utf-8-sig").splitlines()[0]
    assert first == delimiter.join(['"id"', '"text"', '"a;b,c"'])
    assert lh.read_gold(path).codes == drawn.codes
    with pytest.raises(ValueError, match="delimiter must be one of"):
        drawn.write(path, delimiter=":")  # type: ignore[arg-type]


IDS = ["-5", "@nyt", "+49", "=1", "'-6", "''-7", "'x", "plain"]


@pytest.mark.parametrize("spreadsheet", [False, True])
def test_ids_and_texts_are_written_unchanged_unless_asked(
    tmp_path: Path, *, spreadsheet: bool
) -> None:
    data = {"id": IDS, "text": [f"{key} text" for key in IDS], "label": ["a", "-1"] * 4}
    gold = lh.gold_sample(data, 8, id="id").with_codes({"ann": ["a", "-1"] * 4})
    path = tmp_path / "gold.csv"
    gold.write(path, spreadsheet=spreadsheet, blind=False)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert ({row["id"] for row in rows} == set(IDS)) is not spreadsheet
    assert any(row["text"].startswith("-5") for row in rows) is not spreadsheet
    # Sheets of earlier versions have apostrophes, too.
    read = lh.read_gold(path)
    assert (read.codes, read.coders) == (gold.codes, ["ann"])
    assert lh.read_gold(pd.DataFrame(rows), gold, coders=["ann"]).codes == gold.codes
    stripped = [{**row, "id": forms.unescape_cell(row["id"])} for row in rows]
    if spreadsheet:  # some programs remove one apostrophe
        again = lh.read_gold(pd.DataFrame(stripped), gold, coders=["ann"])
        assert again.codes == gold.codes


def test_a_file_is_in_a_random_order_unless_asked_otherwise(tmp_path: Path) -> None:
    gold = sample()
    for shuffle in (True, False):
        gold.write(tmp_path / "gold.csv", shuffle=shuffle, bom=False, overwrite=True)
        with (tmp_path / "gold.csv").open(encoding="utf-8", newline="") as file:
            ids = [row["id"] for row in csv.DictReader(file)]
        assert sorted(ids) == sorted(gold.ids)
        assert (ids == gold.ids) is not shuffle


def test_a_file_for_each_coder(tmp_path: Path) -> None:
    gold = sample()
    paths = [tmp_path / "ann.csv", tmp_path / "ben.csv"]
    for path, code in zip(paths, ("yes", "no"), strict=True):
        gold.write(path)
        coded_file(path, {"code": dict.fromkeys(gold.ids, code)})
    read = lh.read_gold(paths)
    assert read.coders == ["ann", "ben"]
    assert read.codes == [["yes"] * 20, ["no"] * 20]


def test_codes_that_are_there_are_written_again(tmp_path: Path) -> None:
    gold = sample().with_codes({"ann": ["yes"] * 19 + [None]})
    gold.write(tmp_path / "gold.csv")
    assert lh.read_gold(tmp_path / "gold.csv").codes == gold.codes
    assert "19 coded by 1 coder>" in repr(gold)
    table = gold.to_pandas()
    assert list(table) == ["row", "id", "text", "model_label", "inclusion_prob", "ann"]
    assert table["inclusion_prob"].tolist() == gold.probs.tolist()


def test_codes_are_checked() -> None:
    gold = sample()
    with pytest.raises(ValueError, match="codes of 'code' must be 20"):
        gold.with_codes(["yes"])
    with pytest.raises(
        ValueError, match=r"codes of 'code', row 2 \(id \d+\): 'maybe' is none"
    ):
        gold.with_codes(["yes", "maybe"] + ["no"] * 18)
    numbers = lh.gold_sample({"label": [1.0, 2.0, 1.0]}, 3, label="label")
    assert numbers.names == ("1", "2")
    assert numbers.with_codes([1, 2.0, None]).gold == ["1", "2", None]


def test_the_hash_tells_texts_and_their_order() -> None:
    def sha(data: dict[str, list[Any]]) -> str:
        population = Population.of(data, text="text", label=None, id=None)
        return population.sha256

    one = frame()
    other = {**one, "text": one["text"][::-1]}
    assert sha(one) == sha(frame()) == sample().design["sha256"]
    assert sha(other) != sha(one)


def test_codes_come_as_series_and_frames_too() -> None:
    drawn = sample(n=4)
    codes = ["yes", None, "no", "rare"]
    columns = {
        "list": codes,
        "pandas": pd.Series(codes),
        "by row": pd.Series(codes, index=drawn.rows)[sorted(drawn.rows)],
        "by id": pd.Series(codes, index=drawn.ids)[::-1],
        "by place": pd.Series(codes)[[2, 0, 3, 1]],
        "polars": pl.Series(codes),
    }
    for name, column in columns.items():
        assert drawn.with_codes(column).codes == [codes], name
    for index in ([7, 3, 5, 1], [0, 0, 1, 2]):
        with pytest.raises(ValueError, match="neither the sample's ids nor its rows"):
            drawn.with_codes(pd.Series(codes, index=index))
        with pytest.raises(ValueError, match="neither the sample's ids nor its rows"):
            drawn.with_codes({"anna": pd.Series(codes, index=index)})
    table = pd.DataFrame({"anna": codes}, index=drawn.ids)[::-1]
    assert drawn.with_codes(table).codes == [codes]
    both = {"anna": codes, "ben": codes[::-1]}
    for frame_of in (dict, pd.DataFrame, pl.DataFrame, pa.table):
        coded = drawn.with_codes(frame_of(both))
        assert coded.coders == ["anna", "ben"]
        assert coded.codes == [codes, codes[::-1]]


def test_a_sheet_is_not_written_without_its_design(tmp_path: Path) -> None:
    (tmp_path / "gold.csv.json").symlink_to(tmp_path / "missing" / "file")
    with pytest.raises(OSError, match=r"gold\.csv\.json"):
        sample(n=2).write(tmp_path / "gold.csv")
    assert not (tmp_path / "gold.csv").exists()


def test_a_sheet_that_was_coded_is_not_written_over(tmp_path: Path) -> None:
    path, drawn = tmp_path / "to_code.csv", sample(n=4)
    drawn.write(path, coders=["anna"])
    drawn.write(path, coders=["anna"])  # the file has no codes that would be lost
    coded = path.read_bytes().replace(b'""\r\n', b'"yes"\r\n')
    path.write_bytes(coded)
    with pytest.raises(ValueError, match=r"to_code.csv' already exists"):
        drawn.write(path, coders=["anna"])
    assert path.read_bytes() == coded
    drawn.write(path, coders=["anna"], overwrite=True)
    assert path.read_bytes() != coded
