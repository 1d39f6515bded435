"""`POST /generate`: the library's own settings, by their names."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.sampling import SamplingParams
from llamaherd.server.errors import ApiError, bad_field, unknown_field
from llamaherd.server.messages import dumps
from llamaherd.server.wanted import Wanted, usage

if TYPE_CHECKING:
    from llamaherd.core.results import Result

_SETTINGS = frozenset(field.name for field in fields_of(SamplingParams))
_OPTIONS = frozenset(("chat", "system", "parse_special", "priority"))


class Generate:
    """The shape of `/generate`."""

    fields = _SETTINGS | _OPTIONS | {"prompt", "stream"}

    def understand(self, fields: dict[str, object]) -> Wanted:
        """See `Shape`. A null is as good as no field."""
        given = {name: value for name, value in fields.items() if value is not None}
        for name in fields:
            if name not in self.fields:
                raise unknown_field(name, self.fields)
        if "prompt" not in given:
            raise ApiError(400, "prompt is missing", param="prompt", code="missing_field")
        settings = {name: given[name] for name in given if name in _SETTINGS}
        if "temperature" in settings:
            settings["temperature"] = temperature_of(settings["temperature"])
        bias = settings.get("logit_bias")
        if isinstance(bias, dict):
            settings["logit_bias"] = token_bias(bias)
        return Wanted(
            prompt=given["prompt"],
            params=SamplingParams(**settings),  # type: ignore[arg-type] # it checks them
            options={name: given[name] for name in given if name in _OPTIONS},
            stream=checks.flag("stream", given.get("stream", False)),
        )

    def answer(self, _wanted: Wanted) -> Generate:
        """The writer of answers: it has nothing to remember."""
        return self

    def whole(self, result: Result) -> dict[str, object]:
        """See `Answer`."""
        return {"text": result.text, **_ending(result)}

    def start(self) -> str:
        """See `Answer`."""
        return ""

    def piece(self, text: str) -> str:
        """See `Answer`."""
        return f'data: {{"text":{dumps(text)}}}\n\n'

    def end(self, result: Result) -> str:
        """The last event has no text, so that all texts together are the answer's."""
        return f"data: {dumps({'text': '', **_ending(result)})}\n\n"


def _ending(result: Result) -> dict[str, object]:
    return {
        "tokens": result.tokens,
        "finish_reason": result.finish_reason,
        "usage": usage(result),
    }


def temperature_of(value: object) -> float:
    """A temperature as OpenAI's API takes it; libllama takes a negative one for 0.

    Raises:
        TypeError: It is no number.
        ValueError: It is not from 0 to 2.
    """
    return checks.real("temperature", value, 0.0, 2.0)


def token_bias(value: dict[str, object]) -> dict[int, object]:
    """A bias by token: JSON's names are texts.

    Raises:
        ApiError: A name is no token id.
    """
    bias = {}
    for name, number in value.items():
        if not (name.isascii() and name.isdigit() and len(name) <= 10):
            raise bad_field("logit_bias", f"logit_bias has {name[:60]!r} for a token id")
        bias[int(name)] = number
    return bias
