"""Files and batches, as they are stored and as clients see them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Literal

Status = Literal[
    "validating",
    "failed",
    "in_progress",
    "finalizing",
    "completed",
    "expired",
    "cancelling",
    "cancelled",
]
# Statuses of batches that the server still works on.
ACTIVE: tuple[Status, ...] = ("validating", "in_progress", "finalizing", "cancelling")
_TIMES = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a client, or the output of a batch.

    Attributes:
        id: Identifier, which is also the name of the file on disk.
        filename: Name that the client gave.
        purpose: "batch" or "batch_output".
        n_bytes: Size.
        created: Time of the upload in seconds since 1970.
        expires: Time of its removal; None if it is never removed.
    """

    id: str
    filename: str
    purpose: str
    n_bytes: int
    created: int
    expires: int | None = None

    @property
    def shape(self) -> dict[str, object]:
        """File in the format of OpenAI's API."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.n_bytes,
            "created_at": self.created,
            "expires_at": self.expires,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """Progress of a batch for the page of the server.

    Attributes:
        id: Identifier of the batch.
        endpoint: Path of all requests.
        status: Status.
        n_total: Number of requests; 0 before they are counted.
        n_done: Number of requests with an answer or an error.
        n_here: Number of these requests that this server ran.
        elapsed_s: Seconds since this server began to run the batch.
        problem: Reason why the batch waits; "" if it does not wait.
    """

    id: str
    endpoint: str
    status: Status
    n_total: int
    n_done: int
    n_here: int = 0
    elapsed_s: float = 0.0
    problem: str = ""

    @property
    def left_s(self) -> float | None:
        """Expected seconds until the end at the speed so far; None if it is unknown."""
        if not self.n_here or self.n_done > self.n_total:
            return None
        return (self.n_total - self.n_done) * self.elapsed_s / self.n_here


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of requests.

    Attributes:
        id: Identifier.
        endpoint: Path of all requests.
        input_file: Identifier of the file with the requests.
        created: Time of its creation in seconds since 1970.
        expires: Time after which requests are not started any more.
        window: `completion_window` of the client.
        metadata: Notes of the client.
        keep_s: Seconds that its output files are kept; None keeps them forever.
        status: Status.
        times: Start time of each status so far.
        n_total: Number of requests; 0 before they are counted.
        n_done: Number of answered requests.
        n_failed: Number of requests that ended with an error.
        output_file: Identifier of the file with the answers; None if there is no file.
        error_file: Identifier of the file with the errors; None if there is no file.
        errors: Errors of the input file.
        models: Identity of the model for each name in the requests, "" for requests
            without a name; None before the first request. Only these models answer.
    """

    id: str
    endpoint: str
    input_file: str
    created: int
    expires: int
    window: str
    metadata: dict[str, str] = field(default_factory=dict)
    keep_s: int | None = None
    status: Status = "validating"
    times: dict[str, int] = field(default_factory=dict)
    n_total: int = 0
    n_done: int = 0
    n_failed: int = 0
    output_file: str | None = None
    error_file: str | None = None
    errors: list[dict[str, object]] = field(default_factory=list)
    models: dict[str, str] | None = None

    @property
    def is_active(self) -> bool:
        """Whether the server still works on the batch."""
        return self.status in ACTIVE

    @property
    def shape(self) -> dict[str, object]:
        """Batch in the format of OpenAI's API."""
        errors = {"object": "list", "data": self.errors} if self.errors else None
        times = {f"{name}_at": self.times.get(name) for name in (*_TIMES, "cancelled")}
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "errors": errors,
            "input_file_id": self.input_file,
            "completion_window": self.window,
            "status": self.status,
            "output_file_id": self.output_file,
            "error_file_id": self.error_file,
            "created_at": self.created,
            "expires_at": self.expires,
            **times,
            "request_counts": {
                "total": self.n_total,
                "completed": self.n_done,
                "failed": self.n_failed,
            },
            "metadata": self.metadata or None,
        }


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """Outcome of one request of a batch.

    Attributes:
        line: Number of its line, from 0.
        custom_id: Identifier that the client gave.
        status: HTTP status; 0 if it was not computed.
        body: Body of the answer as JSON, or the error of a request that was not computed.
    """

    line: int
    custom_id: str
    status: int
    body: str

    @property
    def is_good(self) -> bool:
        """Whether the request was answered."""
        return self.status == 200

    def text(self, batch_id: str) -> str:
        """Return the line of the output file, or of the file of errors."""
        name = f"{batch_id.removeprefix('batch_')}_{self.line}"
        start = f'{{"id":"batch_req_{name}","custom_id":{json.dumps(self.custom_id)}'
        if not self.status:
            return f'{start},"response":null,"error":{self.body}}}\n'
        response = f'"status_code":{self.status},"request_id":"req_{name}"'
        return f'{start},"response":{{{response},"body":{self.body}}},"error":null}}\n'
