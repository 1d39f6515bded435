"""JSON terms for error messages about the fields of a request."""

from __future__ import annotations

import json
from dataclasses import dataclass

from llamaherd.core.words import LanguageTerms

_MOST = 60  # characters of a value in a message


@dataclass(frozen=True, slots=True)
class _Json(LanguageTerms):
    """Terms of JSON, such as true and null instead of True and None."""

    language: str = "JSON"
    flag: str = "true or false"
    text: str = "a string"
    texts: str = "a list of strings"
    path: str = "a string"
    mapping: str = "an object"
    thinking: str = "object"
    markers: str = '"thinking": {"start": ..., "end": ...}'
    template: str = "use /v1/completions, or start the server with --template FILE"

    def model(self, model: object) -> str:  # noqa: ARG002 - clients see no path
        return "the model"

    def constant(self, value: bool | None) -> str:
        return json.dumps(value)

    def literal(self, value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    def setting(self, name: str, value: object) -> str:
        return f'"{name}": {self.literal(value)}'

    def value(self, value: object, text: str) -> str:
        try:
            text = self.literal(value)
        except (TypeError, ValueError):  # the value is not from the request
            return text
        return text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."


JSON = _Json()
