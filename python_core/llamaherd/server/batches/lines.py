"""Lines of a file with requests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.engine.core import checks
from llamaherd.server.errors import ApiError, bad_field
from llamaherd.server.protocol import parse_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MOST_REQUESTS = 50_000  # as in OpenAI's API
_MOST_ERRORS = 100
# Bytes and lines that are read at once.
_STEP_BYTES = 1 << 18
_STEP_LINES = 64
_MOST_NAMES = 1000  # different names of models in a file
_MOST_ID = 512  # characters of a custom_id


@dataclass(frozen=True, slots=True)
class RequestLine:
    """A request of a batch; a line that cannot be read has an error."""

    line: int  # from 0
    custom_id: str
    body: bytes  # JSON
    error: ApiError | None = None
    model: str = ""  # "" for a request without a name


def request_lines(path: Path, skip: set[int]) -> Iterator[RequestLine]:
    """Read the requests of a checked file, without the given lines.

    A line that an older version accepted, but this version refuses, has an error.
    """
    with path.open("rb") as file:
        for i, line in enumerate(file):
            if i not in skip and line.strip():
                yield _request(i, line)


def _request(i: int, line: bytes) -> RequestLine:
    try:
        asked = parse_object(line)
    except ApiError as error:
        return RequestLine(i, _stored_id(_custom_id(line)), b"", error)
    custom_id = str(asked.get("custom_id", ""))
    stored = _stored_id(custom_id)
    if stored != custom_id:
        problem = _problem_of_id(custom_id, set()) or "custom_id is invalid"
        return RequestLine(i, stored, b"", bad_field("custom_id", problem))
    body = json.dumps(asked.get("body"), separators=(",", ":")).encode()
    return RequestLine(i, custom_id, body, model=_name_of(asked.get("body")))


def _stored_id(custom_id: str) -> str:
    """Return an identifier with "?" for lone surrogates, which cannot be stored."""
    return custom_id.encode("utf-8", "replace").decode()


def _custom_id(line: bytes) -> str:
    """Return the identifier in a line that `parse_object` refuses; "" without one."""
    try:
        asked = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return ""
    return str(asked.get("custom_id", "")) if isinstance(asked, dict) else ""


def check_lines(
    path: Path, endpoint: str, most: int, is_cancelled: Callable[[], bool]
) -> tuple[int, list[dict[str, object]]]:
    """Check the requests of a file, which may take seconds.

    Args:
        path: File.
        endpoint: Path of all requests.
        most: Maximum size of a line in bytes.
        is_cancelled: Called for each line; True ends the check.

    Returns:
        The number of requests, and the errors in the format of OpenAI's API.
    """
    errors: list[dict[str, object]] = []
    seen: set[str] = set()
    n = 0
    with path.open("rb") as file:
        for i, line in enumerate(file):
            if is_cancelled() or len(errors) == _MOST_ERRORS:
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
                problem = _problem(line, endpoint, seen)
            if problem is not None:
                errors.append(line_error("invalid_request", i + 1, *problem))
            if n > MOST_REQUESTS:
                break
    if n == 0:
        errors.append(line_error("empty_file", None, None, "the file has no requests"))
    return n, errors


def model_names(path: Path) -> set[str]:
    """Return the names of models in the requests of a checked file, "" without a name."""
    found: set[str] = set()
    for request in request_lines(path, set()):
        if request.error is None and len(found) < _MOST_NAMES:
            found.add(request.model)
    return found


def _name_of(body: Any) -> str:  # noqa: ANN401 - from JSON
    name = body.get("model") if isinstance(body, dict) else None
    return name if isinstance(name, str) else ""


def next_requests(requests: Iterator[RequestLine]) -> list[RequestLine]:
    """Read the next requests of a file, at least one if there is one."""
    found: list[RequestLine] = []
    n_bytes = 0
    for request in requests:
        found.append(request)
        n_bytes += len(request.body)
        if n_bytes > _STEP_BYTES or len(found) == _STEP_LINES:
            break
    return found


def line_error(
    code: str, line: int | None, param: str | None, message: str
) -> dict[str, object]:
    """Return an error of a file in the format of OpenAI's API."""
    return {"code": code, "line": line, "message": message, "param": param}


def _problem(line: bytes, endpoint: str, seen: set[str]) -> tuple[str | None, str] | None:
    """Return the field at fault and the reason; None if the line is valid."""
    try:
        asked = parse_object(line)
    except ApiError as error:
        return None, f"the line cannot be read: {error}"
    problem = _problem_of_id(asked.get("custom_id"), seen)
    if problem is not None:
        return "custom_id", problem
    for key in asked.keys() - {"custom_id", "method", "url", "body"}:
        return key[:60], f"{key[:60]!r} is not supported here"
    for name, value in (("method", "POST"), ("url", endpoint)):
        if asked.get(name) != value:
            return name, f"{name} must be {value}"
    return _problem_of_body(asked.get("body"))


def _problem_of_body(body: object) -> tuple[str, str] | None:
    if not isinstance(body, dict):
        return "body", "body must be an object"
    if body.get("stream"):
        return "body.stream", "body.stream: a batch has no streams"
    return None


def _problem_of_id(custom_id: object, seen: set[str]) -> str | None:
    """Return why an identifier is invalid; add a valid one to `seen`."""
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= _MOST_ID:
        return f"custom_id must be a text of 1 to {_MOST_ID} characters"
    try:
        checks.text("custom_id", custom_id)  # a lone surrogate could not be stored
    except ValueError as error:
        return str(error)
    if custom_id in seen:
        return f"custom_id {custom_id[:60]!r} occurs twice in the file"
    seen.add(custom_id)
    return None
