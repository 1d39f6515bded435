"""Limits on what one request may ask for; they are checked before it is prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.sampling import CONSTRAINTS
from llamaherd.server import sampling
from llamaherd.server.errors import bad_field
from llamaherd.server.protocol import encode_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Sized

    from llamaherd.engine.core.argument import Name

MOST_PAIRS = 1 << 18  # pairs of a prompt and a label or continuation
MOST_CHARACTERS = 1 << 22  # characters of the labels or continuations of all pairs
MOST_STRINGS = 1 << 19  # texts of single tokens: some 200 MB
MOST_KEPT = 1 << 21  # log-probabilities: some 200 MB
# Bytes of a codebook, of a constraint, or of all functions. To read YAML and to compile a
# schema takes seconds for this size, on threads that other requests need. A codebook of
# 1,000 labels with definitions has some 100 kB.
MOST_FORM = 1 << 18
# Fields with constraints. Constraints are compiled on separate threads, so that they
# delay only each other.
CONSTRAINING = frozenset({*CONSTRAINTS, *sampling.FORM_FIELDS, "tools", "codebook"})


def check_form(fields: Mapping[str, object], n_bytes: int) -> None:
    """Bound the size of each constraint of a request."""
    if n_bytes <= MOST_FORM:
        return
    for name in sorted(CONSTRAINING & fields.keys()):
        n = len(encode_json(fields[name]))
        if n > MOST_FORM:
            text = f"{name} has {n} bytes; a request may have {MOST_FORM}"
            raise bad_field(name, text)


def check_pairs(items: Sized, of_each: object, name: str) -> None:
    """Bound the scores that a request asks for."""
    if not isinstance(of_each, (list, tuple, dict)):
        return
    # Lists of token ids are continuations themselves.
    lists = [
        item
        for item in of_each
        if isinstance(item, list) and not (item and isinstance(item[0], int))
    ]
    n_items = 1 if lists else len(items)
    groups: Sequence[Collection[Any]] = lists or [of_each]
    n_pairs = n_items * sum(map(len, groups))
    if n_pairs > MOST_PAIRS:
        text = (
            f"{name}: the request has {n_pairs} pairs of a text and one of {name}, and a "
            f"request may have {MOST_PAIRS}; divide it into several requests"
        )
        raise bad_field(name, text)
    n = n_items * sum(
        len(item) for group in groups for item in group if isinstance(item, (str, list))
    )
    if n > MOST_CHARACTERS:
        text = (
            f"{name}: each text has its {name}, together {n} characters, and a request "
            f"may have {MOST_CHARACTERS}; divide it into several requests"
        )
        raise bad_field(name, text)


def check_strings(name: str, tokens: Sized) -> None:
    """Bound the texts of single tokens that a request asks for."""
    if len(tokens) > MOST_STRINGS:
        text = f"{name}: the text has {len(tokens)} tokens; a request may have"
        raise bad_field(name, f"{text} {MOST_STRINGS}")


def check_kept(name: Name, n_tokens: int, n_top: int) -> None:
    """Bound the log-probabilities that are kept until the answer is sent."""
    n = n_tokens * (1 + n_top)
    if n > MOST_KEPT:
        raise ArgumentError(
            f"is {n_top}, so {n_tokens} tokens have {n} log-probabilities, and a request "
            f"may have {MOST_KEPT}: ask for fewer alternatives, answers or tokens",
            argument=name,
            code="too_many",
        )
