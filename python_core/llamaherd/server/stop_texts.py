"""Stop texts returned at the end of answers (`include_stop_str_in_output` of vLLM)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.model.tokens import token_bytes
from llamaherd.server.errors import bad_field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.core.results import Result
    from llamaherd.model.model import Model

FIELD = "include_stop_str_in_output"
_MOST_PENDING = 3  # most bytes of a character from earlier tokens


def includes_stop(given: Mapping[str, object]) -> bool:
    """Return whether answers have to include the stop text that ended the answer.

    Raises:
        ApiError: The request also has `stop_token_ids`; the texts of these are unknown.
        TypeError: The field is not a boolean.
    """
    is_asked = checks.flag(FIELD, given.get(FIELD, False))
    if is_asked and given.get("stop_token_ids"):
        text = f"{FIELD} cannot be combined with stop_token_ids, only with stop"
        raise bad_field(FIELD, text)
    return is_asked


def stop_of(model: Model, result: Result, stops: Sequence[str]) -> str:
    """Return the stop text that ended an answer; "" if something else ended it.

    The last token of the answer completes a stop text, and the text of the answer ends
    where this stop text begins. If several stop texts begin at this position, the
    shortest was completed first and ended the answer.

    Args:
        model: Model with the vocabulary.
        result: Answer.
        stops: Stop texts of the request.
    """
    if result.finish_reason != "stop" or not result.tokens or not stops:
        return ""
    pieces = token_bytes(model, result.tokens)
    written = b"".join(pieces)
    if len(_valid(result.text or "")) >= len(_valid(written.decode(errors="ignore"))):
        return ""  # an end-of-generation token ended it
    n_before = max(0, len(written) - len(pieces[-1]) - _MOST_PENDING)
    found = []
    for stop in stops:
        own = stop.encode()
        at = written.find(own, max(0, n_before - len(own) + 1))
        if at >= 0:
            found.append((at, len(own), stop))
    return min(found)[2] if found else ""


def _valid(text: str) -> str:
    """Return a text without replacement characters, which stand for invalid bytes."""
    return text.replace("\ufffd", "")


def with_stop(model: Model, result: Result, stops: Sequence[str]) -> Result:
    """Return an answer whose text includes the stop text that ended it."""
    stop = stop_of(model, result, stops)
    return replace(result, text=f"{result.text or ''}{stop}") if stop else result
