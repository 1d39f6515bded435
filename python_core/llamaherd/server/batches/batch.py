"""Batches: their files, the lines with requests, and the outcomes."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from llamaherd.server.errors import ApiError
from llamaherd.server.formats import PathFormat
from llamaherd.server.protocol import parse_object
from llamaherd.server.schemas import OBJECT, SOME_TEXT, TEXT, shown_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Status = Literal[
    "validating",
    "in_progress",
    "finalizing",
    "cancelling",
    "failed",
    "completed",
    "expired",
    "cancelled",
]
# Statuses of batches that the server still works on.
ACTIVE = ("validating", "in_progress", "finalizing", "cancelling")
_TIMES = (
    *("in_progress", "finalizing", "completed", "failed", "expired"),
    *("cancelling", "cancelled"),
)
MOST_REQUESTS = 50_000  # as in OpenAI's API
_MOST_ERRORS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a client, or the output of a batch; its id is its name on disk."""

    id: str
    filename: str
    purpose: str  # "batch" or "batch_output"
    n_bytes: int
    created: int  # seconds since 1970, like all times
    expires: int | None = None  # None: it is never removed

    @property
    def document(self) -> dict[str, object]:
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
class Batch:
    """A batch of requests.

    `models` has the identity of the model for each name in the requests, "" for requests
    without a name; None before the first request. Only these models answer.
    """

    id: str
    endpoint: str
    input_file: str
    created: int
    expires: int  # no request starts later
    window: str  # `completion_window` of the client
    metadata: dict[str, str] = field(default_factory=dict)
    keep_s: int | None = None  # of the output files; None keeps them forever
    status: Status = "validating"
    times: dict[str, int] = field(default_factory=dict)  # start of each status so far
    n_total: int = 0  # 0 before the requests are counted
    n_done: int = 0
    n_failed: int = 0
    output_file: str | None = None
    error_file: str | None = None
    errors: list[dict[str, object]] = field(default_factory=list)  # of the input file
    models: dict[str, str] | None = None

    @property
    def is_active(self) -> bool:
        """Whether the server still works on the batch."""
        return self.status in ACTIVE

    @property
    def progress(self) -> BatchProgress:
        """Progress according to the stored outcomes."""
        return BatchProgress(
            id=self.id,
            endpoint=self.endpoint,
            status=self.status,
            n_total=self.n_total,
            n_done=self.n_done + self.n_failed,
        )

    def at(self, status: Status, now: int) -> Batch:
        """Return the batch with a new status since `now`; unchanged if it had it."""
        if not self.is_active or status in self.times:
            return self
        return replace(self, status=status, times={**self.times, status: now})

    @property
    def document(self) -> dict[str, object]:
        """Batch in the format of OpenAI's API."""
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
            "input_file_id": self.input_file,
            "completion_window": self.window,
            "status": self.status,
            "output_file_id": self.output_file,
            "error_file_id": self.error_file,
            "created_at": self.created,
            "expires_at": self.expires,
            **{f"{name}_at": self.times.get(name) for name in _TIMES},
            "request_counts": {
                "total": self.n_total,
                "completed": self.n_done,
                "failed": self.n_failed,
            },
            "metadata": self.metadata or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """Progress of a batch for the page of the server."""

    id: str
    endpoint: str
    status: Status
    n_total: int  # 0 before the requests are counted
    n_done: int  # requests with an answer or an error
    left_s: float | None = None  # expected seconds until the end; None if unknown
    problem: str = ""  # reason why the batch waits


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """Outcome of one request of a batch."""

    line: int  # from 0
    custom_id: str
    status: int  # HTTP status; 0 if the request was not computed
    body: str  # answer as JSON, or the error of a request that was not computed

    def text(self, batch_id: str) -> str:
        """Return the line of the output file, or of the file of errors."""
        name = f"{batch_id.removeprefix('batch_')}_{self.line}"
        start = f'{{"id":"batch_req_{name}","custom_id":{json.dumps(self.custom_id)}'
        if not self.status:
            return f'{start},"response":null,"error":{self.body}}}\n'
        response = f'"status_code":{self.status},"request_id":"req_{name}"'
        return f'{start},"response":{{{response},"body":{self.body}}},"error":null}}\n'


@dataclass(frozen=True, slots=True)
class RequestLine:
    """A request of a batch."""

    line: int  # from 0
    custom_id: str
    body: bytes  # JSON
    model: str  # "" for a request without a name


def request_lines(path: Path, skip: set[int]) -> Iterator[RequestLine]:
    """Read the requests of a checked file, without the given lines."""
    with path.open("rb") as file:
        for i, line in enumerate(file):
            if i not in skip and line.strip():
                fields: Any = parse_object(line)
                model, body = fields["body"].get("model"), fields["body"]
                content = json.dumps(body, separators=(",", ":")).encode()
                name = model if isinstance(model, str) else ""
                yield RequestLine(i, fields["custom_id"], content, name)


def check_lines(
    path: Path, endpoint: str, most: int, is_cancelled: Callable[[], bool]
) -> tuple[int, list[dict[str, object]]]:
    """Check the requests of a file, which may take seconds."""
    errors: list[dict[str, object]] = []
    ids: set[str] = set()
    n = 0
    with path.open("rb") as file:
        for i, line in enumerate(file):
            if is_cancelled() or len(errors) == _MOST_ERRORS or n > MOST_REQUESTS:
                break
            if not line.strip():
                continue
            n += 1
            problem: tuple[str | None, str] | None
            if n > MOST_REQUESTS:
                problem = (None, f"a batch has at most {MOST_REQUESTS} requests")
            elif len(line) > most:
                problem = (None, f"the line has more than {most} bytes")
            else:
                problem = _problem(line, endpoint, ids)
            if problem is not None:
                errors.append(line_error("invalid_request", *problem, line=i + 1))
    if n == 0:
        errors.append(line_error("empty_file", None, "the file has no requests"))
    return n, errors


def line_error(
    code: str, param: str | None, message: str, *, line: int | None = None
) -> dict[str, object]:
    """Return an error of a file in the format of OpenAI's API."""
    return {"code": code, "line": line, "message": message, "param": param}


class _Line(PathFormat):
    """Fields of a line of a batch."""

    field_schemas: ClassVar = {
        "custom_id": {**SOME_TEXT, "maxLength": 512},
        "method": {"const": "POST"},
        "url": TEXT,
        "body": OBJECT,
    }
    needed = tuple(field_schemas)
    unused: ClassVar = {}


def _problem(line: bytes, endpoint: str, ids: set[str]) -> tuple[str | None, str] | None:
    """Return the field at fault and the reason; None if the line is valid."""
    try:
        content = parse_object(line)
    except ApiError as error:
        return None, f"the line cannot be read: {error}"
    try:
        fields = _Line.effective_fields(content)
    except ApiError as error:
        return error.param, str(error)
    custom_id, url = fields["custom_id"], fields["url"]
    if custom_id in ids:
        return "custom_id", f"custom_id {custom_id[:60]!r} occurs twice in the file"
    ids.add(custom_id)
    if url != endpoint:
        return "url", f"url must be {endpoint}, not {shown_value(url)}"
    if fields["body"].get("stream"):
        return "body.stream", "body.stream: a batch has no streams"
    return None


def new_id(start: str) -> str:
    """Return a new identifier of a file or a batch."""
    return f"{start}{secrets.token_hex(12)}"
