"""Parsed request of a client, for any API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.core.pieces import TextPiece
    from llamaherd.core.results import Result
    from llamaherd.core.sampling import SamplingParams
    from llamaherd.server.tools import ToolUse


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """Parsed request; `Context.submit` checks its values.

    Attributes:
        prompts: Prompts for `Context.submit`; most requests have one prompt.
        params: Sampling settings.
        options: Other arguments of `Context.submit`.
        n: Number of answers to each prompt.
        stream: Whether to send pieces as they are generated.
        with_usage: Whether to end a stream with the usage.
        with_running_usage: Whether each piece of a stream has the usage so far.
        n_prompt_tokens: Number of tokens of the prompt, for the usage so far.
        tools: Functions that the answer may call; None if there are none.
        echo: Whether the answer contains the prompt before the generated text.
        prompt_logprobs: Number of alternatives whose log-probabilities the answer
            contains for each token of the prompts; None for no log-probabilities.
        includes_stop: Whether the text of an answer ends with the stop text that ended
            it.
        is_empty: Whether no tokens are generated; only if the answer contains the prompt.
        names: Field of the request by argument of the library, for errors.
        repeated: Settings of the request that the answer repeats.
    """

    prompts: Sequence[Any]
    params: SamplingParams
    options: Mapping[str, Any] = field(default_factory=dict)
    n: int = 1
    stream: bool = False
    with_usage: bool = True
    with_running_usage: bool = False
    n_prompt_tokens: int = 0
    tools: ToolUse | None = None
    echo: bool = False
    prompt_logprobs: int | None = None
    includes_stop: bool = False
    is_empty: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    repeated: Mapping[str, object] = field(default_factory=dict)

    @property
    def returns_prompts(self) -> bool:
        """Whether answers contain their prompts or the log-probabilities of prompts."""
        return self.echo or self.prompt_logprobs is not None

    @property
    def n_answers(self) -> int:
        """Number of answers."""
        return len(self.prompts) * self.n


class AnswerWriter(Protocol):
    """Writer of one answer, either as one piece or as events of a stream.

    Events are complete lines, ready to send.
    """

    def whole(self, results: Sequence[Result]) -> dict[str, object]:
        """Return all answers in one piece."""

    def start(self) -> str:
        """Return the events before the first piece."""

    def piece(self, piece: TextPiece) -> str:
        """Return the event of a piece of the thought or of the answer."""

    def end(self, results: Sequence[Result]) -> str:
        """Return the events after the last piece; for several answers, all events."""


class ApiShape(Protocol):
    """Protocol of an API: format of its requests and answers."""

    @property
    def fields(self) -> frozenset[str]:
        """Names of all fields of a request."""

    def understand(self, fields: dict[str, object]) -> ParsedRequest:
        """Parse the fields of a request.

        Raises:
            ApiError: A field is unknown or invalid.
            TypeError: A field has the wrong type; the message starts with its name.
            ValueError: A field is out of range; the message starts with its name.
        """

    def answer(self, parsed: ParsedRequest) -> AnswerWriter:
        """Return the writer of the answer."""


def counts(results: Sequence[Result]) -> tuple[int, int]:
    """Return the numbers of prompt tokens and of new tokens of answers.

    The tokens of a prompt are counted once for all of its samples. New tokens include
    tokens of thoughts.
    """
    n_prompt = sum(each.n_prompt_tokens for each in results if each.sample == 0)
    n_new = sum(each.n_thinking_tokens + each.n_generated_tokens for each in results)
    return n_prompt, n_new


def usage(results: Sequence[Result]) -> dict[str, object]:
    """Return the counts of tokens in the format of OpenAI's API.

    As in OpenAI's API, `completion_tokens` includes the tokens of the thought.
    """
    n_prompt, n_new = counts(results)
    n_reused = sum(each.n_reused_tokens for each in results if each.sample == 0)
    n_thinking = sum(each.n_thinking_tokens for each in results)
    thoughts = {"completion_tokens_details": {"reasoning_tokens": n_thinking}}
    return {
        "prompt_tokens": n_prompt,
        "completion_tokens": n_new,
        "total_tokens": n_prompt + n_new,
        "prompt_tokens_details": {"cached_tokens": n_reused},
        **(thoughts if n_thinking else {}),
    }
