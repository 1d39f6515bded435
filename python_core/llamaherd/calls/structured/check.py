"""Check of a finished answer against its whole schema, and reasons in JSON's words.

The check runs on the thread that serves all callers; its work is therefore counted and
limited. jsonschema writes values as Python does (None, True, 'text'). Users of R, of HTTP
and of files know no Python, so reasons are made here from the parts of an error.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from llamaherd.calls.structured.enforce import SchemaError
from llamaherd.calls.structured.keywords import (
    StepBudget,
    TooMuchWorkError,
    with_own_keywords,
)
from llamaherd.calls.structured.patterns import (
    can_be_checked,
    format_checker,
    is_quick,
    pattern_checker,
)
from llamaherd.calls.structured.subschemas import subschemas, target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator


MOST_SHOWN = 120  # maximum length of a shown value in characters
_CUT = "..."

# Sentences by keyword. {it} is the part of the value, {rule} the value of the keyword.
_SENTENCES = {
    "additionalItems": "{it} has more items than its schema allows",
    "additionalProperties": "additional properties are not allowed: {it}",
    "anyOf": "{it} is not valid under any of the given schemas",
    "const": "{it} is not {rule}",
    "contains": "{it} contains no item that matches the given schema",
    "enum": "{it} is not one of {rule}",
    "exclusiveMaximum": "{it} is not less than {rule}",
    "exclusiveMinimum": "{it} is not greater than {rule}",
    "format": "{it} does not have the format {rule}",
    "items": "{it} has more items than its schema allows",
    "maxContains": "{it} contains more than {rule} items that match the given schema",
    "maxItems": "{it} has more items than {rule}",
    "maxLength": "{it} has more characters than {rule}",
    "maxProperties": "{it} has more properties than {rule}",
    "maximum": "{it} is greater than the maximum of {rule}",
    "minContains": "{it} contains fewer than {rule} items that match the given schema",
    "minItems": "{it} has fewer items than {rule}",
    "minLength": "{it} has fewer characters than {rule}",
    "minProperties": "{it} has fewer properties than {rule}",
    "minimum": "{it} is less than the minimum of {rule}",
    "multipleOf": "{it} is not a multiple of {rule}",
    "not": "{it} should not be valid under {rule}",
    "pattern": "{it} does not match {rule}",
    "unevaluatedItems": "{it} has items that its schema does not allow",
    "unevaluatedProperties": "{it} has properties that its schema does not allow",
    "uniqueItems": "{it} has non-unique elements",
}


def reason_of(error: ValidationError) -> str:
    """Return the reason of a violation, without its position."""
    keyword = str(error.validator)
    if error.validator is None:
        return f"{json_text(error.instance)} is not allowed here"
    if keyword in _SPECIAL:
        return _SPECIAL[keyword](error)
    sentence = _SENTENCES.get(keyword, "{it} violates " + json_text(keyword) + ": {rule}")
    return sentence.format(
        it=json_text(error.instance), rule=json_text(error.validator_value)
    )


def json_text(value: object) -> str:
    """Return the JSON of a value, written only up to `MOST_SHOWN` characters."""
    parts, n = [], 0
    for part in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
        parts.append(part)
        n += len(part)
        if n > MOST_SHOWN:
            return "".join(parts)[:MOST_SHOWN] + _CUT
    return "".join(parts)


def _types(error: ValidationError) -> str:
    types = error.validator_value
    kinds = [types] if isinstance(types, str) else types
    return f"{json_text(error.instance)} is not of type " + _json_texts(kinds)


def _one_of(error: ValidationError) -> str:
    if error.context:
        return f"{json_text(error.instance)} is not valid under any of the given schemas"
    return (
        f"{json_text(error.instance)} is valid under more than one of the given schemas"
    )


def _missing_field(error: ValidationError) -> str:
    if not isinstance(error.validator_value, list):  # draft 3: true, in the property
        return f"{json_text(error.instance)} has no value for a required property"
    return _of_missing(error.validator_value, error.instance, "required")


def _dependent_field(error: ValidationError) -> str:
    instance: Mapping[str, Any] = error.instance
    for name, others in error.validator_value.items():
        names = [others] if isinstance(others, str) else others
        if name in instance and isinstance(names, list) and set(names) - set(instance):
            return _of_missing(names, instance, f"required beside {json_text(name)}")
    return _of_missing([], instance, "required")


def _of_missing(names: Any, instance: Any, what: str) -> str:  # JSON
    missing = [name for name in names if name not in instance]
    be = "property is" if len(missing) == 1 else "properties are"
    return f"the {be} missing, but {what}: {_json_texts(missing)}"


def _json_texts(values: Any) -> str:  # JSON
    return ", ".join(map(json_text, values))


def _limit(keyword: str) -> Callable[[ValidationError], str]:
    """Return the reason for a limit, which is exclusive in drafts 3 and 4 if marked."""
    exclusive = f"exclusive{keyword.capitalize()}"

    def reason(error: ValidationError) -> str:
        is_marked = error.schema.get(exclusive) is True
        return _SENTENCES[exclusive if is_marked else keyword].format(
            it=json_text(error.instance), rule=json_text(error.validator_value)
        )

    return reason


_SPECIAL: dict[str, Callable[[ValidationError], str]] = {
    "dependencies": _dependent_field,
    "dependentRequired": _dependent_field,
    "maximum": _limit("maximum"),
    "minimum": _limit("minimum"),
    "oneOf": _one_of,
    "required": _missing_field,
    "type": _types,
}


_MAX_SHOWN = 300  # maximum length of a reason in characters


def check_schema(text: str, unenforced: tuple[str, ...]) -> None:
    """Check that answers can be validated in bounded time; masks leave `unenforced`."""
    _validator(text)
    root = json.loads(text)
    _check_references(root)
    for schema in subschemas(root) if unenforced else ():
        named = list(schema.get("patternProperties") or ())
        # For `unevaluatedProperties`, jsonschema itself matches property names with
        # `re`.
        is_own = "unevaluatedProperties" not in schema
        for pattern in (schema.get("pattern"), *named):
            may = can_be_checked if is_own else is_quick
            if isinstance(pattern, str) and not may(pattern):
                raise SchemaError(
                    f"the pattern {json_text(pattern)} has nested repetitions: no mask "
                    "can enforce it here, and its check may never end",
                    argument="schema",
                    form="{name}: {problem}",
                )


def _check_references(root: object) -> None:
    """Check that each reference has a target; jsonschema checks those of named parts."""
    every = subschemas(root)
    if any(
        {"$id", "id", "$anchor", "$dynamicAnchor"} & subschema.keys()
        for subschema in every
    ):
        return
    for subschema in every:
        reference = subschema.get("$ref")
        if isinstance(reference, str) and target_of(reference, root) is None:
            raise SchemaError(
                f"refers to {json_text(reference)}, which it does not contain "
                "(references are not fetched)",
                argument="schema",
                code="not_found",
            )


def violation(text: str, value: object) -> str:
    """Return the position and reason of a violation of a schema; "" if there is none."""
    from referencing.exceptions import Unresolvable

    try:
        with StepBudget(value):
            error = next(iter(_validator(text).iter_errors(value)), None)
    except Unresolvable as reason:
        return (
            f"it refers to {json_text(reason.ref)}, which its schema does not contain "
            "(references are not fetched)"
        )
    except RecursionError:
        return "it, or the target of a reference, is nested too deep"
    except TooMuchWorkError as reason:
        return str(reason)
    except Exception as reason:  # noqa: BLE001 - whatever a hostile schema brings about
        return f"it cannot be checked: {shorten_reason(reason)}"
    if error is None:
        return ""
    return f"{error.json_path}: {shorten_reason(reason_of(error))}"


def shorten_reason(reason: object) -> str:
    """Shorten a reason that is too long."""
    text = str(reason)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


@lru_cache(maxsize=256)
def _validator(text: str) -> Validator:
    """Return the cached validator of a schema, which never fetches references."""
    from jsonschema import validators  # slow to import
    from jsonschema.exceptions import SchemaError as NoSchemaError
    from referencing.jsonschema import EMPTY_REGISTRY

    schema = json.loads(text)
    kind = validators.Draft202012Validator
    with suppress(AttributeError, TypeError, ValueError):  # `$schema` is no address
        kind = validators.validator_for(schema, default=kind)
    try:
        kind.check_schema(schema, format_checker=pattern_checker())
    except NoSchemaError as error:
        raise SchemaError(
            f"is not valid at {error.json_path}: {shorten_reason(reason_of(error))}",
            argument="schema",
            place=tuple(error.absolute_path),
            form="{whole} {problem}",
        ) from None
    except RecursionError:
        raise SchemaError("is nested too deep", argument="schema") from None
    for subschema in subschemas(schema):
        subschema.pop("$schema", None)  # this would select the keywords of jsonschema
    kind = with_own_keywords(kind)
    return kind(schema, registry=EMPTY_REGISTRY, format_checker=format_checker())
