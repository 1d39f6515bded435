"""Jobs on a server: answering, classifying or coding texts in the background."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.asks.annotate_options import AnnotateOptions
from llamaherd.asks.options import ClassifyOptions, GenerateOptions
from llamaherd.core import checks
from llamaherd.core.declaration import options_of
from llamaherd.core.errors import ArgumentError, ServerError
from llamaherd.core.plurals import part_of
from llamaherd.core.words import words
from llamaherd.remote.job_options import (
    check_of_several_requests,
    check_options,
    seed_of_request,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.core.declaration import Options
    from llamaherd.remote.client import RemoteServer

Task = Literal["generate", "classify", "annotate"]
_AT_ONCE = 32  # texts per request; a crash repeats unfinished requests
_WINDOW = "30d"
_LEFT_OUT = ("usage", "tokens")  # fields of answers to leave out
_NUMBER = re.compile(r"\d+")
_OF_TASK = "llamaherd_task"
# Entry of a batch's metadata with the language of the program that sent it: "Python" or
# "R". The server uses the terms of this language in messages and notes.
LANGUAGE = "llamaherd_language"


@dataclass(frozen=True, slots=True)
class _Kind:
    """Requests of a task.

    Attributes:
        path: Path of the requests on the server.
        field: Field of the request that contains the texts.
        n: Number of texts per request; 0 if the field is a single text.
        options: Names of the options that the task accepts.
    """

    path: str
    field: str
    n: int
    options: frozenset[str]


def _options(kind: type[Options]) -> frozenset[str]:
    """Return the options that the server accepts in requests, except for streaming."""
    return frozenset(options_of(kind, "http")) - {"priority", "stream"}


_KINDS: dict[str, _Kind] = {
    "generate": _Kind("/generate", "prompt", 0, _options(GenerateOptions)),
    "classify": _Kind("/v1/classify", "prompts", _AT_ONCE, _options(ClassifyOptions)),
    "annotate": _Kind(
        "/v1/annotate", "texts", _AT_ONCE, _options(AnnotateOptions) | {"codebook"}
    ),
}


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """State of a job.

    Attributes:
        id: Identifier.
        task: Task.
        n: Number of texts.
        status: "validating", "in_progress", "completed", "failed", "cancelled", ...
        n_requests: Number of requests.
        n_done: Number of answered requests.
        n_failed: Number of requests that ended with an error.
        errors: Reasons why the job failed, or why it does not continue at present.
        content: Identifiers of the files with answers and with errors.
    """

    id: str
    task: Task
    n: int
    status: str
    n_requests: int
    n_done: int
    n_failed: int
    errors: tuple[str, ...] = ()
    content: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether the job has ended."""
        return self.status in ("completed", "failed", "expired", "cancelled")


@dataclass(frozen=True, slots=True)
class JobOutput:
    """Results of a job.

    Attributes:
        rows: A row for each text, in order: the fields of the answer and `error`. Rows
            without an answer have only `error`; a row of an answer that was cut off
            inside its schema also has the text so far as `partial`.
        notes: Notes of the task on the first request with notes. If several requests
            were answered, each note states how many of them have notes.
    """

    rows: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)


def submit_job(
    server: RemoteServer,
    task: Task,
    texts: Sequence[str | None],
    options: Mapping[str, Any],
    model: str | None = None,
) -> RemoteJob:
    """Start a job that runs in the background, even after this process has ended.

    Args:
        server: Server.
        task: "generate" answers prompts, "classify" needs `labels`, "annotate" needs a
            `codebook`.
        texts: Prompts or texts; None for a missing text, which is left out.
        options: Options of the task, as in `generate_parallel`, `classify_parallel` and
            `annotate`.
        model: Name of the model or adapter; None uses the first model of the server.

    Raises:
        ArgumentError: An argument is invalid.
        ServerError: The server does not answer, or refuses the job.
    """
    checks.choice("task", task, tuple(_KINDS))
    kind = _KINDS[task]
    for name in options:
        if name not in kind.options:
            text = f"has {name!r}, which {task} does not accept"
            meant = checks.meant(name, kind.options)
            raise ArgumentError(f"{text}{meant}", argument="options")
    check_options(task, options)
    if task == "annotate" and sum(text is not None for text in texts) > _AT_ONCE:
        check_of_several_requests(options, _AT_ONCE)
    if model is not None:
        options = {**options, "model": checks.text("model", model)}
    lines = list(_lines(kind, texts, options))
    if not lines:
        raise ArgumentError("must have at least one text", argument="texts")
    file_id = server.upload(f"{task}.jsonl", "".join(lines).encode())
    given = {
        "input_file_id": file_id,
        "endpoint": kind.path,
        "completion_window": _WINDOW,
        "metadata": {
            _OF_TASK: task,
            "n": str(len(texts)),
            LANGUAGE: words().language,
        },
    }
    return _job(server.ask_json("POST", "/v1/batches", given))


def _lines(
    kind: _Kind, texts: Sequence[str | None], options: Mapping[str, Any]
) -> list[str]:
    """Return a line for each request, with the indices of its texts as custom_id."""
    there = [i for i, text in enumerate(texts) if text is not None]
    size = kind.n or 1
    lines = []
    for start in range(0, len(there), size):
        places = there[start : start + size]
        asked: Any = [texts[i] for i in places]
        own = {**options, **seed_of_request(options, places[0])}
        body = {kind.field: asked if kind.n else asked[0], **own}
        request = {
            "custom_id": " ".join(map(str, places)),
            "method": "POST",
            "url": kind.path,
            "body": body,
        }
        lines.append(json.dumps(request) + "\n")
    return lines


def job_status(server: RemoteServer, job_id: str) -> RemoteJob:
    """Return the state of a job.

    Raises:
        ServerError: No job has this id, or the server does not answer.
    """
    return _job(server.ask_json("GET", f"/v1/batches/{_safe(job_id)}"))


def cancel_job(server: RemoteServer, job_id: str) -> RemoteJob:
    """Cancel a job; finished answers are kept.

    A job that has ended does not change; this is not an error, because a job may end just
    before the request arrives.

    Raises:
        ServerError: No job has this id, or the server does not answer.
    """
    try:
        return _job(server.ask_json("POST", f"/v1/batches/{_safe(job_id)}/cancel"))
    except ServerError:
        job = job_status(server, job_id)
        if not job.is_done:
            raise
        return job


def list_jobs(server: RemoteServer) -> list[RemoteJob]:
    """Return the jobs of a server, the newest first."""
    found = server.ask_json("GET", "/v1/batches?limit=100")["data"]
    return [_job(each) for each in found if _OF_TASK in (each["metadata"] or {})]


def job_results(server: RemoteServer, job_id: str) -> JobOutput:
    """Return the results of a job that has ended.

    Raises:
        ServerError: The job is still running, or failed before any request ran.
    """
    job = job_status(server, job_id)
    if not job.is_done:
        raise ServerError(f"the job {job.id} is {job.status}: wait until it has ended")
    if job.status == "failed":
        raise ServerError(f"the job {job.id} failed: {'; '.join(job.errors)}")
    rows: list[dict[str, Any]] = [{"error": None} for _ in range(job.n)]
    notes: dict[int, list[str]] = {}
    unseen = set(range(job.n))
    for file_id in job.content:
        content = server.ask("GET", f"/v1/files/{file_id}/content")
        for line in content.splitlines():
            outcome = json.loads(line)
            places = [int(each) for each in outcome["custom_id"].split()]
            unseen -= set(places)
            for place, row in zip(places, _rows(outcome, len(places)), strict=True):
                rows[place] = row
            body = (outcome["response"] or {}).get("body") or {}
            notes[places[0]] = body.get("notes") or []
    reasons = {"cancelled": "the job was cancelled", "completed": "the text is missing"}
    for place in unseen:
        rows[place] = {"error": reasons.get(job.status, f"the job {job.status}")}
    return JobOutput(rows, _notes(notes))


def _notes(notes: Mapping[int, Sequence[str]]) -> list[str]:
    """Return one note of each kind, with the number of requests that have it.

    The server writes notes on each request: a large job would otherwise have hundreds of
    notes that differ only in a number.

    Args:
        notes: Notes on each answered request, by the index of its first text.
    """
    if len(notes) == 1:
        return [text for texts in notes.values() for text in texts]
    examples: dict[str, list[str]] = {}
    for place in sorted(notes):
        kinds = {_NUMBER.sub("#", text): text for text in notes[place]}
        for kind, text in kinds.items():
            examples.setdefault(kind, []).append(text)
    return [
        f"{part_of(len(texts), len(notes), 'request')} this note or a similar one: "
        f"{texts[0]}"
        for texts in examples.values()
    ]


def _rows(outcome: Mapping[str, Any], n: int) -> list[dict[str, Any]]:
    """Return the rows for the texts of a request."""
    response = outcome["response"]
    if response is None:
        return [{"error": outcome["error"]["message"]}] * n
    body = response["body"]
    if response["status_code"] != 200:
        return [{"error": body["error"]["message"]}] * n
    if "data" not in body:
        return [_answer(body)]
    return [_row(each) for each in body["data"]]


def _answer(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of an answer to one prompt.

    As in the results of `generate_parallel`, an answer that was cut off inside its schema
    is an error, and its text is in `partial`.
    """
    row = {name: each for name, each in body.items() if name not in _LEFT_OUT}
    error = row.pop("error", None)
    if error is None:
        return {**row, "error": None}
    cut = {"text": None, "partial": row.get("text"), "finish_reason": "error"}
    return {**row, **cut, "error": str(error["message"])}


def _row(each: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of one text of a request with several texts."""
    error = each.get("error")
    row = {name: value for name, value in each.items() if name != "index"}
    probs = row.pop("probs", None) or {}
    row.pop("logprobs", None)
    row |= {f"p_{name}": value for name, value in probs.items()}
    return {**row, "error": None if error is None else str(error["message"])}


def _job(batch: Mapping[str, Any]) -> RemoteJob:
    metadata, counts = batch["metadata"] or {}, batch["request_counts"]
    errors = (batch["errors"] or {}).get("data", ())
    files = (batch["output_file_id"], batch["error_file_id"])
    return RemoteJob(
        id=batch["id"],
        task=metadata.get(_OF_TASK, "generate"),
        n=int(metadata.get("n", counts["total"])),
        status=batch["status"],
        n_requests=counts["total"],
        n_done=counts["completed"],
        n_failed=counts["failed"],
        errors=tuple(
            each["message"]
            if each["line"] is None
            else f"line {each['line']}: {each['message']}"
            for each in errors
        ),
        content=tuple(each for each in files if each is not None),
    )


def _safe(job_id: str) -> str:
    """Return an identifier that is safe as a part of a path."""
    if not checks.text("job", job_id).replace("_", "").isalnum():
        text = f"must be the identifier of a job, not {checks.shown(job_id)}"
        raise ArgumentError(text, argument="job")
    return job_id
