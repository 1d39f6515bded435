"""OpenAI's API: what its requests mean here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.sampling import SamplingParams
from llamaherd.model.chat import apply_chat_template
from llamaherd.run.requests import make_requests
from llamaherd.server.errors import ApiError, bad_field, unknown_field
from llamaherd.server.generate import temperature_of, token_bias
from llamaherd.server.neutral import (
    asks_nothing,
    is_known,
    is_of_messages,
)
from llamaherd.server.openai_answers import ChatAnswer, CompletionAnswer
from llamaherd.server.wanted import Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.model.model import Model
    from llamaherd.server.settings import Settings

_COMMON = frozenset(
    (
        *("model", "max_tokens", "max_completion_tokens", "temperature", "top_p"),
        *("stop", "seed", "logit_bias", "stream", "stream_options", "ignore_eos"),
    )
)
_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_OF_STREAMS = frozenset(("include_obfuscation", "continuous_usage_stats"))
_MAX_TOKENS = 16  # of a completion, where nobody told


class Completions:
    """The shape of `/v1/completions`."""

    fields = _COMMON | {"prompt"}

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def understand(self, fields: dict[str, object]) -> Wanted:
        """See `Shape`."""
        given = _given(fields, self.fields)
        _check_model(given, self._settings)
        return Wanted(
            prompt=_one_prompt(given),
            params=_params(given, _told_max_tokens(given) or _MAX_TOKENS),
            stream=_flag(given, "stream"),
            with_usage=_with_usage(given),
        )

    def answer(self, wanted: Wanted) -> CompletionAnswer:
        """The writer of one answer."""
        return CompletionAnswer(self._settings.model_name, with_usage=wanted.with_usage)


class Chat:
    """The shape of `/v1/chat/completions`."""

    fields = _COMMON | {"messages"}

    def __init__(self, model: Model, settings: Settings) -> None:
        self._model = model
        self._settings = settings

    def understand(self, fields: dict[str, object]) -> Wanted:
        """See `Shape`."""
        given = _given(fields, self.fields)
        _check_model(given, self._settings)
        max_tokens = _told_max_tokens(given)
        prompt: object = apply_chat_template(self._model, chat_messages(given))
        if max_tokens is None:
            prompt, max_tokens = self._with_room(prompt)
        return Wanted(
            prompt=prompt,
            params=_params(given, max_tokens),
            # The template need not begin with a special token, but means those it has.
            options={"parse_special": True},
            stream=_flag(given, "stream"),
            with_usage=_with_usage(given),
        )

    def answer(self, wanted: Wanted) -> ChatAnswer:
        """The writer of one answer."""
        return ChatAnswer(self._settings.model_name, with_usage=wanted.with_usage)

    def _with_room(self, prompt: object) -> tuple[object, int]:
        """The prompt as tokens, and as many for its answer as fit, up to a limit."""
        requests, _ = make_requests(self._model, [prompt], None, {}, parse_special=True)
        request = requests[0]
        n_ctx = self._settings.n_ctx or self._model.n_ctx_train
        room = max(1, min(self._settings.max_tokens, n_ctx - len(request.tokens)))
        return (prompt if request.problem else request.tokens), room


def chat_messages(given: Mapping[str, object]) -> list[dict[str, object]]:
    """The messages of a conversation, as the library has them.

    Raises:
        ApiError: Something in them is not supported.
    """
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_field("messages", "messages must be a list of messages")
    return [_message(f"messages[{i}]", message) for i, message in enumerate(messages)]


def _message(name: str, message: object) -> dict[str, object]:
    if not isinstance(message, dict):
        raise bad_field(name, f"{name} must be an object with role and content")
    for key, value in message.items():
        if key not in {"role", "content"} and not is_of_messages(key, value):
            raise unknown_field(f"{name}.{key}")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        allowed = ", ".join(_ROLES)
        raise bad_field(f"{name}.role", f"{name}.role must be one of {allowed}")
    return {"role": _ROLES[role], "content": _content(f"{name}.content", message)}


def _content(name: str, message: Mapping[str, object]) -> str:
    """A message's text, of which there may be several parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise bad_field(name, f"{name} must be a text or a list of texts")
    texts = []
    for i, part in enumerate(content):
        is_text = isinstance(part, dict) and part.get("type") == "text"
        if not is_text or not isinstance(part.get("text"), str):
            raise bad_field(f"{name}[{i}]", f"{name}[{i}] must be a part of type text")
        for key in part.keys() - {"type", "text", "cache_control"}:
            raise unknown_field(f"{name}[{i}].{key}")
        texts.append(part["text"])
    return "".join(texts)


def _given(fields: Mapping[str, object], names: frozenset[str]) -> dict[str, object]:
    """The fields that say something.

    Raises:
        ApiError: One is unknown, or asks for what there is not.
    """
    given = {}
    for name, value in fields.items():
        if name in names:
            if value is not None:
                given[name] = value
        elif not asks_nothing(name, value):
            # One that is known and cannot be had is no slip.
            raise unknown_field(name, () if is_known(name) else names)
    return given


def _check_model(given: Mapping[str, object], settings: Settings) -> None:
    """An answer must not come from another model than the one that was asked."""
    asked = given.get("model", settings.model_name)
    if not isinstance(asked, str):
        raise bad_field("model", f"model must be a text, not {checks.shown(asked)}")
    if settings.name_of(asked) is None:
        raise ApiError(
            404,
            f"the model here is {settings.model_name!r}, not {checks.quoted(asked)} (see "
            "--alias and --any-model)",
            param="model",
            code="model_not_found",
        )


def _one_prompt(given: Mapping[str, object]) -> object:
    """A text, token ids, or a list with one of those."""
    if "prompt" not in given:
        raise ApiError(400, "prompt is missing", param="prompt", code="missing_field")
    prompt = given["prompt"]
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], (str, list)):
        if len(prompt) > 1:
            text = (
                f"prompt must be one text, not a list of {len(prompt)}: send a request "
                "for each; those that come at the same time run in the same batches"
            )
            raise bad_field("prompt", text)
        return prompt[0]
    return prompt


def _told_max_tokens(given: Mapping[str, object]) -> int | None:
    """The tokens that a request asks for, under either name."""
    told = {
        name: checks.integer(name, given[name], 1)
        for name in ("max_tokens", "max_completion_tokens")
        if name in given
    }
    if len(set(told.values())) > 1:
        raise bad_field("max_tokens", "max_tokens and max_completion_tokens differ")
    return next(iter(told.values()), None)


def _params(given: Mapping[str, object], max_tokens: int) -> SamplingParams:
    """Sampling with OpenAI's defaults; what its API has not is as in the library."""
    seed = -1  # a fresh one
    if "seed" in given:
        # As many as there are here: equal ones stay equal.
        told = checks.integer("seed", given["seed"], -(1 << 63), (1 << 63) - 1)
        seed = told & 0xFFFFFFFF
    return SamplingParams(
        temperature=temperature_of(given.get("temperature", 1.0)),
        top_p=checks.real("top_p", given.get("top_p", 1.0), 0.0, 1.0),
        max_tokens=max_tokens,
        stop=checks.stop_texts("stop", given.get("stop")),
        seed=seed,
        logit_bias=_bias(given.get("logit_bias", {})),
        ignore_eos=_flag(given, "ignore_eos"),
    )


def _bias(value: object) -> Mapping[int, float]:
    if not isinstance(value, dict):
        raise bad_field("logit_bias", "logit_bias must map token ids to numbers")
    return {
        token: checks.real(f"logit_bias[{token}]", number, -100.0, 100.0)
        for token, number in token_bias(value).items()
    }


def _flag(given: Mapping[str, object], name: str) -> bool:
    return checks.flag(name, given.get(name, False))


def _with_usage(given: Mapping[str, object]) -> bool:
    """Whether a stream ends with what was used."""
    if "stream_options" not in given:
        return False
    options = given["stream_options"]
    if not _flag(given, "stream"):
        raise bad_field("stream_options", "stream_options is for streams")
    if not isinstance(options, dict):
        raise bad_field("stream_options", "stream_options must be an object")
    for name, value in options.items():
        is_harmless = name in _OF_STREAMS and (value is None or value is False)
        if name != "include_usage" and not is_harmless:
            known = ("stream_options.include_usage",)
            raise unknown_field(f"stream_options.{name}", known)
    return checks.flag(
        "stream_options.include_usage", options.get("include_usage") or False
    )
