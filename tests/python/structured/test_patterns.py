"""Patterns and formats of JSON Schemas."""

from __future__ import annotations

import json
import random
from typing import Any

import llamaherd as lh
import pytest
from llamaherd.calls.structured.patterns import can_be_checked, finds, n_steps
from llamaherd.calls.structured.shape import shape_of
from llamaherd.engine.native.llguidance import finds_pattern, takes_pattern


def test_a_pattern_that_backtracks_is_not_left_to_python() -> None:
    """Python's `re` would take years."""
    shape = shape_of({"type": "string", "pattern": "^(a+)+$"})
    assert shape.unenforced == ()
    assert shape.read(json.dumps("a" * 99)) == "a" * 99
    schemas = [
        {"type": "string", "pattern": "^(a+)+$"},
        {"type": "string", "pattern": "^a+$"},
        {"patternProperties": {"^(a|b*)*$": {}}, "additionalProperties": False},
        {"patternProperties": {"^(a|b*)*c$": {"type": "null"}}},
        {"additionalProperties": {"type": "null"}},
    ]
    wrong = ["a" * 99 + "!", "ab", {"a" * 99 + "!": 1}, {"a" * 99 + "c": 1}, {"x": 1}]
    right = ["aa", "a", {"abba": 1}, {"abc": None, "d": 1}, {"x": None}]
    for schema, bad, good in zip(schemas, wrong, right, strict=True):
        shape = shape_of(schema)
        assert shape.read(json.dumps(good)) == good
        assert shape.read("5" if isinstance(good, dict) else json.dumps(good))
        with pytest.raises(ValueError, match="does not follow the schema"):
            shape.read(json.dumps(bad))
    with pytest.raises(ValueError, match="has nested repetitions"):
        shape_of({"type": "string", "pattern": "^(?=a)(a+)+$"})


@pytest.mark.parametrize(
    "pattern", ["^(?:a|a)*$", "^(a|aa)*$", "^(a{1,19}){1,19}$", "^(a+)+$", "^(a*)*$"]
)
def test_patterns_with_many_ways_to_match_are_not_left_to_python(pattern: str) -> None:
    assert n_steps(pattern, 100) == float("inf")
    assert finds(pattern, "a" * 300)
    assert not finds(pattern, "a" * 300 + "b")
    # It is unknown whether the search for these patterns ends.
    assert not can_be_checked(f"(?=a){pattern}")
    with pytest.raises(ValueError, match="may take too long"):
        finds(f"(?=a){pattern}", "a" * 300 + "b")


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (r"^(?=.*[A-Z])(?=.*\d).{8,}$", "secretWord1", "secretword1"),
        (r"\bof\b", "king of all", "king offered"),
        (r"(.)\1", "book", "bok"),
        (r"^(?!.*\.\.)[a-z.]+$", "a.b", "a..b"),
        (r"^(\()?x(?(1)\)|y)$", "(x)", "(xy"),
        (r"(?<=a)b{2,}?c", "abbc", "bbc"),
    ],
)
def test_what_looks_around_is_left_to_python_where_it_is_quick(
    pattern: str, matching: str, other: str
) -> None:
    assert not takes_pattern(pattern)
    assert can_be_checked(pattern)
    assert finds(pattern, matching)
    assert not finds(pattern, other)
    with pytest.raises(ValueError, match="may take too long"):
        finds(r"\b\w+\b", "a" * 100_000)


def test_a_pattern_with_more_states_than_there_is_room_for_says_so() -> None:
    text = "".join(random.Random(1).choices("ab", k=5000))
    pattern = "^(aa?|b)*a[ab]{500}$"
    for _ in range(2):
        with pytest.raises(ValueError, match="too many expressions"):
            finds_pattern(pattern, text)
        assert finds_pattern(pattern, "a" * 501)
    with pytest.raises(ValueError, match=r"may take too long.*too many expressions"):
        finds(pattern, text)
    # In this form, `re` is quick enough.
    assert finds("^[ab]*a[ab]{500}$", text) == (text[-501] == "a")


@pytest.mark.parametrize(
    "text", ["a\x7f", "a\ud800", 'a"\\', "a\0\t", "a\u2029\U0001f600"]
)
def test_any_character_may_be_in_a_text(text: str) -> None:
    assert finds_pattern("^a.+$", text)
    assert not finds_pattern("^b.+$", text)


@pytest.mark.parametrize(
    ("pattern", "text"), [("^a$", "a\n"), (r"^\d$", "\N{ARABIC-INDIC DIGIT ONE}")]
)
def test_patterns_mean_what_they_do_in_javascript(pattern: str, text: str) -> None:
    assert not finds(pattern, text)


def test_patterns_that_python_does_not_read_are_some() -> None:
    shape = shape_of({"type": "string", "pattern": r"^\p{Lu}+$"})
    assert shape.read('"\u00c4B"') == "\u00c4B"
    with pytest.raises(ValueError, match="does not match"):
        shape.read('"\u00e4"')
    with pytest.raises(ValueError, match='"\\(" does not have the format "regex"'):
        shape_of({"type": "string", "pattern": "("})


def test_a_check_of_nested_references_is_bounded() -> None:
    levels: dict[str, Any] = {
        f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 8} for i in range(30)
    }
    levels["d30"] = {"type": "null"}
    shape = shape_of({"$defs": levels, "not": {"$ref": "#/$defs/d0"}})
    with pytest.raises(ValueError, match="the check takes more than 500080 steps"):
        shape.read("1")
    few = shape_of({"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {}}})
    for _ in range(3):  # each answer has as many
        assert few.read(json.dumps([1] * 9_000)) == [1] * 9_000


def test_a_schema_that_names_its_version_gets_no_other_patterns() -> None:
    shape = shape_of(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "pattern": "^(a|a)*$",
            "items": {"$ref": "#"},
        }
    )
    with pytest.raises(ValueError, match=r'\$\[0\]: "a+b" does not match'):
        shape.read(json.dumps(["a" * 40 + "b"]))


def test_properties_that_jsonschema_looks_for_itself_have_quick_patterns() -> None:
    slow = {"patternProperties": {"^(a|a)*$": {}}, "unevaluatedProperties": False}
    with pytest.raises(ValueError, match="has nested repetitions"):
        shape_of(slow)
    quick = {"patternProperties": {"^a*$": {}}, "unevaluatedProperties": False}
    assert shape_of(quick).read('{"aa":1}') == {"aa": 1}


RIGHT = {
    "date": "2024-02-29",
    "date-time": "2024-02-29t23:59:60.5+01:00",
    "time": "00:00:00Z",
    "duration": "P1DT2H",
    "email": "a@b.c",
    "idn-email": "\u00e4@\u00f6",
    "hostname": "a-b.example",
    "idn-hostname": "b\u00fccher.example",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uuid": "00000000-0000-0000-0000-00000000000f",
    "uri": "http://a.b/?c=%20#d",
    "uri-reference": "../a?b",
    "uri-template": "/users/{id}{?page*}",
    "iri": "http://a.b/\u00fc",
    "iri-reference": "\u00fc",
    "json-pointer": "/a~1b/~0//0",
    "relative-json-pointer": "1/a",
    "regex": r"^\p{Lu}+(a|b)?$",
}
WRONG = {
    "date": ["20240229", "2024-02-30", "2024-W09-4", "2024-2-9", ""],
    "date-time": ["2024-02-30T00:00:00Z", "2024-02-29", "2024-02-29T24:00:00Z"],
    "time": ["12:00", "00:00:00"],
    "duration": ["P", "PT", "1D"],
    "email": ["a", "a@b@c", "a b@c"],
    "idn-email": ["\u00e4", "a b@c"],
    "hostname": ["-a", "a..b", "\u00e4"],
    "idn-hostname": ["a..b", "a b", "x" * 64],
    "ipv4": ["1.2.3", "1.2.3.256"],
    "ipv6": ["1.2.3.4", ":::"],
    "uuid": ["0" * 32],
    "uri": ["/a", "a b:c"],
    "uri-reference": ["a b", "\u00fc", "<"],
    "uri-template": ["{", "{}", "a}", "{a b}"],
    "iri": ["\u00fc", "a: b"],
    "iri-reference": ["a b", "<"],
    "json-pointer": ["a", "/~", "/~2", "#/a"],
    "relative-json-pointer": ["/a", "01", "1a", "-1"],
    "regex": ["(((", "[", "*"],
}


@pytest.mark.parametrize("name", RIGHT)
def test_formats_are_checked(name: str) -> None:
    shape = shape_of({"format": name})
    assert shape.read(json.dumps(RIGHT[name])) == RIGHT[name]
    assert shape.read("1") == 1  # a format applies only to texts
    for text in WRONG[name]:
        with pytest.raises(ValueError, match="does not follow the schema"):
            shape.read(json.dumps(text))


def test_formats_that_nobody_defined_are_named_and_not_checked() -> None:
    schema = {"type": "string", "format": "path"}
    assert lh.structured.unenforced(schema) == ["format: path"]
    assert shape_of(schema).read('"(((\\u0000"')
