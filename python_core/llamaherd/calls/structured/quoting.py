"""Schemas with quotes: their grammar for a text, and the positions of quotes.

llguidance supports an automaton for the parts of a text, but not within JSON Schemas. A
schema with quotes is therefore converted to a Lark grammar: objects, arrays and
alternatives that contain a quote become rules, and everything else remains a JSON
Schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from llamaherd.calls.structured.closing import enforced_closed
from llamaherd.calls.structured.enforce import SchemaError, take_limits, write_sizes
from llamaherd.calls.structured.quotable import Quotable, QuoteRule, Unit, quote_of
from llamaherd.calls.structured.subschemas import (
    OF_MANY,
    OF_NAMED,
    OF_ONE,
    inner_schemas,
    list_at,
    resolve,
    subschemas,
)
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field, Name
from llamaherd.engine.core.errors import ArgumentTypeError
from llamaherd.engine.core.words import words

KEYWORD = "quote"
_PLAIN = frozenset(
    {"type", "title", "description", "examples", "$comment", "deprecated", "readOnly"}
)
# Further keywords that a grammar enforces in schemas that contain a quote.
_OBJECT = _PLAIN | {"properties", "required", "additionalProperties"}
_ARRAY = _PLAIN | {"items", "minItems", "maxItems"}
_ROOT = frozenset({"$defs", "definitions", "$schema", "$id"})
_MOST_DEEP = 32


def type_quote(
    description: str | None = None,
    *,
    unit: Unit = "words",
    least: int | None = None,
    most: int | None = None,
) -> dict[str, Any]:
    """Return the schema of a quote: a verbatim part of the prompt's text.

    Masks allow only a part of the text in place of the quote. An answer therefore
    cannot contain a quote that is not in the text. In parsed answers a quote is a dict
    with "quote", and its position as "start" and "end", so that `text[start:end]` is
    the quote. If the text contains the quote several times, the position of the first
    occurrence is used.

    Args:
        description: Meaning of the quote, for `schema_prompt`.
        unit: Unit of the lengths. "words" counts runs of letters and digits, and a quote
            begins and ends where words do; "characters" counts code points.
        least: Minimum length, at most 30 words or 300 characters. None means 3 words or
            10 characters. A shorter text is quoted completely.
        most: Maximum length. None means 40 words or 200 characters.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
    """
    fields = {"unit": unit, "least": least, "most": most}
    rule = QuoteRule.of({k: v for k, v in fields.items() if v is not None})
    schema: dict[str, Any] = {"type": "string", KEYWORD: asdict(rule)}
    if description is not None:
        schema["description"] = checks.text("description", description)
    return schema


def checked_evidence(name: Name, value: object) -> bool | dict[str, Any]:
    """Check the option `evidence`: true, false, or a dict with unit, least and most."""
    if isinstance(value, bool):
        return value
    rule = value.get(KEYWORD, value) if isinstance(value, Mapping) else value
    if isinstance(rule, bool):
        return rule
    if not isinstance(rule, Mapping):
        raise ArgumentTypeError(
            f"must be {words().truth}, or a quote such as {words().quote}, not "
            f"{checks.brief(value)}",
            argument=name,
        )
    return asdict(QuoteRule.of(dict(rule), name))


def quote_rule(schema: object) -> QuoteRule | None:
    """Return the length rule of a schema of a quote; None for other schemas."""
    if not isinstance(schema, dict) or schema.get(KEYWORD, False) is False:
        return None
    return QuoteRule.of(schema[KEYWORD], Argument("schema", (Field(KEYWORD),)))


def has_quotes(schema: object, root: object = None) -> bool:
    """Return whether a schema, or a part that its answers follow, is a quote."""
    root = schema if root is None else root
    seen: set[int] = set()
    waiting = [schema]
    while waiting:
        part = resolve(waiting.pop(), root)
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        if quote_rule(part) is not None:
            return True
        waiting += inner_schemas({k: v for k, v in part.items() if k not in _ROOT})
    return False


@lru_cache(maxsize=256)
def text_has_quotes(schema: str) -> bool:
    """Return whether a schema, given as JSON text, has quotes."""
    return f'"{KEYWORD}"' in schema and has_quotes(json.loads(schema))


def check_quotes(root: Mapping[str, Any]) -> tuple[str, ...]:
    """Check quotes before the text is known; return the keywords that masks leave."""
    grammar = _Grammar.of(root, "text")
    grammar.read(grammar.root, 0)
    return tuple(sorted(grammar.unenforced))


def grammar_of(root: Mapping[str, Any], text: str) -> str:
    """Return the Lark grammar of answers whose quotes are parts of a text."""
    grammar = _Grammar.of(root, text)
    start = grammar.read(grammar.root, 0)
    if start is None:
        raise SchemaError(
            "there is nothing to quote: the text is empty or white space",
            argument="quote_from",
            code="empty",
            form="{problem}",
        )
    return "\n".join(["%llguidance {}", f"start: {start}", *grammar.rules])


def locate_quotes(root: Mapping[str, Any], value: object, text: str) -> Any:
    """Return an answer in which each quote is an object with quote, start and end.

    A repeated quote gets the position of its next occurrence in the text, if any.
    """
    known: dict[QuoteRule, Quotable] = {}
    last: dict[str, int] = {}  # position of each quote so far

    def place(quote: str, rule: QuoteRule) -> Any:  # JSON
        if rule not in known:
            known[rule] = Quotable(text, rule)
        after = last.get(quote, -1) + 1
        span = known[rule].find(quote, after) or known[rule].find(quote)
        if span is None:
            raise ValueError(f"{quote!r} is not a part of the text")
        last[quote] = span.start
        return quote_of(text, span)

    return map_quotes(root, value, place)


def map_quotes(
    root: Mapping[str, Any], value: object, change: Callable[[Any, QuoteRule], Any]
) -> Any:  # JSON
    """Return an answer with each quote replaced by `change(quote, rule)`."""

    def walk(schema: object, part: Any) -> Any:  # JSON
        schema = resolve(schema, root)
        if not isinstance(schema, dict) or part is None:
            return part
        rule = quote_rule(schema)
        if rule is not None:
            return change(part, rule)
        for subschema in list_at(schema, "anyOf"):
            if has_quotes(subschema, root) and _fits(resolve(subschema, root), part):
                return walk(subschema, part)
        if isinstance(part, dict) and isinstance(schema.get("properties"), dict):
            named = schema["properties"]
            return {k: walk(named.get(k), v) for k, v in part.items()}
        if isinstance(part, list) and isinstance(schema.get("items"), dict):
            return [walk(schema["items"], item) for item in part]
        return part

    return walk(root, value)


def _fits(schema: object, part: object) -> bool:
    """Return whether a schema with quotes allows the type of a value."""
    if not isinstance(schema, dict):
        return False
    if schema.get(KEYWORD):
        return isinstance(part, (str, dict))
    if isinstance(part, dict):
        return "properties" in schema
    return isinstance(part, list) and "items" in schema


@dataclass
class _Grammar:
    """Builder of the rules of a Lark grammar."""

    root: Mapping[str, Any]
    text: str
    rules: list[str] = field(default_factory=list)
    unenforced: set[str] = field(default_factory=set)
    _terminals: dict[QuoteRule, str | None] = field(default_factory=dict)
    _n: int = 0

    @classmethod
    def of(cls, root: Mapping[str, Any], text: str) -> _Grammar:
        """Return a builder for a schema, without limits that no mask enforces."""
        copy = json.loads(json.dumps(root))
        every = subschemas(copy)
        write_sizes(every)
        return cls(copy, text, unenforced=take_limits(every))

    def read(self, schema: Any, depth: int) -> str | None:  # JSON
        """Return the name of a schema's rule; None if no answer can follow the schema."""
        whole = schema
        schema = resolve(schema, self.root)
        if depth > _MOST_DEEP:
            raise _quote_error("a schema with quotes must not contain itself")
        if not has_quotes(schema, self.root):
            return self._json(whole)
        rule = quote_rule(schema)
        if rule is not None:
            return self._quote(schema, rule)
        if "anyOf" in schema:
            _only(schema, _PLAIN | {"anyOf"})
            alternatives = [
                self.read(alternative, depth + 1) for alternative in schema["anyOf"]
            ]
            return self._either(
                [alternative for alternative in alternatives if alternative is not None]
            )
        if isinstance(schema.get("properties"), dict):
            return self._object(schema, depth)
        if isinstance(schema.get("items"), dict):
            return self._array(schema, depth)
        names = sorted((schema.keys() & (OF_ONE | OF_MANY | OF_NAMED)) - _ROOT)
        raise _quote_error(f"{', '.join(names)} must not contain quotes")

    # ---- kinds of schemas ----

    def _quote(self, schema: Mapping[str, Any], rule: QuoteRule) -> str | None:
        _only(schema, _PLAIN | {KEYWORD, "default"})
        kinds = schema.get("type", "string")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if "string" not in kinds or not set(kinds) <= {"string", "null"}:
            raise _quote_error("a quote has the type string")
        if rule not in self._terminals:
            name = f"QUOTE{len(self._terminals)}"
            source = Quotable(self.text, rule)
            self._terminals[rule] = None if source.is_empty else name.lower()
            if not source.is_empty:
                rules = source.lark(name)
                self.rules += [f"{name.lower()}: {name}", *rules]
        alternatives = [self._terminals[rule], '"null"' if "null" in kinds else None]
        return self._either(
            [alternative for alternative in alternatives if alternative is not None]
        )

    def _object(self, schema: Mapping[str, Any], depth: int) -> str | None:
        _only(schema, _OBJECT)
        required = set(schema.get("required") or ())
        fields = []
        for name, inner in schema["properties"].items():
            value = self.read(inner, depth + 1)
            if value is None and name in required:
                return None
            if value is not None:
                key = json.dumps(name, ensure_ascii=False) + ":"
                key = json.dumps(key, ensure_ascii=False)  # as a text of the grammar
                fields.append((f"{key} {value}", name in required))
        return f'"{{" {self._fields(fields)} "}}"'

    def _fields(self, fields: list[tuple[str, bool]]) -> str:
        """Return a rule of fields, separated by commas, that may omit optional fields."""
        first = after = ""  # rest of the fields, as first and as later ones
        for content, is_required in reversed(fields):
            new_after = self._rule(f'"," {content} {after}')
            new_first = self._rule(f"{content} {after}")
            if not is_required:
                new_after = self._rule(f"{new_after} | {after or _EMPTY}")
                new_first = self._rule(f"{new_first} | {first or _EMPTY}")
            first, after = new_first, new_after
        return first

    def _array(self, schema: Mapping[str, Any], depth: int) -> str | None:
        _only(schema, _ARRAY)
        item = self.read(schema["items"], depth + 1)
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if item is None or most == 0:
            return None if least else '"[]"'
        upper = "" if most is None else str(most - 1)
        more = self._rule(f'"," {item}')
        lower = max(0, least - 1)
        rest = "" if most == 1 else f"{more}{{{lower},{upper}}}"
        some = f'"[" {item} {rest} "]"'
        return some if least else self._either([some, '"[]"'])

    def _json(self, schema: Any) -> str:  # JSON
        text = json.dumps(self._with_parts(schema), ensure_ascii=False)
        if '"$ref"' in text:
            _check_references(json.loads(text))
        closed = enforced_closed(text)
        self.unenforced.update(closed.unenforced)
        return self._rule(f"%json {closed.text}")

    # ---- rules ----

    def _with_parts(self, schema: Any) -> Any:  # JSON
        """Return a schema with the definitions that it may refer to."""
        if not isinstance(schema, dict):
            return schema
        return {**{k: self.root[k] for k in _ROOT if k in self.root}, **schema}

    def _either(self, alternatives: list[str]) -> str | None:
        if not alternatives:
            return None
        return (
            alternatives[0]
            if len(alternatives) == 1
            else self._rule(" | ".join(alternatives))
        )

    def _rule(self, content: str) -> str:
        self._n += 1
        self.rules.append(f"r{self._n}: {content}")
        return f"r{self._n}"


_EMPTY = '""'


def _only(schema: Mapping[str, Any], known: frozenset[str]) -> None:
    others = sorted(schema.keys() - known - _ROOT)
    if others:
        raise _quote_error(f"{', '.join(others)} cannot be used with or around a quote")


def _check_references(schema: object) -> None:
    for subschema in subschemas(schema):
        reference = subschema.get("$ref", "#/$defs/")
        if not str(reference).startswith(("#/$defs/", "#/definitions/")):
            raise _quote_error(
                f"with quotes, it must refer to $defs only, not {reference!r}"
            )


def _quote_error(problem: str) -> SchemaError:
    return SchemaError(
        problem, argument="schema", code="conflict", form="{name}: {problem}"
    )
