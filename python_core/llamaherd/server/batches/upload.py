"""File uploads: the file of a multipart form is written to disk while it arrives."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from llamaherd.server.errors import ApiError, bad_field
from llamaherd.server.threads import run_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

_MOST_FORM = 1 << 16  # bytes of a form in addition to its file
_BLOCK = 1 << 20  # bytes that are read and written at once


class UploadForm:
    """A form with a file, which is read in parts and written to an open file."""

    def __init__(self, content_type: str | None, file: BinaryIO, most: int) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not 0 < len(boundary) <= 256:
            text = "a file is sent as multipart/form-data, with fields purpose and file"
            raise ApiError(400, text, code="invalid_form")
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self._file = file
        self._most = most  # bytes of the file
        self._n_bytes = self._n_file = 0
        self._is_whole = False
        self._header, self._disposition = [bytearray(), bytearray()], b""
        self._name, self._field = "", bytearray()
        self._parser = MultipartParser(
            boundary,
            {
                "on_header_field": lambda *part: self._add_header(0, *part),
                "on_header_value": lambda *part: self._add_header(1, *part),
                "on_header_end": self._end_header,
                "on_headers_finished": self._begin_field,
                "on_part_data": self._add_data,
                "on_part_end": self._end_field,
                "on_end": self._end,
            },
        )

    def read(self, part: bytes) -> None:
        """Read the next part of the form."""
        try:
            self._parser.write(part)
        except FormParserError as error:
            raise _broken_upload(str(error)) from None
        self._n_bytes += len(part)
        if self._n_bytes - self._n_file > _MOST_FORM:
            text = f"it has more than {_MOST_FORM} bytes outside of the field file"
            raise _broken_upload(text)
        if self._n_file > self._most:
            text = f"the file has more than {self._most} bytes (see --max-file)"
            raise ApiError(413, text, code="request_too_large")

    def check_end(self) -> None:
        """Check that the form was complete."""
        if not self._is_whole:
            raise _broken_upload("it has no end")

    # ---- called by the parser ----

    def _add_header(self, which: int, data: bytes, start: int, stop: int) -> None:
        self._header[which].extend(data[start:stop])

    def _end_header(self) -> None:
        name, value = map(bytes, self._header)
        if name.lower() == b"content-disposition":
            self._disposition = value
        self._header = [bytearray(), bytearray()]

    def _begin_field(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._disposition = b""
        if b"name" not in options:
            raise _broken_upload("a part has no name")
        self._name = name = options[b"name"].decode("utf-8", "replace")[:60]
        filename = options.get(b"filename")
        if name in self.fields or (name == "file" and self.filename is not None):
            raise bad_field(name, f"{name!r} is given twice")
        if name == "file":
            self.filename = (filename or b"file").decode("utf-8", "replace")
        elif filename is not None:
            raise bad_field(name, f"the file must be in the field file, not {name!r}")

    def _add_data(self, data: bytes, start: int, stop: int) -> None:
        if self._name == "file":
            self._n_file += stop - start
            self._file.write(data[start:stop])
        else:
            self._field += data[start:stop]

    def _end_field(self) -> None:
        if self._name != "file":
            self.fields[self._name] = self._field.decode("utf-8", "replace")
            self._field = bytearray()

    def _end(self) -> None:
        self._is_whole = True


async def receive(
    parts: AsyncIterator[bytes],
    content_type: str | None,
    path: Path,
    most: int,
    thread: ThreadPoolExecutor,
) -> UploadForm:
    """Read a form, and write its file to a new path."""
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "wb") as file:
        form = UploadForm(content_type, file, most)
        block = bytearray()
        async for part in parts:
            block += part
            if len(block) >= _BLOCK:
                full, block = bytes(block), bytearray()
                await run_on(thread, partial(form.read, full))
        await run_on(thread, partial(form.read, bytes(block)))
        form.check_end()
        await run_on(thread, file.flush)
    return form


def sync(path: Path) -> None:
    """Write the content of a file to disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _broken_upload(reason: str) -> ApiError:
    return ApiError(400, f"the form is broken: {reason}", code="invalid_form")
