"""What a client wants, whatever API it speaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.core.results import Result
    from llamaherd.core.sampling import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A request that was understood. `Context.submit` checks what came as JSON.

    Attributes:
        prompt: As `Context.submit` takes it.
        params: All of sampling.
        options: More arguments of `Context.submit`.
        stream: Send pieces as they come.
        with_usage: End a stream with what was used.
    """

    prompt: Any
    params: SamplingParams
    options: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False
    with_usage: bool = True


class Answer(Protocol):
    """Writes what one client gets. Events are whole lines, ready to be sent."""

    def whole(self, result: Result) -> dict[str, object]:
        """The answer in one piece."""

    def start(self) -> str:
        """Events before the first piece."""

    def piece(self, text: str) -> str:
        """The event of a piece of text."""

    def end(self, result: Result) -> str:
        """Events after the last piece."""


class Shape(Protocol):
    """One API: what its requests and answers look like."""

    @property
    def fields(self) -> frozenset[str]:
        """Names of all fields that a request may have."""

    def understand(self, fields: dict[str, object]) -> Wanted:
        """A request from its fields.

        Raises:
            ApiError: A field is unknown or wrong.
            TypeError: A field has the wrong type; the message starts with its name.
            ValueError: A field is out of range, as well.
        """

    def answer(self, wanted: Wanted) -> Answer:
        """The writer of the answer."""


def usage(result: Result) -> dict[str, object]:
    """Counts of tokens as OpenAI's API names them."""
    n_prompt, n_new = result.n_prompt_tokens, result.n_generated_tokens
    return {
        "prompt_tokens": n_prompt,
        "completion_tokens": n_new,
        "total_tokens": n_prompt + n_new,
        "prompt_tokens_details": {"cached_tokens": result.n_reused_tokens},
    }
