"""Numbers of any size in schemas: enforced, left to the check, or refused by name."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.calls.structured.check import violation
from llamaherd.calls.structured.quoting import type_quote
from llamaherd.calls.structured.shape import Shape, shape_of
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.native import llguidance
from llguidance import LLMatcher, LLTokenizer
from programs import ended

NUMBERS = [
    "0",
    "-0.0",
    "0.1",
    "1.0",
    "1e-320",
    "1e16",
    "1e25",
    "1e308",
    "-1e308",
    "9007199254740992",
    "9007199254740993",
    "9223372036854774784",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9007199254740993",
    "-9223372036854774784",
    "-9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775809",
    "-9.3e18",
    "1" + "0" * 30,
    "-1" + "0" * 30,
    "12345678901234567890.5",
    "1" + "0" * 400,
]
LIMITS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
VALUES = [
    '{"const":%s}',
    '{"enum":["a",%s]}',
    '{"const":{"a":[%s]}}',
    '{"type":"array","prefixItems":[{"const":%s}]}',
    '{"foo":{"const":%s},"$ref":"#/foo"}',
    '{"$defs":{"b":{"$anchor":"b","const":%s}},"$ref":"#b"}',
    '{"properties":{"const":{"const":%s}}}',
]


@pytest.mark.parametrize("form", VALUES)
@pytest.mark.parametrize("number", NUMBERS)
def test_values_are_enforced_exactly_or_refused(form: str, number: str) -> None:
    """Masks allow a value that the check accepts; else the schema is refused."""
    shape = _shape(form % number)
    if isinstance(shape, ArgumentError):
        assert shape.argument == "schema"
        assert shape.code == "out_of_range"
        assert "." not in number
        assert abs(int(number)) > 2**53
        return
    assert "anchor" in form or not llguidance.problem_of_schema(shape.enforced)
    if form == VALUES[0]:
        text = f"{Decimal(repr(float(number))):f}"
        if number.removeprefix("-").isdigit():
            text = number
        assert _allows(shape.enforced, text)
        assert violation(shape.text, json.loads(text)) == ""


def _shape(schema: str) -> Shape | ArgumentError:
    try:
        return shape_of(schema)
    except ArgumentError as error:
        return error


def _allows(schema: str, text: str) -> bool:
    tokenizer = LLTokenizer("byte")
    matcher = LLMatcher(tokenizer, f'{{"grammars":[{{"json_schema":{schema}}}]}}')
    tokens = tokenizer.tokenize_str(text.removesuffix(".0"))
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize("key", LIMITS)
@pytest.mark.parametrize("number", NUMBERS)
def test_limits_of_any_size_leave_other_keywords_enforced(
    kind: str, key: str, number: str
) -> None:
    limit = {"type": kind, key: json.loads(number)}
    text = json.dumps({"type": "object", "properties": {"a": limit}, "required": ["a"]})
    shape = _shape(text)
    if isinstance(shape, ArgumentError):
        assert len(number) > 309 or (key == "multipleOf" and float(number) <= 0)
        return
    assert "required" in shape.enforced
    assert set(shape.unenforced) <= {key}
    inner = json.loads(shape.enforced)["properties"]["a"]
    assert (key in inner) is not shape.unenforced


@pytest.mark.parametrize("numbers", [(-(2**63), -(2**63)), (-(10**30), -(10**25))])
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_two_limits_at_the_smallest_integers(kind: str, numbers: tuple[int, int]) -> None:
    """These limits end a process in which llguidance reads them."""
    low, high = numbers
    for text in (
        json.dumps({"type": kind, "minimum": low, "maximum": high}),
        json.dumps({"allOf": [{"type": kind, "minimum": low}, {"maximum": high}]}),
    ):
        assert shape_of(text).unenforced == ("maximum", "minimum")


@pytest.mark.parametrize(
    "key", ["minLength", "maxLength", "minItems", "maxItems", "minProperties"]
)
@pytest.mark.parametrize("number", ["2.0", "0.0", "1e1", "1e30", "99999999999999999999"])
def test_sizes_are_integers_of_json(key: str, number: str) -> None:
    schema = {"type": ["string", "array", "object"], key: json.loads(number)}
    enforced = json.loads(shape_of({**schema, "items": {"type": "null"}}).enforced)
    assert enforced["items"] == {"type": "null"}
    if key in enforced:
        assert type(enforced[key]) is int


def test_sizes_of_arrays_with_quotes() -> None:
    items = type_quote()
    for most in (2.0, 10**30):
        schema = {"type": "array", "items": items, "minItems": 1.0, "maxItems": most}
        shape = shape_of(schema).quoting("a text to quote from")
        assert shape.unenforced == (() if most == 2 else ("maxItems",))


def test_keywords_that_only_the_check_reads_take_any_number() -> None:
    shape = shape_of({"type": "integer", "not": {"const": 2**64}})
    assert shape.unenforced == ("not",)
    assert violation(shape.text, 2**64)
    assert not violation(shape.text, 2**64 + 1)


@pytest.mark.parametrize("name", ["const", "enum", "minimum", "maxLength"])
def test_properties_may_have_the_names_of_keywords(name: str) -> None:
    limit = {"type": "integer", "maximum": 2**60 + 1}
    shape = shape_of({"type": "object", "properties": {name: limit}})
    assert shape.unenforced == ("maximum",)


def test_limits_of_any_size_beside_quotes_are_left_to_the_check() -> None:
    limit = {"type": "integer", "minimum": 10**400}
    schema = {"type": "object", "properties": {"n": limit, "q": type_quote()}}
    shape = shape_of(schema).quoting("a text to quote from")
    assert "minimum" in shape.unenforced


@pytest.mark.parametrize("number", ["-9223372036854775808", "-1e19", "-9.3E+18"])
def test_grammars_with_the_smallest_integers_are_refused(
    tmp_path: Path, number: str
) -> None:
    path = tiny_models.write(tmp_path / "own.gguf", "llama")
    grammar = f'%llguidance {{}}\nstart: %json {{"const": {number}}}'
    with (
        lh.Model(path) as model,
        lh.Context(model, n_threads=1) as ctx,
        pytest.raises(lh.SamplerError, match="numbers of a schema must be") as caught,
    ):
        lh.generate_parallel(ctx, ["a"], grammar=grammar)
    assert caught.value.argument == "grammar"


# ---- older versions of llguidance, which other programs need, enforce schemas, too


PROGRAM = """
import json, sys
import llamaherd as lh
from llamaherd.engine.native import llguidance

schema = {
    "type": "object",
    "properties": {
        "label": {"enum": ["yes", "no"]},
        "n": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "required": ["label", "n"],
    "additionalProperties": False,
}
with lh.Model(sys.argv[1]) as model, lh.Context(model) as context:
    out = lh.generate_parallel(context, ["a", "b"], schema=schema, max_tokens=60)
    lark = "%llguidance {}\\nstart: /[ab]{3}/"
    texts = [each.text for each in lh.generate_parallel(context, ["a"], grammar=lark)]
print(json.dumps([llguidance.load(), out.errors, out.parsed, texts]))
"""


FOLDER = os.environ.get("LLAMAHERD_TEST_LLGUIDANCE", "")  # a folder for each version


@pytest.mark.skipif(not FOLDER, reason="make test-neighbours installs older versions")
@pytest.mark.parametrize("version", ["1.5.0", "1.7.0", "1.7.6", "1.8.0"])
def test_an_older_version_enforces_schemas(version: str, tmp_path: Path) -> None:
    path = str(tiny_models.write(tmp_path / "m.gguf", "llama"))
    folders = [str(Path(FOLDER) / version), os.environ.get("PYTHONPATH", "")]
    first = os.pathsep.join(folders)

    more = {"PYTHONPATH": first, "LLAMAHERD_OLD_LLGUIDANCE": ""}
    refused = ended(PROGRAM, path, status=1, **more)
    assert f"AbiMismatchError: llguidance {version} may end the process" in refused.stderr
    done = ended(PROGRAM, path, **more | {"LLAMAHERD_OLD_LLGUIDANCE": "1"})
    loaded, errors, parsed, texts = json.loads(done.stdout)
    assert (loaded, errors) == (version, [None, None])
    for answer in parsed:
        assert answer["label"] in {"yes", "no"}
        assert 0 <= answer["n"] <= 9
    assert set(texts[0]) <= {"a", "b"}
    assert len(texts[0]) == 3
