"""Stored answers in the form: each can be shown, and saved again unchanged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from browsing import seen, visited
from llamaherd.calls.structured.quoting import type_quote
from llamaherd.coding_page.schema_form import schema_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page

slow = pytest.mark.slow(reason="starts Chromium, because only a browser can run a page")

STRING: dict[str, Any] = {"type": "string"}
STRINGS = {"type": "array", "items": STRING}
LEVELS = {"type": "array", "items": {"enum": ["new", "old"]}}
NULL = {"type": "null"}


def an_object(*required: str, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required)}


PLACE = an_object("town", "tags", town=STRING, tags=STRINGS)
OPTIONAL = an_object(town=STRING, kind={"enum": ["a", "b"]}, tags=LEVELS)
A_PASSAGE = {"start": 0, "end": 4}
# Schema of a field, its input element, and valid answers.
TABLE: dict[str, tuple[dict[str, Any], str, list[Any]]] = {
    "place": (
        PLACE,
        "object",
        [{"town": "Rome", "tags": []}, {"town": "", "tags": [""]}],
    ),
    "no_field": (OPTIONAL, "object", [{}, {"town": " x "}, {"tags": []}]),
    "or_null": ({"anyOf": [OPTIONAL, NULL]}, "object", [None, {}, {"kind": "b"}]),
    "nulls": (
        an_object("a", a={"anyOf": [LEVELS, NULL]}, b={"type": ["number", "null"]}),
        "object",
        [{"a": None, "b": 1e21}, {"a": [], "b": None}, {"a": ["old"], "b": -0.5}],
    ),
    "other_names": (PLACE, "object", [{"town": "x", "tags": ["y"], "z": [{"a": None}]}]),
    "missing": (an_object("a", "z", a=STRING), "json", [{"a": "x", "z": 1}]),
    "missing_part": (
        {"allOf": [an_object(a=STRING), {"required": ["z"]}]},
        "json",
        [{"a": "x", "z": [None]}],
    ),
    "numbers": (
        {**an_object(a=STRING), "additionalProperties": {"type": "number"}},
        "json",
        [{"a": "x", "b": 2}, {}],
    ),
    "patterns": (
        {**an_object(a=STRING), "patternProperties": {"^b": {"type": "number"}}},
        "json",
        [{"b1": 2, "b2": 3}],
    ),
    "at_least": (
        {**an_object(a=STRING), "minProperties": 2},
        "json",
        [{"a": "", "c": 3}],
    ),
    "lines": (STRINGS, "lines", [[], [" a", "", "b\nc"], ["d"]]),
    "levels": (LEVELS, "choices", [[], ["old"], ["new", "old"]]),
    "levels_or_null": ({"anyOf": [LEVELS, NULL]}, "choices", [None, [], ["new"]]),
    "null_in_list": (
        {"type": "array", "items": {"enum": ["a", None]}},
        "json",
        [[None], ["a", None]],
    ),
    "level": ({"enum": ["", "a", None, True, 1, 0]}, "choice", ["", None, True, 1, 0]),
    "text": (STRING, "text", ["", "  a  ", "two\nlines"]),
    "text_or_null": ({"type": ["string", "null"]}, "text", [None, "", "null"]),
    "number": ({"type": "number", "minimum": -2}, "number", [0, -1.5, 1e300]),
    "anything": ({}, "json", [None, "", {"a": None}, [[]]]),
    "passage": (type_quote(), "passage", [A_PASSAGE]),
    "passages": (
        {"anyOf": [{"type": "array", "items": type_quote(least=1)}, NULL]},
        "passages",
        [None, [], [A_PASSAGE, {"start": 5, "end": 8}]],
    ),
}
N_ROUNDS = max(len(answers) for _, _, answers in TABLE.values())


def round_of(i: int) -> dict[str, Any]:
    """Return an answer to each field of the table."""
    return {name: answers[i % len(answers)] for name, (_, _, answers) in TABLE.items()}


def as_json(answers: Any) -> str:
    """Return answers as JSON, in which 1 and true differ."""
    return json.dumps(answers, sort_keys=True)


@pytest.fixture(scope="module")
def book() -> lh.Codebook:
    properties = {name: schema for name, (schema, _, _) in TABLE.items()}
    schema = {"type": "object", "properties": properties}
    return lh.Codebook("What is it?", schema=schema, type="fields")


def text_shown(page: Page, position: int, n: int) -> None:
    page.get_by_role("group", name=f"Text {position + 1} of {n}").wait_for()


@pytest.mark.parametrize("name", TABLE)
def test_an_input_can_give_every_answer(name: str) -> None:
    schema, kind, _ = TABLE[name]
    (field,) = schema_fields(json.dumps({"type": "object", "properties": {name: schema}}))
    assert field.kind == kind


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
@slow
def test_every_stored_answer_is_shown_and_saved_again(
    browser: Browser, served: Callable[..., Any], book: lh.Codebook
) -> None:
    texts = [f"Text number {i}." for i in range(N_ROUNDS + 1)]
    with served({"text": texts}, book, "anna") as at:
        order = at.desk.texts_of("anna")
        for k, i in enumerate(order[:N_ROUNDS]):
            at.desk.code("anna", i, round_of(k))
        stored = [answer and as_json(answer) for answer in at.desk.values("anna")]
        with visited(browser, at.url) as page:
            text_shown(page, N_ROUNDS, len(texts))
            for k in range(N_ROUNDS):
                for position in range(N_ROUNDS - 1, k - 1, -1):
                    page.get_by_role("button", name="Back").click()
                    text_shown(page, position, len(texts))
                    text = page.locator("#text").inner_text()
                    assert text == texts[order[position]]
                page.get_by_label("Note").fill("again")
                page.get_by_role("button", name="Save").click()
                seen(page, "Saved")
                i = order[k]
                assert at.desk.act("anna", i).entry.act.note == "again"
                assert as_json(at.desk.values("anna")[i]) == stored[i]
                page.reload()
                text_shown(page, N_ROUNDS, len(texts))
        saved = [answer and as_json(answer) for answer in at.desk.values("anna")]
        assert saved == stored


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
@slow
def test_empty_answers_are_given_by_boxes(
    browser: Browser, served: Callable[..., Any]
) -> None:
    properties = {
        "place": PLACE,
        "more": OPTIONAL,
        "names": STRINGS,
        "kinds": {"anyOf": [LEVELS, NULL]},
    }
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    book = lh.Codebook("What is it?", schema=schema, type="fields")
    with (
        served({"text": ["a"]}, book, "anna") as at,
        visited(browser, at.url) as page,
    ):
        text_shown(page, 0, 1)

        def box(field: str, name: str) -> Any:
            inside = page.locator("fieldset.form-field", has_text=field).first
            return inside.get_by_role("checkbox", name=name)

        page.get_by_role("textbox", name="town").first.fill("Rome")
        page.get_by_role("button", name="Save").click()
        seen(page, "place: tags is not answered yet.", exact=False)
        box("place", "none in this text").check()
        page.get_by_role("button", name="Save").click()
        seen(page, "more is not answered yet.", exact=False)
        box("more", "none of these fields").check()
        box("names", "none in this text").check()
        page.get_by_role("checkbox", name="new").last.check()
        box("kinds", "does not apply").check()
        assert not page.get_by_role("checkbox", name="new").last.is_checked()
        page.get_by_role("button", name="Save").click()
        page.get_by_role("heading", name="All texts are coded").wait_for()
        assert at.desk.values("anna")[0] == {
            "place": {"town": "Rome", "tags": []},
            "more": {},
            "names": [],
            "kinds": None,
        }


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
@slow
def test_a_digit_without_a_level_keeps_the_check_box(
    browser: Browser, served: Callable[..., Any]
) -> None:
    place = an_object("kind", kind={"enum": ["a", "b"]})
    schema = {"type": "object", "properties": {"place": {"anyOf": [place, NULL]}}}
    book = lh.Codebook("Where?", schema=schema, type="fields")
    with (
        served({"text": ["a"]}, book, "anna") as at,
        visited(browser, at.url) as page,
    ):
        text_shown(page, 0, 1)
        box = page.get_by_label("does not apply")
        box.check()
        page.keyboard.press("9")
        assert box.is_checked()
        page.keyboard.press("2")
        assert not box.is_checked()
        box.check()
        page.get_by_role("button", name="Save").click()
        page.get_by_role("heading", name="All texts are coded").wait_for()
        assert at.desk.values("anna")[0] == {"place": None}
