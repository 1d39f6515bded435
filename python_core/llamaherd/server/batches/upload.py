"""File uploads: a multipart form is written to disk while it arrives."""

from __future__ import annotations

import asyncio
import mmap
import os
import re
from contextlib import ExitStack
from dataclasses import dataclass
from email.message import Message
from typing import TYPE_CHECKING, BinaryIO

from llamaherd.server.errors import ApiError, bad_field

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor
    from pathlib import Path

    from starlette.types import Scope

    from llamaherd.server.batches.turns import ShortSteps
    from llamaherd.server.messages import Incoming

FORM_BYTES = 1 << 16  # bytes of a form in addition to its file
_MOST_PARTS = 32
_MOST_HEAD = 1 << 13  # bytes of the head of a part
_BOUNDARY = re.compile(r"[ -~]{1,200}")
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Upload:
    """A form with a file.

    Attributes:
        fields: Other fields of the form.
        filename: Name that the client gave the file.
        start: Position of the first byte of the file in the form.
        stop: Position after the last byte of the file.
    """

    fields: dict[str, str]
    filename: str
    start: int
    stop: int


async def receive(incoming: Incoming, path: Path, most: int, thread: Executor) -> None:
    """Write the body of a request to a new file.

    Args:
        incoming: Body of the request.
        path: Path of the file.
        most: Maximum size of the file in the form in bytes.
        thread: Executor that writes, because a slow disk would block the event loop.

    Raises:
        ApiError: The body is too large or arrives too slowly.
        ClientGoneError: The client disconnected.
    """
    n_bytes = 0
    block = bytearray()
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "wb", buffering=_BLOCK) as file:
        while not incoming.is_whole:
            part = await incoming.part()
            n_bytes += len(part)
            if n_bytes > most + FORM_BYTES:
                text = f"the file has more than {most} bytes (see --max-file)"
                raise ApiError(413, text, code="request_too_large")
            block += part
            if len(block) >= _BLOCK:
                await asyncio.wrap_future(thread.submit(file.write, block))
                block = bytearray()
        await asyncio.wrap_future(thread.submit(_write_last, file, block))


def _write_last(file: BinaryIO, block: bytearray) -> None:
    file.write(block)
    file.flush()


def boundary_of(scope: Scope) -> bytes:
    """Return the boundary that separates the parts of a multipart form.

    Raises:
        ApiError: The body is not a form of type multipart/form-data.
    """
    for name, value in scope["headers"]:
        if name == b"content-type":
            head = Message()
            head["content-type"] = value.decode("latin-1")
            boundary = head.get_param("boundary")
            is_form = head.get_content_type() == "multipart/form-data"
            if is_form and isinstance(boundary, str) and _BOUNDARY.fullmatch(boundary):
                return boundary.encode("latin-1")
    raise ApiError(
        400,
        "a file is sent as multipart/form-data, with the fields purpose and file",
        code="invalid_form",
    )


def parse(path: Path, boundary: bytes) -> Upload:
    """Find the fields and the file in a form.

    Raises:
        ApiError: The form is broken, or has no file.
    """
    if path.stat().st_size == 0:
        raise _broken("it is empty")
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as form,
    ):
        return _parsed(form, b"--" + boundary)


def _parsed(form: mmap.mmap, mark: bytes) -> Upload:
    fields: dict[str, str] = {}
    found: Upload | None = None
    for name, filename, start, stop in _parts(form, mark):
        shown = name[:60]
        if name == "file":
            if found is not None:
                raise bad_field("file", "file: a form has one file")
            found = Upload(fields, filename or "file", start, stop)
        elif filename is not None:
            raise bad_field(shown, f"the file must be in the field file, not {shown!r}")
        elif name in fields or stop - start > FORM_BYTES:
            raise bad_field(shown, f"{shown!r} is given twice, or is too long")
        else:
            fields[name] = form[start:stop].decode("utf-8", "replace")
    if found is None:
        raise ApiError(400, "file is missing", param="file", code="missing_field")
    return found


def _parts(form: mmap.mmap, mark: bytes) -> Iterator[tuple[str, str | None, int, int]]:
    """Yield the field name, the file name, the start and the end of each part."""
    if form[: len(mark)] != mark:
        raise _broken("it does not begin with its boundary")
    at = len(mark)
    for _ in range(_MOST_PARTS):
        if form[at : at + 2] == b"--":
            return
        head_end = form.find(b"\r\n\r\n", at, at + _MOST_HEAD)
        # In an empty part, the end of the head is also the end of the part.
        stop = _found(form, b"\r\n" + mark, head_end + 2)
        if form[at : at + 2] != b"\r\n" or head_end < 0 or stop < 0:
            raise _broken("a part has no head or no end")
        name, filename = _names(form[at + 2 : head_end])
        yield name, filename, min(head_end + 4, stop), stop
        at = stop + 2 + len(mark)
    raise _broken(f"it has more than {_MOST_PARTS} parts")


def _found(form: mmap.mmap, mark: bytes, start: int) -> int:
    """Return the first position of a mark; -1 if there is none.

    One search of the whole form would let no other thread run.
    """
    for at in range(start, len(form), _BLOCK):
        position = form.find(mark, at, at + _BLOCK + len(mark) - 1)
        if position >= 0:
            return position
    return -1


def _names(head: bytes) -> tuple[str, str | None]:
    """Return the field name and the file name in the head of a part."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-disposition":
            shown = Message()
            shown["content-disposition"] = value.decode("utf-8", "replace").strip()
            field = shown.get_param("name", header="content-disposition")
            filename = shown.get_param("filename", header="content-disposition")
            if isinstance(field, str):
                return field, filename if isinstance(filename, str) else None
    raise _broken("a part has no name")


def _broken(reason: str) -> ApiError:
    return ApiError(400, f"the form is broken: {reason}", code="invalid_form")


def keep_content(path: Path, upload: Upload, target: Path) -> ShortSteps[None]:
    """Copy the file from the form to a new path, in short steps."""
    with ExitStack() as stack:
        form = stack.enter_context(path.open("rb"))
        opened = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        file = stack.enter_context(os.fdopen(opened, "wb"))
        form.seek(upload.start)
        n_left = upload.stop - upload.start
        while n_left > 0:
            block = form.read(min(_BLOCK, n_left))
            if not block:
                break
            file.write(block)
            n_left -= len(block)
            yield


def flush(path: Path) -> None:
    """Flush the content of a file to disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
