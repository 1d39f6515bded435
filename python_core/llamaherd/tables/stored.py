"""Files of tables: formats by name, compression, and streams such as pipes."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import sys
import tempfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, cast

from llamaherd.engine.core import checks, phrases
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

Format = Literal["csv", "jsonl", "parquet"]
_CHUNK = 2**16  # bytes of a stream that are copied at once
STREAM = "-"  # path that means stdin for the input and stdout for the output
_FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
_COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_NAMES = ".csv, .tsv, .jsonl, .ndjson (each also with .gz or .zst) or .parquet"


class Readable(NamedTuple):
    """A table that can be read twice."""

    file: Path  # the file, or a copy of a stream or of a compressed file
    format: Format  # format
    name: str  # name for messages, without folders


def _suffixes(path: str) -> tuple[str, str]:
    """Return the extension of a path, and that of its compression."""
    plain = Path(path)
    compression = plain.suffix.lower()
    if compression not in _COMPRESSED:
        return compression, ""
    return plain.with_suffix("").suffix.lower(), compression


def format_of(path: str) -> Format:
    """Return the format that a file's name denotes; CSV for another name."""
    return _FORMATS.get(_suffixes(path)[0], "csv")


def is_stream(path: str) -> bool:
    """Test whether a path is stdin or stdout, a pipe (also `<(...)`) or a device."""
    if path == STREAM:
        return True
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - of any path
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def check_name(argument: str, path: str) -> None:
    """Check the name of a table."""
    suffix, compression = _suffixes(path)
    is_known = suffix in _FORMATS and not (suffix == ".parquet" and compression)
    if is_known or is_stream(path):
        return
    raise ArgumentError(
        f"must end in {_NAMES}, or be '-' for a stream, not {checks.brief(path)}",
        argument=argument,
    )


def delimiter_of(path: str, delimiter: str | None) -> str:
    """Return the delimiter of a CSV file: a tab for .tsv, else as given or ","."""
    if _suffixes(path)[0] == ".tsv":
        return "\t"
    return "," if delimiter is None else delimiter


@contextmanager
def readable(path: str) -> Iterator[Readable]:
    """Open a table; copy streams and compressed files, because tables are read twice."""
    if not is_stream(path) and not _suffixes(path)[1]:
        yield Readable(Path(path), format_of(path), Path(path).name)
        return
    name = "stdin" if path == STREAM else Path(path).name
    with tempfile.TemporaryDirectory(prefix="llamaherd-") as folder:
        copy, raw = Path(folder) / "table", Path(folder) / "raw"
        with raw.open("wb") as out, _source(path) as source:
            # A terminal says once that it ends: `read` could take this end for its own.
            for chunk in iter(lambda: source.read1(_CHUNK), b""):
                out.write(chunk)
        with raw.open("rb") as file:
            start = file.read(4)
        method = next((m for magic, m in _MAGIC.items() if start.startswith(magic)), "")
        if method:
            _decompress(raw, copy, method, name)
        else:
            raw.rename(copy)
        yield Readable(
            copy, _sniff_format(copy) if is_stream(path) else format_of(path), name
        )


@contextmanager
def _source(path: str) -> Iterator[BufferedReader]:
    if path == STREAM:
        yield cast("BufferedReader", sys.stdin.buffer)
        return
    with open(path, "rb") as file:  # noqa: PTH123 - /dev/fd/63 and its like
        yield file


def _sniff_format(file: Path) -> Format:
    """Return the format of a table by its first bytes."""
    with file.open("rb") as content:
        start = content.read(4096)
    if start.startswith(b"PAR1"):
        return "parquet"
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    return "jsonl" if text[:1] == b"{" else "csv"


def _decompress(raw: Path, copy: Path, method: str, name: str) -> None:
    """Decompress a file; `name` names it in messages."""
    problem = ""
    try:
        with _reader(raw, method) as compressed, copy.open("wb") as out:
            shutil.copyfileobj(compressed, out)
    except EOFError:  # click would take it for the end of an input in the terminal
        problem = "ended before the end-of-stream marker was reached"
    except (OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the disk
        problem = str(error)
    if problem:
        raise ArgumentError(
            f"the compressed file ({method}) is cut off or damaged: {problem}; copy or "
            "download it again",
            argument="input",
            code="damaged",
            form="{problem}",
            file=name,
        )


def _reader(file: Path, method: str) -> IO[bytes]:
    if method == "gzip":
        return cast("IO[bytes]", gzip.open(file))
    return cast("IO[bytes]", _arrow().CompressedInputStream(str(file), "zstd"))


@contextmanager
def compressed_to(path: str, stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield a stream that compresses into another one if the file's name says so."""
    method = _COMPRESSED.get(_suffixes(path)[1], "")
    if not method:
        yield stream
    elif method == "gzip":  # without a time, so that equal tables are equal files
        with gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as out:
            yield cast("IO[bytes]", out)
    else:
        with _arrow().CompressedOutputStream(stream, "zstd") as out:
            yield out


def check_package(path: str) -> None:
    """Check that the package is installed that a file's name needs."""
    for suffix in _suffixes(path):
        if suffix in {".parquet", ".zst"}:
            _arrow(suffix)


def _arrow(suffix: str = ".zst") -> Any:  # an optional module
    try:
        import pyarrow as pa  # optional dependency
    except ImportError:
        raise ImportError(
            f"{suffix} needs pyarrow: {phrases.install_command('parquet')}"
        ) from None
    return pa
