"""Ollama's API: `/api/chat`, `/api/embed`, `/api/tags` and `/api/show`.

Requests are rewritten as requests of `/v1/chat/completions` and `/v1/embeddings`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field
from llamaherd.engine.core.stats import RequestStats
from llamaherd.server import schemas
from llamaherd.server.answers import FormWriter, ServedAnswer
from llamaherd.server.embeddings import EmbeddingsApi
from llamaherd.server.errors import ApiError
from llamaherd.server.formats import (
    PathFormat,
    Prepared,
    check_answer_fits,
)
from llamaherd.server.openai import ChatCompletions, RewrittenChat
from llamaherd.server.protocol import dumps
from llamaherd.server.running import counts
from llamaherd.server.schemas import (
    OBJECT,
    TEXT,
    Schema,
    either,
    list_schema,
    part,
    record,
    whole,
    with_more,
)
from llamaherd.server.tools import TOOL_FIELDS
from llamaherd.server.unused_fields import OF_CLIENTS, UnusedField

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llamaherd.calls.run.embedding import Embeddings
    from llamaherd.engine.model.loading import ModelHeader
    from llamaherd.engine.model.model import Model
    from llamaherd.server.state import ModelStatus

_BILLION = 1_000_000_000
_NOT_SET = "a request cannot set it"
_UNUSED = {
    "system": UnusedField(TEXT, ("",), _NOT_SET),
    "template": UnusedField(TEXT, ("",), _NOT_SET),
    "options": UnusedField(OBJECT, ({},), _NOT_SET),
}

# Models stay in memory.
_NEUTRAL = {"keep_alive": UnusedField(either(TEXT, schemas.NUMBER), None)}
# Options of chats; each of them has the same name there.
_OF_CHATS = frozenset(
    {
        *("temperature", "top_k", "top_p", "min_p", "typical_p", "seed", "stop"),
        *("repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty"),
        *("mirostat", "mirostat_tau", "mirostat_eta"),
    }
)
# Options of loading a model, which a request cannot set, and of older versions.
_OF_LOADING: dict[str, Schema] = {
    **dict.fromkeys(
        ("num_ctx", "num_batch", "num_gpu", "num_keep", "num_thread", "main_gpu"),
        schemas.WHOLE,
    ),
    **dict.fromkeys(
        ("low_vram", "numa", "use_mmap", "use_mlock", "penalize_newline"), schemas.FLAG
    ),
    "tfs_z": schemas.NUMBER,
}
_LOADING = part(**_OF_LOADING)
_OPTIONS = part(
    num_predict=schemas.WHOLE,
    **{
        name: schema
        for name, schema in ChatCompletions.properties().items()
        if name in _OF_CHATS
    },
    **_OF_LOADING,
)
_MESSAGE = with_more(
    part(
        role=schemas.TEXT,
        thinking=schemas.TEXT,
        tool_name=schemas.TEXT,
        tool_calls=list_schema(
            with_more(
                part(
                    {
                        "function": with_more(
                            part({"name": schemas.TEXT}, arguments=schemas.OBJECT)
                        )
                    }
                )
            )
        ),
    )
)
_NAMES = {
    "response_format": "format",
    "reasoning_effort": "think",
    "thinking": "think",
    **{name: f"options.{name}" for name in _OF_CHATS},
}


class _ChatWriter(FormWriter):
    """Writer of an answer of `/api/chat`: one object, or one object in each line."""

    def body(self, replies: Sequence[ServedAnswer]) -> dict[str, object]:
        (reply,) = replies
        message = {"content": reply.text or "", **_calls(reply)}
        if reply.result.thinking is not None:
            message["thinking"] = reply.result.thinking
        return self._object(message, **_ending(reply))

    def thought(self, text: str) -> str:
        return self._line({"content": "", "thinking": text})

    def text(self, text: str, _n_tokens: int) -> str:
        return self._line({"content": text})

    def late(self, reply: ServedAnswer) -> str:
        if not (reply.text or reply.calls):
            return ""
        return self._line({"content": reply.text or "", **_calls(reply)})

    def finish(self, reply: ServedAnswer) -> str:
        return self._line({"content": ""}, **_ending(reply))

    def _line(self, message: dict[str, object], **more: object) -> str:
        return f"{dumps(self._object(message, **more))}\n"

    def _object(self, message: dict[str, object], **more: object) -> dict[str, object]:
        return {
            "model": self._model_name,
            "created_at": datetime.now(UTC).isoformat(),
            "message": {"role": "assistant", **message},
            "done": False,
            **more,
        }


def _calls(reply: ServedAnswer) -> dict[str, object]:
    calls = [
        {"function": {"name": call.name, "arguments": json.loads(call.arguments)}}
        for call in reply.calls
    ]
    return {"tool_calls": calls} if calls else {}


def _ending(reply: ServedAnswer) -> dict[str, object]:
    """Return the last fields of an answer; times are in nanoseconds."""
    n_prompt, n_new = counts([reply.result])
    stats = reply.result.stats or RequestStats()
    seconds = {
        "total_duration": stats.wall_s,
        "prompt_eval_duration": stats.prefill_s,
        "eval_duration": stats.decode_s,
    }
    return {
        "done": True,
        "done_reason": "length" if reply.reason == "length" else "stop",
        "prompt_eval_count": n_prompt,
        "eval_count": n_new,
        **{name: int(1e9 * wait_s) for name, wait_s in seconds.items()},
    }


class OllamaChat(RewrittenChat):
    """Format of `/api/chat`. Answers are streams unless `stream` is false."""

    path = "/api/chat"
    summary = "Answer a conversation, as Ollama's API does."
    field_schemas: ClassVar = {
        "model": schemas.TEXT,
        "messages": list_schema(_MESSAGE, minItems=1),
        "stream": schemas.FLAG,
        "format": either({**schemas.TEXT, "enum": ["", "json"]}, schemas.OBJECT),
        "options": _OPTIONS,
        "think": either(schemas.FLAG, schemas.TEXT),
        "tools": TOOL_FIELDS["tools"],
    }
    needed = ("messages",)
    names = _NAMES
    length = ""  # in `options`
    unused: ClassVar = {**OF_CLIENTS, **_NEUTRAL}
    answers = record(
        model=schemas.TEXT, message=record(role=schemas.TEXT), done=schemas.FLAG
    )
    has_v1 = False
    media_type = "application/x-ndjson"
    writer = _ChatWriter

    @classmethod
    def error_event(cls, error: ApiError) -> str:
        """Return an error within a stream, which is its last line."""
        return f"{dumps({'error': str(error)})}\n"

    def as_chat(self, request: Mapping[str, Any]) -> dict[str, object]:
        chat = {"tools": request["tools"]} if "tools" in request else {}
        chat["messages"] = _messages(request["messages"])
        chat["stream"] = request.get("stream", True)
        options = {k: v for k, v in request.get("options", {}).items() if v is not None}
        chat |= {name: value for name, value in options.items() if name in _OF_CHATS}
        if options.get("num_predict", -1) != -1:  # -1: as many tokens as fit
            where = Argument("options", (Field("num_predict"),))
            n = checks.integer(where, options["num_predict"], 1)
            check_answer_fits(where.dotted(), n, self._settings.n_ctx_of(self._model))
            chat["max_completion_tokens"] = n
        form = request.get("format", "")
        if form == "json":
            chat["response_format"] = {"type": "json_object"}
        elif form != "":
            chat["response_format"] = {"type": "json_schema", "schema": form}
        if "think" in request:
            is_level = isinstance(request["think"], str)
            chat["reasoning_effort" if is_level else "thinking"] = request["think"]
        return chat


def _messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Return the conversation in the format of chats."""
    chat_messages = []
    for message in messages:
        fields = dict(message)
        fields["reasoning_content"] = fields.pop("thinking", None)
        fields["tool_calls"] = [_call(call) for call in fields.get("tool_calls") or ()]
        fields.pop("tool_name", None)
        chat_messages.append({key: value for key, value in fields.items() if value})
        chat_messages[-1].setdefault("content", "")
    return chat_messages


def _call(call: Mapping[str, Any]) -> dict[str, object]:
    function = call["function"]
    arguments = json.dumps(function.get("arguments") or {}, ensure_ascii=False)
    return {"type": "function", "function": {**function, "arguments": arguments}}


class OllamaEmbed(EmbeddingsApi):
    """Format of `/api/embed`."""

    path = "/api/embed"
    summary = "Compute vectors of texts, as Ollama's API does."
    options = None
    field_schemas: ClassVar = {
        "model": schemas.TEXT,
        "input": either(
            schemas.SOME_TEXT, list_schema(schemas.SOME_TEXT, **schemas.ITEMS)
        ),
        "truncate": schemas.FLAG,
        "dimensions": whole(1),
        "options": _LOADING,
    }
    unused: ClassVar = {**OF_CLIENTS, **_NEUTRAL}
    answers = record(
        model=schemas.TEXT,
        embeddings=list_schema(list_schema(schemas.NUMBER)),
        prompt_eval_count=schemas.COUNT,
    )
    has_v1 = False
    in_batches = False

    def prepare(self, fields: dict[str, object]) -> Prepared[Embeddings]:
        request = self.effective_fields(fields)
        request.pop("options", None)
        prepared = self.prepared({"truncate": True, **request})

        def render(embeddings: Embeddings) -> dict[str, object]:
            body: Any = prepared.render(embeddings)
            vectors = [row["embedding"] for row in body["data"]]
            n = body["usage"]["prompt_tokens"]
            return {"model": body["model"], "embeddings": vectors, "prompt_eval_count": n}

        return Prepared(prepared.work, render, prepared.kind)


def tags(entries: Iterable[ModelStatus], created: int) -> dict[str, object]:
    """Return the names of models, as Ollama lists the models of a machine."""
    when = datetime.fromtimestamp(created, UTC).isoformat()
    models = [
        {
            "name": entry.name,
            "model": entry.name,
            "modified_at": when,
            "size": entry.size_bytes if entry.model is None else entry.model.size_bytes,
            "digest": "",
            "details": _details_of(entry),
        }
        for entry in entries
    ]
    return {"models": models}


def _details_of(entry: ModelStatus) -> dict[str, object]:
    model = entry.model
    if model is None:
        return _details("", None, entry.parent)
    kind = model.metadata.get("general.architecture", "")
    return _details(kind, model.info.n_params, entry.parent)


class ShowApi(PathFormat):
    """Format of `/api/show`, see `ShowModel`."""

    path = "/api/show"
    summary = "Describe a model in the format of Ollama."
    field_schemas: ClassVar = {
        "model": schemas.TEXT,
        "name": schemas.TEXT,
        "verbose": schemas.FLAG,
    }
    unused: ClassVar = {**OF_CLIENTS, **_UNUSED}
    answers = record(details=schemas.OBJECT, capabilities=list_schema(schemas.TEXT))
    has_v1 = False


def model_of_show(fields: Mapping[str, object]) -> str:
    """Return the name of the model of a request of `/api/show`."""
    request = ShowApi.effective_fields(fields)
    name: str | None = request.get("model", request.get("name"))
    if name is None:
        raise ApiError(400, "model is missing", param="model", code="missing_field")
    return name


def describe_model(
    model: Model | ModelHeader, n_params: int | None = None, parent: str | None = None
) -> dict[str, object]:
    """Return the answer of `/api/show`."""
    metadata = model.metadata
    kind = metadata.get("general.architecture", "")
    info: dict[str, Any] = {"general.architecture": kind}
    if n_params is not None:
        info["general.parameter_count"] = n_params
    for name in ("context_length", "embedding_length"):
        text = metadata.get(f"{kind}.{name}", "")
        number = checks.digits(text)
        if number is not None:
            info[f"{kind}.{name}"] = number
    capabilities = ["completion"]
    if metadata.get(f"{kind}.attention.causal") == "false":
        capabilities = ["embedding"]
    elif model.chat_template is not None:
        capabilities.append("tools")  # forced calls need no template
    return {
        "license": metadata.get("general.license", ""),
        "modelfile": "",
        "parameters": "",
        "template": model.chat_template or "",
        "details": _details(kind, n_params, parent),
        "model_info": info,
        "capabilities": capabilities,
    }


def _details(
    kind: str, n_params: int | None, parent: str | None = None
) -> dict[str, object]:
    """Return the details of a model, as far as they are known before it is loaded."""
    size = ""
    if n_params is not None:
        is_large = n_params >= _BILLION
        size = f"{n_params / _BILLION:.1f}B" if is_large else f"{n_params / 1e6:.0f}M"
    return {
        "parent_model": parent or "",
        "format": "gguf",
        "family": kind,
        "families": [kind] if kind else [],
        "parameter_size": size,
        "quantization_level": "unknown",
    }
