"""Division of rows into shards; all machines compute the same division."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llamaherd.calls.asks.options import PromptOptions
from llamaherd.calls.asks.rendering import rendered
from llamaherd.calls.asks.requests import parsing, tokens_or_problem
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.schedule.shards import plan_shards
from llamaherd.tables.chat_keys import chat_options

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from llamaherd.engine.model.model import Model
    from llamaherd.tables.spec import RunSpec
    from llamaherd.tables.table import Table


def own_rows(
    spec: RunSpec, model: Model, table: Table, shard: tuple[int, int], size: int
) -> NDArray[np.bool_]:
    """Return a mask of the rows that belong to a shard.

    Prompts with a common prefix are assigned to the same shard. Prompts without a
    common prefix, such as texts to embed, are divided into consecutive rows with about
    equal numbers of bytes.

    Args:
        spec: Description of the run.
        model: Model whose tokenizer counts the tokens.
        table: Input of the run.
        shard: Number of the shard, from 1, and number of shards.
        size: Number of rows that are tokenized at a time.

    Returns:
        bool[n_rows], True for rows of the shard.
    """
    i, n = shard
    if not 1 <= i <= n:
        raise ArgumentError(
            f"must be i/n with 1 <= i <= n, such as 3/50, not {i}/{n}", argument="shard"
        )
    if spec.task == "embed":
        sizes = [
            len(prompt.encode())
            for part in _prompts(spec, table, size)
            for prompt in part
        ]
        return np.asarray(shard_of(np.array(sizes, dtype=np.int64), n) == i - 1)
    is_own = np.zeros(table.n_rows, dtype=np.bool_)
    tokens = _tokens(spec, model, table, size)
    is_own[plan_shards(tokens, n, spec.made.n_answer).members[i - 1]] = True
    return is_own


def shard_of(sizes: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Divide rows into consecutive shards of equal size; return each row's shard."""
    before = np.cumsum(sizes + 1) - 1  # an empty row also has a cost
    total = int(before[-1]) + 1 if len(before) else 1
    return np.asarray(np.minimum(before * n // total, n - 1), dtype=np.int64)


def _prompts(spec: RunSpec, table: Table, size: int) -> Iterator[list[str]]:
    """Yield the prompts of all rows; an invalid row has an empty prompt."""
    template = spec.template
    for block in table.blocks(size):
        yield [
            "" if row.problem else template.filled(row.values)[0] for row in block.rows
        ]


def _tokens(spec: RunSpec, model: Model, table: Table, size: int) -> Iterator[array[int]]:
    """Yield the tokens of each row's prompt; no tokens for a row that fails."""
    chat = spec.chat and spec.task != "annotate"  # prompts of a codebook share a prefix
    parse = parsing("auto", chat=chat)
    own = chat_options(spec) if chat else {}
    options = PromptOptions(chat=chat, system=spec.system, **own)
    n = 0
    for part in _prompts(spec, table, size):
        for text in rendered(model, part, options):
            yield tokens_or_problem(model, f"prompts[{n}]", text, parse)[0]
            n += 1
