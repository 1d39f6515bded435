"""What an actor of Ray Data does with batches of rows, in this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd.ray import processor
from llamaherd.ray.config import Config, versions

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


class BatchActor:
    """Function of a batch, with the arguments of `lh.ray.map`."""

    def __init__(self, path: Path, **arguments: Any) -> None:
        config = Config(path, num_cpus=1, context=arguments.pop("context", {}))
        mapper = lh.ray.map(config, **arguments)
        self._answering = processor.BatchAnswering(config, versions(), mapper._answer)

    def __call__(self, table: pa.Table) -> pa.Table:
        return asyncio.run(self._answering(table))
