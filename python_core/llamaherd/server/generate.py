"""`POST /generate`, with the options of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.asks.options import GenerateOptions
from llamaherd.core import checks
from llamaherd.core.declaration import options_of
from llamaherd.core.sampling import SamplingParams
from llamaherd.server.api_shape import ParsedRequest, usage
from llamaherd.server.chats import with_defaults
from llamaherd.server.errors import ApiError, bad_field, unknown_field
from llamaherd.server.messages import dumps
from llamaherd.server.wording import JSON
from llamaherd.server.work_api import check_answer_fits, check_model
from llamaherd.structured.quotable import quotes_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.pieces import TextPiece
    from llamaherd.core.results import Result
    from llamaherd.model.model import Model
    from llamaherd.server.settings import ServerSettings

_TAKEN = frozenset(options_of(GenerateOptions, "http"))
_SETTINGS = frozenset(SamplingParams.declared)
_OPTIONS = _TAKEN - _SETTINGS - {"stream"}
# Templates write any role into the prompt, even a misspelt role.
_ROLES = ("system", "developer", "user", "assistant", "tool")


class GenerateApi:
    """Format of `/generate`.

    Args:
        settings: Settings of the server, with defaults for chats; None without defaults.
        model: Model that answers; None if it is not known.
    """

    fields = _TAKEN | {"prompt", "model"}

    def __init__(
        self, settings: ServerSettings | None = None, model: Model | None = None
    ) -> None:
        self._settings = settings
        self._model = model

    def understand(self, fields: dict[str, object]) -> ParsedRequest:
        """See `ApiShape`. A field with null is treated as missing."""
        given = {name: value for name, value in fields.items() if value is not None}
        for name in fields:
            if name not in self.fields:
                raise unknown_field(name, self.fields)
        if self._settings is not None:
            check_model(given, self._settings)
        if "prompt" not in given:
            raise ApiError(400, "prompt is missing", param="prompt", code="missing_field")
        if given.get("chat") is True:
            _check_roles(given["prompt"])
        settings = {name: given[name] for name in given if name in _SETTINGS}
        if "temperature" in settings:
            settings["temperature"] = temperature_of(settings["temperature"])
        bias = settings.get("logit_bias")
        if isinstance(bias, dict):
            settings["logit_bias"] = token_bias(bias)
        params = SamplingParams(**settings)  # type: ignore[arg-type] # it checks them
        self._check_fits(params)
        options: dict[str, Any] = {n: given[n] for n in given if n in _OPTIONS}
        if options.get("chat") is True and self._settings is not None:
            options = with_defaults(options, self._settings)
        return ParsedRequest(
            prompts=[given["prompt"]],
            params=params,
            options=options,
            stream=checks.flag("stream", given.get("stream", False)),
        )

    def _check_fits(self, params: SamplingParams) -> None:
        if self._settings is None or self._model is None or params.max_tokens is None:
            return
        n_ctx = self._settings.n_ctx_of(self._model)
        check_answer_fits("max_tokens", params.max_tokens, n_ctx)

    def answer(self, _parsed: ParsedRequest) -> GenerateApi:
        """Return this object, which writes the answers and has no state."""
        return self

    def whole(self, results: Sequence[Result]) -> dict[str, object]:
        """See `AnswerWriter`."""
        (result,) = results
        thought = {} if result.thinking is None else {"thinking": result.thinking}
        return {"text": result.text, **thought, **_ending(result)}

    def start(self) -> str:
        """See `AnswerWriter`."""
        return ""

    def piece(self, piece: TextPiece) -> str:
        """See `AnswerWriter`."""
        name = "thinking" if piece.kind == "thinking" else "text"
        return f'data: {{"{name}":{dumps(piece)}}}\n\n'

    def end(self, results: Sequence[Result]) -> str:
        """Return the last event, without text: earlier events have all of the text."""
        (result,) = results
        return f"data: {dumps({'text': '', **_ending(result)})}\n\n"


def _ending(result: Result) -> dict[str, object]:
    is_complete = result.thinking_complete
    return {
        **({} if is_complete is None else {"thinking_complete": is_complete}),
        **_quotes(result),
        "tokens": result.tokens,
        "finish_reason": result.finish_reason,
        **_error(result),
        "usage": usage([result]),
    }


def _error(result: Result) -> dict[str, object]:
    """Return the error of an answer cut off inside its schema; {} for other answers."""
    if result.error is None:
        return {}
    return {"error": {"message": str(result.error), "code": result.error_code}}


def _quotes(result: Result) -> dict[str, object]:
    """Return the quotes of an answer with their positions; {} without quotes."""
    found = quotes_in(result.parsed)
    return {"quotes": found} if found else {}


def _check_roles(prompt: object) -> None:
    """Check the roles of messages; the library checks everything else.

    Raises:
        ApiError: A message has an unknown role.
    """
    for i, message in enumerate(prompt if isinstance(prompt, list) else ()):
        role = message.get("role") if isinstance(message, dict) else None
        if isinstance(role, str) and role not in _ROLES:
            where = f"prompt[{i}].role"
            allowed = ", ".join(_ROLES)
            raise bad_field(
                "prompt",
                f"{where} must be one of {allowed}, not {JSON.literal(role[:60])}",
            )


def temperature_of(value: object) -> float:
    """Check a temperature by the rules of OpenAI's API.

    Raises:
        TypeError: `value` is not a number.
        ValueError: `value` is not in [0, 2].
    """
    return checks.real("temperature", value, 0.0, 2.0)


def token_bias(value: dict[str, object]) -> dict[int, object]:
    """Return the logit bias by token id; the JSON object has token ids as text.

    Raises:
        ApiError: A key is not a token id.
    """
    bias = {}
    for name, number in value.items():
        if not (name.isascii() and name.isdigit() and len(name) <= 10):
            raise bad_field("logit_bias", f"logit_bias has {name[:60]!r} for a token id")
        bias[int(name)] = number
    return bias
