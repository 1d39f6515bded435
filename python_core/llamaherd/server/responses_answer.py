"""Answers of `/v1/responses`, as one object or as events."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.server.answers import FormWriter, ServedAnswer
from llamaherd.server.protocol import dumps
from llamaherd.server.running import ParsedRequest, counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.outcome import TokenLogprob
    from llamaherd.engine.core.results import Result
    from llamaherd.engine.model.model import Model
    from llamaherd.server.logprobs import LogprobsWriter
    from llamaherd.server.tools import FunctionCall

_Item = dict[str, Any]


class ResponseWriter(FormWriter):
    """Writer of one response."""

    def __init__(self, model: Model, model_name: str, parsed: ParsedRequest) -> None:
        super().__init__(model, model_name, parsed)
        self._id = _new_id("resp")
        self._created = int(time.time())
        self._n_events = 0
        self._output: list[_Item] = []  # items that are complete
        self._open: _Item | None = None  # item whose text is being sent
        reasoning: Any = parsed.repeated.get("reasoning") or {}
        self._is_summary = reasoning.get("summary") is not None

    def body(self, replies: Sequence[ServedAnswer]) -> dict[str, object]:
        (reply,) = replies
        status = _status(reply.reason)
        if reply.result.thinking is not None:
            self._output.append(self._reasoning(reply.result.thinking, "completed"))
        if reply.text is not None:
            message = _message(reply.text, status, self._logprobs_of(reply.result))
            self._output.append({**message, **reply.invalid})
        self._output += [_call(call, status) for call in reply.calls]
        return self._response(status, reply.result)

    def start(self) -> str:
        response = self._response("in_progress")
        names = ("response.created", "response.in_progress")
        return "".join(self._event(name, response=response) for name in names)

    def thought(self, text: str) -> str:
        return self._grow(self._reasoning("", "in_progress"), text)

    def text(self, text: str, _n_tokens: int) -> str:
        new = _message("", "in_progress", [])
        if self._split is None or self._logprobs is None or not text:
            return self._grow(new, text)
        return self._grow(
            new, text, _content_logprobs(self._logprobs, self._split.take())
        )

    def finish(self, reply: ServedAnswer) -> str:
        status, events = _status(reply.reason), []
        if reply.text is not None and (reply.text or not reply.calls):
            events.append(self.text("", 0))  # begins the message of an empty answer
        if self._open is not None and self._open["type"] == "message":
            self._open |= reply.invalid
        events.append(self._close(status, self._logprobs_of(reply.result)))
        events += [self._whole_call(call, status) for call in reply.calls]
        name = "response.completed" if status == "completed" else "response.incomplete"
        events.append(self._event(name, response=self._response(status, reply.result)))
        return "".join(events)

    def _grow(self, new: _Item, piece: str, logprobs: Sequence[object] = ()) -> str:
        """Return the events of a piece; before them, the events that begin a new item."""
        events = ""
        if self._open is None or self._open["type"] != new["type"]:
            events = self._close("completed")
            self._open = new
            part = _part(new)
            names = _NAMES[part["type"]]
            empty = {**new, names.parts: []}
            events += self._event("response.output_item.added", item=empty)
            events += self._event(f"{names.part}.added", **names.place, part=part)
        part = _part(self._open)
        part["text"] += piece
        if not piece:
            return events
        names = _NAMES[part["type"]]
        fields = {"logprobs": logprobs} if "logprobs" in part else {}
        return events + self._event(
            f"{names.text}.delta", **names.place, delta=piece, **fields
        )

    def _close(self, status: str, logprobs: list[Any] | None = None) -> str:
        """Return the events that end the item whose text is being sent."""
        item = self._open
        if item is None:
            return ""
        part = _part(item)
        names = _NAMES[part["type"]]
        text = {"text": part["text"]}
        if "logprobs" in part:
            part["logprobs"] = text["logprobs"] = logprobs or []
        item["status"] = status
        events = (
            self._event(f"{names.text}.done", **names.place, **text)
            + self._event(f"{names.part}.done", **names.place, part=part)
            + self._event("response.output_item.done", item=item)
        )
        self._output.append(item)
        self._open = None
        return events

    def _whole_call(self, call: FunctionCall, status: str) -> str:
        """Return the events of a call, which is sent in one piece."""
        item = _call(call, status)
        self._open = {**item, "arguments": "", "status": "in_progress"}
        name = "response.function_call_arguments"
        written = {"arguments": call.arguments, "name": call.name}
        events = (
            self._event("response.output_item.added", item=self._open)
            + self._event(f"{name}.delta", delta=call.arguments)
            + self._event(f"{name}.done", **written)
            + self._event("response.output_item.done", item=item)
        )
        self._open = None
        self._output.append(item)
        return events

    def _event(self, name: str, /, **fields: object) -> str:
        """Return an event; an event of an item has the index of the item."""
        where: dict[str, object] = {}
        if "response" not in fields:
            where["output_index"] = len(self._output)
            if self._open is not None and "item" not in fields:
                where["item_id"] = self._open["id"]
        data = {"type": name, "sequence_number": self._n_events, **where, **fields}
        self._n_events += 1
        return f"event: {name}\ndata: {dumps(data)}\n\n"

    def _response(self, status: str, result: Result | None = None) -> dict[str, object]:
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "completed_at": int(time.time()) if status == "completed" else None,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": cut,
            "model": self._model_name,
            "output": self._output,
            "previous_response_id": None,
            "store": False,
            "truncation": "disabled",
            **self._parsed.repeated,
            "usage": None if result is None else _usage(result),
        }

    def _reasoning(self, text: str, status: str) -> _Item:
        """Return the item of a thought; a requested summary is the whole thought."""
        item: _Item = {"id": _new_id("rs"), "type": "reasoning", "status": status}
        if self._is_summary:
            return {**item, "summary": [{"type": "summary_text", "text": text}]}
        content = [{"type": "reasoning_text", "text": text}]
        return {**item, "summary": [], "content": content}

    def _logprobs_of(self, result: Result) -> list[Any]:
        if self._logprobs is None:
            return []
        return _content_logprobs(self._logprobs, self._logprobs.rows(result))


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of the fields and events for one kind of text."""

    text: str  # prefix of the names of the events that send a piece of the text
    part: str  # prefix of the names of the events that begin or end the part of an item
    parts: str = "content"  # field of the item that contains the list of parts
    # Field of the events that contains the index of the part.
    index: str = "content_index"

    @property
    def place(self) -> dict[str, int]:
        """Index of the only part, as a field of events."""
        return {self.index: 0}


_NAMES = {
    "output_text": _Names("response.output_text", "response.content_part"),
    "reasoning_text": _Names("response.reasoning_text", "response.content_part"),
    "summary_text": _Names(
        "response.reasoning_summary_text",
        "response.reasoning_summary_part",
        "summary",
        "summary_index",
    ),
}


def _part(item: _Item) -> _Item:
    """Return the only part of an item."""
    parts: list[_Item] = item.get("content") or item["summary"]
    (part,) = parts
    return part


def _content_logprobs(writer: LogprobsWriter, rows: Sequence[TokenLogprob]) -> list[Any]:
    content = writer.chat(rows)["content"]
    return list(content) if isinstance(content, list) else []


def _new_id(start: str) -> str:
    return f"{start}_{secrets.token_hex(16)}"


def _status(reason: str) -> str:
    return "incomplete" if reason == "length" else "completed"


def _message(text: str, status: str, logprobs: list[Any]) -> _Item:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
    return {
        "id": _new_id("msg"),
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [part],
    }


def _call(call: FunctionCall, status: str) -> _Item:
    return {
        "id": _new_id("fc"),
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "status": status,
    }


def _usage(result: Result) -> dict[str, object]:
    n_prompt, n_new = counts([result])
    return {
        "input_tokens": n_prompt,
        "input_tokens_details": {
            "cached_tokens": result.n_reused_tokens,
            "cache_write_tokens": 0,  # no cost in this server
        },
        "output_tokens": n_new,
        "output_tokens_details": {"reasoning_tokens": result.n_thinking_tokens},
        "total_tokens": n_prompt + n_new,
    }
