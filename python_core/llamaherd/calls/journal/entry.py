"""Entries of a journal, the thoughts before their answers, and the keys of results.

A key is a hash of everything that affects a result.
"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from llamaherd.calls.journal.file import THOUGHT_TABLE, DamagedError
from llamaherd.engine.core.plain import plain
from llamaherd.engine.core.request import Request, ThoughtStage, decisive
from llamaherd.engine.core.sampling import OF_REQUEST, SamplingParams, changed_fields
from llamaherd.engine.native import llguidance
from llamaherd.engine.native.request import uses_llguidance

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping

    from llamaherd.engine.core.results import FinishReason


_N = TypeVar("_N", int, float)
# Text stored as the error of an answer that a stop text ended before its grammar was
# complete. All other answers with the finish reason "stop" are complete.
_CUT = "cut off by a stop text"
_REASONS = ("stop", "length", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A result in a journal.

    Attributes:
        prompt: Prompt as given to the call; for token ids, their text.
        text: Text of the answer. None for a failure, and for a scored prompt, whose
            probabilities are in `numbers`.
        finish_reason: "stop", "length", or "error" if the last attempt failed.
        complete: Whether the model ended the answer; see `Result`.
        error: Reason of the failure; None without a failure.
        tokens: Generated tokens, without an end-of-generation token.
        seed: Seed of the random generator, a uint32.
        model: Name of the model file.
        model_sha256: SHA-256 of the model file in hexadecimal.
        settings: JSON object of all other settings that affect the text: max_tokens,
            stop, sampling settings that differ from the defaults, and settings of the
            context.
        created: Time of storage in UTC, with time zone.
        version: Version of llamaherd.
        key: Hash of everything that affects the result, in hexadecimal.
        numbers: float64[n], log-probabilities, if requested. For an answer, the values
            of its tokens come first, see `journal.recording`. For a score, there is one
            value for each token of the continuations; a prefix that continuations share
            is stored once.
        thinking: Text of the thought before the answer; None without a thought.
        n_thinking_tokens: Number of tokens of the thought.
        thinking_complete: Whether the model ended the thought itself; None without a
            thought.
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
    thinking: str | None = None
    n_thinking_tokens: int = 0
    thinking_complete: bool | None = None

    @property
    def n_generated_tokens(self) -> int:
        """Number of generated tokens."""
        return len(self.tokens)


# Types of the stored columns, by name and in the order of a row; its digest follows. The
# first four are those of the origin.
COLUMNS: dict[str, type | tuple[type, ...]] = {
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


def row_of(entry: JournalEntry) -> tuple[Any, ...]:
    """Return the database row of an entry."""
    numbers = _little_endian(array("d", entry.numbers)).tobytes()
    is_cut = entry.finish_reason == "stop" and not entry.complete
    stored = {
        **{name: getattr(entry, name) for name in COLUMNS},
        "model_sha256": bytes.fromhex(entry.model_sha256),
        "key": bytes.fromhex(entry.key),
        "tokens": _little_endian(array("i", entry.tokens)).tobytes(),
        "error": _CUT if is_cut else entry.error,
        "numbers": numbers or None,
        "created": entry.created.timestamp(),
    }
    row = tuple(map(plain, stored.values()))
    return (*row, _digest(row))


def entry_of(row: tuple[Any, ...]) -> JournalEntry:
    """Return the entry that a database row contains."""
    stored = dict(zip(COLUMNS, row[:-1], strict=True))
    prompt = f"{stored['prompt']!r:.60}"
    if row[-1] not in (_digest(row[:-1]), _digest_of_numpy(row[:-1])):
        raise DamagedError(f"the data stored for the prompt {prompt} were changed")
    # A row with a valid digest can still be invalid, and SQLite accepts a value of any
    # type in any column.
    tokens, numbers = array("i"), array("d")
    try:
        _check_types(stored)
        tokens.frombytes(stored["tokens"])
        numbers.frombytes(stored["numbers"] or b"")
        created = datetime.fromtimestamp(stored["created"], UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise DamagedError(
            f"the data stored for the prompt {prompt} are not a result: {error}"
        ) from None
    reason, problem = stored["finish_reason"], stored["error"]
    is_score = reason == "stop" and not tokens and bool(numbers)
    converted = {
        "model_sha256": stored["model_sha256"].hex(),
        "key": stored["key"].hex(),
        "text": None if is_score else stored["text"],
        "tokens": _little_endian(tokens).tolist(),
        "complete": reason == "stop" and (is_score or problem is None),
        "error": problem if reason == "error" else None,
        "numbers": tuple(_little_endian(numbers)),
        "created": created,
    }
    return JournalEntry(**{**stored, **converted})


def _check_types(stored: dict[str, Any]) -> None:
    """Check the type and range of each value."""
    for name, kind in COLUMNS.items():
        if not isinstance(stored[name], kind):
            raise TypeError(f"its {name} is of type {type(stored[name]).__name__}")
    reason, n_tokens, seed = (
        stored[name] for name in ("finish_reason", "n_prompt_tokens", "seed")
    )
    if reason not in _REASONS:
        raise ValueError(f"its finish_reason is {reason!r:.60}")
    if n_tokens < 0 or not 0 <= seed < 2**32:
        raise ValueError(f"it has {n_tokens} tokens and the seed {seed}")
    if (reason == "error") != (stored["text"] is None):
        raise ValueError("it must have either a text or an error")


def _digest(row: tuple[Any, ...]) -> bytes:
    """Return a digest of plain values. SQLite does not detect changes in stored texts."""
    return blake2b(repr(row).encode(), digest_size=8).digest()


def _digest_of_numpy(row: tuple[Any, ...]) -> bytes:
    """Return the digest that earlier versions stored for a prompt that numpy held."""
    values = list(map(repr, row))
    values[5] = f"np.str_({values[5]})"
    return blake2b(f"({', '.join(values)})".encode(), digest_size=8).digest()


def _little_endian(numbers: array[_N]) -> array[_N]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


# Text that occurs only in the settings of results after a thought, because JSON escapes
# quotes in texts.
THOUGHT = '"thought": {'

_EXISTS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'thought'"
# A thought is stored only if its result is stored, because another process may have
# stored another result first.
_ADD = """
INSERT OR REPLACE INTO thought (key, text, n_tokens, complete, digest)
SELECT key, ?, ?, ?, ? FROM result WHERE key = ? AND digest = ?
"""
_SELECT = "SELECT text, n_tokens, complete, digest FROM thought WHERE key = ?"
_SELECT_ALL = """
SELECT thought.text, n_tokens, complete, thought.digest, result.key, result.digest
FROM thought JOIN result ON result.key = thought.key
"""


def row_of_thought(entry: JournalEntry, row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the values that `add_thoughts` stores for an entry's thought, or None."""
    if THOUGHT not in entry.settings:
        return None
    complete = None if entry.thinking_complete is None else int(entry.thinking_complete)
    values = (entry.thinking, entry.n_thinking_tokens, complete)
    return (*values, _text_digest(row[-1], values), row[4], row[-1])


def add_thoughts(db: sqlite3.Connection, thoughts: Iterable[tuple[Any, ...]]) -> None:
    """Store thoughts in the same transaction as their results."""
    rows = list(thoughts)
    if rows:
        db.execute(THOUGHT_TABLE)
        db.executemany(_ADD, rows)


def read_thoughts(db: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of all thoughts."""
    if db.execute(_EXISTS).fetchone() is not None:
        yield from db.execute(_SELECT_ALL)


def with_thought(
    entry: JournalEntry, row: tuple[Any, ...], thought: tuple[Any, ...] | None
) -> JournalEntry:
    """Return an entry with its stored thought."""
    prompt = f"{entry.prompt!r:.60}"
    if thought is None:
        raise DamagedError(f"the thought before the answer to {prompt} is missing")
    *values, digest = thought[:4]
    if _text_digest(row[-1], tuple(values)) != digest:
        raise DamagedError(f"the thought stored for the prompt {prompt} was changed")
    text, n_tokens, complete = values
    return replace(
        entry,
        thinking=text,
        n_thinking_tokens=n_tokens,
        thinking_complete=None if complete is None else bool(complete),
    )


def entry_with_thought(
    db: sqlite3.Connection, entry: JournalEntry, row: tuple[Any, ...]
) -> JournalEntry:
    """Return an entry with its thought, if the request asked for a thought."""
    if THOUGHT not in entry.settings:
        return entry
    has_table = db.execute(_EXISTS).fetchone() is not None
    thought = db.execute(_SELECT, (row[4],)).fetchone() if has_table else None
    return with_thought(entry, row, thought)


def _text_digest(of_result: bytes, values: tuple[Any, ...]) -> bytes:
    """Return a digest of a thought together with its result."""
    return blake2b(of_result + repr(values).encode(), digest_size=8).digest()


# Parts of a request that `journal_key` hashes as bytes instead of JSON.
_AS_BYTES = ("tokens", "tree", "seed")
# Key that marks the settings of scores. Earlier versions stored a hash of the
# continuations under "score". They used the hash of one request for all requests of a
# call, so that two requests could have the same key.
SCORES = "scores"
MIXED_UP = '"score": "'  # occurs only in these settings, because JSON escapes quotes


def settings_of(request: Request) -> dict[str, Any]:
    """Return the settings that make the same `settings_json` in the same context."""
    thought = request.thought
    if thought is not None and thought.seed:
        request = replace(request, thought=replace(thought, seed=0))
    settings: dict[str, Any] = {
        # These settings are always present, as in the keys of earlier versions.
        "stop": request.stop,
        "sampling": request.sampling,
        **{k: v for k, v in decisive(request).items() if k not in _AS_BYTES},
    }
    if request.tree is not None:
        settings[SCORES] = True
    return settings


def settings_json(request: Request, context: Mapping[str, object]) -> str:
    """Return the changed settings as JSON: a new setting keeps the old keys."""
    settings = settings_of(request)
    sampling = settings.pop("sampling")
    if request.thought is not None:
        settings["thought"] = _of_thought(request.thought)
    return json.dumps(
        # Settings of a host replace settings of this process, such as its llguidance.
        {**_of_sampling(sampling), **settings, **context},
        sort_keys=True,
        ensure_ascii=False,
    )


def _of_thought(thought: ThoughtStage) -> dict[str, object]:
    """Return the settings of a thought, without the seed, which differs among prompts."""
    values = {
        field.name: getattr(thought, field.name)
        for field in fields(thought)
        if field.name not in ("sampling", "seed")
    }
    return {**values, "sampling": _of_sampling(thought.sampling)}


def _of_sampling(sampling: SamplingParams) -> dict[str, object]:
    changed = {
        name: getattr(sampling, name)
        for name in changed_fields(sampling)
        if name not in OF_REQUEST
    }
    if sampling.quote_from is not None:  # can be as long as the prompt
        changed["quote_from"] = hashlib.sha256(sampling.quote_from.encode()).hexdigest()
    if uses_llguidance(sampling):
        changed["engine"] = f"llguidance {llguidance.load()}"
    return changed


def journal_key(model_sha256: bytes, settings: str, request: Request) -> bytes:
    """Return the key of a result, 32 bytes; seeds count only if tokens are sampled."""
    tokens = request.tokens.tobytes()
    tree = b"" if request.tree is None else request.tree.to_bytes()
    seed = "greedy" if request.sampling.is_greedy else str(request.seed)
    if request.thought is not None and not request.thought.sampling.is_greedy:
        seed += f" {request.thought.seed}"
    # The lengths of the parts come first, so that the parts are unambiguous. The tree
    # is last.
    head = json.dumps(["llamaherd", 1, model_sha256.hex(), settings, seed, len(tokens)])
    return hashlib.sha256(head.encode() + tokens + tree).digest()
