"""`POST /generate`, with the options of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.structured.quotable import quotes_in
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import options_of
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.server.answers import FormWriter, ServedAnswer
from llamaherd.server.chats import with_defaults
from llamaherd.server.errors import JSON, bad_field
from llamaherd.server.formats import AnswerFormat, check_answer_fits
from llamaherd.server.protocol import dumps
from llamaherd.server.running import ParsedRequest, usage
from llamaherd.server.sampling import token_bias
from llamaherd.server.schemas import FAILURE, TEXT, TOKENS, either, record, ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.results import Result

_SETTINGS = frozenset(SamplingParams.declared)
_OPTIONS = options_of(GenerateOptions, "http").keys() - _SETTINGS - {"stream"}
# Templates write any role into the prompt, even a misspelt role.
_ROLES = ("system", "developer", "user", "assistant", "tool")


class _GeneratedWriter(FormWriter):
    """Writer of an answer of `/generate`."""

    def body(self, replies: Sequence[ServedAnswer]) -> dict[str, object]:
        result = replies[0].result
        thought = {} if result.thinking is None else {"thinking": result.thinking}
        return {"text": result.text, **thought, **_ending(result)}

    def thought(self, text: str) -> str:
        return f'data: {{"thinking":{dumps(text)}}}\n\n'

    def text(self, text: str, _n_tokens: int) -> str:
        return f'data: {{"text":{dumps(text)}}}\n\n'

    def finish(self, reply: ServedAnswer) -> str:
        """See `FormWriter`; the last event has no text."""
        return f"data: {dumps({'text': '', **_ending(reply.result)})}\n\n"


def _ending(result: Result) -> dict[str, object]:
    """Return the last fields of an answer; an error if it was cut off in its schema."""
    is_complete, quotes = result.thinking_complete, quotes_in(result.parsed)
    error = {"message": str(result.error), "code": result.error_code}
    return {
        **({} if is_complete is None else {"thinking_complete": is_complete}),
        **({"quotes": quotes} if quotes else {}),
        "tokens": result.tokens,
        "finish_reason": result.finish_reason,
        **({} if result.error is None else {"error": error}),
        "usage": usage([result]),
    }


class GenerateApi(AnswerFormat):
    """Format of `/generate`."""

    path = "/generate"
    summary = "Answer a prompt with all options of the library."
    options = (GenerateOptions, "http")
    field_schemas: ClassVar = {"model": TEXT, "prompt": either(TEXT, {"type": "array"})}
    needed = ("prompt",)
    unused: ClassVar = {}
    answers = record(
        {"error": FAILURE},
        text=TEXT,
        tokens=TOKENS,
        finish_reason=TEXT,
        usage=ref("Usage"),
    )
    has_v1 = False
    in_batches = True
    writer = _GeneratedWriter

    def understand(self, fields: dict[str, object]) -> ParsedRequest:
        """See `AnswerFormat`. A field with null is treated as missing."""
        request = self.effective_fields(fields)
        if request.get("chat") is True:
            _check_roles(request["prompt"])
        settings = {name: request[name] for name in request if name in _SETTINGS}
        if "temperature" in settings:
            temperature = settings["temperature"]  # by the rules of OpenAI's API
            settings["temperature"] = checks.real("temperature", temperature, 0.0, 2.0)
        bias = settings.get("logit_bias")
        if isinstance(bias, dict):
            settings["logit_bias"] = token_bias(bias)
        params = SamplingParams(**settings)
        if params.max_tokens is not None:
            n_ctx = self._settings.n_ctx_of(self._model)
            check_answer_fits("max_tokens", params.max_tokens, n_ctx)
        options: dict[str, Any] = {n: request[n] for n in request if n in _OPTIONS}
        if options.get("chat") is True:
            options = with_defaults(options, self._settings)
        return ParsedRequest(
            prompts=[request["prompt"]],
            params=params,
            options=options,
            stream=checks.flag("stream", request.get("stream", False)),
        )


def _check_roles(prompt: object) -> None:
    """Check the roles of messages; the library checks everything else."""
    for i, message in enumerate(prompt if isinstance(prompt, list) else ()):
        role = message.get("role") if isinstance(message, dict) else None
        if isinstance(role, str) and role not in _ROLES:
            where = f"prompt[{i}].role"
            allowed = ", ".join(_ROLES)
            raise bad_field(
                "prompt",
                f"{where} must be one of {allowed}, not {JSON.literal(role[:60])}",
            )
