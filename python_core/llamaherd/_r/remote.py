"""Servers in separate processes, and jobs on them, for R."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd import remote
from llamaherd._r.boundary import boundary, clean, clean_or_none
from llamaherd._r.quotes import rows_of_r
from llamaherd._r.starts import StartWork
from llamaherd.tasks.annotate import Annotate

if TYPE_CHECKING:
    from collections.abc import Sequence


def _server(server: remote.RemoteServer) -> dict[str, Any]:
    return {
        "name": server.name,
        "url": server.url,
        "key": server.key,
        "pid": server.pid,
        "model": clean(server.model),
        "folder": clean(server.folder),
        "stays": server.stays,
    }


def _job(job: remote.RemoteJob) -> dict[str, Any]:
    return {
        "id": job.id,
        "task": job.task,
        "n": job.n,
        "status": job.status,
        "n_requests": job.n_requests,
        "n_done": job.n_done,
        "n_failed": job.n_failed,
        "is_done": job.is_done,
        "errors": [clean(text) for text in job.errors],
    }


@boundary
def remote_at(folder: str) -> None:
    """Set the folder of all servers to the value from R; "" means the default.

    Python does not see environment variables that R sets after Python's start.
    """
    if folder:
        os.environ[remote.FOLDER_VARIABLE] = folder
    else:
        os.environ.pop(remote.FOLDER_VARIABLE, None)


@boundary
def remote_start(  # noqa: PLR0917 - R names none
    models: Sequence[str],
    model_names: Sequence[str],
    loras: Sequence[str],
    lora_names: Sequence[str],
    name: str,
    port: int,
    stay: bool,
    options: Sequence[str],
) -> dict[str, Any]:
    """Start to start a server; return the job, whose result is for `remote_started`.

    If a server of this name runs, the job returns this server.

    Args:
        models: Models.
        model_names: Names of the models; empty to use the names of the files.
        loras: Adapters.
        lora_names: Names of the adapters.
        name: Name of the server.
        port: Port; 0 for any free port.
        stay: Whether the server continues after this process ends.
        options: Further arguments of the command.
    """
    model: remote.Models = list(models)
    if model_names:
        model = dict(zip(model_names, models, strict=True))
    elif len(models) == 1:
        model = models[0]
    start = partial(
        remote.start_server,
        model,
        lora=dict(zip(lora_names, loras, strict=True)),
        name=name,
        port=port,
        stay=stay,
        options=options,
    )
    return {"job": lh.Job(StartWork(start))}


@boundary
def remote_started(job: lh.Job[remote.RemoteServer | None]) -> dict[str, Any] | None:
    """Return the started server; None if the job was cancelled."""
    made = job.results()
    return None if made is None else _server(made)


@boundary
def remote_server(name: str) -> dict[str, Any]:
    """Return a server by its name."""
    return _server(remote.server_named(name))


@boundary
def remote_stop(name: str) -> bool:
    """Stop a server; return True if it ran."""
    return remote.stop_server(remote.server_named(name))


@boundary
def remote_servers() -> list[dict[str, Any]]:
    """Return all servers as columns; `running` is True for running servers."""
    return [
        {**_server(each), "running": each.is_running} for each in remote.list_servers()
    ]


@boundary
def remote_submit(
    name: str,
    task: remote.Task,
    texts: Sequence[str | None],
    options: str,
    model: str | None,
) -> dict[str, Any]:
    """Submit a job.

    Args:
        name: Name of the server.
        task: Task.
        texts: Texts; None for a missing text.
        options: Options as JSON.
        model: Name of the model; None for the first model of the server.
    """
    server = remote.server_named(name)
    given = json.loads(options)
    return _job(remote.submit_job(server, task, list(texts), given, model))


@boundary
def job_columns(options: str) -> dict[str, str]:
    """Return the types of the columns of a job that labels texts by a codebook, by name.

    Args:
        options: Options of the job as JSON, with a codebook.

    Returns:
        Kind of each column, see `Column`; {} for a codebook of fields or passages, and
        if an option is invalid, which `remote_submit` or the server reports.
    """
    given = json.loads(options)
    book = lh.Codebook.from_dict(given.pop("codebook"))
    try:
        columns = Annotate(book, given).columns
    except (TypeError, ValueError):
        return {}
    if book.kind.is_generated:
        return {}
    return {clean(name): column.kind for name, column in columns.items()}


@boundary
def remote_job(name: str, job_id: str, cancel: bool) -> dict[str, Any]:
    """Return the state of a job; cancel it first if `cancel` is True."""
    ask = remote.cancel_job if cancel else remote.job_status
    return _job(ask(remote.server_named(name), job_id))


@boundary
def remote_results(name: str, job_id: str, codebook: str | None) -> dict[str, Any]:
    """Return the results of a job: rows as JSON, and notes.

    Args:
        name: Name of the server.
        job_id: Job.
        codebook: Codebook of a job that codes texts, as JSON; None for other jobs.
            Positions of quotes then count from 1, and `answers` has the answers of a
            codebook of fields or passages as JSON.
    """
    found = remote.job_results(remote.server_named(name), job_id)
    notes = [clean(text) for text in found.notes]
    return {**_rows(found.rows, codebook), "notes": notes}


@boundary
def job_rows(rows: str, codebook: str | None) -> dict[str, Any]:
    """Return rows, given as JSON, in the form of `remote_results`."""
    return _rows(json.loads(rows), codebook)


def _rows(rows: list[dict[str, Any]], codebook: str | None) -> dict[str, Any]:
    answers = None
    if codebook is not None:
        book = lh.Codebook.from_dict(json.loads(codebook))
        rows, answers = rows_of_r(rows, book)
    return {
        "rows": clean(json.dumps(rows)),
        "answers": answers and [clean_or_none(each) for each in answers],
    }
