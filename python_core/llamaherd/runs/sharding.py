"""Which rows a shard has: the same on every machine, since all read the whole table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core.sampling import SamplingParams
from llamaherd.run.requests import parsing, rendered, tokens_or_problem
from llamaherd.schedule.shards import plan_shards

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from llamaherd.model.model import Model
    from llamaherd.runs.spec import RunSpec
    from llamaherd.runs.tables import Table


def own_rows(
    spec: RunSpec, model: Model, table: Table, shard: tuple[int, int], size: int
) -> NDArray[np.bool_]:
    """Which rows of a table a shard answers.

    Prompts that begin alike go together. Those that have nothing in common, as the texts
    of embeddings, are cut where the bytes before the cut are so many.

    Args:
        spec: The run.
        model: Whose tokens count.
        table: Its input.
        shard: Which of how many, from 1.
        size: Rows that are tokenized together.

    Returns:
        bool[n_rows].
    """
    i, n = shard
    if not 1 <= i <= n:
        raise ValueError(f"shard must be i/n with 1 <= i <= n, such as 3/50, not {i}/{n}")
    if spec.task == "embed":
        sizes = [
            len(prompt.encode())
            for part in _prompts(spec, table, size)
            for prompt in part
        ]
        return np.asarray(shard_of(np.array(sizes, dtype=np.int64), n) == i - 1)
    wanted = np.zeros(table.n_rows, dtype=np.bool_)
    tokens = _tokens(spec, model, table, size)
    wanted[plan_shards(tokens, n, _n_answer(spec)).members[i - 1]] = True
    return wanted


def shard_of(sizes: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """The shard, from 0, of each of some rows of such sizes that follow on each other."""
    before = np.cumsum(sizes + 1) - 1  # a row costs something even if it is empty
    total = int(before[-1]) + 1 if len(before) else 1
    return np.asarray(np.minimum(before * n // total, n - 1), dtype=np.int64)


def _prompts(spec: RunSpec, table: Table, size: int) -> Iterator[list[str]]:
    """Prompts of all rows; of one that is bad something that costs nothing."""
    template = spec.template
    for block in table.blocks(size):
        yield [
            "" if row.problem else template.filled(row.values)[0] for row in block.rows
        ]


def _tokens(spec: RunSpec, model: Model, table: Table, size: int) -> Iterator[array[int]]:
    """Tokens of the prompts of all rows; none of one that fails."""
    parse = parsing("auto", chat=spec.chat)
    n = 0
    for part in _prompts(spec, table, size):
        for text in rendered(model, part, chat=spec.chat, system=spec.system):
            yield tokens_or_problem(model, f"prompts[{n}]", text, parse)[0]
            n += 1


def _n_answer(spec: RunSpec) -> int:
    """Tokens that an answer is taken to have: half of those that it may have."""
    if spec.task == "classify":
        return len(spec.classify["labels"])
    params = SamplingParams(**spec.settings)
    return max(1, (params.max_tokens or params.n_answer) // 2)
