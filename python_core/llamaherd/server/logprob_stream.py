"""Log-probabilities of an answer that is sent in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.server.openai_logprobs import Positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.pieces import TextPiece, TokenLogprob
    from llamaherd.server.openai_logprobs import LogprobsWriter


class LogprobStream:
    """Divides the text of an answer at the ends of its tokens.

    A piece of a text may end within a token, where a stop text could begin, and a token
    may end within a character. This class holds text back until a token and a character
    end at the same place. Thus the tokens of each chunk have exactly the chunk's text.

    Args:
        writer: Writer of the log-probabilities.
    """

    def __init__(self, writer: LogprobsWriter) -> None:
        self._writer = writer
        self._at = Positions()
        self._held = ""
        self._n_chars = 0  # characters that were returned
        self._rows: list[TokenLogprob] = []
        # For each token the position of its end; None within a character.
        self._ends: list[int | None] = []
        self._n_ready = 0  # tokens whose text was returned
        self._n_taken = 0

    def add(self, piece: TextPiece) -> str:
        """Add a piece of the answer and return the text that can be sent."""
        for row in piece.logprobs:
            self._at.add(self._writer.text_bytes(row.token))
            self._rows.append(row)
            self._ends.append(None if self._at.is_inside else self._at.n_chars)
        self._held += piece
        n_known = self._n_chars + len(self._held)
        n_chars = self._n_chars
        for i in range(self._n_ready, len(self._rows)):
            end = self._ends[i]
            if end is None:
                continue
            if end > n_known:
                break
            if end > n_chars:  # tokens without text wait for the next text
                self._n_ready, n_chars = i + 1, end
        n_new, self._n_chars = n_chars - self._n_chars, n_chars
        text, self._held = self._held[:n_new], self._held[n_new:]
        return text

    def end(self, rows: Sequence[TokenLogprob]) -> str:
        """End the answer and return the text that was held back.

        Args:
            rows: All tokens of the answer.
        """
        self._rows, self._n_ready = list(rows), len(rows)
        text, self._held = self._held, ""
        return text

    def take(self) -> Sequence[TokenLogprob]:
        """Return the tokens of the returned text that were not taken yet."""
        rows = self._rows[self._n_taken : self._n_ready]
        self._n_taken = max(self._n_taken, self._n_ready)
        return rows
