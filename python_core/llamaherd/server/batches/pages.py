"""Routes of files and batches, as in OpenAI's API."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from llamaherd.engine.core import checks
from llamaherd.engine.core.files import discard
from llamaherd.engine.core.words import spoken_in
from llamaherd.server.batches import upload
from llamaherd.server.batches.batch import Batch, StoredFile, new_id
from llamaherd.server.errors import JSON, ApiError, bad_field
from llamaherd.server.formats import PathFormat
from llamaherd.server.protocol import body_parts, json_response, read_object
from llamaherd.server.schemas import (
    TEXT,
    Schema,
    check_value,
    part,
    whole,
)
from llamaherd.server.threads import run_on

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from llamaherd.server.batches.service import BatchService
    from llamaherd.server.batches.store import BatchStore

    _Page = Callable[[Request], Awaitable[Response]]

_MOST_HOURS = 30 * 24
_KEPT_S = (3600, _MOST_HOURS * 3600)  # limits of expiries, as in OpenAI's API
# Metadata of a batch, as in OpenAI's API: fields, and characters of a name and a text.
_MOST_METADATA, _MOST_NAME, _MOST_TEXT = 16, 64, 512
_MOST_LISTED = {"files": 10_000, "batches": 100}
_MOST_ACTIVE = 64  # maximum number of unfinished batches
_MOST_FILES = 10_000
_MOST_SIZES = 32  # maximum total size of files, in files of maximum size
_WINDOW = re.compile("([0-9]{1,3})([hd])")
_EXPIRY = part({"anchor": {**TEXT, "const": "created_at"}, "seconds": whole(*_KEPT_S)})


class _NewBatch(PathFormat):
    """Body of a request that starts a batch."""

    field_schemas: ClassVar = {
        "input_file_id": TEXT,
        "endpoint": TEXT,
        # Such as "24h" or "7d", at most 30 days.
        "completion_window": {**TEXT, "pattern": "^[0-9]{1,3}[hd]$"},
        "metadata": {
            "type": "object",
            "maxProperties": _MOST_METADATA,
            "propertyNames": {"maxLength": _MOST_NAME},
            "additionalProperties": {**TEXT, "maxLength": _MOST_TEXT},
        },
        "output_expires_after": _EXPIRY,
    }
    needed = ("input_file_id", "endpoint", "completion_window")
    unused: ClassVar = {}


_ANCHOR, _SECONDS = "expires_after[anchor]", "expires_after[seconds]"


class _Upload(PathFormat):
    """Form with a file of a batch."""

    field_schemas: ClassVar = {
        "file": {**TEXT, "format": "binary"},
        "purpose": {"const": "batch"},
        _ANCHOR: {"const": "created_at"},
        _SECONDS: whole(*_KEPT_S),
    }
    needed = ("file", "purpose")
    unused: ClassVar = {}


# Fields of bodies, which errors may name.
FIELDS = _NewBatch.fields | {"expires_after"}
# Content of POST requests, for the OpenAPI document.
BODIES: dict[str, Schema] = {
    "/files": {"multipart/form-data": {"schema": _Upload.request_schema()}},
    "/batches": {"application/json": {"schema": _NewBatch.request_schema()}},
}
# Parameters of the lists, for the OpenAPI document.
QUERIES: dict[str, dict[str, Schema]] = {
    f"/{kind}": {
        "limit": whole(1, most),
        "after": TEXT,
        "order": {"enum": ["asc", "desc"]},
        **({"purpose": TEXT} if kind == "files" else {}),
    }
    for kind, most in _MOST_LISTED.items()
}


class BatchPages:
    """Routes of files and batches."""

    def __init__(self, service: BatchService, max_file: int) -> None:
        self._service = service
        self._shared = service.shared
        self._max_file = max_file

    def routes(self) -> tuple[Route, ...]:
        """Return the routes, without `/v1`."""
        pages: dict[str, dict[str, _Page]] = {
            "/files": {"POST": self._upload, "GET": self._files},
            "/files/{id}": {"GET": self._file, "DELETE": self._delete},
            "/files/{id}/content": {"GET": self._file_content},
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
        most = self._max_file
        path = await self._service.do(self._new_path)
        threads = self._shared.threads
        try:
            parts, kind = body_parts(request.receive), request.headers.get("content-type")
            form = await upload.receive(parts, kind, path, most, threads.files)
            keep_s = _check_upload({**form.fields, "file": form.filename})
            name = _plain_name(form.filename or "file")
            long = threads.pool("long", is_background=True)
            await run_on(long, partial(upload.sync, path))
            file = await self._service.do(
                lambda store: store.add_file(path, name, "batch", keep_s)
            )
        except BaseException:
            discard(path)
            raise
        return json_response(file.document)

    def _new_path(self, store: BatchStore) -> Path:
        """Return the path of a new file, if there is space for it."""
        files = store.files()
        n_bytes = sum(file.n_bytes for file in files)
        if len(files) >= _MOST_FILES or n_bytes > (_MOST_SIZES - 1) * self._max_file:
            text = f"there are {len(files)} files with {n_bytes} bytes: delete some"
            raise ApiError(413, text, code="too_many_files")
        return store.new_path()

    async def _files(self, request: Request) -> Response:
        """List files of batches."""
        purpose = request.query_params.get("purpose")
        files = await self._service.do(lambda store: store.files())
        files = [file for file in files if purpose in (None, file.purpose)]
        return await asyncio.to_thread(_page, request, files, "files")

    async def _requested_file(self, request: Request) -> StoredFile:
        file_id = request.path_params["id"]
        file = await self._service.do(lambda store: store.file(file_id))
        if file is None:
            raise _no_such("file", file_id)
        return file

    async def _file(self, request: Request) -> Response:
        """Describe a file."""
        return json_response((await self._requested_file(request)).document)

    async def _file_content(self, request: Request) -> Response:
        """Return the content of a file."""
        file = await self._requested_file(request)
        path = await self._service.do(lambda store: store.path(file))
        return FileResponse(path, media_type="application/octet-stream")

    async def _delete(self, request: Request) -> Response:
        """Remove a file."""
        file = await self._requested_file(request)

        def remove(store: BatchStore) -> None:
            if any(
                file.id == batch.input_file for batch in store.batches(is_active=True)
            ):
                text = f"a running batch reads {file.id}: cancel the batch first"
                raise ApiError(409, text, code="file_in_use")
            store.remove_file(file.id)

        await self._service.do(remove)
        return json_response({"id": file.id, "object": "file", "deleted": True})

    async def _create(self, request: Request) -> Response:
        """Start a batch of requests."""
        threads = self._shared.threads.pool("parse")
        with self._shared.bodies.body() as hold:
            body, _ = await read_object(
                request.scope, request.receive, self._shared.max_body, threads, hold
            )
        fields = _NewBatch.effective_fields(body)
        file_id = fields["input_file_id"]
        endpoints = tuple(self._service.endpoints)
        endpoint: str = checks.choice("endpoint", fields["endpoint"], endpoints)
        window = fields["completion_window"]
        window_s = _seconds(window)
        metadata = fields.get("metadata", {})
        expiry = fields.get("output_expires_after")
        if self._service.n_active >= _MOST_ACTIVE:
            text = f"{_MOST_ACTIVE} batches wait already"
            headers = (("retry-after", "60"),)
            raise ApiError(429, text, code="too_many_batches", headers=headers)

        def create(store: BatchStore) -> Batch:
            file = store.file(file_id)
            if file is None or file.purpose != "batch":
                text = f"input_file_id names no file: {_shorten_name(file_id)}"
                raise bad_field("input_file_id", text)
            batch = Batch(
                id=new_id("batch_"),
                endpoint=endpoint,
                input_file=file.id,
                created=store.now,
                expires=store.now + window_s,
                window=window,
                metadata={n: text for n, text in metadata.items() if text is not None},
                keep_s=None if expiry is None else expiry["seconds"],
            )
            store.save(batch)
            return batch

        batch = await self._service.do(create)
        self._service.start(batch)
        return self._show_batch(batch)

    async def _batches(self, request: Request) -> Response:
        """List batches of requests."""
        batches = await self._service.do(lambda store: store.batches())
        return _page(request, list(map(self._service.with_reason, batches)), "batches")

    def _show_batch(self, batch: Batch) -> Response:
        return json_response(self._service.with_reason(batch).document)

    async def _requested_batch(self, request: Request) -> Batch:
        batch_id = request.path_params["id"]
        batch = await self._service.do(lambda store: store.batch(batch_id))
        if batch is None:
            raise _no_such("batch", batch_id)
        return batch

    async def _batch(self, request: Request) -> Response:
        """Describe a batch."""
        return self._show_batch(await self._requested_batch(request))

    async def _cancel(self, request: Request) -> Response:
        """Cancel a batch."""
        batch = await self._requested_batch(request)
        if not batch.is_active:
            text = f"the batch is already {batch.status}"
            raise ApiError(409, text, code="batch_ended")
        return self._show_batch(await self._service.cancel(batch))


class _ByMethod:
    """Endpoint of a path that calls the page of the request's method."""

    def __init__(self, pages: dict[str, _Page]) -> None:
        self.pages = pages

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive, send)
        method = "GET" if request.method == "HEAD" else request.method
        with spoken_in(JSON):
            response = await self.pages[method](request)
        await response(scope, receive, send)


def _page(
    request: Request, newest: Sequence[StoredFile] | Sequence[Batch], kind: str
) -> Response:
    """Return one page of a list of files or batches, the newest first."""
    query, known = request.query_params, QUERIES[f"/{kind}"]
    limit = query.get("limit", str(min(_MOST_LISTED[kind], 100)))
    n = checks.digits(limit)
    check_value("limit", limit if n is None else n, known["limit"])
    order = query.get("order", "desc")
    check_value("order", order, known["order"])
    items: list[Any] = list(newest)[:: 1 if order == "desc" else -1]
    after = query.get("after")
    if after is not None:
        ids = [item.id for item in items]
        if after not in ids:
            text = f"after: there is no {_shorten_name(after)} in the list"
            raise bad_field("after", text)
        items = items[ids.index(after) + 1 :]
    data = [item.document for item in items[:n]]
    return json_response(
        {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": len(items) > len(data),
        }
    )


def _check_upload(form: Mapping[str, str | None]) -> int | None:
    """Check the fields of a form; return the number of seconds that its file is kept."""
    seconds = checks.digits(form.get(_SECONDS) or "")
    values = form if seconds is None else {**form, _SECONDS: seconds}
    fields = _Upload.effective_fields(values)
    if not fields.keys() & {_ANCHOR, _SECONDS}:
        return None
    expiry = {"anchor": fields.get(_ANCHOR), "seconds": fields.get(_SECONDS)}
    check_value("expires_after", expiry, _EXPIRY, param="expires_after")
    return seconds


def _seconds(window: str) -> int:
    """Return the time within which a batch must end."""
    parts = _WINDOW.fullmatch(window)
    hours = int(parts[1]) * (24 if parts[2] == "d" else 1) if parts else 0
    if not 1 <= hours <= _MOST_HOURS:
        raise bad_field(
            "completion_window",
            'completion_window must be a number of hours or days such as "24h" or "7d", '
            f"at most {_MOST_HOURS // 24} days, not {_shorten_name(window)}",
        )
    return hours * 3600


def _shorten_name(name: str) -> str:
    return JSON.literal(name if len(name) <= 60 else f"{name[:57]}...")


def _no_such(kind: str, name: str) -> ApiError:
    text = f"there is no {kind} {_shorten_name(name)}"
    return ApiError(404, text, param="id", code="not_found")


def _plain_name(filename: str) -> str:
    """Return a file's name without the folders of the client's machine."""
    name = filename.replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in name if c.isprintable())[:200] or "file"
