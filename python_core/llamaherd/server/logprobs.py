"""Log-probabilities of tokens in the format of OpenAI's API.

The values are the model's log-probabilities before bias, constraints, penalties and
temperature, also for tokens that were not sampled because a constraint allowed no other.
"""

from __future__ import annotations

import codecs
import math
from typing import TYPE_CHECKING, Any

from llamaherd.engine.core.outcome import TextPiece, TokenLogprob
from llamaherd.engine.model.tokens import token_bytes
from llamaherd.engine.native import vocabulary
from llamaherd.server.echo import EchoedResult
from llamaherd.server.errors import bad_field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.engine.core.results import Result
    from llamaherd.engine.model.model import Model

MOST_LOGPROBS = 20  # alternatives, as in OpenAI's API


def of_chat(request: Mapping[str, Any]) -> int | None:
    """Return the number of alternatives that a chat requests; None without logprobs."""
    n: int = request.get("top_logprobs", 0)
    if request.get("logprobs", False):
        return n
    if n:
        raise bad_field("top_logprobs", 'top_logprobs needs "logprobs": true')
    return None


def of_prompt(request: Mapping[str, Any]) -> int | None:
    """Return the number of alternatives to each prompt token; None if not requested."""
    if "prompt_logprobs" in request and request.get("stream"):
        text = 'prompt_logprobs cannot be given with "stream": true'
        raise bad_field("prompt_logprobs", text)
    return request.get("prompt_logprobs")


def of_completion(request: Mapping[str, Any]) -> int | None:
    """Return the number of alternatives of a completion; None without `logprobs`."""
    n: int | None = request.get("logprobs")
    return None if n is False else n  # some clients send False instead of null


class Positions:
    """Positions of the tokens of a text, in characters.

    As in answers, an ill-formed sequence of bytes counts as one character, U+FFFD. An
    incomplete character counts when its last byte is there.

    Attributes:
        n_chars: Number of characters so far.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.n_chars = 0

    @property
    def is_inside(self) -> bool:
        """Whether the text so far ends within a character."""
        return bool(self._decoder.getstate()[0])

    def add(self, piece: bytes) -> int:
        """Add the bytes of the next token and return the position of its start."""
        start = self.n_chars
        self.n_chars += len(self._decoder.decode(piece))
        return start


class LogprobsWriter:
    """Writer of the log-probabilities of answers."""

    def __init__(self, model: Model, n: int, *, is_choice: bool = False) -> None:
        self._model = model
        self._n = n
        self._is_choice = is_choice
        self._pieces: dict[int, bytes] = {}
        self._in_texts: dict[int, bytes] = {}

    def rows(self, result: Result) -> list[TokenLogprob]:
        """Return the tokens of an answer, without those that a stop text removed."""
        logprobs = result.logprobs or []
        tops = result.top_logprobs or [{} for _ in logprobs]
        tokens = result.tokens[: len(logprobs)]
        rows = [TokenLogprob(*row) for row in zip(tokens, logprobs, tops, strict=True)]
        n_chars = len(result.text or "")
        at, n_rows = Positions(), 0
        for token in tokens:
            n_rows += at.n_chars < n_chars
            at.add(self.text_bytes(token))
        is_shortened = at.n_chars > n_chars and not self._is_choice
        return rows[:n_rows] if is_shortened else rows

    def chat(self, rows: Sequence[TokenLogprob]) -> dict[str, object]:
        """Return the `logprobs` of a choice of a chat."""
        content = []
        for token, logprob, top in rows:
            most_likely = list(top.items())[: self._n]
            alternatives = [self._entry(t, value) for t, value in most_likely]
            content.append({**self._entry(token, logprob), "top_logprobs": alternatives})
        return {"content": content, "refusal": None}

    def completion(
        self, rows: Sequence[TokenLogprob], at: Positions
    ) -> dict[str, list[Any]]:
        """Return the `logprobs` of a choice of a completion, or of a part of its text."""
        columns: dict[str, list[Any]] = {
            name: []
            for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")
        }
        for token, logprob, top in rows:
            columns["tokens"].append(self._text(token))
            columns["token_logprobs"].append(_number(logprob))
            columns["top_logprobs"].append(self._among(token, logprob, top))
            columns["text_offset"].append(at.add(self.text_bytes(token)))
        return columns

    def whole_completion(self, result: Result) -> dict[str, list[Any]]:
        """Return the `logprobs` of a choice of a completion, with an echoed prompt."""
        scores = result.scores_of_prompt if isinstance(result, EchoedResult) else None
        rows, at = self.rows(result), Positions()
        if scores is None or not isinstance(result, EchoedResult) or result.echo is None:
            return self.completion(rows, at)
        logprobs, tops = [math.nan, *scores.logprobs], [{}, *scores.top]
        prompt = [
            TokenLogprob(*row) for row in zip(scores.tokens, logprobs, tops, strict=True)
        ]
        starts = [at.add(self._bytes(row.token)) for row in prompt]
        # The text lacks the start token, and the space that some vocabularies insert.
        n_lacking = max(0, at.n_chars - len(result.echo))
        columns = self.completion(prompt, Positions())
        columns["text_offset"] = starts
        columns["top_logprobs"][:1] = [None]  # the first token has no probability
        for name, values in self.completion(rows, at).items():
            columns[name] += values
        columns["text_offset"] = [max(0, n - n_lacking) for n in columns["text_offset"]]
        return columns

    def prompt(self, result: Result) -> list[dict[str, object] | None]:
        """Return `prompt_logprobs` of vLLM's API: for each token, entries by token id.

        The entry of the first token is null. The most likely of all tokens has rank 1.
        """
        scores = result.scores_of_prompt if isinstance(result, EchoedResult) else None
        if scores is None:
            return []
        entries: list[dict[str, object] | None] = [None]
        for token, logprob, top, rank in zip(
            scores.tokens[1:], scores.logprobs, scores.top, scores.ranks, strict=True
        ):
            ranks = {alternative: 1 + i for i, alternative in enumerate(top)}
            ranks[token] = rank
            alternatives = {token: logprob, **dict(list(top.items())[: self._n])}
            entries.append(
                {
                    str(alternative): {
                        "logprob": _number(value),
                        "rank": ranks[alternative],
                        "decoded_token": _token_text(self._bytes(alternative)),
                    }
                    for alternative, value in alternatives.items()
                }
            )
        return entries

    def _among(
        self, token: int, logprob: float, top: Mapping[int, float]
    ) -> dict[str, float | None]:
        """Return the alternatives and the token; of equal texts the most likely."""
        among: dict[str, float | None] = {}
        alternatives = {**dict(list(top.items())[: self._n]), token: logprob}
        for alternative, value in alternatives.items():
            among.setdefault(self._text(alternative), _number(value))
        return among

    def _entry(self, token: int, logprob: float) -> dict[str, object]:
        piece = self._bytes(token)
        return {
            "token": _token_text(piece),
            "logprob": _number(logprob),
            "bytes": list(piece),
        }

    def text_bytes(self, token: int) -> bytes:
        """Return the bytes of a token in an answer; control tokens have no text there."""
        if token not in self._in_texts:
            with self._model.using() as handle:
                has_text = vocabulary.has_text(handle, token)
            self._in_texts[token] = self._bytes(token) if has_text else b""
        return self._in_texts[token]

    def _bytes(self, token: int) -> bytes:
        if token not in self._pieces:
            (self._pieces[token],) = token_bytes(self._model, [token])
        return self._pieces[token]

    def _text(self, token: int) -> str:
        return _token_text(self._bytes(token))


def _token_text(piece: bytes) -> str:
    """Return the text of a token, or its bytes if it is a part of a character."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)


def _number(value: float) -> float | None:
    """Return a number that JSON can represent; NaN becomes None."""
    if math.isnan(value):
        return None
    return max(value, -9999.0)  # OpenAI's number for a token without a probability


class LogprobStream:
    """Divides the text of an answer at the ends of its tokens.

    A piece of a text may end within a token, where a stop text could begin, and a token
    may end within a character. This class holds text back until a token and a character
    end at the same place. Thus the tokens of each chunk have exactly the chunk's text.
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
        """End the answer and return the text that was held back."""
        self._rows, self._n_ready = list(rows), len(rows)
        text, self._held = self._held, ""
        return text

    def take(self) -> Sequence[TokenLogprob]:
        """Return the tokens of the returned text that were not taken yet."""
        rows = self._rows[self._n_taken : self._n_ready]
        self._n_taken = max(self._n_taken, self._n_ready)
        return rows
