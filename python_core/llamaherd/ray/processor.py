"""Function for the rows of a data set of Ray Data, in the form of `ray.data.llm`."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from llamaherd.calls.api.classify import classify_parallel
from llamaherd.calls.api.embed import embed_parallel
from llamaherd.calls.api.generate import generate_parallel
from llamaherd.calls.api.running import start
from llamaherd.calls.asks.requests import place_of
from llamaherd.calls.structured.columns import array
from llamaherd.coding.annotation.annotate import annotate
from llamaherd.coding.annotation.columns import names_of_columns
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.ray.config import Config, check_config, n_threads_of, versions
from llamaherd.ray.connect import import_ray
from llamaherd.tables.template import Template
from llamaherd.tasks.make import make_task
from llamaherd.tasks.task import KINDS, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llamaherd.calls.run.context import Context
    from llamaherd.engine.model.model import Model

    Row = dict[str, Any]
    Columns = str | Mapping[str, str | None] | None

# For each task its call, the column with its prompts or texts, and the arguments of the
# call that rows and actors determine.
_CALLS: dict[Kind, tuple[Callable[..., object], str, set[str]]] = {
    "generate": (generate_parallel, "prompt", {"context", "prompts"}),
    "classify": (classify_parallel, "prompt", {"context", "prompts"}),
    "annotate": (annotate, "text", {"frame", "text", "context", "columns"}),
    "embed": (embed_parallel, "text", {"model", "texts"}),
}
# Arguments that need the whole call; Ray Data has checkpoints in place of journals.
_REFUSED = {"journal", "progress", "on_error", "n", "params", "logprobs", "versions"}
_ALL_ROWS = (
    "calibrate='batch', until and larger depend on all rows, but a batch has only some; "
    "calibrate='contextual' does not depend on rows"
)


def map(  # noqa: A001 - named as Ray's own `Dataset.map`
    config: Config,
    *,
    task: Kind = "generate",
    preprocess: Callable[[Row], Row] | None = None,
    postprocess: Callable[[Row], Row] | None = None,
    columns: Columns = None,
    id_column: str | None = None,
    **settings: Any,  # options of the call
) -> Processor:
    r"""Return a function that adds a model's answers to the rows of a `Dataset`.

        processor = lh.ray.map(
            lh.ray.Config("model.gguf", concurrency=8, num_cpus=4),
            task="classify",
            labels=["good", "bad"],
            preprocess=lambda row: {"prompt": f"Review: {row['text']}\nThe review is"},
        )
        processor(ray.data.read_parquet("texts/")).write_parquet("labelled/")

    Rows keep their order and their columns. The types of the new columns are the same in
    all batches. A row that fails has no answer; its reason is in "error". A row also
    fails if its text is missing, empty or invalid UTF-8. If an actor dies, Ray Data sends
    its batches to another one, which draws the same answers.

    Args:
        config: Model and actors.
        task: Task, which determines the new columns. "generate": "text", "finish_reason"
            and "error", or the fields of the schema and "error"; "classify": "label",
            "prob", "margin", "entropy", "coverage", "p_<label>", "error"; "annotate": the
            columns of `annotate`; "embed": "embedding", float32[n_embd], and "error".
        preprocess: Function of a row, whose result is added to the row. The model reads
            the column "prompt" ("text" for "annotate" and "embed").
        postprocess: Function of a row with its answer, which returns the final row.
        columns: Names of the new columns, as in `annotate`: a prefix for all, or a
            mapping from the names above to new names, with None for columns to omit.
        id_column: Column whose values identify rows, for the task "generate". The seed of
            a row is derived from `seed` and this value, or from `seed` and the prompt. If
            the values are the integers 0 to n - 1, the answers equal those of one call
            with all n prompts in this order.
        **settings: Arguments of `generate_parallel`, `classify_parallel`, `annotate` or
            `embed_parallel`, such as max_tokens, schema, labels, codebook, chat.

    Raises:
        TypeError: An argument has the wrong type or an unknown name.
        ValueError: An argument is out of range, or cannot be used with batches.
    """
    check_config(config)
    checks.choice("task", task, KINDS)
    _check_settings(task, settings)
    for name, function in (("preprocess", preprocess), ("postprocess", postprocess)):
        if function is not None and not callable(function):
            raise ArgumentTypeError(
                f"must be a function, not {checks.brief(function)}", argument=name
            )
    if id_column is not None and task != "generate":
        raise ArgumentError(
            f"needs task 'generate', not {task!r}, with which equal texts always have "
            "equal answers",
            argument="id_column",
            code="conflict",
        )
    if task == "embed" and config.context:
        raise ArgumentError(
            "cannot be combined with task 'embed': pass n_threads and deterministic "
            "directly",
            argument="context",
            code="conflict",
        )
    work = make_task(task, settings)
    if work.reads_all:
        raise ArgumentError(_ALL_ROWS, argument="calibrate", code="needs_all_rows")
    roles = list(work.columns)
    if not work.chat:  # in chats, a model that thinks adds columns
        names_of_columns(roles, columns, ())
    answer = {
        "task": task,
        "columns": columns,
        "id_column": None if id_column is None else checks.text("id_column", id_column),
        "settings": settings,
    }
    return Processor(config, answer, preprocess, postprocess)


class Processor:
    """Function of a data set of Ray Data, made by `map`."""

    def __init__(
        self,
        config: Config,
        answer: Mapping[str, Any],
        preprocess: Callable[[Row], Row] | None,
        postprocess: Callable[[Row], Row] | None,
    ) -> None:
        self._config, self._answer = config, answer
        self._preprocess, self._postprocess = preprocess, postprocess

    def __call__(self, dataset: Any) -> Any:  # types of Ray
        """Return the data set (a `ray.data.Dataset`) with the new columns."""
        ray, preprocess = import_ray(), self._preprocess
        if not isinstance(dataset, ray.data.Dataset):
            raise ArgumentTypeError(
                "must be a Dataset of Ray, such as ray.data.from_pandas(frame), not "
                f"{checks.brief(dataset)}",
                argument="dataset",
            )
        config = self._config.on_cluster(ray)
        least, most = config.bounds(1)
        size = {"size": most} if least == most else {"min_size": least, "max_size": most}
        if preprocess is not None:
            dataset = dataset.map(lambda row: {**row, **preprocess(row)})
        dataset = dataset.map_batches(
            BatchAnswering,
            fn_constructor_args=(config, versions(), self._answer),
            batch_size=config.batch_size,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(**size),
            num_cpus=config.num_cpus,
            **config.actor_options,
        )
        if self._postprocess is not None:
            dataset = dataset.map(self._postprocess)
        dataset.context.execution_options.preserve_order = True
        return dataset


class BatchAnswering:
    """Object in an actor of Ray Data: adds answers to batches of rows.

    Several batches run at once, so that no slot of the context is idle between them.
    """

    def __init__(
        self, config: Config, expected: Mapping[str, str], answer: Mapping[str, Any]
    ) -> None:
        settings = dict(answer["settings"])
        self._columns, self._id_column = answer["columns"], answer["id_column"]
        self._source = _CALLS[answer["task"]][1]
        self._model: Model = config.open_model(expected)
        self._host: Model | Context = self._model
        if answer["task"] == "embed":
            settings.setdefault("n_threads", n_threads_of(config.num_cpus or 1))
        else:
            self._host = config.open_context(self._model)
        self._task = make_task(answer["task"], settings).of_model(self._model)

    async def __call__(self, table: pa.Table) -> pa.Table:
        """Return the rows of a batch in their order, with the new columns."""
        task, types = self._task, self._task.columns
        names = names_of_columns(list(types), self._columns, table.column_names)
        texts = _values(table, self._source)
        ids = texts if self._id_column is None else _values(table, self._id_column)
        template = Template.of_column(self._source)
        filled = [template.filled({self._source: value}) for value, _ in texts]
        inputs = zip(texts, ids, filled, strict=True)
        problems = [
            text[1] or identifier[1] or problem
            for text, identifier, (_, problem) in inputs
        ]
        answered = [i for i, problem in enumerate(problems) if not problem]
        prompts = [filled[i][0] for i in answered]
        is_by_text = self._id_column is None
        seeds = prompts if is_by_text else [ids[i][0] for i in answered]
        places = [place_of(x) if is_by_text else _place(x) for x in seeds]
        work = task.requests(self._host, prompts, places, None)  # type: ignore[arg-type]
        cells = task.rows(await start(lambda: work))
        rows = [task.failed(problem) for problem in problems]
        for role, name in names.items():
            values = [row[role] for row in rows]
            for i, value in zip(answered, cells[role], strict=True):
                values[i] = value
            table = table.append_column(name, array(values, types[role]))
        return table


def _check_settings(task: Kind, settings: Mapping[str, object]) -> None:
    """Check the names of settings, before an actor loads a model."""
    call, _, call_arguments = _CALLS[task]
    parameters = inspect.signature(call).parameters
    allowed = [name for name in parameters if name not in call_arguments | _REFUSED]
    for name in settings:
        if name in _REFUSED and name in parameters:
            problem = "cannot be combined with batches, each of which is a call"
            raise ArgumentError(problem, argument=name, code="conflict")
        if name not in allowed:
            meant = checks.meant(name, allowed)
            raise ArgumentTypeError(f"{task!r} has no argument {name!r}{meant}")
    for name in allowed:
        if parameters[name].default is inspect.Parameter.empty and name not in settings:
            raise ArgumentTypeError(f"{task!r} needs {name}", argument="task")
    seed = settings.get("seed", 0)
    if seed is None or (isinstance(seed, int) and seed < 0):
        raise ArgumentError(
            f"must be at least 0, not {seed!r}: a batch that is answered again must "
            "draw the same tokens",
            argument="seed",
            code="out_of_range",
        )


def _values(table: pa.Table, name: str) -> list[tuple[Any, str]]:
    """Return pairs of a value and its problem; the problem of a valid value is ""."""
    if name not in table.column_names:
        names = ", ".join(table.column_names[:20]) or "none"
        raise ArgumentError(
            f"rows have no column {name!r} (they have {names}): preprocess can return it",
            argument="preprocess",
            code="unknown_column",
            form="{problem}",
        )
    column = table[name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return [(value, "") for value in column.to_pylist()]
    # A file's string column may contain invalid UTF-8.
    return [_decode_cell(raw, name) for raw in column.cast(pa.large_binary()).to_pylist()]


def _decode_cell(raw: bytes | None, name: str) -> tuple[str | None, str]:
    try:
        return (None if raw is None else raw.decode()), ""
    except UnicodeDecodeError as error:
        return "", f"column {name!r} is not valid UTF-8: {error.reason}"


def _place(value: object) -> int:
    """Return the number from which a row's seed is derived; keep integers unchanged."""
    is_place = isinstance(value, int) and 0 <= value < 2**64
    return int(value) if is_place else place_of(json.dumps(value, default=str))  # type: ignore[call-overload]
