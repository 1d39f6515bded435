"""Schemas whose patterns apply to the same text."""

from __future__ import annotations

import json
import string

import pytest
from llamaherd.calls.asks.constraints import Constraints
from llamaherd.calls.structured.enforce import enforced
from llamaherd.engine.core.sampling import SamplingParams

_FORMS = (".*{}.*", "[a-z]*{}", "x|.*{}", ".{{0,9}}{}", "(.*{})", "{}+")


def _patterns(form: str) -> list[dict[str, str]]:
    return [
        {"type": "string", "pattern": form.format(letter)}
        for letter in string.ascii_lowercase
    ]


def _many(form: str) -> list[dict[str, object]]:
    """Return schemas with 26 patterns for the same text."""
    patterns = _patterns(form)
    chain: dict[str, object] = {"$ref": "#/$defs/0"}
    chain["$defs"] = {
        str(i): {**pattern, "$ref": f"#/$defs/{i + 1}"}
        for i, pattern in enumerate(patterns)
    }
    nested: dict[str, object] = {}
    for pattern in patterns:
        nested = {**pattern, "allOf": [nested]}
    objects = [{"type": "object", "properties": {"a": one}} for one in patterns]
    return [{"allOf": patterns}, {"allOf": objects}, chain, nested]


@pytest.mark.parametrize("form", _FORMS)
def test_many_patterns_of_one_text_are_checked_instead_of_enforced(form: str) -> None:
    for schema in _many(form):
        part = enforced(json.dumps(schema))
        assert "pattern" in part.left
        assert '"pattern"' not in part.text


def test_patterns_of_different_texts_are_enforced() -> None:
    names = {f"p{i}": one for i, one in enumerate(_patterns("^[a-z]*{}$"))}
    schema = {"type": "object", "properties": names, "allOf": [{"required": ["p1"]}]}
    assert enforced(json.dumps(schema)).left == ()


def test_a_grammar_with_many_patterns_of_one_text_is_refused() -> None:
    rule = json.dumps({"allOf": _patterns(".*{}.*")})
    params = SamplingParams(grammar=f"%llguidance {{}}\nstart: %json {rule}")
    with pytest.raises(ValueError, match="too many patterns for one text"):
        Constraints({}).shape(params)


@pytest.mark.parametrize(("n_patterns", "n_names"), [(200, 0), (10, 2000)])
def test_many_patterns_of_names_are_checked_instead_of_enforced(
    n_patterns: int, n_names: int
) -> None:
    schema = {
        "type": "object",
        "properties": {f"b{i}": {} for i in range(n_names)},
        "patternProperties": {f"^a{i}$": {"type": "null"} for i in range(n_patterns)},
        "additionalProperties": False,
    }
    part = enforced(json.dumps(schema))
    assert part.left == ("patternProperties",)
    assert '"patternProperties"' not in part.text
    rule = json.dumps(schema)
    params = SamplingParams(grammar=f"%llguidance {{}}\nstart: %json {rule}")
    with pytest.raises(ValueError, match="too many patterns"):
        Constraints({}).shape(params)


def test_few_patterns_of_names_are_enforced() -> None:
    schema = {
        "type": "object",
        "patternProperties": {f"^a{i}$": {"type": "null"} for i in range(20)},
        "additionalProperties": False,
    }
    assert enforced(json.dumps(schema)).left == ()
