"""Formats of texts, in the check of an answer."""

from __future__ import annotations

import json

import llamaherd as lh
import pytest
from llamaherd.calls.structured.shape import shape_of

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
