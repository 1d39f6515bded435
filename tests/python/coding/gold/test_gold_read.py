"""Tests of reading sheets that people coded in spreadsheets."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from llamaherd import _r
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from pathlib import Path


def sample(**options: Any) -> lh.GoldSample:
    data = {
        "text": [f"Text {i}." for i in range(60)],
        "label": [("yes", "no", "no", "rare")[i % 4] for i in range(60)],
    }
    arguments = {"text": "text", "label": "label", "seed": 5, **options}
    return lh.gold_sample(data, 20, **arguments)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def written(path: Path, rows: list[dict[str, str]], header: list[str]) -> None:
    """Write rows as a spreadsheet does, possibly with another header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(list(row.values()) for row in rows)


def sheet(tmp_path: Path, codes: list[str], **more: list[str]) -> Path:
    """Write a sheet with codes and further columns, in the order of the sample."""
    path = tmp_path / "gold.csv"
    sample().write(path, overwrite=True)
    rows = rows_of(path)
    for i, row in enumerate(rows):
        row["code"] = codes[i % len(codes)]
        row.update({name: values[i % len(values)] for name, values in more.items()})
    written(path, rows, list(rows[0]))
    return path


def code_of(path: Path, row: int) -> str | None:
    """Return the code that was read for a row of the file."""
    gold = lh.read_gold(path)
    return gold.codes[0][gold.ids.index(rows_of(path)[row]["id"])]


def test_all_warnings_of_a_call_are_one(tmp_path: Path) -> None:
    path = sheet(tmp_path, ["yes"], notes=["?"], remarks=["hard to tell"])
    rows = rows_of(path)
    written(path, rows[:18], list(rows[0]))
    with pytest.warns(UserWarning, match="3 warnings:") as caught:
        lh.read_gold(path)
    (warning,) = caught
    notes = warning.message.notes  # type: ignore[union-attr]
    assert "was taken for notes" in notes[0]
    assert "'remarks' of" in notes[1]
    assert "2 of 20 texts" in notes[2]


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("YES", "yes"),
        (" Rare\u00a0", "rare"),
        ("NA", None),
        ("n/a", None),
        ("#N/A", None),
        ("nan", None),
        ("  ", None),
    ],
)
def test_case_space_and_what_stands_for_nothing(
    tmp_path: Path, cell: str, code: str | None
) -> None:
    assert code_of(sheet(tmp_path, [cell, "no"]), 0) == code


def test_labels_that_differ_in_case_only_are_two() -> None:
    gold = lh.gold_sample({"label": ["A", "a", "B"]}, 3, label="label")
    assert gold.with_codes(["A", "a", "b"]).gold == ["A", "a", "B"]
    nothing = lh.gold_sample({"label": ["NA", "b"]}, 2, label="label")
    assert nothing.with_codes(["na", ""]).gold == ["NA", None]


def test_numbers_come_back_as_programs_write_them() -> None:
    gold = lh.gold_sample({"label": [1, 2, 3]}, 3, label="label")
    assert gold.with_codes(["1.0", "2,00", "3"]).gold == ["1", "2", "3"]
    with pytest.raises(ValueError, match=r"'1.5' is none of the labels 1, 2, 3"):
        gold.with_codes(["1.5", "2", "3"])


def test_columns_are_found_in_any_case(tmp_path: Path) -> None:
    path = sheet(tmp_path, ["yes"])
    written(path, rows_of(path), [" ID", "Text ", "Label"])
    assert lh.read_gold(path).coders == ["Label"]  # "Label" is a valid name of a coder
    written(path, rows_of(path), ["ID", "TEXT", "id"])
    with pytest.raises(ValueError, match="is not in the sample"):
        lh.read_gold(path)  # only the column called "id" is the column of ids


def test_notes_are_no_codes(tmp_path: Path) -> None:
    path = sheet(tmp_path, ["yes", "no"], notes=["", "hard to tell", "see page 3"])
    with pytest.warns(UserWarning, match="The column 'notes' of .* was taken for notes"):
        gold = lh.read_gold(path)
    assert gold.coders == ["code"]
    assert lh.read_gold(path, coders=["code"]).codes == gold.codes
    with pytest.raises(ValueError, match="column notes: 'hard to tell' is none"):
        lh.read_gold(path, coders=["code", "notes"])
    with pytest.raises(ValueError, match=r"no column 'cod' \(str\).*did you mean 'code'"):
        lh.read_gold(path, coders=["cod"])


def test_a_coder_who_wrote_a_few_words_is_a_coder(tmp_path: Path) -> None:
    path = sheet(tmp_path, ["yes"], ben=["no", "no idea"])
    with pytest.raises(ValueError, match=r"10 problems.*column ben: 'no idea' is none"):
        lh.read_gold(path)
    path = sheet(tmp_path, ["maybe"])  # the only coder
    with pytest.raises(ValueError, match=r"20 problems.*column code: 'maybe'"):
        lh.read_gold(path)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    path = sheet(tmp_path, ["yes", "y", "no"])
    with pytest.raises(ValueError, match=r"^7 problems: .*; and 2 more$") as error:
        lh.read_gold(path)
    message = str(error.value)
    assert message.count("'y' is none of the labels no, rare, yes") == 5
    assert "(str)" not in message
    rows = rows_of(path)
    rows[4]["code"] = "rarre"
    written(path, rows, list(rows[0]))
    with pytest.raises(ValueError, match=r"'rarre' is none .*; did you mean 'rare'"):
        lh.read_gold(path)
    other = tmp_path / "other.csv"
    written(other, rows, list(rows[0]))
    with pytest.raises(ValueError, match=r"^14 problems"):
        lh.read_gold([path, other], sample())


def test_rows_that_were_deleted_are_told(tmp_path: Path) -> None:
    path = sheet(tmp_path, ["yes", "no"])
    rows = rows_of(path)
    written(path, rows[:17], list(rows[0]))
    match = rf"3 of 20 texts of the gold sample have no row.*{rows[17]['id']}"
    with pytest.warns(UserWarning, match=match):
        gold = lh.read_gold(path)
    assert gold.gold.count(None) == 3
    written(path, rows[:19], list(rows[0]))
    with pytest.warns(UserWarning, match="1 of 20 texts of the gold sample has no row"):
        lh.read_gold(path)
    written(path, rows[:17], list(rows[0]))
    other = tmp_path / "other.csv"  # two people divide the texts among themselves
    written(other, rows[15:], list(rows[0]))
    both = lh.read_gold([path, other], sample())
    assert None not in both.gold


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_codes_of_a_data_frame_are_read_as_those_of_a_file(kind: Any) -> None:
    drawn = sample()
    codes = ["yes", " No ", None, "NA"] * 5
    columns = {
        "ID": drawn.ids[::-1],
        "text": drawn.texts[::-1],
        "ann": codes[::-1],
        "label": drawn.labels[::-1],
        "party": ["A"] * 20,
    }
    with pytest.warns(UserWarning, match="'party' of .* was taken for notes"):
        gold = lh.read_gold(kind(columns), drawn)
    assert gold.coders == ["ann"]  # the column of the model's labels is not a coder
    assert gold.codes == [["yes", "no", None, None] * 5]
    named = lh.read_gold(kind(columns), drawn, coders=["label"])
    assert named.gold == drawn.labels
    wrong = {**columns, "text": ["another"] * 20, "ann": ["maybe"] * 20}
    with pytest.raises(ValueError, match=r"^40 problems: the data frame, row 1 \(id \d"):
        lh.read_gold(kind(wrong), drawn, coders=["ann"])
    with pytest.raises(ValueError, match="codes in a data frame need it"):
        lh.read_gold(kind(columns))
    with pytest.raises(ValueError, match="must have a column id"):
        lh.read_gold(kind({"ann": ["yes"]}), drawn)


def test_a_file_that_a_program_read_is_a_data_frame(tmp_path: Path) -> None:
    texts = ["=1+1", "'=1", "'a'", "-"]
    data = {"text": texts, "label": ["a", "b"] * 2, "key": ["-1", "@b", "c", "'d"]}
    drawn = lh.gold_sample(data, 4, text="text", label="label", id="key", seed=1)
    drawn.write(tmp_path / "gold.csv", coders=["ann"])
    table = pd.read_csv(tmp_path / "gold.csv")
    table["ann"] = "b"
    assert lh.read_gold(table, drawn).gold == ["b"] * 4
    columns = {"id": drawn.ids, "text": drawn.texts, "ann": ["b"] * 4}
    assert lh.read_gold(columns, drawn).gold == ["b"] * 4


def test_r_s_data_frames_tell_what_rows_are_missing() -> None:
    drawn = sample()
    ids = [float(key) for key in drawn.ids]
    columns: dict[str, Any] = {"id": ids[::-1], "ann": ["yes"] * 20}
    tagged = {".class": "gold", "content": drawn.to_json()}
    reply = _r.gold_read(columns, tagged, None)
    assert (reply["ok"], reply["warnings"]) == (True, [])
    reply = _r.gold_read({"id": ids[:17], "ann": ["yes"] * 17}, tagged, ["ann"])
    (warning,) = reply["warnings"]
    assert warning.startswith("3 of 20 texts of the gold sample have no row")
    assert ", ".join(drawn.ids[17:]) in warning


@pytest.mark.parametrize("ids", [[2, 1, 100_000], [2.0, 1.0, 1e5], pd.array([2, 1, 1e5])])
def test_whole_numbers_are_ids_as_such(ids: Any, tmp_path: Path) -> None:
    data = pd.DataFrame({"doc": ids, "label": ["a", "b", "a"]})
    drawn = lh.gold_sample(data, 3, label="label", id="doc", seed=1)
    assert sorted(drawn.ids) == ["1", "100000", "2"]
    path = tmp_path / "gold.csv"
    drawn.write(path)
    rows = rows_of(path)
    for row in rows:
        row["code"] = "a"
    written(path, rows, list(rows[0]))
    assert lh.read_gold(path).gold == ["a"] * 3
    again = pd.DataFrame({"id": ids, "ann": ["a", "b", "a"]})
    gold = lh.read_gold(again, drawn)
    assert dict(zip(gold.ids, gold.gold, strict=True)) == {
        "2": "a",
        "1": "b",
        "100000": "a",
    }


def test_rounded_probabilities_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    sample().write(path, blind=False)
    rows = rows_of(path)
    for row in rows:
        row |= {"inclusion_prob": "0,333333333", "code": "no"}
        row["model_label"] += " "
    written(path, rows, list(rows[0]))
    assert lh.read_gold(path).gold == ["no"] * 20


def changed(path: Path, row: int, column: str, value: str) -> int:
    """Change a cell and return its row in the file."""
    rows = rows_of(path)
    rows[row][column] = value
    written(path, rows, list(rows[0]))
    return row + 2


@pytest.mark.parametrize(
    ("column", "value", "match"),
    [
        ("code", "maybe", "column code: 'maybe' is none of the labels no, rare, yes$"),
        ("text", "another", "text is not the one that was drawn"),
        ("model_label", "never", "model_label is not the one that the model gave"),
        (
            "inclusion_prob",
            "0.5",
            "inclusion_prob must be 0.333.*with which the text was drawn, not '0.5'",
        ),
        ("inclusion_prob", "often", "inclusion_prob must be 0.333"),
        ("id", "9999", "id '9999' is not in the sample"),
    ],
)
def test_what_was_changed_is_refused_by_its_row(
    tmp_path: Path, column: str, value: str, match: str
) -> None:
    path = tmp_path / "gold.csv"
    sample().write(path, blind=False)
    row = changed(path, 7, column, value)
    with pytest.raises(ValueError, match=rf"gold.csv, row {row}.*{match}"):
        lh.read_gold(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    gold = sample()
    gold.write(path)
    (tmp_path / "gold.csv.json").unlink()
    with pytest.raises(ValueError, match="sample must be given: there is no"):
        lh.read_gold(path)
    path.write_bytes("id,code\n1,größer".encode("latin-1"))
    with pytest.raises(ValueError, match=r"byte 0xf6 in line 2: save .* 'CSV UTF-8'"):
        lh.read_gold(path, gold)
    path.write_text("id,text\n1,x\n", encoding="utf-8")
    with pytest.raises(ValueError, match="a column id and one for each coder"):
        lh.read_gold(path, gold)
    path.write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="is empty"):
        lh.read_gold(path, gold)
    path.write_text(f"id,code\n{gold.ids[0]},yes\n{gold.ids[0]},no\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"row 3 .* that id is in row 2, too"):
        lh.read_gold(path, gold)
    with pytest.raises(ValueError, match="path must name a file"):
        lh.read_gold([])
    with pytest.raises(ValueError, match="coders must be different names"):
        gold.write(path, coders=["text"])


def raw(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]), encoding="utf-8")
    return path


def test_what_spreadsheets_leave_behind_is_no_coder(tmp_path: Path) -> None:
    gold = sample()
    rows = [f"{key};yes;;;" for key in gold.ids]
    path = raw(tmp_path / "gold.csv", "id;ann;notes;;", rows)
    assert lh.read_gold(path, gold).coders == ["ann"]


def test_cells_beyond_the_columns_are_not_lost(tmp_path: Path) -> None:
    gold = sample()
    path = raw(tmp_path / "gold.csv", "id;ann", [f"{gold.ids[0]};yes;no"])
    with pytest.raises(ValueError, match="row 2 has 3 cells, but there are 2 columns"):
        lh.read_gold(path, gold)


def test_errors_of_a_sheet_have_their_place(tmp_path: Path) -> None:
    gold = sample()
    first, second = gold.ids[:2]
    path = tmp_path / "a {b}.csv"  # braces in a path are not fields of a message
    for text, argument, place, code in [
        (f"id,ann\n{first},yes\n{second},perhaps\n", "path", (1, "ann"), "unknown_codes"),
        (f"id,ann\n{first},yes\nnobody,yes\n", "path", (1, "id"), "unknown_codes"),
        (f"id,ann\n{first},yes\n{first},yes\n", "path", (1, "id"), "unknown_codes"),
        (f"id,ann\n{first},yes,no\n", "path", (0,), "wrong_length"),
        ("id,text\n1,x\n", "path", (), "unknown_columns"),
        ("", "path", (), "no_csv"),
        (f"id,bob\n{first},yes\n", "coders", (0,), "unknown_column"),
    ]:
        path.write_text(text, encoding="utf-8")
        coders = ["ann"] if argument == "coders" else None
        with pytest.raises(ArgumentError, match=r"a \{b\}\.csv") as caught:
            lh.read_gold(path, gold, coders=coders)
        error = caught.value
        assert (error.argument, error.place, error.code) == (argument, place, code)
    path.write_bytes("id,code\n1,größer".encode("latin-1"))
    with pytest.raises(ArgumentError) as caught:
        lh.read_gold(path, gold)
    assert (caught.value.argument, caught.value.code) == ("path", "not_unicode")


def test_a_blank_row_of_a_data_frame_does_not_change_ids() -> None:
    """Ids were then read without the apostrophe that a spreadsheet may show."""
    data = {"id": ["'-5", "-5", "c"], "text": ["a", "b", "c"], "label": ["x", "y", "x"]}
    gold = lh.gold_sample(data, 3, seed=1)
    sheet = {"id": [*gold.ids, None], "ann": ["x", "y", "x", None]}
    assert lh.read_gold(sheet, gold, coders=["ann"]).codes == [["x", "y", "x"]]


@pytest.mark.parametrize("form", ["{:.0f}", "{:.1f}"])
def test_ids_that_a_spreadsheet_took_for_numbers(tmp_path: Path, form: str) -> None:
    data = {
        "text": [f"Text {i}." for i in range(40)],
        "key": [f"{i:03d}" for i in range(40)],
    }
    gold = lh.gold_sample(data, 10, text="text", id="key", seed=1)
    rows = [f"{form.format(float(key))},yes" for key in gold.ids]
    path = raw(tmp_path / "gold.csv", "id,ann", rows)
    assert lh.read_gold(path, gold).codes == [["yes"] * 10]
    named = lh.gold_sample({**data, "key": [f"k{i}" for i in range(40)]}, 1, text="text",
                           id="key", seed=1)  # fmt: skip
    with pytest.raises(ValueError, match="id 'k' is not in the sample"):
        lh.read_gold(raw(path, "id,ann", ["k,yes"]), named)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^path: .*nowhere\.csv. cannot be"):
        lh.read_gold(tmp_path / "nowhere.csv")
    with pytest.raises(OSError, match=r"^path: .* cannot be used: Is a directory"):
        lh.read_gold(tmp_path)


def test_a_sheet_without_any_code_is_told(tmp_path: Path) -> None:
    sample().write(tmp_path / "gold.csv")
    with pytest.warns(UserWarning, match=r"No text has a code in .*gold\.csv: the col"):
        lh.read_gold(tmp_path / "gold.csv")


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
def test_a_compressed_sheet_is_refused(tmp_path: Path, suffix: str) -> None:
    modules = {"gz": gzip, "bz2": bz2, "xz": lzma}
    path = sheet(tmp_path, ["yes"])
    packed = tmp_path / f"gold.csv.{suffix}"
    packed.write_bytes(modules[suffix].compress(path.read_bytes()))
    with pytest.raises(ArgumentError, match=r"compressed by .*: decompress it first"):
        lh.read_gold(packed)
    with pytest.raises(
        ArgumentError, match=rf"must not end with \.{suffix}: the file is"
    ):
        sample().write(tmp_path / f"new.csv.{suffix}")


def test_a_damaged_sidecar_is_named(tmp_path: Path) -> None:
    path = sheet(tmp_path, ["yes"])
    (tmp_path / "gold.csv.json").write_text("{}")
    with pytest.raises(ArgumentError, match=r"\.json: path is not a stored gold sample$"):
        lh.read_gold(path)
    (tmp_path / "gold.csv.json").write_bytes(b"{\xf6}")
    with pytest.raises(ArgumentError, match=r"path: .*json. is not in UTF-8: byte"):
        lh.read_gold(path)


def test_rows_that_are_cut_have_empty_cells(tmp_path: Path) -> None:
    gold = sample()
    whole, cut = gold.ids[:2]
    path = raw(tmp_path / "gold.csv", "id,note,ann", [f"{whole},,yes", cut])
    with pytest.warns(UserWarning, match="have no row"):
        codes = lh.read_gold(path, gold).codes
    assert codes[0][:2] == ["yes", None]


def test_a_workbook_is_no_sheet(tmp_path: Path) -> None:
    path = tmp_path / "gold.xlsx"
    path.write_bytes(b"PK\x03\x04\x14\x00\xff\xfe")
    with pytest.raises(ArgumentError, match="is a workbook or another archive"):
        lh.read_gold(path, sample())


@pytest.mark.parametrize("coders", [5, [5], {"a": 1}])
def test_coders_are_texts(tmp_path: Path, coders: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"^coders(\[0\])? must be a text"):
        sample().write(tmp_path / "gold.csv", coders=coders)


def test_errors_name_the_argument_that_was_given() -> None:
    data = {"text": ["a", "b", "c"], "label": ["x", "y", "x"]}
    gold = lh.gold_sample(data, 1, seed=1)
    with pytest.raises(ArgumentError, match=r"^after was drawn from other data"):
        lh.gold_sample({"text": ["a"], "label": ["x"]}, 1, after=gold)
    with pytest.raises(ArgumentError, match=r"^gold must have the same number of rows"):
        lh.validate(data, {"ann": ["x"] * 3, "bo": ["x"]})
    with pytest.raises(ArgumentError, match=r"^gold must have codes of people"):
        lh.validate({"label": []}, {})


def test_one_coder_may_be_named_alone(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    sample().write(path, coders="bo")
    assert path.read_text(encoding="utf-8-sig").splitlines()[0].endswith('"bo"')


def test_doubled_quotes_of_a_cell_are_the_same_text() -> None:
    text = 'He said "no".'
    gold = lh.gold_sample({"text": [text, "B", "C"]}, 3, text="text", seed=1)
    cells = [(content or "").replace('"', '""') for content in gold.texts]
    sheet = {"id": gold.ids, "text": cells, "anna": ["yes"] * 3}
    assert lh.read_gold(sheet, gold).codes == [["yes"] * 3]
    sheet["text"] = [cell.replace("no", "yes") for cell in cells]
    with pytest.raises(ValueError, match="text is not the one that was drawn"):
        lh.read_gold(sheet, gold)
