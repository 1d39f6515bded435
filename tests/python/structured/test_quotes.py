"""Quotes are verbatim parts of a text, even with a random model."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import thorough
from hypothesis import example, given
from hypothesis import strategies as st
from llamaherd.calls.structured import type_quote
from llamaherd.calls.structured.quotable import Quotable, QuoteRule, is_letter
from llamaherd.calls.structured.quoting import has_quotes, locate_quotes
from llamaherd.server.errors import ApiError
from llamaherd.server.generate import GenerateApi
from served import path_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TEXT = 'He said "no\\way",\r\nthen left \u00e9t\u00e9 \U0001f469\u200d\U0001f680.'
HOSTILE = st.sampled_from(
    [
        *"ab01 '\"\\/\n\t{}[]<>&%.,_",
        *("\r\n", "\u00a0", "\u2028", "e\u0301", "\u0301", "\u200d", "\x01", "\x7f"),
        *("\U0001f44d\U0001f3fd", "\u6f22\u5b57", "\u05d0\u05d1", "\u202e", "\ufdfa"),
        *("word", "don't", "the ", "  ", "\u00dcber "),
    ]
)
TEXTS = st.lists(HOSTILE, max_size=40).map("".join)


def of(quote: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the schema of an object with a quote and further fields."""
    fields = {"q": quote, **more}
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        yield context


@thorough.examples(200)
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=6),
    rule=st.sampled_from(
        [
            {"unit": "words", "least": 1, "most": 3},
            {"unit": "words", "least": 5, "most": 9},
            {"unit": "characters", "least": 1, "most": 1},
            {"unit": "characters", "least": 4, "most": 12},
        ]
    ),
    seed=st.integers(0, 2**31),
)
@example(texts=["", " \r\n", TEXT], rule={"unit": "words", "least": 1, "most": 2}, seed=1)
@example(texts=['"\\"\\\\"'], rule={"unit": "characters", "least": 3, "most": 4}, seed=2)
def test_a_random_model_writes_nothing_that_is_not_in_the_text(
    context: lh.Context, texts: list[str], rule: dict[str, Any], seed: int
) -> None:
    schema = of({"type": "string", "quote": rule}, n={"type": "integer", "maximum": 9})
    out = lh.generate_parallel(
        context,
        ["Text: "] * len(texts),
        schema=schema,
        quote_from=texts,
        temperature=99.0,
        top_k=0,
        min_p=0.0,
        seed=seed,
        max_tokens=200,
    )
    for text, result in zip(texts, out, strict=True):
        if not text.strip():
            assert "nothing to quote" in str(result.error)
            continue
        assert result.error is None, (text, result.error, result.partial)
        quote = result.parsed["q"]  # type: ignore[index]
        words = quote["quote"]
        assert text[quote["start"] : quote["end"]] == words == words.strip() != ""
        assert json.loads(str(result.text))["q"] == words
        fitted = Quotable(text, QuoteRule.of(rule)).rule
        length = n_words(words) if rule["unit"] == "words" else len(words)
        assert fitted.least <= length <= fitted.most
        if fitted.least < rule["least"]:  # the text has no longer part
            parts = [m.span() for m in re.finditer(r"\S+", text)]
            longest = text[parts[0][0] : parts[-1][1]]
            n = n_words(longest) if rule["unit"] == "words" else len(longest)
            assert n < rule["least"] or n > rule["most"]


def n_words(text: str) -> int:
    """Return the number of words: runs of letters and digits."""
    flags = [False, *map(is_letter, text)]
    return sum(now and not last for last, now in pairwise(flags))


@pytest.mark.long(reason="compiles many large schemas")
@thorough.examples(300)
@given(text=TEXTS, unit=st.sampled_from(["words", "characters"]))
def test_masks_take_what_is_a_part_and_nothing_else(
    context: lh.Context, text: str, unit: str
) -> None:
    if not text.strip():
        return
    schema = {"type": "string", "quote": {"unit": unit, "least": 1, "most": 4}}
    source = Quotable(text, QuoteRule.of(schema["quote"]))
    step = max(1, len(text) // 6)
    cuts = range(0, len(text) + 1, step)
    for part in [text[a:b] for a in cuts for b in cuts if a < b] + [text + "x", "zq"]:
        n = n_words(part) if unit == "words" else len(part)
        is_good = (
            source.find(part) is not None
            and part == part.strip()
            and source.rule.least <= n <= source.rule.most
        )
        written = json.dumps(part, ensure_ascii=False)
        taken = lh.structured.accepts(context.model, schema, written, quote_from=text)
        assert taken == is_good, (text, part)


def test_the_prompt_is_quoted_unless_another_text_is_given(context: lh.Context) -> None:
    schema = of(type_quote(least=2))
    quoted = lh.generate(context, "One two three four", schema=schema, max_tokens=99)
    assert quoted.parsed["q"]["quote"] in "One two three four"  # type: ignore[index]
    other = lh.generate_parallel(
        context,
        ["One two", "One two"],
        schema=schema,
        quote_from=["five six", None],
        max_tokens=99,
    )
    assert [parsed["q"] for parsed in other.parsed] == [  # type: ignore[index]
        {"quote": "five six", "start": 0, "end": 8},
        {"quote": "One two", "start": 0, "end": 7},
    ]


def test_the_first_place_of_a_repeated_quote() -> None:
    root = {"type": "string", "quote": {"unit": "words", "least": 1}}
    text = "party art and art"
    assert locate_quotes(root, "art", text) == {"quote": "art", "start": 6, "end": 9}
    with pytest.raises(ValueError, match="is not a part"):
        locate_quotes(root, "arty", text)


def test_quotes_in_lists_options_and_references(context: lh.Context) -> None:
    quote = type_quote(least=1, most=2)
    schema = {
        "type": "object",
        "$defs": {
            "found": of(quote, kind={"$ref": "#/$defs/kind"}),
            "kind": {"enum": ["a", "b"]},
        },
        "properties": {
            "all": {"type": "array", "items": {"$ref": "#/$defs/found"}, "maxItems": 3},
            "some": {"anyOf": [quote, {"type": "null"}]},
            "none": {"type": ["string", "null"], "quote": {"least": 1}},
        },
        "required": ["all"],
        "additionalProperties": False,
    }
    text = "Alpha beta gamma delta"
    outs = lh.generate_parallel(
        context,
        [text] * 24,
        schema=schema,
        temperature=99.0,
        top_k=0,
        min_p=0.0,
        seed=4,
        max_tokens=400,
    )
    seen = set()
    for result in outs:
        assert result.error is None
        value: Any = result.parsed
        seen |= {k for k, v in value.items() if v}
        every = [quote["q"] for quote in value["all"]] + [value.get("some")]
        for one in filter(None, [*every, value.get("none")]):
            assert text[one["start"] : one["end"]] == one["quote"]
    assert seen == {"all", "some", "none"}
    blank = lh.generate_parallel(
        context, ["x"], schema=schema, quote_from=[" "], max_tokens=99
    )
    assert blank.parsed[0]["all"] == []  # type: ignore[index]


def test_columns_have_the_place(context: lh.Context) -> None:
    out = lh.generate_parallel(
        context, ["One two three"], schema=of(type_quote()), max_tokens=99
    )
    frame = out.to_pandas(dotted=True)
    assert list(frame.columns) == ["q.quote", "q.start", "q.end", "error"]
    assert frame.iloc[0, :3].tolist() == ["One two three", 0, 13]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string", "quote": 3}, "true, or an object"),
        ({"type": "string", "quote": {"length": 3}}, "has unit, least, most"),
        ({"type": "string", "quote": {"least": 31}}, "between 1 and 30|at most 30|30"),
        ({"type": "string", "quote": {"least": 9, "most": 4}}, "must be at most 4"),
        ({"type": "string", "quote": {"unit": "lines"}}, "'words'"),
        ({"type": "integer", "quote": True}, "type string"),
        ({"type": "string", "quote": True, "pattern": "a"}, "pattern cannot be used"),
        ({"allOf": [{"type": "string", "quote": True}]}, "allOf must not contain"),
        (
            {
                "type": "object",
                "properties": {
                    "a": {"$ref": "#"},
                    "q": {"type": "string", "quote": True},
                },
            },
            "must not contain itself",
        ),
    ],
)
def test_schemas_that_cannot_be_followed(
    context: lh.Context, schema: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        lh.generate_parallel(context, ["a b c"], schema=schema)


def test_wrong_sources(context: lh.Context) -> None:
    with pytest.raises(ValueError, match="quote_from needs a schema with a quote"):
        lh.generate_parallel(context, ["a"], quote_from="a")
    with pytest.raises(ValueError, match="one element per prompt"):
        lh.generate_parallel(
            context, ["a"], schema=of(type_quote()), quote_from=["a"] * 2
        )
    with pytest.raises(ValueError, match="no text to quote from"):
        lh.generate_parallel(context, [[1, 2]], schema=of(type_quote()))
    with pytest.raises(ValueError, match="quote_from is needed"):
        lh.structured.accepts(context.model, of(type_quote()), "{}")


def test_a_field_of_the_name_quote_is_no_quote() -> None:
    named = {"quote": {"type": "string"}, "q": {"type": "string"}}
    assert not has_quotes({"type": "object", "properties": named})
    assert has_quotes(of(type_quote()))
    unused = {"$defs": {"x": type_quote()}, **of({"type": "string"})}
    assert not has_quotes(unused)


def test_words_for_the_prompt() -> None:
    words = lh.structured.schema_prompt(of(type_quote("Why?", least=2, most=9)))
    assert "copied from the text (2 to 9 words) (Why?)" in words


def test_a_journal_keeps_quotes_apart(context: lh.Context, tmp_path: Path) -> None:
    schema, file = of(type_quote(least=1)), tmp_path / "j"
    options: Any = {"schema": schema, "journal": file, "max_tokens": 99}
    first = lh.generate_parallel(context, ["p"], quote_from=["one"], **options)
    other = lh.generate_parallel(context, ["p"], quote_from=["two"], **options)
    again = lh.generate_parallel(context, ["p"], quote_from=["one"], **options)
    assert [out.parsed[0]["q"]["quote"] for out in (first, other, again)] == [  # type: ignore[index]
        *("one", "two", "one")
    ]
    assert [out.stats.n_journal for out in (first, other, again)] == [0, 0, 1]


def test_the_answer_of_generate_over_http_has_the_places(context: lh.Context) -> None:
    schema = of(type_quote(least=1, most=2))
    fields = {"prompt": "Quote.", "schema": schema, "quote_from": "Ann sang.", "x": 1}
    api = path_format(GenerateApi, context.model)
    with pytest.raises(ApiError, match="x"):
        api.understand(fields)
    request = api.understand({k: v for k, v in fields.items() if k != "x"})
    params = replace(request.params, max_tokens=60)
    result = lh.generate(context, "Quote.", params=params)
    form = api.answer(request)
    body = form.whole([result])
    assert body["quotes"] == [result.parsed["q"]]  # type: ignore[index]
    assert json.loads(str(body["text"]))["q"] == result.parsed["q"]["quote"]  # type: ignore[index]
    plain = lh.generate(context, "Say a.", choices=["a"])
    assert "quotes" not in form.whole([plain])
