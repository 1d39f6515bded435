"""Pieces of text during generation: first pieces of the thought, then of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

PieceKind = Literal["thinking", "answer"]


class TokenLogprob(NamedTuple):
    """Generated token with its log-probability.

    Attributes:
        token: Token id.
        logprob: Log-probability, see `Result.logprobs`.
        top: Log-probabilities of the most likely alternatives, see
            `Result.top_logprobs`.
    """

    token: int
    logprob: float
    top: dict[int, float]


class TextPiece(str):
    """Piece of the text of a thought or an answer.

    Attributes:
        kind: "thinking" for a part of the thought, "answer" for a part of the answer.
        n_tokens: Number of tokens of the answer up to this piece; 0 in a thought.
        logprobs: With `logprobs=k`, the tokens of the answer since the previous piece.
            The text of the last of these tokens may be held back, because it could
            become a part of a stop text. Tokens after the last piece are only in the
            result.
    """

    __slots__ = ("kind", "logprobs", "n_tokens")
    kind: PieceKind
    n_tokens: int
    logprobs: tuple[TokenLogprob, ...]

    def __new__(  # noqa: PYI034 - typing.Self needs Python 3.11
        cls,
        text: str,
        kind: PieceKind = "answer",
        n_tokens: int = 0,
        logprobs: tuple[TokenLogprob, ...] = (),
    ) -> TextPiece:
        """Make a piece of a text."""
        self = super().__new__(cls, text)
        self.kind = kind
        self.n_tokens = n_tokens
        self.logprobs = logprobs
        return self

    def __reduce__(
        self,
    ) -> tuple[type[TextPiece], tuple[str, PieceKind, int, tuple[TokenLogprob, ...]]]:
        return TextPiece, (str(self), self.kind, self.n_tokens, self.logprobs)


class PieceStream:
    """Pieces of a request, to iterate over in a thread or in asyncio.

    Args:
        iterate: Function that returns an iterator over the pieces.
        iterate_async: Function that returns an asynchronous iterator over the pieces.
    """

    def __init__(
        self,
        iterate: Callable[[], Iterator[TextPiece]],
        iterate_async: Callable[[], AsyncIterator[TextPiece]],
    ) -> None:
        self._iterate = iterate
        self._iterate_async = iterate_async

    def __iter__(self) -> Iterator[TextPiece]:
        return self._iterate()

    def __aiter__(self) -> AsyncIterator[TextPiece]:
        return self._iterate_async()


class Stripped:
    """Text that arrives in parts, stripped of white space at its start and end.

    White space is held back until more text follows.
    """

    def __init__(self) -> None:
        self._held = ""
        self._has_begun = False

    def add(self, text: str) -> str:
        """Add a part and return the new part of the stripped text."""
        whole = self._held + text
        if not self._has_begun:
            whole = whole.lstrip()
        new = whole.rstrip()
        self._held = whole[len(new) :]
        self._has_begun = self._has_begun or bool(new)
        return new
