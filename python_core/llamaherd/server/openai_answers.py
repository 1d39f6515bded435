"""Answers as OpenAI's API has them."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from llamaherd.server.messages import dumps
from llamaherd.server.wanted import usage

if TYPE_CHECKING:
    from llamaherd.core.results import Result

_DONE = "data: [DONE]\n\n"


class _OpenAiAnswer(ABC):
    """What answers of both kinds have in common."""

    _prefix: str  # of the answer's id
    _object: str
    _chunk_object: str

    def __init__(self, model_name: str, *, with_usage: bool) -> None:
        self._id = f"{self._prefix}-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._model_name = model_name
        self._with_usage = with_usage
        # With usage, all chunks but the one that has it say that they have none.
        no_usage = ',"usage":null' if with_usage else ""
        head = dumps(self._head(self._chunk_object))[:-1]
        self._before_choice = f'data: {head}{no_usage},"choices":['

    def whole(self, result: Result) -> dict[str, object]:
        """See `Answer`."""
        choice = {"index": 0, **self._all(result.text or ""), "logprobs": None}
        choice["finish_reason"] = result.finish_reason
        return {**self._head(self._object), "choices": [choice], "usage": usage(result)}

    def end(self, result: Result) -> str:
        """See `Answer`."""
        last = {"index": 0, **self._nothing(), "logprobs": None}
        last["finish_reason"] = result.finish_reason
        events = [self._chunk(dumps(last))]
        if self._with_usage:
            used = {"choices": [], "usage": usage(result)}
            events.append(
                f"data: {dumps({**self._head(self._chunk_object), **used})}\n\n"
            )
        return "".join((*events, _DONE))

    def _chunk(self, choice: str) -> str:
        return f"{self._before_choice}{choice}]}}\n\n"

    def _head(self, kind: str) -> dict[str, object]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model_name,
        }

    @abstractmethod
    def _all(self, text: str) -> dict[str, object]:
        """The whole text, in a choice."""

    @abstractmethod
    def _nothing(self) -> dict[str, object]:
        """No more text, in a choice of a chunk."""


class CompletionAnswer(_OpenAiAnswer):
    """Of `/v1/completions`."""

    _prefix = "cmpl"
    _object = _chunk_object = "text_completion"

    def start(self) -> str:
        """See `Answer`."""
        return ""

    def piece(self, text: str) -> str:
        """See `Answer`."""
        return self._chunk(
            f'{{"index":0,"text":{dumps(text)},"logprobs":null,"finish_reason":null}}'
        )

    def _all(self, text: str) -> dict[str, object]:
        return {"text": text}

    def _nothing(self) -> dict[str, object]:
        return {"text": ""}


class ChatAnswer(_OpenAiAnswer):
    """Of `/v1/chat/completions`."""

    _prefix = "chatcmpl"
    _object = "chat.completion"
    _chunk_object = "chat.completion.chunk"

    def start(self) -> str:
        """Tells who speaks."""
        return self._delta('"role":"assistant","content":""')

    def piece(self, text: str) -> str:
        """See `Answer`."""
        return self._delta(f'"content":{dumps(text)}')

    def _delta(self, inside: str) -> str:
        return self._chunk(
            f'{{"index":0,"delta":{{{inside}}},"logprobs":null,"finish_reason":null}}'
        )

    def _all(self, text: str) -> dict[str, object]:
        return {"message": {"role": "assistant", "content": text, "refusal": None}}

    def _nothing(self) -> dict[str, object]:
        return {"delta": {}}
