"""Function for batches of Ray Data that adds a model's answers to rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.model.model import Model
from llamaherd.ray.arguments import check_settings
from llamaherd.ray.cores import n_own_threads
from llamaherd.ray.rows import Rows
from llamaherd.research.coding.columns import named
from llamaherd.run.context import Context
from llamaherd.structured.arrow import array
from llamaherd.tasks.make import make_task
from llamaherd.tasks.task import KINDS

if TYPE_CHECKING:
    import os

    from llamaherd.tasks.task import Kind


class Annotator:
    r"""Answers the rows of a data set of Ray Data, batch by batch.

        ds = ray.data.read_parquet("texts/")
        ds = ds.map_batches(
            lh.ray.Annotator,
            fn_constructor_args=["model.gguf"],
            fn_constructor_kwargs={
                "task": "classify",
                "prompt": "Review: {text}\nThe review is",
                "labels": ["good", "bad"],
                "context": {"deterministic": True},
            },
            concurrency=8,  # actors
            num_cpus=4,  # CPUs per actor, hence threads
            batch_size=1024,
        )
        ds.write_parquet("labelled/")

    Each actor loads the model and has its own context. Each batch, of any type, is
    returned as a pyarrow table with its rows unchanged. The types of the added columns
    are the same in all batches. A row that fails has no answer; its reason is in "error".
    A row also fails if its text is missing, empty or invalid UTF-8. If an actor dies, Ray
    Data sends its batch to another actor, which draws the same answers.

    Args:
        model: Model as in `Model`: a path that exists on every node, or "hf:owner/repo",
            which each node downloads once.
        task: Task, which determines the new columns. "generate": "text", "finish_reason"
            and "error", or the fields of the schema and "error"; "classify": "label",
            "prob", "margin", "entropy", "coverage", "p_<label>", "error"; "annotate": the
            columns of `annotate`; "embed": "embedding", float32[n_embd], and "error".
        prompt: Template with names of columns in braces; "{{" is a literal brace.
        column: Name of the column that holds the prompts or texts, as an alternative to
            `prompt`.
        columns: Names of the new columns, as in `annotate`: a prefix for all, or a
            mapping from the names above to new names, with None for columns to omit.
        id_column: Column whose values identify rows, for the task "generate". The seed
            of a row is derived from `seed` and this value. Without `id_column`, the
            seed is derived from `seed` and the prompt, so that equal prompts have equal
            answers. If the values are the integers 0 to n - 1, the answers equal the
            answers of a single call with all n prompts in this order.
        model_options: Further arguments of `Model`.
        context: Arguments of `Context`. With "deterministic", a row's answer is
            bit-identical in every batch. The default of "n_threads" is the number of
            physical cores of the CPUs that Ray assigns to the actor (`num_cpus=`).
        **settings: Arguments of `generate_parallel`, `classify_parallel`, `annotate` or
            `embed_parallel`, such as max_tokens, schema, labels, codebook, chat.

    Raises:
        TypeError: An argument has the wrong type or an unknown name.
        ValueError: An argument is out of range, or cannot be used with batches.
        ModelLoadError: As for `Model`.
        ContextError: As for `Context`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        task: Kind = "generate",
        prompt: str | None = None,
        column: str | None = None,
        columns: str | Mapping[str, str | None] | None = None,
        id_column: str | None = None,
        model_options: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        **settings: Any,  # noqa: ANN401 - options of the call
    ) -> None:
        self._name = checks.choice("task", task, KINDS)
        check_settings(self._name, settings)
        if id_column is not None and self._name != "generate":
            raise ArgumentError(
                f"needs task 'generate', not {self._name!r}, with which equal texts "
                "always have equal answers",
                argument="id_column",
                code="conflict",
            )
        self._rows = Rows(prompt=prompt, column=column, id_column=id_column)
        self._columns = columns
        self._model = Model(model, **_options("model_options", model_options))
        try:
            self._open(_options("context", context), settings)
        except BaseException:
            self._model.close()
            raise

    def __call__(self, batch: object) -> pa.Table:
        """Answer the rows of a batch.

        Args:
            batch: A pyarrow table, a pandas data frame or a dict of arrays.

        Returns:
            The rows in their order, with the new columns.

        Raises:
            TypeError: The batch has another type.
            ValueError: A column is missing, or a new column already exists.
            ContextError: Memory is insufficient.
        """
        table = _table(batch)
        types = self._task.columns
        names = named(list(types), self._columns, table.column_names)
        asked = self._rows.asked(table)
        there = [i for i, problem in enumerate(asked.problems) if not problem]
        found = self._task.answer(
            self._host, [asked.texts[i] for i in there], [asked.places[i] for i in there]
        )
        rest = [self._task.failed(problem) for problem in asked.problems]
        for role, name in names.items():
            values = [row[role] for row in rest]
            for i, value in zip(there, found[role], strict=True):
                values[i] = value
            made = array(values, types[role])
            table = table.append_column(name, made)
        return table

    def close(self) -> None:
        """Free the memory before the actor ends."""
        self._model.close()

    def _open(self, options: dict[str, Any], settings: dict[str, Any]) -> None:
        self._host: Model | Context = self._model
        n_threads = _n_threads()
        if self._name != "embed":
            self._host = Context(self._model, **{"n_threads": n_threads, **options})
        elif options:
            raise ArgumentError(
                f"context cannot be combined with task 'embed' ({sorted(options)}): "
                "pass n_threads and deterministic directly",
                code="not_together",
            )
        else:
            settings = {"n_threads": n_threads, **settings}
        self._task = make_task(self._name, settings).of_model(self._model)
        if self._task.reads_all:
            raise ArgumentError(
                "calibrate='batch', until and larger depend on all rows, but a batch has "
                "only some; calibrate='contextual' does not depend on rows",
                code="needs_all_rows",
            )


def _options(name: str, given: object) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(
            f"must map names to values, not be {checks.shown(given)}", argument=name
        )
    return {checks.text(f"{name}: a name", key): value for key, value in given.items()}


def _n_threads() -> int | None:
    """Return the number of threads for this actor's CPUs; None outside of an actor.

    Without this limit, each actor of a node would use all cores.
    """
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    here = ray.get_runtime_context()
    if here.worker.mode != ray.WORKER_MODE:  # not the driver
        return None
    n_cpus = here.get_assigned_resources().get("CPU", 0)
    return n_own_threads(n_cpus) if n_cpus else None


def _table(batch: object) -> pa.Table:
    """Convert a batch of any type to a table, in the same way as Ray Data."""
    if isinstance(batch, pa.Table):
        return batch
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    from ray.data.block import BlockAccessor, BlockType  # noqa: PLC0415 - loads pandas

    if not isinstance(batch, Mapping) and not hasattr(batch, "columns"):
        raise ArgumentTypeError(
            "a batch must be a table of pyarrow, a data frame of pandas or a dict of "
            f"arrays, not {checks.shown(batch)}",
            argument="batch",
            form="{problem}",
        )
    return BlockAccessor.batch_to_block(batch, block_type=BlockType.ARROW)
