"""Subschemas, deep references, and patterns that apply to the same text."""

from __future__ import annotations

import json
import string
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.calls.asks.constraints import Constraints
from llamaherd.calls.structured.enforce import enforced
from llamaherd.calls.structured.subschemas import referred, subschemas
from llamaherd.engine.core.sampling import SamplingParams

if TYPE_CHECKING:
    from collections.abc import Iterator


SET = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
WHOLE = {"a/b": {"~": 1}, "a%b": 2, "": {"": 3}, "list": [4, {"x": 5}], "none": None}


@pytest.mark.parametrize(
    ("reference", "target"),
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
def test_what_a_reference_points_to(reference: object, target: object) -> None:
    assert referred(reference, WHOLE) == target


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


def _schema(form: str, n: int) -> str:
    """Return a schema whose references are a chain; `form` has "*" for the next one."""
    chain = [f'"{i}": {form.replace("*", str(i + 1))}' for i in range(n)]
    parts = ", ".join([*chain, f'"{n}": {{"type": "null"}}'])
    return f'{{"$ref": "#/$defs/0", "$defs": {{{parts}}}}}'


def _lark(rule: str, n: int) -> str:
    rules = "".join(f"{rule}{i}: {rule}{i + 1}\n" for i in range(n))
    return f'%llguidance {{}}\nstart: {rule}0\n{rules}{rule}{n}: "a"\n'


# Each of them ends a process whose threads have stacks of 8 MiB.
CONSTRAINTS: dict[str, dict[str, Any]] = {
    "properties": {
        "schema": _schema('{"properties": {"a": {"$ref": "#/$defs/*"}}}', 1000)
    },
    "references": {"schema": _schema('{"$ref": "#/$defs/*"}', 2700)},
    "rules": {"grammar": _lark("r", 3000)},
    "terminals": {"grammar": _lark("T", 10_000)},
}


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lh.Context]:
    path = tiny_models.write(tmp_path_factory.mktemp("deep") / "tiny.gguf", "llama")
    with lh.Model(path) as model, lh.Context(model, n_threads=1, n_seq_max=2) as ctx:
        yield ctx


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_long_chain_is_compiled_or_refused(context: lh.Context, name: str) -> None:
    try:
        result = lh.generate_parallel(
            context, ["x"], max_tokens=2, progress=False, **CONSTRAINTS[name]
        )
    except (ValueError, lh.SamplerError) as error:
        assert str(error)  # noqa: PT017 - either end is right
    else:
        assert len(result) == 1


def test_many_optional_properties_are_refused_at_once(context: lh.Context) -> None:
    properties = {f"p{i}": {"type": "null"} for i in range(2001)}
    schema = {"type": "object", "properties": properties}
    with pytest.raises(ValueError, match="2001 optional properties"):
        lh.generate_parallel(context, ["x"], max_tokens=2, schema=schema)


def test_a_constraint_of_many_bytes_is_refused(context: lh.Context) -> None:
    grammar = "%llguidance {}\nstart: " + "a" * 2_000_000
    with pytest.raises((ValueError, lh.SamplerError), match="at most 2000000"):
        lh.generate_parallel(context, ["x"], max_tokens=2, grammar=grammar)


def test_too_many_choices_are_refused_at_once(context: lh.Context) -> None:
    choices = list(map(str, range(100_001)))
    with pytest.raises(ValueError, match="at most 100000 texts, not 100001"):
        lh.generate_parallel(context, ["x"], choices=choices)


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
        assert "pattern" in part.unenforced
        assert '"pattern"' not in part.text


def test_patterns_of_different_texts_are_enforced() -> None:
    names = {f"p{i}": one for i, one in enumerate(_patterns("^[a-z]*{}$"))}
    schema = {"type": "object", "properties": names, "allOf": [{"required": ["p1"]}]}
    assert enforced(json.dumps(schema)).unenforced == ()


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
    assert part.unenforced == ("patternProperties",)
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
    assert enforced(json.dumps(schema)).unenforced == ()
