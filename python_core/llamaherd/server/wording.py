"""JSON terms for error messages about the fields of a request."""

from __future__ import annotations

import json
from dataclasses import replace

from llamaherd.core.words import OF_LANGUAGES, LanguageTerms

_MOST = 60  # characters of a value in a message


class _Json(LanguageTerms):
    """Terms of JSON, such as true and null instead of True and None."""

    __slots__ = ()

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


JSON = _Json(
    language="JSON",
    scale='{"from": 0, "to": 10}',
    quote='{"type": "string", "quote": {"most": 20}}',
    chat='"chat": true',
    thinking="an object",
    markers='"thinking": {"start": ..., "end": ...}',
    template="use /v1/completions, or start the server with --template FILE",
    frame="table",
    let_code="let people code it first",
    functions=(
        ("annotate", "/v1/annotate"),
        ("classify", "/v1/classify"),
        ("generate", "/v1/completions"),
    ),
    elsewhere=OF_LANGUAGES,
)
# Terms for paths whose requests have no field `chat`.
JSON_WITHOUT_CHAT = replace(JSON, chat="/v1/chat/completions")
