"""Routes of files and batches, as in OpenAI's API."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import BadArgumentError
from llamaherd.engine.core.files import discard
from llamaherd.engine.core.words import spoken_in
from llamaherd.server.batches import upload
from llamaherd.server.batches.store import (
    Batch,
    StoredFile,
    new_id,
)
from llamaherd.server.errors import (
    JSON,
    ApiError,
    bad_field,
    unknown_field,
)
from llamaherd.server.protocol import (
    body_parts,
    json_response,
    read_object,
)
from llamaherd.server.schemas import OBJECT, TEXT, Schema
from llamaherd.server.shapes import PathFormat

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from llamaherd.server.batches.service import BatchService
    from llamaherd.server.batches.store import BatchStore
    from llamaherd.server.state import SharedState

    _Page = Callable[[Request], Awaitable[Response]]

log = logging.getLogger(__name__)

_EXPIRY = "expires_after"
_SHORTEST_S, _LONGEST_S = 3600, 30 * 86400  # as in OpenAI's API
_WINDOW = re.compile(r"([1-9][0-9]{0,3})(h|d)")
_MOST_HOURS = 30 * 24
_MOST_LISTED = {"files": 10_000, "batches": 100}
_MOST_ACTIVE = 64  # maximum number of unfinished batches
_MOST_FILES = 10_000
_MOST_SIZES = 32  # maximum total size of files, in files of maximum size
_MOST_METADATA = (16, 64, 512)  # entries, characters of a name and of a value


class _NewBatch(PathFormat):
    """Body of a request that starts a batch."""

    own: ClassVar = {
        "input_file_id": TEXT,
        "endpoint": TEXT,
        "completion_window": TEXT,
        "metadata": OBJECT,
        "output_expires_after": OBJECT,
    }
    needed = ("input_file_id", "endpoint", "completion_window")
    unused: ClassVar = {}


NEW_BATCH = _NewBatch.fields
_UPLOAD: Schema = {
    "type": "object",
    "properties": {
        "purpose": {"const": "batch"},
        "file": {"type": "string", "format": "binary"},
        f"{_EXPIRY}[anchor]": {"const": "created_at"},
        f"{_EXPIRY}[seconds]": {"type": "integer"},
    },
    "required": ["purpose", "file"],
    "additionalProperties": False,
}
# Content of POST requests, for the OpenAPI document.
BODIES: dict[str, Schema] = {
    "/files": {"multipart/form-data": {"schema": _UPLOAD}},
    "/batches": {"application/json": {"schema": _NewBatch.request_schema()}},
}


class BatchPages:
    """Routes of files and batches.

    Args:
        service: Files and batches.
        shared: State of the server.
        max_file: Maximum size of a file in bytes.
    """

    def __init__(self, service: BatchService, shared: SharedState, max_file: int) -> None:
        self._service = service
        self._shared = shared
        self._max_file = max_file
        self._uploads: dict[Path, int] = {}  # largest sizes of files that arrive

    def routes(self) -> tuple[Route, ...]:
        """Return the routes, without `/v1`."""
        pages: dict[str, dict[str, _Page]] = {
            "/files": {"POST": self._upload, "GET": self._files},
            "/files/{id}": {"GET": self._file, "DELETE": self._delete},
            "/files/{id}/content": {"GET": self._content},
            "/batches": {"POST": self._create, "GET": self._batches},
            "/batches/{id}": {"GET": self._batch},
            "/batches/{id}/cancel": {"POST": self._cancel},
        }
        return tuple(
            Route(path, _ByMethod(methods), methods=list(methods))
            for path, methods in pages.items()
        )

    async def _upload(self, request: Request) -> Response:
        """Store a file of a batch."""
        boundary = upload.boundary_of(request.headers.get("content-type"))
        told = checks.digits(request.headers.get("content-length", ""))
        size = self._max_file if told is None else min(told, self._max_file)
        path = await self._service.do(lambda store: self._reserved(store, size))
        threads = self._shared.threads
        try:
            parts = body_parts(request.receive)
            most = self._max_file
            form = await upload.receive(parts, boundary, path, most, threads.files)
            purpose, keep_s = _purpose(form.fields)
            name = _shown_name(form.filename or "file")
            synced = threads.pool("long", is_background=True).submit(upload.sync, path)
            await asyncio.wrap_future(synced)
            file = await self._service.do(
                lambda store: store.add_file(path, name, purpose, keep_s)
            )
        except BaseException:
            discard(path)
            raise
        finally:
            del self._uploads[path]
        return json_response(file.shape)

    def _reserved(self, store: BatchStore, size: int) -> Path:
        """Return the path of a new file, and reserve space for it."""
        with store.lock:
            files = store.files()
            n_files = len(files) + len(self._uploads)
            n_bytes = sum(file.n_bytes for file in files) + sum(self._uploads.values())
            if n_files >= _MOST_FILES or n_bytes + size > _MOST_SIZES * self._max_file:
                text = (
                    f"there are {n_files} files with {n_bytes} bytes, including those "
                    "that are being received: delete some"
                )
                raise ApiError(413, text, code="too_many_files")
            path = store.new_path()
            self._uploads[path] = size
        return path

    async def _files(self, request: Request) -> Response:
        """List files of batches."""
        purpose = request.query_params.get("purpose")
        files = await self._service.do(lambda store: store.files())
        found = [each for each in files if purpose in (None, each.purpose)]
        return await asyncio.to_thread(_listed, request, found, "files")

    async def _found(self, request: Request) -> StoredFile:
        file_id = request.path_params["id"]
        file = await self._service.do(lambda store: store.file(file_id))
        if file is None:
            raise _no_such("file", file_id)
        return file

    async def _file(self, request: Request) -> Response:
        """Describe a file."""
        return json_response((await self._found(request)).shape)

    async def _content(self, request: Request) -> Response:
        """Return the content of a file."""
        file = await self._found(request)
        path = await self._service.do(lambda store: store.path(file))
        return FileResponse(path, media_type="application/octet-stream")

    async def _delete(self, request: Request) -> Response:
        """Remove a file."""
        file = await self._found(request)

        def remove(store: BatchStore) -> None:
            if store.is_in_use(file):
                text = f"a running batch reads {file.id}: cancel the batch first"
                raise ApiError(409, text, code="file_in_use")
            store.remove_file(file)

        await self._service.do(remove)
        return json_response({"id": file.id, "object": "file", "deleted": True})

    async def _create(self, request: Request) -> Response:
        """Start a batch of requests."""
        threads = self._shared.threads.pool("parse")
        fields, _ = await read_object(
            request.scope, request.receive, self._shared.bodies, threads
        )
        given = _NewBatch.given(fields)
        file_id, endpoint = (
            checks.text(name, given[name]) for name in ("input_file_id", "endpoint")
        )
        if endpoint not in self._service.endpoints:
            known = ", ".join(self._service.endpoints)
            text = f"endpoint must be one of {known}, not {JSON.literal(endpoint[:60])}"
            raise bad_field("endpoint", text)
        window, window_s = _window(given)
        keep_s = _expiry("output_expires_after", given.get("output_expires_after"))
        metadata = _metadata(given.get("metadata"))
        if self._service.n_active >= _MOST_ACTIVE:
            text = f"{_MOST_ACTIVE} batches wait already"
            headers = (("retry-after", "60"),)
            raise ApiError(429, text, code="too_many_batches", headers=headers)

        def create(store: BatchStore) -> Batch:
            file = store.file(file_id)
            if file is None or file.purpose != "batch":
                raise bad_field("input_file_id", f"there is no file {_shown(file_id)}")
            batch = Batch(
                id=new_id("batch_"),
                endpoint=endpoint,
                input_file=file.id,
                created=store.now,
                expires=store.now + window_s,
                window=window,
                metadata=metadata,
                keep_s=keep_s,
            )
            store.save(batch)
            return batch

        batch = await self._service.do(create)
        self._service.start(batch)
        return json_response(self._with_problems(batch).shape)

    async def _batches(self, request: Request) -> Response:
        """List batches of requests."""
        found = await self._service.do(lambda store: store.batches())
        return _listed(request, [self._with_problems(each) for each in found], "batches")

    def _with_problems(self, batch: Batch) -> Batch:
        """Return a batch with the reasons why it does not continue at present."""
        problems = self._service.problems(batch)
        batch = self._service.shown(batch)
        return replace(batch, errors=[*batch.errors, *problems]) if problems else batch

    async def _found_batch(self, request: Request) -> Batch:
        batch_id = request.path_params["id"]
        batch = await self._service.do(lambda store: store.batch(batch_id))
        if batch is None:
            raise _no_such("batch", batch_id)
        return batch

    async def _batch(self, request: Request) -> Response:
        """Describe a batch."""
        batch = await self._found_batch(request)
        return json_response(self._with_problems(batch).shape)

    async def _cancel(self, request: Request) -> Response:
        """Cancel a batch."""
        batch = await self._found_batch(request)
        if not batch.is_active:
            text = f"the batch is already {batch.status}"
            raise ApiError(409, text, code="batch_ended")
        return json_response(self._with_problems(await self._service.cancel(batch)).shape)


class _ByMethod:
    """Endpoint of a path that calls the page of the request's method."""

    def __init__(self, pages: dict[str, _Page]) -> None:
        self.pages = pages

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
        request = Request(scope, receive, send)
        method = "GET" if request.method == "HEAD" else request.method
        with spoken_in(JSON):
            response = await self.pages[method](request)
        await response(scope, receive, send)


def _listed(
    request: Request, found: Sequence[StoredFile] | Sequence[Batch], kind: str
) -> Response:
    """Return one page of a list of files or batches, the newest first."""
    query = request.query_params
    most = _MOST_LISTED[kind]
    shown = query.get("limit", str(min(most, 100)))
    try:
        number = checks.digits(shown)
        limit = checks.integer("limit", shown if number is None else number, 1, most)
        order = checks.choice("order", query.get("order", "desc"), ("asc", "desc"))
    except BadArgumentError as error:
        raise bad_field(error.argument, str(error)) from None
    items: list[Any] = list(found)[:: 1 if order == "desc" else -1]
    after = query.get("after")
    if after is not None:
        ids = [item.id for item in items]
        if after not in ids:
            raise bad_field("after", f"after: there is no {_shown(after)} in the list")
        items = items[ids.index(after) + 1 :]
    data = [item.shape for item in items[:limit]]
    return json_response(
        {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": len(items) > limit,
        }
    )


def _shown(name: str) -> str:
    return JSON.literal(name if len(name) <= 60 else f"{name[:57]}...")


def _no_such(kind: str, name: str) -> ApiError:
    return ApiError(404, f"there is no {kind} {_shown(name)}", code="not_found")


def _shown_name(filename: str) -> str:
    """Return a file's name without the folders of the client's machine."""
    name = filename.replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in name if c.isprintable())[:200] or "file"


def _purpose(fields: dict[str, str]) -> tuple[str, int | None]:
    """Return the purpose of a file, and the number of seconds that it is kept."""
    names = _UPLOAD["properties"].keys() - {"file"}
    for name in fields:
        if name not in names:
            raise unknown_field(name[:60], names)
    if "purpose" not in fields:
        raise ApiError(400, "purpose is missing", param="purpose", code="missing_field")
    purpose = fields["purpose"]
    if purpose != "batch":
        text = f'purpose must be "batch", not {_shown(purpose)}'
        raise bad_field("purpose", text)
    if len(fields) == 1:
        return purpose, None
    seconds = checks.digits(fields.get(f"{_EXPIRY}[seconds]", ""))
    expiry = {"anchor": fields.get(f"{_EXPIRY}[anchor]"), "seconds": seconds}
    return purpose, _expiry(_EXPIRY, expiry)


def _expiry(name: str, value: object) -> int | None:
    """Return the seconds that a file is kept; None keeps it forever."""
    if value is None:
        return None
    if not isinstance(value, dict) or value.get("anchor") != "created_at":
        raise bad_field(name, f'{name} must have the anchor "created_at" and seconds')
    seconds = value.get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise bad_field(name, f"{name}.seconds must be a whole number")
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        text = f"{name}.seconds must be between {_SHORTEST_S} and {_LONGEST_S}"
        raise bad_field(name, f"{text}, not {seconds}")
    return seconds


def _window(given: dict[str, Any]) -> tuple[str, int]:
    """Return the time within which a batch must end, as given and in seconds."""
    shown = checks.text("completion_window", given["completion_window"])
    found = _WINDOW.fullmatch(shown)
    hours = 0 if found is None else int(found[1]) * (24 if found[2] == "d" else 1)
    if not 0 < hours <= _MOST_HOURS:
        text = 'must be a time such as "24h" or "7d", at most 30 days'
        raise bad_field("completion_window", f"completion_window {text}")
    return shown, hours * 3600


def _metadata(value: object) -> dict[str, str]:
    n_most, n_name, n_value = _MOST_METADATA
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > n_most:
        text = f"metadata must be an object of at most {n_most} texts"
        raise bad_field("metadata", text)
    for name, each in value.items():
        if not isinstance(each, str) or len(name) > n_name or len(each) > n_value:
            text = f"metadata: names have at most {n_name} characters, values are texts"
            raise bad_field("metadata", f"{text} of {n_value}")
    return value
