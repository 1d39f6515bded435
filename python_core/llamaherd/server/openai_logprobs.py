"""Log-probabilities of tokens in the format of OpenAI's API.

The values are the model's log-probabilities before bias, constraints, penalties and
temperature. A token that was not sampled, because a constraint allowed no other token,
has null as its log-probability.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.model.tokens import token_bytes
from llamaherd.server.echo import EchoedResult
from llamaherd.server.errors import bad_field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.core.results import Result
    from llamaherd.model.model import Model

_Row = tuple[int, float, dict[int, float]]  # token, log-probability, alternatives
MOST = 20  # alternatives, as in OpenAI's API


def of_chat(given: Mapping[str, object]) -> int | None:
    """Return the number of alternatives that a chat requests; None without logprobs.

    Raises:
        ApiError: `top_logprobs` is given without `logprobs`.
        TypeError: A field has the wrong type.
        ValueError: A field is out of range.
    """
    is_asked = checks.flag("logprobs", given.get("logprobs", False))
    n = checks.integer("top_logprobs", given.get("top_logprobs", 0), 0, MOST)
    if n and not is_asked:
        raise bad_field("top_logprobs", 'top_logprobs needs "logprobs": true')
    return n if is_asked else None


def of_prompt(given: Mapping[str, object]) -> int | None:
    """Return the number of alternatives to each prompt token; None if not requested.

    Raises:
        ApiError: The answer is a stream.
        TypeError: `prompt_logprobs` is not a number.
        ValueError: `prompt_logprobs` is out of range.
    """
    if "prompt_logprobs" not in given:
        return None
    if given.get("stream"):
        text = 'prompt_logprobs cannot be given with "stream": true'
        raise bad_field("prompt_logprobs", text)
    return checks.integer("prompt_logprobs", given["prompt_logprobs"], 0, MOST)


def of_completion(given: Mapping[str, object]) -> int | None:
    """Return the number of alternatives of a completion; None without `logprobs`.

    Raises:
        TypeError: `logprobs` is not a number.
        ValueError: `logprobs` is out of range.
    """
    if given.get("logprobs", False) is False:  # some clients send False instead of null
        return None
    return checks.integer("logprobs", given["logprobs"], 0, MOST)


class LogprobsWriter:
    """Writer of the log-probabilities of answers.

    Args:
        model: Model with the vocabulary.
        n: Number of alternatives for each token.
    """

    def __init__(self, model: Model, n: int) -> None:
        self._model = model
        self._n = n
        self._known: dict[int, bytes] = {}

    def chat(self, result: Result) -> dict[str, object]:
        """Return the `logprobs` of a choice of a chat."""
        content = []
        for token, logprob, top in self._rows(result):
            alternatives = [self._entry(t, value) for t, value in top.items()]
            content.append({**self._entry(token, logprob), "top_logprobs": alternatives})
        return {"content": content, "refusal": None}

    def completion(self, result: Result) -> dict[str, object]:
        """Return the `logprobs` of a choice of a completion."""
        found: dict[str, list[Any]] = {
            name: []
            for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")
        }
        start, n_before = self._prompt(result)
        before = b""
        for token, logprob, top in [*start, *self._rows(result)]:
            found["tokens"].append(self._text(token))
            found["token_logprobs"].append(_number(logprob))
            found["top_logprobs"].append(self._among(token, logprob, top))
            n_chars = len(before.decode(errors="ignore"))
            found["text_offset"].append(max(0, n_chars - n_before))
            before += self._bytes(token)
        if start:  # the first token of a text has no probability
            found["top_logprobs"][0] = None
        return {**found}

    def prompt(self, result: Result) -> list[dict[str, object] | None]:
        """Return `prompt_logprobs` of vLLM's API: for each token, entries by token id.

        The entry of the first token is null. The most likely of all tokens has rank 1.
        """
        scores = result.scores_of_prompt if isinstance(result, EchoedResult) else None
        if scores is None:
            return []
        found: list[dict[str, object] | None] = [None]
        for token, logprob, top, rank in zip(
            scores.tokens[1:], scores.logprobs, scores.top, scores.ranks, strict=True
        ):
            ranks = {each: 1 + i for i, each in enumerate(top)} | {token: rank}
            shown = {token: logprob, **dict(list(top.items())[: self._n])}
            found.append(
                {
                    str(each): {
                        "logprob": _number(value),
                        "rank": ranks[each],
                        "decoded_token": _decoded(self._bytes(each)),
                    }
                    for each, value in shown.items()
                }
            )
        return found

    def _prompt(self, result: Result) -> tuple[list[_Row], int]:
        """Return the rows of an echoed prompt, and the number of characters to skip.

        The characters to skip are those of the start token and the space that some
        vocabularies insert before a text; the echoed text lacks them.
        """
        scores = result.scores_of_prompt if isinstance(result, EchoedResult) else None
        if scores is None or not isinstance(result, EchoedResult) or result.echo is None:
            return [], 0
        logprobs, tops = [math.nan, *scores.logprobs], [{}, *scores.top]
        rows = [
            (token, logprob, dict(list(top.items())[: self._n]))
            for token, logprob, top in zip(scores.tokens, logprobs, tops, strict=True)
        ]
        whole = b"".join(map(self._bytes, scores.tokens)).decode(errors="replace")
        return rows, max(0, len(whole) - len(result.echo))

    def _among(
        self, token: int, logprob: float, top: Mapping[int, float]
    ) -> dict[str, float | None]:
        """Return the alternatives by their texts; the token itself is among them.

        Of several tokens with the same text, the most likely is returned.
        """
        among: dict[str, float | None] = {}
        for each, value in {**top, token: logprob}.items():
            among.setdefault(self._text(each), _number(value))
        return among

    def _rows(self, result: Result) -> list[_Row]:
        """Return token, log-probability and alternatives of each token."""
        logprobs = result.logprobs or []
        tops = result.top_logprobs or [{} for _ in logprobs]
        tokens = result.tokens[: len(logprobs)]
        return [
            (token, logprob, dict(list(top.items())[: self._n]))
            for token, logprob, top in zip(tokens, logprobs, tops, strict=True)
        ]

    def _entry(self, token: int, logprob: float) -> dict[str, object]:
        own = self._bytes(token)
        return {
            "token": _decoded(own),
            "logprob": _number(logprob),
            "bytes": list(own),
        }

    def _bytes(self, token: int) -> bytes:
        if token not in self._known:
            (self._known[token],) = token_bytes(self._model, [token])
        return self._known[token]

    def _text(self, token: int) -> str:
        return _decoded(self._bytes(token))


def _decoded(own: bytes) -> str:
    """Return the text of a token, or its bytes if it is a part of a character."""
    try:
        return own.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in own)


def _number(value: float) -> float | None:
    """Return a number that JSON can represent; NaN becomes None."""
    if math.isnan(value):
        return None
    return max(value, -9999.0)  # OpenAI's number for a token without a probability
