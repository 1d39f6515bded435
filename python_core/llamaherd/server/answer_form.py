"""Fields of requests that constrain the answer, such as `response_format`.

OpenAI's API has `response_format`; vLLM and llama-server have other fields. Each field is
converted to a constraint of the library: schema, regex, grammar or choices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.core.argument import Argument, Field
from llamaherd.server.errors import bad_field, unknown_field
from llamaherd.server.wording import JSON

if TYPE_CHECKING:
    from collections.abc import Mapping

_ANY_OBJECT = {"type": "object"}
# Constraint of the library for each field of vLLM and llama-server.
_DIRECT = {
    "guided_json": "schema",
    "guided_regex": "regex",
    "guided_choice": "choices",
    "guided_grammar": "grammar",
    "json_schema": "schema",
    "grammar": "grammar",
}
_STRUCTURED = {
    "json": "schema",
    "regex": "regex",
    "choice": "choices",
    "grammar": "grammar",
}
FIELDS = frozenset({"response_format", "structured_outputs", *_DIRECT})
KINDS = ("text", "json_object", "json_schema")
# Fields of a named schema besides the schema. Schemas are always enforced.
_OF_SCHEMA = frozenset({"name", "description", "strict"})


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """Constraint of an answer.

    Attributes:
        constraint: Name of the constraint in `SamplingParams`; "" without a constraint.
        value: Value of the constraint.
        field: Field of the request that contains the constraint.
    """

    constraint: str = ""
    value: Any = None
    field: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """Constraint as a setting of `SamplingParams`."""
        return {self.constraint: self.value} if self.constraint else {}

    @property
    def names(self) -> dict[str, str]:
        """Field of the request by constraint, for errors."""
        return {self.constraint: self.field} if self.constraint else {}


def form_of(given: Mapping[str, object]) -> AnswerForm:
    """Return the constraint that the fields of a request define.

    Raises:
        ApiError: A field is invalid, or two fields define a constraint.
        TypeError: A field has the wrong type.
    """
    found = [_read(name, given[name]) for name in sorted(FIELDS & given.keys())]
    forms = [form for form in found if form.constraint]
    if len(forms) > 1:
        names = " and ".join(form.field for form in forms)
        raise bad_field(forms[0].field, f"{names} cannot be given together")
    return forms[0] if forms else AnswerForm()


def _read(name: str, value: object) -> AnswerForm:
    if name == "response_format":
        return _response_format(value)
    if name == "structured_outputs":
        return _structured(value)
    if name == "grammar" and value == "":  # sent by clients of llama-server
        return AnswerForm()
    return AnswerForm(_DIRECT[name], value, name)


def _response_format(value: object) -> AnswerForm:
    name = "response_format"
    where = Argument(name)
    given = _object(name, value)
    kind = checks.choice(where.at(Field("type")), given.get("type"), KINDS)
    # llama-server also accepts a schema next to the type.
    for key in given.keys() - {"type", "json_schema", "schema"}:
        raise unknown_field(f"{name}.{key}")
    if kind == "text":
        return AnswerForm()
    own = given.get("json_schema")
    if own is not None and kind == "json_schema":
        inner = _object(f"{name}.json_schema", own)
        for key in inner.keys() - _OF_SCHEMA - {"schema"}:
            raise unknown_field(f"{name}.json_schema.{key}")
        schema = inner.get("schema")
    else:
        schema = given.get("schema")
    if schema is None and kind == "json_object":
        schema = _ANY_OBJECT
    if schema is None:
        raise bad_field(name, f"{name}.json_schema.schema is missing")
    return AnswerForm("schema", _schema(f"{name}.json_schema.schema", schema), name)


def _structured(value: object) -> AnswerForm:
    name = "structured_outputs"
    given = {k: v for k, v in _object(name, value).items() if v is not None}
    for key, each in given.items():
        if key == "json_object" and isinstance(each, bool):
            continue
        if key not in _STRUCTURED:
            raise unknown_field(f"{name}.{key}", [f"{name}.{k}" for k in _STRUCTURED])
    found = {_STRUCTURED[k]: v for k, v in given.items() if k in _STRUCTURED}
    if given.get("json_object") is True:
        found.setdefault("schema", _ANY_OBJECT)
    if len(found) > 1:
        raise bad_field(name, f"{name} must have one of {', '.join(_STRUCTURED)}")
    return next((AnswerForm(k, v, name) for k, v in found.items()), AnswerForm())


def _object(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        text = f"{name} must be an object, not {JSON.value(value, checks.shown(value))}"
        raise bad_field(name.partition(".")[0], text)
    return value


def _schema(name: str, value: object) -> object:
    if not isinstance(value, (dict, bool)):
        text = f"{name} must be an object, not {JSON.value(value, checks.shown(value))}"
        raise bad_field(name.partition(".")[0], text)
    return value
