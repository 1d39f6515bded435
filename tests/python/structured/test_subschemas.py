"""References within a schema, for masks, tables and prompts alike."""

from __future__ import annotations

import llamaherd as lh
import pytest
from llamaherd.calls.structured.subschemas import referred, subschemas

SET = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
WHOLE = {"a/b": {"~": 1}, "a%b": 2, "": {"": 3}, "list": [4, {"x": 5}], "none": None}


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", WHOLE),
        ("#/a~1b/~0", 1),
        ("#/a%25b", 2),
        ("#/", {"": 3}),
        ("#//", 3),
        ("#/list/1/x", 5),
        ("#/list/2", None),
        ("#/list/x", None),
        ("#/list/-1", None),
        ("#/no/such", None),
        ("#list", None),
        ("list", None),
        ("http://x.y/#/list", None),
        (7, None),
    ],
)
def test_what_a_reference_points_to(reference: object, found: object) -> None:
    assert referred(reference, WHOLE) == found


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/components/x", "components": {"x": SET}},
        {"$ref": "#/components/0", "components": [SET]},
        {"properties": {"a": {"$ref": "#/a%20b/c~1d"}}, "a b": {"c/d": SET}},
        {"$ref": "#/a", "a": {"$ref": "#/b"}, "b": SET | {"items": {"$ref": "#/a"}}},
        # These references are not followed here, but by llguidance, which reports
        # ignored keywords.
        {
            "$id": "https://x.y/z",
            "$ref": "https://x.y/z#/components/x",
            "components": {"x": SET},
        },
    ],
)
def test_what_references_lead_to_is_named_wherever_it_stands(
    schema: dict[str, object],
) -> None:
    assert lh.structured.unenforced(schema) == ["uniqueItems"]


def test_each_subschema_is_there_once() -> None:
    schema = {"$ref": "#", "items": {"$ref": "#/items"}, "not": {"$ref": "#/nowhere"}}
    assert len(subschemas(schema)) == 3
