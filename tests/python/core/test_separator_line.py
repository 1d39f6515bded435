"""The line `sep=;` before a header is no row, for all readers of CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.engine.core.files import separator_in
from llamaherd.tables.text_tables import CsvTable
from llamaherd.tables.whole import read_whole

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("line", "separator"),
    [
        ("sep=;\r\n", ";"),
        ("SEP=,", ","),
        ('"sep=\t"\n', "\t"),
        ("sep=|\n", "|"),
        ("sep=\n", None),
        ("sep=;;\n", None),
        ("sep=;id\n", None),
        ("separator\n", None),
        ("", None),
    ],
)
def test_the_line_names_one_character(line: str, separator: str | None) -> None:
    assert separator_in(line) == separator


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_tables_begin_after_the_line(
    tmp_path: Path, separator: str, encoding: str
) -> None:
    file = tmp_path / "table.csv"
    rows = [["text", "label"], ["a, b; c", "x"], ['a "quote"', "y"], ["short"]]
    lines = [separator.join('"' + c.replace('"', '""') + '"' for c in r) for r in rows]
    content = "\n".join([f"sep={separator}", *lines]) + "\n"
    file.write_text(content, encoding=encoding)
    table = CsvTable(file, "utf-8-sig", ",")
    assert (list(table.columns), table.n_rows) == (["text", "label"], 3)
    (block,) = table.blocks(10)
    assert [row.values["text"] for row in block.rows] == ["a, b; c", 'a "quote"', "short"]
    assert block.rows[2].problem == "line 5: the row has 1 cells, the header 2"
    file.write_text(content.removesuffix('"short"\n'), encoding=encoding)
    assert read_whole(str(file)) == {
        "text": ["a, b; c", 'a "quote"'],
        "label": ["x", "y"],
    }


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_sheet_of_codes_has_the_line(tmp_path: Path, separator: str) -> None:
    data = {"text": [f"one, two; three {i}" for i in range(20)], "label": ["x", "y"] * 10}
    drawn = lh.gold_sample(data, 10, text="text", label="label", seed=1)
    path = tmp_path / "gold.csv"
    delimiter: Any = separator if separator != "|" else ","
    drawn.with_codes(["x"] * 10).write(path, delimiter=delimiter)
    text = path.read_bytes().decode("utf-8-sig")
    if separator == "|":
        text = text.replace('","', '"|"')
    path.write_bytes(f"sep={separator}\r\n{text}".encode("utf-8-sig"))
    assert lh.read_gold(path).codes == [["x"] * 10]


def test_a_file_that_has_only_the_line_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("sep=;\n", encoding="utf-8")
    with pytest.raises(ValueError, match="it is empty"):
        CsvTable(file, "utf-8", ",")
