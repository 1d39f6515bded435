"""Ray Data: batches of rows in, the same rows with a model's answers out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from llamaherd.core import checks
from llamaherd.model.model import Model
from llamaherd.ray.cores import n_own_threads
from llamaherd.ray.rows import Rows
from llamaherd.ray.tasks import (
    NAMES,
    annotating,
    check_settings,
    classifying,
    embedding,
    generating,
)
from llamaherd.research.coding.columns import named
from llamaherd.run.context import Context

if TYPE_CHECKING:
    import os

    from llamaherd.ray.tasks import Name, Task


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
            num_cpus=4,  # of each, which are its threads
            batch_size=1024,
        )
        ds.write_parquet("labelled/")

    Each actor loads the model and has a context of its own. Rows come back as they are,
    with columns added whose types are the same in all batches, as a table of pyarrow
    whatever kind the batch was of. A row that fails has no answer but a reason in
    "error"; so has one whose text is missing, empty or no valid UTF-8. A batch of an
    actor that died is answered again by another one (Ray Data sees to that): the same is
    drawn for it as before.

    Args:
        model: As `Model` takes it: a path that there is on every node, or
            "hf:owner/repo", which each node downloads once.
        task: "generate": texts, columns "text", "finish_reason" and "error", or those of
            the schema and "error"; "classify": "label", "prob", "margin", "entropy",
            "coverage", "p_<label>", "error"; "annotate": those of `annotate`; "embed":
            "embedding", float32[n_embd], and "error".
        prompt: A template with the names of columns in braces, "{{" for a brace.
        column: In place of it the name of the column that has the prompts or texts.
        columns: Names of the new columns, as in `annotate`: a text that comes before
            each, or a mapping of the names above to others, None for what is not wanted.
        id_column: With "generate": a column that tells rows apart. What is drawn for a
            row is drawn with a seed made of `seed` and its value there; without it of
            `seed` and the prompt, so that equal prompts have equal answers. Whole numbers
            from 0 to n - 1 give the answers of one call with all n prompts in that order.
        model_options: Further arguments of `Model`.
        context: Arguments of `Context`. With "deterministic" a row's answer is the same
            to the last bit in whatever batch it is. Unless "n_threads" is there, an actor
            has one on each physical core of the CPUs that Ray lends it (`num_cpus=`).
        **settings: Arguments of `generate_parallel`, `classify_parallel`, `annotate` or
            `embed_parallel`, such as max_tokens, schema, labels, codebook, chat.

    Raises:
        TypeError: An argument has the wrong type, or there is none of that name.
        ValueError: An argument is out of range, or does not go with batches.
        ModelLoadError: As `Model`.
        ContextError: As `Context`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        task: Name = "generate",
        prompt: str | None = None,
        column: str | None = None,
        columns: str | Mapping[str, str | None] | None = None,
        id_column: str | None = None,
        model_options: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        **settings: Any,  # noqa: ANN401 - those of the call
    ) -> None:
        self._name = checks.choice("task", task, NAMES)
        check_settings(self._name, settings)
        if id_column is not None and self._name != "generate":
            raise ValueError(
                f"id_column goes with task 'generate', not {self._name!r}, which gives "
                "equal texts equal answers"
            )
        self._rows = Rows(prompt=prompt, column=column, id_column=id_column)
        self._columns = columns
        self._model = Model(model, **_options("model_options", model_options))
        try:
            self._task = self._opened(_options("context", context), settings)
        except BaseException:
            self._model.close()
            raise

    def __call__(self, batch: object) -> pa.Table:
        """Answers a batch.

        Args:
            batch: A table of pyarrow, a data frame of pandas or a dict of arrays.

        Returns:
            Its rows in their order, with the new columns.

        Raises:
            TypeError: It is of another kind.
            ValueError: There is no such column, or a new one is there already.
            ContextError: There is not enough memory.
        """
        table = _table(batch)
        names = named(list(self._task.types), self._columns, table.column_names)
        asked = self._rows.asked(table)
        there = [i for i, problem in enumerate(asked.problems) if not problem]
        found = self._task.answer(
            [asked.texts[i] for i in there], [asked.places[i] for i in there]
        )
        for role, name in names.items():
            values: list[Any] = [None] * table.num_rows
            if role == self._task.error:
                values = [problem or None for problem in asked.problems]
            for i, value in zip(there, found[role], strict=True):
                values[i] = value
            # NaN stands for numbers that there are none of.
            made = pa.array(values, self._task.types[role], from_pandas=True)
            table = table.append_column(name, made)
        return table

    def close(self) -> None:
        """Gives the memory back; an actor's end does so as well."""
        self._model.close()

    def _opened(self, options: dict[str, Any], settings: dict[str, Any]) -> Task:
        if self._name == "embed":
            if options:
                raise ValueError(
                    f"context does not go with task 'embed', not {sorted(options)}: "
                    "n_threads and deterministic are arguments of their own"
                )
            return embedding(self._model, {"n_threads": _n_threads(), **settings})
        self._context = Context(self._model, **{"n_threads": _n_threads(), **options})
        makers = {
            "generate": generating,
            "classify": classifying,
            "annotate": annotating,
        }
        return makers[self._name](self._context, settings)


def _options(name: str, given: object) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must map names to values, not be {checks.shown(given)}")
    return {checks.text(f"{name}: a name", key): value for key, value in given.items()}


def _n_threads() -> int | None:
    """Threads for the CPUs that Ray lent to this actor; None: it is none, or has none.

    Without it each of several actors of a node would take all cores.
    """
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    here = ray.get_runtime_context()
    if here.worker.mode != ray.WORKER_MODE:  # it is the driver
        return None
    n_cpus = here.get_assigned_resources().get("CPU", 0)
    return n_own_threads(n_cpus) if n_cpus else None


def _table(batch: object) -> pa.Table:
    """A batch of any kind as a table, as Ray Data itself makes it."""
    if isinstance(batch, pa.Table):
        return batch
    from ray.data.block import BlockAccessor, BlockType  # noqa: PLC0415 - loads pandas

    if not isinstance(batch, Mapping) and not hasattr(batch, "columns"):
        raise TypeError(
            "a batch must be a table of pyarrow, a data frame of pandas or a dict of "
            f"arrays, not {checks.shown(batch)}"
        )
    return BlockAccessor.batch_to_block(batch, block_type=BlockType.ARROW)
