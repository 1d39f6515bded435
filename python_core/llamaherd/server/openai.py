"""Requests of OpenAI's API."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.rendering import Rendered, rendered_prompts, with_schemas
from llamaherd.calls.asks.requests import make_requests
from llamaherd.calls.structured.shape import schema_text
from llamaherd.engine.core import checks
from llamaherd.server import logprobs, running, sampling, schemas, tools
from llamaherd.server.answers import ChatWriter, CompletionWriter
from llamaherd.server.chats import (
    CHAT_FIELDS,
    chat_messages,
    chat_options,
    check_last_message,
    thinking_names,
)
from llamaherd.server.errors import ApiError, bad_field, renaming_fields
from llamaherd.server.formats import AnswerFormat, Served, check_answer_fits
from llamaherd.server.logprobs import MOST_LOGPROBS
from llamaherd.server.running import ParsedRequest
from llamaherd.server.sampling import (
    DEFAULTS,
    MAX_TOKENS_OF_COMPLETION,
    SAMPLING_FIELDS,
    AnswerForm,
    alias_names,
    form_of,
    sampling_of,
)
from llamaherd.server.schemas import FLAG, Schema, either, list_schema, record, ref, whole
from llamaherd.server.unused_fields import FIELDS, PADDING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


_OF_STREAMS = ("include_usage", "continuous_usage_stats")
MOST_SAMPLES = 128  # as in OpenAI's API
_COMMON: dict[str, Schema] = {
    **SAMPLING_FIELDS,
    "model": schemas.TEXT,
    "n": whole(1, MOST_SAMPLES),
    "max_completion_tokens": whole(1),
    "stream_options": schemas.part(**dict.fromkeys((*_OF_STREAMS, PADDING), FLAG)),
    "prompt_logprobs": whole(0, MOST_LOGPROBS),
}
_MOST_ADDED = 16  # start and end tokens, and a space before the text


class Completions(AnswerFormat):
    """Format of `/v1/completions`."""

    path = "/completions"
    summary = "Continue a text, as OpenAI's API does."
    writer = CompletionWriter
    options = (GenerateOptions, "completions")
    defaults = DEFAULTS["completions"]
    field_schemas: ClassVar = {
        **_COMMON,
        "prompt": either(
            schemas.TEXT,
            schemas.SOME_TOKENS,
            list_schema(schemas.TEXT, **schemas.ITEMS),
            list_schema(schemas.SOME_TOKENS, **schemas.ITEMS),
        ),
        "logprobs": either(whole(0, MOST_LOGPROBS), {"enum": [False]}),
        "max_tokens": whole(0),
        "max_completion_tokens": whole(0),
        "add_special_tokens": {"enum": [True]},
        "echo": FLAG,
    }
    needed = ("prompt",)
    unused = FIELDS
    answers = record(
        **schemas.HEAD,
        choices=list_schema(record(**schemas.CHOICE, text=schemas.TEXT)),
        usage=ref("Usage"),
    )
    in_batches = True

    def understand(self, fields: dict[str, object]) -> ParsedRequest:
        request = self.effective_fields(fields)
        echo = request.get("echo", False)
        of_prompt = logprobs.of_prompt(request)
        returns_prompts = echo or of_prompt is not None
        least = 0 if returns_prompts else 1
        max_tokens = _max_tokens_of(request, self._settings.n_ctx_of(self._model), least)
        is_empty = max_tokens == 0
        if max_tokens is None:
            max_tokens = MAX_TOKENS_OF_COMPLETION
        form = form_of(request)
        n_top = logprobs.of_completion(request)
        prompt = request["prompt"]
        is_list = isinstance(prompt, list) and isinstance(prompt[0], (str, list))
        prompts = prompt if is_list else [prompt]
        return ParsedRequest(
            prompts=prompts,
            params=sampling_of(request, max(1, max_tokens), form),
            options={} if n_top is None else {"logprobs": n_top},
            n=_n_samples(request, len(prompts)),
            **_stream_options(request),
            echo=echo,
            prompt_logprobs=of_prompt,
            includes_stop=sampling.includes_stop(request),
            is_empty=is_empty,
            names={**form.names, **alias_names(request)},
        )


class ChatCompletions(AnswerFormat):
    """Format of `/v1/chat/completions`."""

    path = "/chat/completions"
    summary = "Answer a conversation, as OpenAI's API does."
    writer = ChatWriter
    options = (GenerateOptions, "chats")
    defaults = DEFAULTS["chats"]
    field_schemas: ClassVar = {
        **_COMMON,
        **CHAT_FIELDS,
        **tools.TOOL_FIELDS,
        "add_special_tokens": {"enum": [False]},
        "logprobs": FLAG,
        "top_logprobs": whole(0, MOST_LOGPROBS),
    }
    needed = ("messages",)
    unused = FIELDS
    answers = record(
        **schemas.HEAD,
        choices=list_schema(
            record(
                **schemas.CHOICE,
                message=record(role=schemas.TEXT, content=schemas.TEXT_OR_NULL),
            )
        ),
        usage=ref("Usage"),
    )
    in_batches = True

    def understand(self, fields: dict[str, object]) -> ParsedRequest:
        request = self.effective_fields(fields)
        max_tokens = _max_tokens_of(request, self._settings.n_ctx_of(self._model))
        messages = chat_messages(request["messages"])
        last_turn = messages[-1]
        is_assistants = last_turn["role"] == "assistant" and "tool_calls" not in last_turn
        check_last_message(request, is_assistants=is_assistants)
        options = chat_options(request, self._settings)
        form = form_of(request)
        includes_stop = sampling.includes_stop(request)
        use = tools.tools_of(request, self._model, self._settings.template, form)
        if use is not None:
            if includes_stop:
                text = f"{sampling.STOP_FIELD} cannot be combined with tools"
                raise bad_field(sampling.STOP_FIELD, text)
            form = use.form
            messages, options = tools.with_tools(use, messages, options, self._model)
        names = {**form.names, **alias_names(request), **thinking_names(request)}
        if max_tokens is None:
            with renaming_fields(names):
                max_tokens = self._room(messages, options, form)
        n_top = logprobs.of_chat(request)
        return ParsedRequest(
            prompts=[messages],
            params=sampling_of(request, max_tokens, form),
            options=options if n_top is None else {**options, "logprobs": n_top},
            n=_n_samples(request, 1),
            **_stream_options(request),
            tools=use,
            prompt_logprobs=logprobs.of_prompt(request),
            includes_stop=includes_stop,
            names=names,
        )

    def _room(
        self, messages: object, options: Mapping[str, Any], form: AnswerForm
    ) -> int:
        """Return the number of tokens left for an answer after prompt and thought."""
        arguments = dict(options)
        if form.constraint and arguments.get("thinking") is None:
            arguments["thinking"] = False  # a constraint turns thinking off by default
        generate_options = GenerateOptions(**arguments, sampling={"max_tokens": 1})
        if form.constraint == "schema" and generate_options.show_schema:
            (messages,) = with_schemas([messages], [schema_text(form.value)[0]])
        n_ctx, most = self._settings.n_ctx_of(self._model), self._settings.max_tokens
        (prompt,) = rendered_prompts(
            self._model, [messages], generate_options, is_constrained=False
        )
        if _most_tokens(prompt) + most <= n_ctx:  # avoids tokenizing the prompt twice
            return most
        requests, _ = make_requests(self._model, [messages], generate_options)
        thought = requests[0].thought
        n_before = len(requests[0].tokens) + (0 if thought is None else thought.n_cells)
        return max(1, min(most, n_ctx - n_before))


class RewrittenChat(AnswerFormat):
    """Base class of formats whose requests are rewritten as requests of chats.

    `names` maps names in chats to fields, for errors; `length` limits the answer.
    """

    names: ClassVar[Mapping[str, str]]
    length: ClassVar[str]

    def __init__(self, served: Served) -> None:
        super().__init__(served)
        self._chats = ChatCompletions(served)

    def understand(self, fields: dict[str, object]) -> ParsedRequest:
        request = self.effective_fields(fields)
        if self.length in request:
            n_ctx = self._settings.n_ctx_of(self._model)
            check_answer_fits(self.length, request[self.length], n_ctx)
        try:
            with renaming_fields(self.names):
                parsed = self._chats.understand(self.as_chat(request))
        except ApiError as error:
            error.param = self.names.get(error.param or "", error.param)
            raise
        names = {key: self.names.get(field, field) for key, field in parsed.names.items()}
        return replace(parsed, names=names)

    @abstractmethod
    def as_chat(self, request: Mapping[str, object]) -> dict[str, object]:
        """Return a request in the format of `/v1/chat/completions`."""


def _most_tokens(rendered: Rendered) -> float:
    """Return an upper bound of the number of tokens of a prompt with its thought.

    Each token has at least one byte of the text, in which some tokenizers write each
    space as U+2581.
    """
    if not isinstance(rendered.prompt, str):
        return math.inf
    written = rendered.prompt.replace(" ", "\u2581")
    n_bytes = len(written.encode("utf-8", "surrogatepass"))
    n_thought = 0 if rendered.thought is None else rendered.thought.n_cells
    return n_bytes + _MOST_ADDED + n_thought


def _n_samples(request: Mapping[str, Any], n_prompts: int) -> int:
    """Return the number of answers to each prompt."""
    n: int = request.get("n", 1)
    if n * n_prompts > running.MOST_ANSWERS:
        text = f"a request may have {running.MOST_ANSWERS} answers, not {n * n_prompts}"
        raise bad_field("n" if n > 1 else "prompt", text)
    return n


def _max_tokens_of(
    request: Mapping[str, object], n_ctx: int, least: int = 1
) -> int | None:
    """Return `max_tokens` or `max_completion_tokens` of a request; None if not given."""
    limits = {
        name: checks.integer(name, request[name], least)
        for name in ("max_tokens", "max_completion_tokens")
        if name in request
    }
    for name, n in limits.items():
        check_answer_fits(name, n, n_ctx)
    if len(set(limits.values())) > 1:
        raise bad_field("max_tokens", "max_tokens and max_completion_tokens differ")
    return next(iter(limits.values()), None)


def _stream_options(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return options: whether to stream, and whether end and pieces have the usage."""
    stream = checks.flag("stream", request.get("stream", False))
    if "stream_options" in request and not stream:
        raise bad_field("stream_options", "stream_options is for streams")
    options = request.get("stream_options", {})
    at_end, in_pieces = (options.get(name) or False for name in _OF_STREAMS)
    # As in vLLM, pieces have the usage only if the stream ends with the usage.
    return {
        "stream": stream,
        "with_usage": at_end,
        "with_running_usage": at_end and in_pieces,
    }


def chat_properties(without: Collection[str]) -> dict[str, Schema]:
    """Return the JSON Schemas of the fields of chats that another API has, too."""
    properties = ChatCompletions.properties()
    return {name: schema for name, schema in properties.items() if name not in without}
