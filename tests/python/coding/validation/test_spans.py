"""Tests of passages that people marked, from files of other programs."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = "Ann \U0001f44d met\r\nBob in \u00dcrdingen."
OTHER = "Nobody here."
MARKED = [(0, 3, "person"), (11, 14, "person"), (18, 26, "place")]
ROWS = [(c, TEXT[a:b], a, b) for a, b, c in MARKED]


def rows_of(codes: lh.types.SpanCodes) -> list[tuple[Any, ...]]:
    return [(r["label"], r["quote"], r["start"], r["end"]) for r in codes.rows()]


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    content = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    path.write_bytes(content.encode())
    return path


def own_lines(path: Path, **more: Any) -> Path:
    spans = [{"start": a, "end": b, "label": c} for a, b, c in MARKED]
    return lines(
        path,
        {"id": 1, "text": TEXT, "spans": spans, **more},
        {"id": 2, "text": OTHER, "spans": [], **more},
    )


def test_json_lines(tmp_path: Path) -> None:
    codes = lh.read_spans(own_lines(tmp_path / "eve.jsonl"))
    assert rows_of(codes) == ROWS
    assert list(codes.coders) == ["eve"]
    assert codes.coders["eve"][OTHER] == ()
    assert codes.labels == ("person", "place")
    assert repr(codes) == "<SpanCodes: 2 texts, 3 passages, coders eve>"
    other = own_lines(tmp_path / "a.jsonl", coder="ann")
    both = lh.read_spans([other, tmp_path / "eve.jsonl"])
    assert list(both.coders) == ["ann", "eve"]


def doccano(path: Path) -> Path:
    return lines(
        path,
        {"id": 7, "text": TEXT, "label": [list(span) for span in MARKED]},
        {"id": 8, "text": OTHER, "label": []},
    )


def doccano_with_entities(path: Path) -> Path:
    entities = [
        {"id": i, "label": label, "start_offset": a, "end_offset": b}
        for i, (a, b, label) in enumerate(MARKED)
    ]
    return lines(path, {"id": 7, "text": TEXT, "entities": entities, "relations": []})


def label_studio(path: Path) -> Path:
    # Label Studio counts positions in UTF-16 units; the emoji has two units.
    def result(start: int, end: int, label: str, quote: str) -> dict[str, Any]:
        value = {"start": start, "end": end, "text": quote, "labels": [label]}
        return {"from_name": "label", "to_name": "text", "type": "labels", "value": value}

    labels = [
        result(0, 3, "person", "Ann"),
        result(12, 15, "person", "Bob"),
        result(19, 27, "place", "\u00dcrdingen"),
        {"type": "choices", "value": {"choices": ["x"]}},
    ]
    eve = {"email": "eve@x.org"}
    none = {"completed_by": eve, "result": []}
    tasks = [
        {
            "id": 1,
            "data": {"text": TEXT},
            "annotations": [
                {"completed_by": eve, "result": labels},
                {"completed_by": 2, "was_cancelled": True, "result": []},
            ],
        },
        {"id": 2, "data": {"text": OTHER}, "annotations": [none]},
    ]
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


def label_studio_min(path: Path) -> Path:
    parts = [
        {"start": a, "end": b, "text": TEXT[a:b], "labels": [c]} for a, b, c in MARKED
    ]
    task = {"id": 1, "text": TEXT, "label": parts, "annotator": 3}
    path.write_text(json.dumps([task]), encoding="utf-8")
    return path


def brat(path: Path) -> Path:
    folder = path.parent / "bob"
    (folder / "news").mkdir(parents=True)
    (folder / "news" / "1.txt").write_bytes(TEXT.encode())
    content = (
        "T1\tperson 0 3;11 14\tAnn Bob\nT2\tplace 18 26\t\u00dcrdingen\n"
        "R1\tLives Arg1:T1 Arg2:T2\n#1\tAnnotatorNotes T1\ta note\n"
    )
    (folder / "news" / "1.ann").write_text(content, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("write", "coder"),
    [
        (doccano, "x"),
        (doccano_with_entities, "x"),
        (label_studio, "eve@x.org"),
        (label_studio_min, "3"),
        (brat, "bob"),
    ],
)
def test_exports_of_other_programs(
    tmp_path: Path, write: Callable[[Path], Path], coder: str
) -> None:
    codes = lh.read_spans(write(tmp_path / "x.json"))
    assert rows_of(codes) == ROWS
    assert list(codes.coders) == [coder]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "line 1: this is not JSON"),
        ('{"text": "a", "text": "b"}', 'line 1: an object has the key "text" twice'),
        ('{"id": 1}', "no text in the field 'text'"),
        ('{"text": "a", "x": 1}', "no passages; fields: text, x"),
        (
            '{"text": "a", "spans": [{"start": 0, "end": 9, "label": "x"}]}',
            "1 characters",
        ),
        ('{"text": "a", "spans": [{"start": 1, "end": 1, "label": "x"}]}', "1 to 1"),
        (
            '{"text":"ab","spans":[{"start":0,"end":1,"label":"","quote":"b"}]}',
            "is 'a', not 'b'",
        ),
        ('{"text": "a", "spans": [{"start": 0}]}', "the expected format"),
        ('[{"id": 1, "data": {}, "annotations": []}]', "no field 'text'"),
        ("", "has no texts"),
    ],
)
def test_wrong_files(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        lh.read_spans(tmp_path / "x.jsonl")


def test_wrong_folders_and_formats(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no \.ann files"):
        lh.read_spans(tmp_path)
    (tmp_path / "a.ann").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="text is missing"):
        lh.read_spans(tmp_path / "a.ann")
    with pytest.raises(ValueError, match="format"):
        lh.read_spans(tmp_path, format="xml")  # type: ignore[arg-type] # wrong
    twice = own_lines(tmp_path / "a.jsonl", coder="x")
    other = lines(tmp_path / "b.jsonl", {"text": TEXT, "spans": [], "coder": "x"})
    with pytest.raises(ValueError, match="two codings"):
        lh.read_spans([twice, other])


def codes_of(path: Path, **coders: list[tuple[int, int, str]]) -> lh.types.SpanCodes:
    files = []
    for coder, marked in coders.items():
        spans = [{"start": a, "end": b, "label": c} for a, b, c in marked]
        row = {"text": TEXT, "spans": spans, "coder": coder}
        empty = {**row, "text": OTHER, "spans": []}
        files.append(lines(path / f"{coder}.jsonl", row, empty))
    return lh.read_spans(files)


def test_a_model_and_coders_are_compared(tmp_path: Path) -> None:
    gold = codes_of(tmp_path, ann=MARKED, bob=MARKED[:2])
    (tmp_path / "m").mkdir()
    model = codes_of(tmp_path / "m", model=[MARKED[0], (12, 14, "person")])
    validation = lh.validate_spans(model, gold)
    values = {key: measure.value for key, measure in validation.measures.items()}
    assert values["model and ann", "exact precision", ""] == 0.5
    assert values["model and ann", "exact recall", ""] == pytest.approx(1 / 3)
    assert values["model and ann", "overlap precision", ""] == 1.0
    assert values["model and ann", "overlap f1", "person"] == 1.0
    assert values["model and ann", "overlap f1", "place"] == 0.0
    assert values["ann and bob", "exact f1", ""] == pytest.approx(0.8)
    assert values["between people", "unitizing alpha", "person"] == 1.0
    assert 0 < values["model and people", "unitizing alpha", "person"] < 1
    table = validation.to_pandas()
    names = ("part", "measure", "label", "value", "low", "high", "n")
    assert tuple(table.columns) == names
    assert set(table["n"]) == {2}
    assert "model and ann (2 texts)" in str(validation)
    again = lh.validate_spans(model, gold)
    assert str(again) == str(validation)


@pytest.mark.parametrize(
    ("argument", "instead"),
    {"gamma": "use the measure 'unitizing", "seed": "intervals are computed"}.items(),
)
def test_what_was_removed_says_what_to_use(
    argument: str, instead: str, tmp_path: Path
) -> None:
    gold = codes_of(tmp_path, ann=MARKED)
    with pytest.raises(TypeError, match=f"{argument} was removed: {instead}") as caught:
        lh.validate_spans(gold, gold, **{argument: True})  # type: ignore[arg-type] # removed
    assert isinstance(caught.value, lh.ArgumentTypeError)
    assert caught.value.code == "removed"


def test_texts_coded_by_a_model(tiny_path: Callable[[str], Path], tmp_path: Path) -> None:
    book = lh.Codebook("Mark.", ["person", "place"], type="spans", max_spans=2)
    texts = [OTHER, None, TEXT]
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        coded = lh.annotate(
            {"text": texts}, "text", book, context, max_tokens=230, temperature=99.0
        )
    gold = codes_of(tmp_path, ann=MARKED)
    validation = lh.validate_spans(coded, gold)
    assert ("model and ann", "exact f1", "") in validation.measures
    more = lines(tmp_path / "ann.jsonl", {"text": "not coded", "spans": []},
                 {"text": OTHER, "spans": []})  # fmt: skip
    validation = lh.validate_spans(coded, lh.read_spans(more))
    assert "1 of 2 texts" in validation.notes[0]
    none = lines(tmp_path / "c.jsonl", {"text": "not coded", "spans": []})
    with pytest.raises(ValueError, match="gold has no text that was coded"):
        lh.validate_spans(coded, lh.read_spans(none))
    with pytest.raises(TypeError, match="read_spans"):
        lh.validate_spans(coded, [1])  # type: ignore[arg-type] # wrong
    with pytest.raises(ValueError, match="must have one coder"):
        lh.validate_spans(codes_of(tmp_path, a=MARKED, b=MARKED), gold)


def test_measures_without_an_interval_are_printed_without_limits(tmp_path: Path) -> None:
    row = {"text": TEXT, "spans": [{"start": 0, "end": 3, "label": "x"}]}
    files = [lines(tmp_path / f"{name}.jsonl", {**row, "coder": name}) for name in "am"]
    ann, model = map(lh.read_spans, files)
    validation = lh.validate_spans(model, ann)  # one text
    assert math.isnan(validation.measures[next(iter(validation.measures))].low)
    assert re.search(r"exact f1 +1\.000\n", str(validation))
    assert "nan" not in str(validation)
