"""Shared parts of commands on tables: description, execution and end of a run."""

from __future__ import annotations

import sys
import warnings
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llamaherd.cli.conventions import (
    EXPECTED,
    ExitStatus,
    print_failure,
    tell,
    warn,
)
from llamaherd.cli.kinds import read_text, to_read
from llamaherd.cli.model_flags import fits_file_to_memory
from llamaherd.engine.core.caller import cut_note
from llamaherd.engine.core.errors import BadArgumentError
from llamaherd.engine.core.files import is_special
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.progress import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from llamaherd.calls.run.host import Host
    from llamaherd.engine.model.model import Model
    from llamaherd.ray.cluster import Cluster
    from llamaherd.tables.execution import Outcome
    from llamaherd.tables.spec import RunSpec
    from llamaherd.tasks.task import Kind

_CLUSTER_BLOCK = 200_000  # rows per block, which is divided among actors


def run_table(task: Kind | None, options: Mapping[str, Any]) -> int:
    """Execute the run that a command's options describe, and return the exit status."""
    from llamaherd.tables.execution import (  # loads the engine
        BLOCK,
        do_run,
        on_this_machine,
    )
    from llamaherd.tables.spec_file import with_changes, write_spec
    from llamaherd.tables.stored import STREAM

    keys = {
        key.replace("__", "."): value
        for key, value in options.items()
        if value is not None
    }
    shard, save = keys.pop("shard", None), keys.pop("save", None)
    overwrite = keys.pop("overwrite", False)
    is_quiet, cluster = keys.pop("quiet", False), keys.pop("cluster", None)
    is_shown = keys.pop("show_prompt", False)
    spec = _spec(task, keys.pop("input"), _with_streams(keys))
    if spec.input == STREAM and sys.stdin is not None and sys.stdin.isatty():
        say("the table is read from this terminal, as no file is named: Ctrl-D ends it")
    if is_shown and ("path" in spec.model or not spec.row_task.chat):
        return _show_prompt(spec)
    if "path" not in spec.model:
        raise click.UsageError("Missing option '-m' / '--model': the model to use.")
    if save is not None:
        write_spec(spec, save)
        tell(f"wrote {save}; `llamaherd run {save}` executes it")
        return ExitStatus.DONE
    show = sys.stderr.isatty() and not is_quiet
    has_begun = False

    def open_host(spec: RunSpec) -> AbstractContextManager[Host | Model]:
        nonlocal has_begun
        has_begun = True
        spec = with_changes(spec, {"model.path": str(_model_file(spec, show))})
        return on_this_machine(spec) if cluster is None else _cluster(cluster, spec)

    with shown_warnings(), _ending(spec, shard):
        try:
            outcome = do_run(
                spec,
                shard=shard,
                progress=show,
                overwrite=overwrite,
                open_host=open_host,
                block=BLOCK if cluster is None else _CLUSTER_BLOCK,
            )
        except EXPECTED as error:
            if isinstance(error, (BadArgumentError, BrokenPipeError)) or not has_begun:
                raise  # `main` knows the status
            return print_failure(error)
    return print_outcome(outcome)


def _with_streams(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's keys with the content of pipes, which can be read only once."""
    from llamaherd.coding.annotation.codebook_file import read_codebook

    readers: dict[str, Callable[[str], Any]] = {
        "codebook": lambda path: read_codebook(path).to_dict(),
        "sampling.schema": read_text,
        "chat_template": read_text,
    }
    paths = {key: to_read(keys[key]) for key in readers if isinstance(keys.get(key), str)}
    contents = {
        key: readers[key](path) for key, path in paths.items() if is_special(Path(path))
    }
    return {**keys, **contents}


def _show_prompt(spec: RunSpec) -> int:
    """Print the prompt of the first row, and return the exit status."""
    from llamaherd.tables.execution import first_prompt
    from llamaherd.tables.spec_file import with_changes

    if spec.row_task.chat:
        spec = with_changes(spec, {"model.path": str(_model_file(spec, show=False))})
    click.echo(first_prompt(spec))
    return ExitStatus.DONE


def _model_file(spec: RunSpec, show: bool) -> Path:
    """Return the model file of a run, downloaded if needed; `show` prints its source."""
    from llamaherd.engine.hub.fetch import model_path

    is_limited = fits_file_to_memory(spec.loading)
    return model_path(spec.path, check_memory=is_limited, name="model", progress=show)


def print_outcome(outcome: Outcome) -> int:
    """Print how a run ended, and return the exit status."""
    if outcome.problem:
        warn(outcome.problem)
    if outcome.summary:
        say(outcome.summary)
    if outcome.n_cut:
        warn(cut_note(outcome.n_cut, outcome.n_rows))
    if outcome.n_failed:
        warn(
            f"{outcome.n_failed} of {outcome.n_rows} rows failed; their column "
            f"{outcome.error_column!r} gives the reasons"
        )
        return ExitStatus.ROWS_FAILED
    return ExitStatus.DONE


def _cluster(address: str, spec: RunSpec) -> Cluster:
    """Start the actors of a run on a cluster, one on each machine."""
    from llamaherd.ray.cluster import Cluster  # optional dependency
    from llamaherd.ray.config import Config
    from llamaherd.tables.spec_keys import of_table

    with of_table("context"):
        config = Config(spec.path, model_options=spec.loading, context=spec.context)
        return Cluster(config, address=None if address == "local" else address)


def _spec(task: Kind | None, table: str, keys: dict[str, Any]) -> RunSpec:
    """Return the run that a TOML file or the options describe."""
    from llamaherd.tables.spec_file import (
        parsed_setting,
        read_spec,
        spec_of,
        with_changes,
    )

    settings = dict(map(parsed_setting, keys.pop("settings", ())))
    is_file = table.lower().endswith(".toml")
    if is_file:
        spec = read_spec(table)
        if task is not None and spec.task != task:
            raise click.UsageError(
                f"{table} describes a run of task {spec.task!r}: `llamaherd run {table}` "
                "executes it."
            )
    else:
        run_fields: dict[str, Any] = {"task": task or "generate", "input": table}
        # Fields that every run needs.
        if "classify.labels" in keys:
            run_fields["classify"] = {"labels": keys.pop("classify.labels")}
        if "codebook" in keys:
            run_fields["codebook"] = keys.pop("codebook")
        spec = spec_of(run_fields)
    for name in ("n_threads", "deterministic"):  # in a table that depends on the task
        if name in keys:
            where = "embed" if spec.task == "embed" else "context"
            keys[f"{where}.{name}"] = keys.pop(name)
    return with_changes(spec, {**keys, **settings})


@contextmanager
def _ending(spec: RunSpec, shard: tuple[int, int] | None) -> Iterator[None]:
    """After Ctrl-C or SIGTERM in the block, print how to resume the run."""
    from llamaherd.tables.execution import journal_path

    try:
        yield
    except KeyboardInterrupt as error:
        path = journal_path(spec, shard)
        if path is None:
            n = getattr(error, "n_written", 0) if spec.output == "-" else 0
            rows = f"stdout has {count_of(n, 'row')}, and " if n else ""
            others = "no other results" if n else "no results"
            warn(f"ended early; {rows}{others} are kept, because there was no journal")
        else:
            warn(f"ended early: {path} has the finished rows, and the same command "
                 "continues from there")  # fmt: skip
        raise


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Show warnings in the format of the command, also under PYTHONWARNINGS=error."""
    with warnings.catch_warnings():
        for action, _, category, *_ in list(warnings.filters):
            if action == "error":
                warnings.simplefilter("default", category)
        warnings.showwarning = lambda message, *_, **__: warn(str(message))
        yield
