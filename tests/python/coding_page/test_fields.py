"""Codebooks with fields: the form, checked answers, agreement, files, the browser."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pandas as pd
import pytest
from browsing import check_accessible, seen, visited
from coding_pages import TEXTS
from llamaherd.calls.structured.quoting import type_quote
from llamaherd.coding_page.desk import Desk
from llamaherd.coding_page.results import exports, results_of, write_codes
from llamaherd.coding_page.schema_form import schema_fields
from llamaherd.coding_page.sheet import make_sheet
from llamaherd.coding_page.views import overview
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser

SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {
        "Topic": {
            "title": "Topic of the text",
            "oneOf": [
                {"const": "Sports", "description": "Matches."},
                {"const": "Money", "description": "Prices."},
                {"const": "War"},
            ],
        }
    },
    "properties": {
        "topic": {"$ref": "#/$defs/Topic", "description": "One topic."},
        "anger": {"type": "integer", "minimum": 0, "maximum": 4},
        "names_person": {"type": "boolean"},
        "year": {"anyOf": [{"type": "integer", "minimum": 1800}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"enum": ["new", "old"]}},
        "who": {"type": "string"},
        "evidence": type_quote("The words that show it.", least=1),
        "place": {
            "type": "object",
            "properties": {
                "town": {"type": "string"},
                "size": {"type": "integer", "minimum": 1},
                "kind": {"enum": ["port", "capital"]},
            },
            "required": ["town"],
        },
        "more": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "required": ["topic", "anger", "names_person"],
    "additionalProperties": False,
}
BOOK = lh.Codebook("What is the text about?", schema=SCHEMA, type="fields")
WHOLE = {
    "topic": "War",
    "anger": 3,
    "names_person": False,
    "year": None,
    "tags": ["old"],
    "who": "Ann",
    "evidence": {"start": 0, "end": 4},
    "place": {"town": "Rome"},
    "more": {"a": 1.5},
}
NEEDED = {"topic": "War", "anger": 3, "names_person": False}


def of(*more: Any, **fields: Any) -> dict[str, Any]:
    return {**NEEDED, **dict(more), **fields}


def test_a_form_has_an_input_for_each_field() -> None:
    form = {field.name: field for field in schema_fields(BOOK.schema)}
    assert {name: field.kind for name, field in form.items()} == {
        "topic": "choice",
        "anger": "choice",
        "names_person": "choice",
        "year": "integer",
        "tags": "choices",
        "who": "text",
        "evidence": "passage",
        "place": "object",
        "more": "json",
    }
    assert [(field.name, field.kind) for field in form["place"].fields] == [
        *(("town", "text"), ("size", "integer"), ("kind", "choice")),
    ]
    topic = form["topic"]
    assert (topic.title, topic.definition) == ("Topic of the text", "One topic.")
    assert [(field.name, field.definition) for field in topic.levels] == [
        ("Sports", "Matches."),
        ("Money", "Prices."),
        ("War", ""),
    ]
    assert topic.is_required
    assert [field.value for field in form["anger"].levels] == [0, 1, 2, 3, 4]
    assert [field.name for field in form["names_person"].levels] == ["yes", "no"]
    assert form["names_person"].names == ("true", "false")
    year = form["year"]
    assert (year.low, year.high, year.is_nullable, year.is_required) == (
        1800,
        None,
        True,
        False,
    )
    assert form["anger"].measured == "interval"
    assert form["tags"].is_several


def test_schemas_of_other_kinds() -> None:
    every = {
        "quotes": {"type": "array", "items": type_quote(least=1)},
        "names": {"type": "array", "items": {"type": "string"}},
        "any": {"type": ["string", "number"]},
        "maybe": {"enum": ["a", None]},
        "lists": {"enum": [["a"], ["b"]]},
        "score": {"type": ["number", "null"], "minimum": 0.5, "maximum": 2},
        "wide": {"type": "integer", "minimum": 0, "maximum": 100},
        "place": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "town": {"type": "string"},
                        "kind": {"enum": ["a", "b"]},
                    },
                    "required": ["town"],
                },
                {"type": "null"},
            ]
        },
        "deep": {
            "type": "object",
            "properties": {
                "inner": {"type": "object", "properties": {"a": {"type": "string"}}}
            },
        },
        "quoted": {"type": "object", "properties": {"quote": type_quote(least=1)}},
        "open": {"type": "object"},
        "many": {
            "type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "string"}}},
        },
    }
    form = schema_fields(json.dumps({"type": "object", "properties": every}))
    assert [field.kind for field in form] == [
        *("passages", "lines", "json", "choice", "json", "number", "integer"),
        *("object", "json", "json", "json", "json"),
    ]
    assert [field.is_nullable for field in form] == [
        *(False, False, False, True, False, True, False),
        *(True, False, False, False, False),
    ]
    place = form[7].fields
    assert [(field.name, field.kind, field.is_required) for field in place] == [
        ("town", "text", True),
        ("kind", "choice", False),
    ]
    with pytest.raises(ArgumentError, match="its schema has no properties"):
        schema_fields('{"type": "object"}')


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ("War", "must have an answer for each field"),
        ({"topic": "War"}, "must have an answer in the field 'anger'"),
        (of(other=1), "'other' .str., which is not a field"),
        (of(topic="war"), "must follow the schema"),
        (of(anger=9), "must follow the schema"),
        (of(anger=True), "must follow the schema"),
        (of(names_person=None), "must follow the schema"),
        (of(year=1700), "must follow the schema"),
        (of(tags="new"), "must follow the schema"),
        (of(evidence="Text"), "must have passages with 0 <= start"),
        (of(evidence={"start": 0, "end": 99}), "must have passages with 0 <= start"),
        (of(more={"a": "x"}), "must follow the schema"),
    ],
)
def test_a_wrong_answer_is_refused(tmp_path: Path, value: Any, match: str) -> None:
    with closing(Desk(sheet_of("anna"), tmp_path / "codes")) as desk:
        with pytest.raises(ArgumentError, match=match) as caught:
            desk.code("anna", 0, value)
        assert caught.value.argument == "value"
        assert desk.store.entries() == []


def sheet_of(coders: Any = ("anna", "ben"), tie_coder: str | None = None) -> Any:
    return make_sheet({"text": TEXTS}, BOOK, coders, tie_coder)


def test_answers_are_stored_and_undone(tmp_path: Path) -> None:
    path = tmp_path / "codes"
    with closing(Desk(sheet_of("anna"), path)) as desk:
        desk.code("anna", 0, NEEDED)
        desk.code("anna", 0, WHOLE)
    with closing(Desk(sheet_of("anna"), path)) as desk:
        answer = desk.values("anna")[0]
        quote = {"quote": "Text", "start": 0, "end": 4}
        assert answer == {**WHOLE, "evidence": quote}
        desk.undo("anna")
        assert desk.values("anna")[0] == NEEDED
    # A codebook is refused if the stored answers do not follow its fields.
    fewer = lh.Codebook(
        "?", schema={"type": "object", "properties": {"x": {}}}, type="fields"
    )
    other = make_sheet({"text": TEXTS}, fewer, "anna", None)
    with pytest.raises(ArgumentError, match="does not fit the stored code"):
        Desk(other, path)


def test_ties_and_disagreements_are_of_compared_fields(tmp_path: Path) -> None:
    with closing(Desk(sheet_of(tie_coder="cleo"), tmp_path / "codes")) as desk:
        desk.code("anna", 0, of(who="Ann", evidence={"start": 0, "end": 4}))
        desk.code("ben", 0, of(who="Bob"))  # free text and passages are no tie
        assert desk.texts_of("cleo") == []
        desk.code("anna", 1, of(tags=["new", "old"]))
        desk.code("ben", 1, of(tags=["old", "new"]))  # the same set
        assert desk.texts_of("cleo") == []
        desk.code("anna", 2, of(anger=1))
        desk.code("ben", 2, of(topic="Money"))
        assert desk.texts_of("cleo") == [2]
        disagreements = overview(desk)["disagreements"]
        assert disagreements["n"] == 1
        assert disagreements["rows"][0]["codes"] == {
            "anna": "Topic of the text: War; anger: 1",
            "ben": "Topic of the text: Money; anger: 3",
        }


def test_agreement_of_each_field_is_that_of_the_library(tmp_path: Path) -> None:
    with closing(Desk(sheet_of(), tmp_path / "codes")) as desk:
        anger = [(0, 1), (4, 3), (2, 2)]
        for i, (one, other) in enumerate(anger):
            span = {"start": 0, "end": 4}
            desk.code("anna", i, of(anger=one, tags=["new"], who="x", evidence=span))
            desk.code("ben", i, of(anger=other, tags=[], who="x", evidence=span))
        rows = {
            (row["part"], row["measure"]): row["value"]
            for row in overview(desk)["agreement"]
        }
    columns = [list(column) for column in zip(*anger, strict=True)]
    expected = lh.krippendorff_alpha(columns, scale="interval", levels=[0, 1, 2, 3, 4])
    assert rows["all coders, anger", "Krippendorff's alpha"] == pytest.approx(
        float(expected)
    )
    assert rows["all coders, Topic of the text", "percent agreement"] == 1
    assert rows["all coders, tags: new", "percent agreement"] == 0
    assert rows["all coders, tags: old", "percent agreement"] == 1
    assert rows["all coders, evidence", "unitizing alpha"] == 1
    assert rows["all coders, who", "percent agreement"] == 1
    assert ("all coders, who", "Krippendorff's alpha") not in rows
    assert rows["all coders, year", "percent agreement"] is None  # no coder answered


# ---- results ----


def drawn() -> lh.GoldSample:
    frame = pd.DataFrame({"text": TEXTS, "topic": ["War", "Money"] * 3, "anger": [1] * 6})
    return lh.gold_sample(frame, 4, text="text", label="topic", seed=1)


@pytest.mark.filterwarnings("ignore:there is no code of ")
def test_each_field_is_a_file_of_read_gold(tmp_path: Path) -> None:
    sample = drawn()
    sheet = make_sheet(sample, BOOK, ["anna", "ben"], None)
    path = tmp_path / "coded.csv"
    with closing(Desk(sheet, tmp_path / "codes")) as desk:
        for i in range(4):
            desk.code("anna", i, WHOLE if i else of(topic="Money", tags=[]), "a note")
            desk.code("ben", i, {**NEEDED, "year": 1990})
        paths = write_codes(desk, path)
        golds = results_of(desk, sample)
        desk.code("ben", 0, WHOLE)
        with pytest.raises(ArgumentError, match="already exists"):
            write_codes(desk, path)
        desk.undo("ben")
    assert [file.name for file in paths][:2] == ["coded.topic.csv", "coded.anger.csv"]
    assert not path.exists()
    read = {}
    for file in paths:
        read[file.name.split(".")[1]] = lh.read_gold(file)
    assert list(read) == list(golds) == list(SCHEMA["properties"])
    for name, gold in golds.items():
        by_coder = dict(zip(gold.coders, gold.codes, strict=True))
        coded = {coder: codes for coder, codes in by_coder.items() if any(codes)}
        assert dict(zip(read[name].coders, read[name].codes, strict=True)) == coded, name
    assert read["topic"].codes[0] == ["Money", "War", "War", "War"]
    assert read["topic"].labels == sample.labels
    assert read["anger"].labels == [None] * 4  # the sample was drawn by topics
    assert golds["year"].codes == [[None] * 4, ["1990"] * 4]
    assert read["tags"].several
    assert read["tags"].codes[0] == ["", "old", "old", "old"]
    assert read["evidence"].codes[0][1] == "Text"


def test_a_field_can_be_validated(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": TEXTS, "topic": ["War", "Money"] * 3, "anger": [3] * 6})
    sample = lh.gold_sample(frame, 6, text="text", label="topic", seed=1)
    sheet = make_sheet(sample, BOOK, "anna", None)
    with closing(Desk(sheet, tmp_path / "codes")) as desk:
        for i, text in enumerate(sheet.texts):
            right = ["War", "Money"][TEXTS.index(text) % 2]
            desk.code("anna", i, of(topic="War" if i == 0 else right, anger=i % 5))
        golds = results_of(desk, sample)
    validation = lh.validate(frame, golds["topic"], label="topic")
    n_right = 6 - (sample.labels[0] != "War")
    assert validation.accuracy.accuracy.value == pytest.approx(n_right / 6)
    numbers = lh.validate(frame, golds["anger"], label="anger")
    assert numbers.scale == "interval"


def test_data_frames_get_a_column_for_each_field_and_coder(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": TEXTS})
    sheet = make_sheet(frame, BOOK, ["anna", "ben"], None)
    with closing(Desk(sheet, tmp_path / "codes")) as desk:
        desk.code("ben", 1, WHOLE)
        table = results_of(desk, frame)
    assert list(table.columns)[:3] == ["text", "topic.anna", "topic.ben"]
    assert table["names_person.ben"][1] == "false"
    assert table["topic.anna"].isna().all()


def test_names_of_files_are_distinct(tmp_path: Path) -> None:
    names = ["a/b", "a b", "../..", "A_b", "ü"]
    schema = {"type": "object", "properties": {name: {} for name in names}}
    book = lh.Codebook("?", schema=schema, type="fields")
    sheet = make_sheet({"text": TEXTS}, book, "anna", None)
    files = [export.path(tmp_path / "coded.csv").name for export in exports(sheet.form)]
    assert files == [
        *("coded.a_b.csv", "coded.a_b_2.csv", "coded._3.csv", "coded.A_b_4.csv"),
        "coded.ü.csv",
    ]


# ---- the page ----

slow = pytest.mark.slow(reason="starts Chromium, because only a browser can run a page")


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
@slow
def test_fields_by_keyboard_only(browser: Browser, served: Callable[..., Any]) -> None:
    with (
        served(codebook=BOOK, coders="anna") as at,
        visited(browser, at.url) as page,
    ):
        seen(page, "0 of 6 coded")
        colours = page.locator(".form-field").evaluate_all(
            "all => all.map((each) => getComputedStyle(each).borderTopColor)"
        )
        assert colours.count(colours[0]) == 1  # only the current field has its colour
        page.keyboard.press("Enter")
        seen(page, "Topic of the text is not answered yet.")
        page.keyboard.press("3")  # War; the next field is current
        page.keyboard.press("3")  # the first number of 0 to 4
        page.keyboard.press("2")  # "no"; the next field is a text box
        seen(page, "names_person: no")
        page.keyboard.type("17")
        page.keyboard.press("Enter")
        seen(page, "year must be at least 1800.")
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type("1990")
        page.keyboard.press("Escape")  # back to the text
        page.get_by_role("checkbox", name="old").focus()
        page.keyboard.press("2")
        page.get_by_role("textbox", name="who").focus()
        page.keyboard.type("1 s u n")  # no commands
        page.get_by_role("button", name="Use the selected words").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("1")
        seen(page, "evidence: Text number")
        assert page.locator("[aria-current]").count() == 1
        check_accessible(page)
        town, size = (page.get_by_role("textbox", name=name) for name in ("town", "size"))
        size.focus()
        page.keyboard.type("0")
        page.keyboard.press("Enter")
        seen(page, "place: size must be at least 1.")
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type("3")
        page.keyboard.press("Enter")
        seen(page, "place: town is not answered yet.")
        page.keyboard.type("Rome")
        assert town.input_value() == "Rome"
        page.get_by_role("radio", name="port", exact=True).focus()
        page.keyboard.press("2")
        seen(page, "kind: capital")
        page.get_by_role("textbox", name="more").focus()
        page.keyboard.type('{"a": 2')
        page.keyboard.press("ControlOrMeta+Enter")
        seen(page, "more is not JSON", exact=False)
        page.keyboard.type("}")
        page.keyboard.press("ControlOrMeta+Enter")
        seen(page, "1 of 6 coded")
        i = at.desk.texts_of("anna")[0]
        assert at.desk.values("anna")[i] == {
            "topic": "War",
            "anger": 3,
            "names_person": False,
            "year": 1990,
            "tags": ["old"],
            "who": "1 s u n",
            "evidence": {"quote": "Text number", "start": 0, "end": 11},
            "place": {"town": "Rome", "size": 3, "kind": "capital"},
            "more": {"a": 2},
        }
        page.keyboard.press("u")
        seen(page, "0 of 6 coded")
        page.keyboard.press("s")
        seen(page, "0 of 6 coded, 1 skipped")
        assert page.get_by_role("radio", checked=True).count() == 0


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
@slow
def test_fields_by_mouse_come_back(browser: Browser, served: Callable[..., Any]) -> None:
    phone = {"viewport": {"width": 375, "height": 700}}
    with (
        served(codebook=BOOK, coders="anna") as at,
        visited(browser, at.url, **phone) as page,
        visited(browser, at.page.owner_link) as owner,
    ):
        seen(page, "0 of 6 coded")
        page.get_by_role("radio", name="Money Prices.").check()
        page.get_by_role("radio", name="2", exact=True).check()
        page.get_by_role("radio", name="yes").check()
        page.get_by_role("checkbox", name="none of these").check()
        page.get_by_label("does not apply").check()
        page.locator("#text").dblclick(position={"x": 30, "y": 25})
        page.get_by_role("button", name="Use the selected words").click()
        page.get_by_role("button", name="Remove evidence: Text").wait_for()
        page.get_by_role("button", name="Save").click()
        seen(page, "1 of 6 coded")
        page.get_by_role("button", name="Back").click()
        page.get_by_role("group", name="Text 1 of 6").wait_for()
        assert page.get_by_role("radio", checked=True).count() == 3
        assert page.get_by_role("checkbox", name="none of these").is_checked()
        assert page.get_by_label("does not apply").is_checked()
        page.get_by_role("button", name="Remove evidence: Text").click()
        page.get_by_role("radio", name="War").check()
        page.get_by_role("button", name="Save").click()
        page.get_by_role("group", name="Text 2 of 6").wait_for()
        answer = at.desk.values("anna")[at.desk.texts_of("anna")[0]]
        assert answer == {
            "topic": "War",
            "anger": 2,
            "names_person": True,
            "year": None,
            "tags": [],
        }
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        owner.reload()
        with owner.expect_download() as saved:
            owner.get_by_role("button", name="Download topic").click()
        assert saved.value.suggested_filename == "codes.topic.csv"
        assert '"War"' in saved.value.path().read_text("utf-8-sig")
