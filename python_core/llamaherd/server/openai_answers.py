"""Answers in the format of OpenAI's API."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import llamaherd
from llamaherd.server.echo import EchoedResult
from llamaherd.server.logprobs import LogprobStream, LogprobsWriter, Positions
from llamaherd.server.protocol import dumps
from llamaherd.server.sampling import stop_of, with_stop
from llamaherd.server.shapes import usage
from llamaherd.server.tool_calls import CallStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.outcome import TextPiece, TokenLogprob
    from llamaherd.engine.core.results import Result
    from llamaherd.engine.model.model import Model
    from llamaherd.server.shapes import ParsedRequest
    from llamaherd.server.tools import FunctionCall

_DONE = "data: [DONE]\n\n"


class _OpenAiAnswer(ABC):
    """Base class of the answers of chats and of completions."""

    _prefix: str  # prefix of the id of an answer
    _object: str
    _chunk_object: str

    def __init__(
        self,
        model: Model,
        model_name: str,
        parsed: ParsedRequest,
        logprobs: LogprobsWriter | None,
    ) -> None:
        self._model = model
        self._id = f"{self._prefix}-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._model_name = model_name
        self._parsed = parsed
        self._logprobs = logprobs
        self._split = None if logprobs is None else LogprobStream(logprobs)
        self._chunk_head = ""  # made with the first chunk

    def whole(self, results: Sequence[Result]) -> dict[str, object]:
        """See `AnswerWriter`."""
        results = [self._shown(each) for each in results]
        choices = [
            {
                "index": i,
                **self._all(result),
                "logprobs": self._logprobs_of(result),
                "finish_reason": self._reason(result),
            }
            for i, result in enumerate(results)
        ]
        head = self._head(self._object)
        whole = {**head, "choices": choices, "usage": usage(results)}
        n_top = self._parsed.prompt_logprobs
        if n_top is not None:
            writer = LogprobsWriter(self._model, n_top)
            self._add_prompts(whole, choices, [writer.prompt(each) for each in results])
        return whole

    def _add_prompts(
        self,
        whole: dict[str, object],  # noqa: ARG002 - of a chat
        choices: Sequence[dict[str, object]],
        each: Sequence[object],
    ) -> None:
        """Add the log-probabilities of the prompts at the keys of vLLM's API."""
        for choice, prompt in zip(choices, each, strict=True):
            choice["prompt_logprobs"] = prompt

    def piece(self, piece: TextPiece) -> str:
        """See `AnswerWriter`. With log-probabilities, a chunk ends where a token ends."""
        text = piece if self._split is None else self._split.add(piece)
        return self._text(text, piece.n_tokens) if text else ""

    def end(self, results: Sequence[Result]) -> str:
        """See `AnswerWriter`.

        An answer that is sent at the end has its log-probabilities in its first chunk.
        The last chunk has the log-probabilities of tokens without text.
        """
        events = []
        for i, result in enumerate(results):
            shown = self._shown(result)
            if self._is_at_end:
                late = self._late(i, shown)
                logprobs = self._logprobs_of(shown)
                if late:
                    late[0]["logprobs"], logprobs = logprobs, None
                events += [self._chunk(dumps(each)) for each in late]
            else:
                events.append(self._rest(result, shown))
                logprobs = self._new_logprobs()
            n_tokens = result.n_thinking_tokens + result.n_generated_tokens
            last = {
                "index": i,
                **self._nothing(),
                "logprobs": logprobs,
                "finish_reason": self._reason(result),
            }
            events.append(self._chunk(dumps(last), n_tokens))
        if self._parsed.with_usage:
            used = {"choices": [], "usage": usage(results)}
            events.append(
                f"data: {dumps({**self._head(self._chunk_object), **used})}\n\n"
            )
        return "".join((*events, _DONE))

    def _rest(self, result: Result, shown: Result) -> str:
        """Return the event of the text that was held back, and of the stop text."""
        text = self._stop(result)
        if self._split is not None and self._logprobs is not None:
            text = self._split.end(self._logprobs.rows(shown)) + text
        return self._text(text, result.n_generated_tokens) if text else ""

    def _new_logprobs(self) -> dict[str, Any] | None:
        """Return the log-probabilities of the text that was not sent yet."""
        rows = () if self._split is None else self._split.take()
        return self._logprobs_of_rows(rows) if rows else None

    def _stop(self, result: Result) -> str:
        """Return the stop text to add at the end of an answer; "" to add nothing."""
        own = self._parsed
        return (
            stop_of(self._model, result, own.params.stop or ())
            if own.includes_stop
            else ""
        )

    def _shown(self, result: Result) -> Result:
        own = self._parsed
        if not own.includes_stop:
            return result
        return with_stop(self._model, result, own.params.stop or ())

    @property
    def _is_at_end(self) -> bool:
        """Whether a stream sends complete answers at its end instead of pieces."""
        return self._parsed.n_answers > 1 or self._parsed.echo

    def _chunk(self, choice: str, n_tokens: int = 0) -> str:
        """Return an event with a choice; n_tokens is the number of tokens so far."""
        # With usage, all chunks except the last have a null usage, or the usage so far.
        shown = ',"usage":null' if self._parsed.with_usage else ""
        if self._parsed.with_running_usage:
            n_prompt = self._parsed.n_prompt_tokens
            shown = (
                f',"usage":{{"prompt_tokens":{n_prompt},"completion_tokens":{n_tokens},'
                f'"total_tokens":{n_prompt + n_tokens}}}'
            )
        if not self._chunk_head:
            self._chunk_head = f"data: {dumps(self._head(self._chunk_object))[:-1]}"
        return f'{self._chunk_head}{shown},"choices":[{choice}]}}\n\n'

    def _head(self, kind: str) -> dict[str, object]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model_name,
            "system_fingerprint": f"llamaherd-{llamaherd.__version__}",
        }

    def _reason(self, result: Result) -> str:
        return str(result.finish_reason)

    @abstractmethod
    def _text(self, text: str, n_tokens: int) -> str:
        """Return the event of a part of the answer, with its log-probabilities."""

    @abstractmethod
    def _all(self, result: Result) -> dict[str, object]:
        """Return a choice with the whole text."""

    @abstractmethod
    def _late(self, index: int, result: Result) -> list[dict[str, object]]:
        """Return the chunks of an answer that is sent at the end."""

    @abstractmethod
    def _nothing(self) -> dict[str, object]:
        """Return the text field of a choice whose chunk has no text."""

    @abstractmethod
    def _logprobs_of(self, result: Result) -> dict[str, Any] | None:
        """Return the log-probabilities of an answer; None if they were not requested."""

    @abstractmethod
    def _logprobs_of_rows(self, rows: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        """Return the log-probabilities of the next part of an answer."""


class CompletionAnswer(_OpenAiAnswer):
    """Answer of `/v1/completions`."""

    _prefix = "cmpl"
    _object = _chunk_object = "text_completion"

    def __init__(
        self,
        model: Model,
        model_name: str,
        parsed: ParsedRequest,
        logprobs: LogprobsWriter | None,
    ) -> None:
        super().__init__(model, model_name, parsed, logprobs)
        self._at = Positions()  # end of the log-probabilities that were sent

    def start(self) -> str:
        """See `AnswerWriter`."""
        return ""

    def _text(self, text: str, n_tokens: int) -> str:
        logprobs = dumps(self._new_logprobs())
        return self._chunk(
            f'{{"index":0,"text":{dumps(text)},"logprobs":{logprobs},'
            '"finish_reason":null}',
            n_tokens,
        )

    def _all(self, result: Result) -> dict[str, object]:
        echo = result.echo if isinstance(result, EchoedResult) else None
        return {"text": f"{echo or ''}{result.text or ''}"}

    def _late(self, index: int, result: Result) -> list[dict[str, object]]:
        return [{"index": index, **self._all(result), **_OPEN}]

    def _nothing(self) -> dict[str, object]:
        return {"text": ""}

    def _logprobs_of(self, result: Result) -> dict[str, Any] | None:
        return None if self._logprobs is None else self._logprobs.whole_completion(result)

    def _logprobs_of_rows(self, rows: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        return (
            None if self._logprobs is None else self._logprobs.completion(rows, self._at)
        )


_OPEN: dict[str, object] = {"logprobs": None, "finish_reason": None}


class ChatAnswer(_OpenAiAnswer):
    """Answer of `/v1/chat/completions`."""

    _prefix = "chatcmpl"
    _object = "chat.completion"
    _chunk_object = "chat.completion.chunk"

    def __init__(
        self,
        model: Model,
        model_name: str,
        parsed: ParsedRequest,
        logprobs: LogprobsWriter | None,
    ) -> None:
        super().__init__(model, model_name, parsed, logprobs)
        self._reads: dict[int, tuple[str | None, list[FunctionCall], str]] = {}
        use = parsed.tools
        # A forced call, whose arguments are streamed.
        self._call = CallStream(use.forced) if use is not None and use.forced else None

    def start(self) -> str:
        """Return the first event of each answer, with the role.

        As in OpenAI's API, the content is null if the answer may be a call, since a call
        has no content.
        """
        content = '""' if self._parsed.tools is None else "null"
        return "".join(
            self._delta(f'"role":"assistant","content":{content}', i)
            for i in range(self._parsed.n_answers)
        )

    def piece(self, piece: TextPiece) -> str:
        """See `AnswerWriter`. vLLM and llama-server use the same field for thoughts."""
        if piece.kind == "thinking":
            return self._delta(f'"reasoning_content":{dumps(piece)}')
        return super().piece(piece)

    def _text(self, text: str, n_tokens: int) -> str:
        parts = [f'"content":{dumps(text)}']
        if self._call is not None:
            calls = self._call.add(text)
            parts = [f'"tool_calls":[{dumps(call)}]' for call in calls]
        elif self._parsed.tools is not None:
            parts = []  # a possible call is read when it is complete
        if not parts:
            return ""
        last = self._delta(parts[-1], 0, n_tokens, dumps(self._new_logprobs()))
        return "".join([*(self._delta(part, 0, n_tokens) for part in parts[:-1]), last])

    def _delta(
        self, inside: str, index: int = 0, n_tokens: int = 0, logprobs: str = "null"
    ) -> str:
        start = f'{{"index":{index},"delta":{{{inside}}}'
        choice = f'{start},"logprobs":{logprobs},"finish_reason":null}}'
        return self._chunk(choice, n_tokens)

    @property
    def _is_at_end(self) -> bool:
        if super()._is_at_end:
            return True
        is_streamed = self._call is not None and self._call.has_begun
        return self._parsed.tools is not None and not is_streamed

    def _read(self, result: Result) -> tuple[str | None, list[FunctionCall], str]:
        """Return content, calls and finish reason; parse each answer only once."""
        if id(result) not in self._reads:
            self._reads[id(result)] = self._parsed.read(self._model, result)
        return self._reads[id(result)]

    def _reason(self, result: Result) -> str:
        return self._read(result)[2]

    def _add_prompts(
        self,
        whole: dict[str, object],
        choices: Sequence[dict[str, object]],  # noqa: ARG002 - of completions
        each: Sequence[object],
    ) -> None:
        whole["prompt_logprobs"] = each[0]  # all answers have the same prompt

    def _all(self, result: Result) -> dict[str, object]:
        content, calls, _ = self._read(result)
        message: dict[str, object] = {
            "role": "assistant",
            "content": content,
            "refusal": None,
        }
        if calls:
            message["tool_calls"] = [call.shape for call in calls]
        message |= self._parsed.invalid_calls(self._model, result)
        if result.thinking is not None:  # clients read one of these two names
            message |= dict.fromkeys(("reasoning_content", "reasoning"), result.thinking)
        return {"message": message}

    def _late(self, index: int, result: Result) -> list[dict[str, object]]:
        content, calls, _ = self._read(result)
        deltas: list[dict[str, object]] = []
        if self._parsed.n_answers > 1 and result.thinking:
            deltas.append({"reasoning_content": result.thinking})
        if content or (content is not None and self._parsed.tools is not None):
            deltas.append(
                {"content": content, **self._parsed.invalid_calls(self._model, result)}
            )
        if calls:
            parts = [{"index": i, **call.shape} for i, call in enumerate(calls)]
            deltas.append({"tool_calls": parts})
        return [{"index": index, "delta": delta, **_OPEN} for delta in deltas]

    def _nothing(self) -> dict[str, object]:
        return {"delta": {}}

    def _logprobs_of(self, result: Result) -> dict[str, Any] | None:
        own = self._logprobs
        return None if own is None else own.chat(own.rows(result))

    def _logprobs_of_rows(self, rows: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        return None if self._logprobs is None else self._logprobs.chat(rows)
