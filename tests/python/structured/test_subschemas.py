"""Subschemas, deep references, and patterns that apply to the same text."""

from __future__ import annotations

import json
import random
import string
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.calls.asks.settings import shape_with
from llamaherd.calls.structured.enforce import enforceable_part
from llamaherd.calls.structured.patterns import can_be_checked, finds, n_steps
from llamaherd.calls.structured.shape import shape_of
from llamaherd.calls.structured.subschemas import subschemas, target_of
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.native.llguidance import finds_pattern, takes_pattern

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
    assert target_of(reference, WHOLE) == target


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
        part = enforceable_part(json.dumps(schema))
        assert "pattern" in part.unenforced
        assert '"pattern"' not in part.text


def test_patterns_of_different_texts_are_enforced() -> None:
    names = {f"p{i}": one for i, one in enumerate(_patterns("^[a-z]*{}$"))}
    schema = {"type": "object", "properties": names, "allOf": [{"required": ["p1"]}]}
    assert enforceable_part(json.dumps(schema)).unenforced == ()


def test_a_grammar_with_many_patterns_of_one_text_is_refused() -> None:
    rule = json.dumps({"allOf": _patterns(".*{}.*")})
    params = SamplingParams(grammar=f"%llguidance {{}}\nstart: %json {rule}")
    with pytest.raises(ValueError, match="too many patterns for one text"):
        shape_with(params)


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
    part = enforceable_part(json.dumps(schema))
    assert part.unenforced == ("patternProperties",)
    assert '"patternProperties"' not in part.text
    rule = json.dumps(schema)
    params = SamplingParams(grammar=f"%llguidance {{}}\nstart: %json {rule}")
    with pytest.raises(ValueError, match="too many patterns"):
        shape_with(params)


def test_few_patterns_of_names_are_enforced() -> None:
    schema = {
        "type": "object",
        "patternProperties": {f"^a{i}$": {"type": "null"} for i in range(20)},
        "additionalProperties": False,
    }
    assert enforceable_part(json.dumps(schema)).unenforced == ()


# ---- patterns and formats of JSON Schemas


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
