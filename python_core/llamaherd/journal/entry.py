"""One result in a journal, and the row that it is stored as."""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from llamaherd.journal.file import DamagedError

if TYPE_CHECKING:
    from llamaherd.core.results import FinishReason

_N = TypeVar("_N", int, float)
# Stands in place of an error with an answer that a stop text ended before its grammar
# did. All others with "stop" are complete.
_CUT = "cut off by a stop text"
_REASONS = ("stop", "length", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One result that a journal holds.

    Attributes:
        prompt: As the call was given it; the text of a prompt given as tokens.
        text: The answer; None for a failure, and for a prompt that was scored: labels are
            not generated, `numbers` has their probabilities.
        finish_reason: "stop" or "length"; "error" for a prompt that failed the last time.
        complete: Whether the answer came to its own end, see `Result`.
        error: Why it failed; None if it did not.
        tokens: All tokens generated, without an end-of-generation token.
        seed: uint32, where its generator started.
        model: Name of the model's file.
        model_sha256: SHA-256 of that file, in hexadecimal.
        settings: JSON object of what else decided the text: max_tokens, stop, the
            sampling settings that were not the defaults, and those of the context.
        created: When it was stored; with a time zone, UTC.
        version: Of llamaherd.
        key: Made of all that the text depends on, in hexadecimal.
        numbers: float64[n]: log-probabilities, if the call asked for any; of an answer
            those of its tokens come first, of a score those of the continuations' tokens,
            beginnings that they share once.
    """

    prompt: str
    text: str | None
    finish_reason: FinishReason
    complete: bool
    error: str | None
    n_prompt_tokens: int
    tokens: list[int]
    seed: int
    model: str
    model_sha256: str
    settings: str
    created: datetime
    version: str
    key: str
    numbers: tuple[float, ...] = ()

    @property
    def n_generated_tokens(self) -> int:
        """Number of `tokens`."""
        return len(self.tokens)


def row_of(entry: JournalEntry) -> tuple[Any, ...]:
    """What is stored of an entry, in the order in which it is selected."""
    row = (
        entry.model,
        bytes.fromhex(entry.model_sha256),
        entry.settings,
        entry.version,
        bytes.fromhex(entry.key),
        entry.prompt,
        entry.n_prompt_tokens,
        entry.seed,
        entry.text,
        _little_endian(array("i", entry.tokens)).tobytes(),
        entry.finish_reason,
        _CUT if entry.finish_reason == "stop" and not entry.complete else entry.error,
        _little_endian(array("d", entry.numbers)).tobytes() if entry.numbers else None,
        entry.created.timestamp(),
    )
    return (*row, _digest(row))


def entry_of(row: tuple[Any, ...]) -> JournalEntry:
    """What a row holds.

    Raises:
        DamagedError: It is not what was written.
    """
    prompt = f"{row[5]!r:.60}"
    if _digest(row[:-1]) != row[-1]:
        raise DamagedError(
            f"what is stored for the prompt {prompt} is not what was written"
        )
    # Anybody can write a digest: what else may stand in a row is not left to SQLite,
    # which takes a value of any type in any column.
    tokens, numbers = array("i"), array("d")
    try:
        _check_types(row)
        tokens.frombytes(row[9])
        numbers.frombytes(row[12] or b"")
        created = datetime.fromtimestamp(row[13], timezone.utc)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise DamagedError(
            f"what is stored for the prompt {prompt} is no result: {error}"
        ) from None
    is_score = row[10] == "stop" and not tokens and bool(numbers)
    return JournalEntry(
        model=row[0],
        model_sha256=row[1].hex(),
        settings=row[2],
        version=row[3],
        key=row[4].hex(),
        prompt=row[5],
        n_prompt_tokens=row[6],
        seed=row[7],
        text=None if is_score else row[8],
        tokens=_little_endian(tokens).tolist(),
        finish_reason=row[10],
        complete=row[10] == "stop" and (is_score or row[11] is None),
        error=row[11] if row[10] == "error" else None,
        numbers=tuple(_little_endian(numbers)),
        created=created,
    )


_TYPES: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "model_sha256": bytes,
    "settings": str,
    "version": str,
    "key": bytes,
    "prompt": str,
    "n_prompt_tokens": int,
    "seed": int,
    "text": (str, type(None)),
    "tokens": bytes,
    "finish_reason": str,
    "error": (str, type(None)),
    "numbers": (bytes, type(None)),
    "created": float,
}


def _check_types(row: tuple[Any, ...]) -> None:
    """Checks that each value is of its column's type and in its range.

    Raises:
        TypeError: A value has another type.
        ValueError: A value is out of range, or values contradict each other.
    """
    for (name, kind), value in zip(_TYPES.items(), row[:-1], strict=True):
        if not isinstance(value, kind):
            raise TypeError(f"its {name} is of type {type(value).__name__}")
    if row[10] not in _REASONS:
        raise ValueError(f"its finish_reason is {row[10]!r:.60}")
    if row[6] < 0 or not 0 <= row[7] < 2**32:
        raise ValueError(f"it has {row[6]} tokens and the seed {row[7]}")
    if (row[10] == "error") != (row[8] is None):
        raise ValueError("it has to have either a text or an error")


def _digest(row: tuple[Any, ...]) -> bytes:
    """SQLite finds a broken page, but not a changed letter in a text."""
    return blake2b(repr(row).encode(), digest_size=8).digest()


def _little_endian(numbers: array[_N]) -> array[_N]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
