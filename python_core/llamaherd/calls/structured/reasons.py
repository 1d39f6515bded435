"""Reasons why a JSON value violates a schema, in JSON's words: null, true, "text".

jsonschema writes values as Python does (None, True, 'text'). Users of R, of HTTP and of
files know no Python, so that reasons are made here from the parts of an error.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jsonschema.exceptions import ValidationError

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
    """Return the JSON of a value, cut off after `MOST_SHOWN` characters.

    The work is limited, too: the rest of a large value is not written.
    """
    parts, n = [], 0
    for part in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
        parts.append(part)
        n += len(part)
        if n > MOST_SHOWN:
            return "".join(parts)[:MOST_SHOWN] + _CUT
    return "".join(parts)


def _types(error: ValidationError) -> str:
    types = error.validator_value
    listed = [types] if isinstance(types, str) else types
    return f"{json_text(error.instance)} is not of type " + _listed(listed)


def _one_of(error: ValidationError) -> str:
    if error.context:
        return f"{json_text(error.instance)} is not valid under any of the given schemas"
    return (
        f"{json_text(error.instance)} is valid under more than one of the given schemas"
    )


def _required(error: ValidationError) -> str:
    if not isinstance(error.validator_value, list):  # draft 3: true, in the property
        return f"{json_text(error.instance)} has no value for a required property"
    return _of_missing(error.validator_value, error.instance, "required")


def _dependent(error: ValidationError) -> str:
    there: Mapping[str, Any] = error.instance
    for name, others in error.validator_value.items():
        listed = [others] if isinstance(others, str) else others
        if name in there and isinstance(listed, list) and set(listed) - set(there):
            return _of_missing(listed, there, f"required beside {json_text(name)}")
    return _of_missing([], there, "required")


def _of_missing(names: Any, there: Any, what: str) -> str:  # noqa: ANN401 - JSON
    missing = [name for name in names if name not in there]
    be = "property is" if len(missing) == 1 else "properties are"
    return f"the {be} missing, but {what}: {_listed(missing)}"


def _listed(values: Any) -> str:  # noqa: ANN401 - JSON
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
    "dependencies": _dependent,
    "dependentRequired": _dependent,
    "maximum": _limit("maximum"),
    "minimum": _limit("minimum"),
    "oneOf": _one_of,
    "required": _required,
    "type": _types,
}
