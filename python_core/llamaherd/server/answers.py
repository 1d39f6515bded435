"""Writers of answers, and the answers of OpenAI's API."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import llamaherd
from llamaherd.server.echo import EchoedResult
from llamaherd.server.logprobs import LogprobStream, LogprobsWriter, Positions
from llamaherd.server.protocol import dumps
from llamaherd.server.running import ParsedRequest, usage
from llamaherd.server.sampling import stop_of, with_stop
from llamaherd.server.tool_calls import CallStream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.engine.core.outcome import TextPiece, TokenLogprob
    from llamaherd.engine.core.results import Result
    from llamaherd.engine.model.model import Model
    from llamaherd.server.tools import FunctionCall


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """One answer of a request, as all APIs show it."""

    index: int  # among the answers of the request
    result: Result  # its text ends with the stop text, if the request asks for that
    text: str | None  # None for an answer of calls only
    calls: Sequence[FunctionCall]
    reason: str  # finish reason of OpenAI's API
    invalid: Mapping[str, object]  # field with the calls that cannot be read, or {}


class FormWriter(ABC):
    """Writer of the answers of one request; each subclass is the form of an API.

    This class reads pieces and results; the methods of subclasses return complete events,
    ready to send.
    """

    streams_calls: ClassVar[bool] = False  # whether a forced call is sent in pieces

    def __init__(self, model: Model, model_name: str, parsed: ParsedRequest) -> None:
        self._model = model
        self._model_name = model_name
        self._parsed = parsed
        n_top = parsed.options.get("logprobs")
        self._logprobs = self._split = None
        if n_top is not None:
            is_choice = parsed.params.choices is not None
            self._logprobs = LogprobsWriter(model, n_top, is_choice=is_choice)
            self._split = LogprobStream(self._logprobs)
        use = parsed.tools
        is_forced = self.streams_calls and use is not None and use.forced
        self._call = CallStream(use.forced) if is_forced and use is not None else None

    def whole(self, results: Sequence[Result]) -> dict[str, object]:
        """Return all answers in one piece."""
        return self.body([self._reply(i, result) for i, result in enumerate(results)])

    def start(self) -> str:
        """Return the events before the first piece."""
        return ""

    def piece(self, piece: TextPiece) -> str:
        """Return the events of a piece of the thought or of the answer.

        With log-probabilities, a text ends where a token ends.
        """
        if piece.kind == "thinking":
            return self.thought(piece)
        text = piece if self._split is None else self._split.add(piece)
        return self._next(text, piece.n_tokens)

    def _next(self, text: str, n_tokens: int) -> str:
        if not text:
            return ""
        if self._call is not None:
            return self.call(self._call.add(text), n_tokens)
        if self._parsed.tools is not None:
            return ""  # a possible call is read when it is complete
        return self.text(text, n_tokens)

    def end(self, results: Sequence[Result]) -> str:
        """Return the events after the last piece; for several answers, all events."""
        events = []
        for i, result in enumerate(results):
            reply, n = self._reply(i, result), result.n_generated_tokens
            if self.is_late:
                events.append(self.late(reply))
            else:
                events.append(self._next(self._rest(reply, result), n))
            events.append(self.finish(reply))
        return "".join([*events, self.last(results)])

    def _rest(self, reply: ServedAnswer, result: Result) -> str:
        """Return the text that was held back, and the stop text."""
        text = ""
        if self._split is not None and self._logprobs is not None:
            text = self._split.end(self._logprobs.rows(reply.result))
        if self._parsed.includes_stop:
            text += stop_of(self._model, result, self._parsed.params.stop or ())
        return text

    def _reply(self, index: int, result: Result) -> ServedAnswer:
        parsed, use = self._parsed, self._parsed.tools
        if parsed.includes_stop:
            result = with_stop(self._model, result, parsed.params.stop or ())
        if use is None:
            reason = str(result.finish_reason)
            return ServedAnswer(index, result, result.text or "", (), reason, {})
        text, calls, reason = use.read(self._model, result)
        invalid = use.invalid(self._model, result)
        problems = {"invalid_tool_calls": invalid} if invalid else {}
        return ServedAnswer(index, result, text, calls, reason, problems)

    @property
    def is_late(self) -> bool:
        """Whether a stream sends complete answers at its end instead of pieces."""
        is_streamed = self._call is not None and self._call.has_begun
        is_call = self._parsed.tools is not None and not is_streamed
        return is_call or self._parsed.n_answers > 1 or self._parsed.echo

    @abstractmethod
    def body(self, replies: Sequence[ServedAnswer]) -> dict[str, object]:
        """Return all answers in one piece."""

    def thought(self, text: str) -> str:  # noqa: ARG002 - completions have none
        """Return the events of a part of the thought."""
        return ""

    @abstractmethod
    def text(self, text: str, n_tokens: int) -> str:
        """Return the events of a part of the answer, after `n_tokens` tokens."""

    def call(self, parts: Sequence[Mapping[str, Any]], n_tokens: int) -> str:
        """Return the events of parts of a forced call, if `streams_calls`."""
        raise NotImplementedError

    def late(self, reply: ServedAnswer) -> str:
        """Return the events of the text of an answer that was not sent in pieces."""
        return self.text(reply.text, 0) if reply.text else ""

    @abstractmethod
    def finish(self, reply: ServedAnswer) -> str:
        """Return the events at the end of an answer."""

    def last(self, results: Sequence[Result]) -> str:  # noqa: ARG002 - most APIs have none
        """Return the events after all answers."""
        return ""


class _OpenAiWriter(FormWriter):
    """Base class of the answers of chats and of completions.

    An answer that is sent at the end has its log-probabilities in its first chunk. The
    last chunk has the log-probabilities of tokens without text.
    """

    streams_calls = True
    _prefix: ClassVar[str]  # prefix of the id of an answer
    _object: ClassVar[str]
    _chunk_object: ClassVar[str]
    _nothing: ClassVar[Mapping[str, object]]  # content of a chunk without text

    def __init__(self, model: Model, model_name: str, parsed: ParsedRequest) -> None:
        super().__init__(model, model_name, parsed)
        self._id = f"{self._prefix}-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._chunk_head = ""  # made with the first chunk
        self._is_sent = False  # whether the log-probabilities of a late answer were sent

    def body(self, replies: Sequence[ServedAnswer]) -> dict[str, object]:
        choices = [
            {
                "index": reply.index,
                **self._choice_content(reply),
                "logprobs": self._logprobs_of(reply.result),
                "finish_reason": reply.reason,
            }
            for reply in replies
        ]
        used = usage([reply.result for reply in replies])
        return {**self._head(self._object), "choices": choices, "usage": used}

    def late(self, reply: ServedAnswer) -> str:
        parts, logprobs = self._late_parts(reply), self._logprobs_of(reply.result)
        self._is_sent = bool(parts)
        return "".join(
            self._choice(reply.index, part, None if i else logprobs, None)
            for i, part in enumerate(parts)
        )

    def finish(self, reply: ServedAnswer) -> str:
        if not self.is_late:
            logprobs = self._new_logprobs()
        else:
            logprobs = None if self._is_sent else self._logprobs_of(reply.result)
        result = reply.result
        n_tokens = result.n_thinking_tokens + result.n_generated_tokens
        return self._choice(reply.index, self._nothing, logprobs, reply.reason, n_tokens)

    def last(self, results: Sequence[Result]) -> str:
        used = ""
        if self._parsed.with_usage:
            fields = {"choices": [], "usage": usage(results)}
            used = f"data: {dumps({**self._head(self._chunk_object), **fields})}\n\n"
        return f"{used}data: [DONE]\n\n"

    def _choice(
        self,
        index: int,
        content: Mapping[str, object],
        logprobs: object,
        reason: str | None,
        n_tokens: int = 0,
    ) -> str:
        """Return an event with a choice; n_tokens is the number of tokens so far."""
        ending = {"logprobs": logprobs, "finish_reason": reason}
        choice = dumps({"index": index, **content, **ending})
        # With usage, all chunks except the last have a null usage, or the usage so far.
        usage_field = ',"usage":null' if self._parsed.with_usage else ""
        if self._parsed.with_running_usage:
            n_prompt = self._parsed.n_prompt_tokens
            usage_field = (
                f',"usage":{{"prompt_tokens":{n_prompt},"completion_tokens":{n_tokens},'
                f'"total_tokens":{n_prompt + n_tokens}}}'
            )
        if not self._chunk_head:
            self._chunk_head = f"data: {dumps(self._head(self._chunk_object))[:-1]}"
        return f'{self._chunk_head}{usage_field},"choices":[{choice}]}}\n\n'

    def _head(self, kind: str) -> dict[str, object]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model_name,
            "system_fingerprint": f"llamaherd-{llamaherd.__version__}",
        }

    def _new_logprobs(self) -> dict[str, Any] | None:
        """Return the log-probabilities of the text that was not sent yet."""
        rows = () if self._split is None else self._split.take()
        return self._logprobs_of_rows(rows) if rows else None

    def _prompts(self, replies: Sequence[ServedAnswer]) -> list[object] | None:
        """Return the log-probabilities of prompts; None if they were not requested."""
        n_top = self._parsed.prompt_logprobs
        if n_top is None:
            return None
        writer = LogprobsWriter(self._model, n_top)
        return [writer.prompt(reply.result) for reply in replies]

    @abstractmethod
    def _choice_content(self, reply: ServedAnswer) -> dict[str, object]:
        """Return the content of a choice with the whole text."""

    @abstractmethod
    def _late_parts(self, reply: ServedAnswer) -> list[dict[str, object]]:
        """Return the contents of the chunks of an answer that is sent at the end."""

    @abstractmethod
    def _logprobs_of(self, result: Result) -> dict[str, Any] | None:
        """Return the log-probabilities of an answer; None if they were not requested."""

    @abstractmethod
    def _logprobs_of_rows(self, rows: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        """Return the log-probabilities of the next part of an answer."""


class CompletionWriter(_OpenAiWriter):
    """Answer of `/v1/completions`."""

    _prefix = "cmpl"
    _object = _chunk_object = "text_completion"
    _nothing: ClassVar = {"text": ""}

    def __init__(self, model: Model, model_name: str, parsed: ParsedRequest) -> None:
        super().__init__(model, model_name, parsed)
        self._at = Positions()  # end of the log-probabilities that were sent

    def body(self, replies: Sequence[ServedAnswer]) -> dict[str, object]:
        """See `FormWriter`. As in vLLM's API, each choice has its prompt."""
        whole = super().body(replies)
        choices: Any = whole["choices"]
        prompts = self._prompts(replies)
        if prompts is not None:
            for choice, prompt in zip(choices, prompts, strict=True):
                choice["prompt_logprobs"] = prompt
        return whole

    def text(self, text: str, n_tokens: int) -> str:
        return self._choice(0, {"text": text}, self._new_logprobs(), None, n_tokens)

    def _choice_content(self, reply: ServedAnswer) -> dict[str, object]:
        echo = reply.result.echo if isinstance(reply.result, EchoedResult) else None
        return {"text": f"{echo or ''}{reply.text}"}

    def _late_parts(self, reply: ServedAnswer) -> list[dict[str, object]]:
        return [self._choice_content(reply)]

    def _logprobs_of(self, result: Result) -> dict[str, Any] | None:
        return None if self._logprobs is None else self._logprobs.whole_completion(result)

    def _logprobs_of_rows(self, rows: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        return (
            None if self._logprobs is None else self._logprobs.completion(rows, self._at)
        )


class ChatWriter(_OpenAiWriter):
    """Answer of `/v1/chat/completions`."""

    _prefix = "chatcmpl"
    _object = "chat.completion"
    _chunk_object = "chat.completion.chunk"
    _nothing: ClassVar = {"delta": {}}

    def body(self, replies: Sequence[ServedAnswer]) -> dict[str, object]:
        """See `FormWriter`. All answers have the same prompt."""
        prompts = self._prompts(replies)
        fields = {} if prompts is None else {"prompt_logprobs": prompts[0]}
        return {**super().body(replies), **fields}

    def start(self) -> str:
        """Return the first event of each answer, with the role.

        As in OpenAI's API, the content is null if the answer may be a call, since a call
        has no content.
        """
        content = "" if self._parsed.tools is None else None
        delta = {"role": "assistant", "content": content}
        return "".join(self._delta(delta, i) for i in range(self._parsed.n_answers))

    def thought(self, text: str) -> str:
        """See `FormWriter`. vLLM and llama-server use the same field for thoughts."""
        return self._delta({"reasoning_content": text})

    def text(self, text: str, n_tokens: int) -> str:
        return self._delta({"content": text}, 0, n_tokens, self._new_logprobs())

    def call(self, parts: Sequence[Mapping[str, Any]], n_tokens: int) -> str:
        """See `FormWriter`. The last part has the log-probabilities."""
        deltas = [{"tool_calls": [part]} for part in parts]
        if not deltas:
            return ""
        first = "".join(self._delta(delta, 0, n_tokens) for delta in deltas[:-1])
        return first + self._delta(deltas[-1], 0, n_tokens, self._new_logprobs())

    def _delta(
        self,
        delta: Mapping[str, object],
        index: int = 0,
        n_tokens: int = 0,
        logprobs: object = None,
    ) -> str:
        return self._choice(index, {"delta": delta}, logprobs, None, n_tokens)

    def _choice_content(self, reply: ServedAnswer) -> dict[str, object]:
        message: dict[str, object] = {"role": "assistant", "content": reply.text}
        message["refusal"] = None
        if reply.calls:
            message["tool_calls"] = [call.document for call in reply.calls]
        thought = reply.result.thinking
        if thought is not None:  # clients read one of these two names
            message |= dict.fromkeys(("reasoning_content", "reasoning"), thought)
        return {"message": {**message, **reply.invalid}}

    def _late_parts(self, reply: ServedAnswer) -> list[dict[str, object]]:
        deltas: list[dict[str, object]] = []
        if self._parsed.n_answers > 1 and reply.result.thinking:
            deltas.append({"reasoning_content": reply.result.thinking})
        if reply.text or (reply.text is not None and self._parsed.tools is not None):
            deltas.append({"content": reply.text, **reply.invalid})
        if reply.calls:
            parts = [{"index": i, **call.document} for i, call in enumerate(reply.calls)]
            deltas.append({"tool_calls": parts})
        return [{"delta": delta} for delta in deltas]

    def _logprobs_of(self, result: Result) -> dict[str, Any] | None:
        writer = self._logprobs
        return None if writer is None else writer.chat(writer.rows(result))

    def _logprobs_of_rows(self, rows: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        return None if self._logprobs is None else self._logprobs.chat(rows)
