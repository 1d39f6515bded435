"""Replacing files; the line `sep=;` of CSV files."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import pathlib
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import windows_rules
from llamaherd.engine.core import files
from llamaherd.engine.core.files import (
    append_whole,
    copy_whole,
    digest_of,
    separator_in,
    sha256_of,
    sync_folder,
    write_whole,
)
from llamaherd.tables.table import CsvTable
from llamaherd.tables.whole import read_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def test_a_file_is_hashed_whole(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000  # several blocks, the last one not full
    file = tmp_path / "file"
    file.write_bytes(content)
    assert sha256_of(file) == hashlib.sha256(content).hexdigest()
    assert digest_of(file) == hashlib.sha256(content).digest()
    (tmp_path / "empty").touch()
    assert sha256_of(tmp_path / "empty") == hashlib.sha256().hexdigest()


def test_hashing_ends_when_it_is_cancelled(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(4 << 20))
    checks: list[bool] = []

    def is_cancelled() -> bool:
        checks.append(True)
        return len(checks) == 2

    assert digest_of(file, is_cancelled) is None
    assert len(checks) == 2


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="Windows syncs no folders")
def test_the_folder_itself_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    sync_folder(tmp_path)
    assert synced == [tmp_path.stat().st_ino]


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="Windows syncs no folders")
def test_a_folder_that_cannot_be_synced_is_no_error_but_a_broken_disk_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(number: int) -> None:
        raise OSError(number, os.strerror(number))

    for number in (errno.EINVAL, errno.ENOTSUP):  # errors of a network drive
        monkeypatch.setattr(os, "fsync", lambda _, number=number: refuse(number))
        sync_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: refuse(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        sync_folder(tmp_path)


@pytest.mark.parametrize("n_held", [0, 3, 99])
def test_a_file_that_windows_holds_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_held: int
) -> None:
    draft, target = tmp_path / "draft", tmp_path / "target"
    draft.write_text("new")
    target.write_text("old")
    waits: list[float] = []
    real = type(draft).replace

    def held(self: Path, to: Path) -> Path:
        if len(waits) < n_held:
            raise PermissionError(13, "Access is denied")
        return real(self, to)

    monkeypatch.setattr(files, "_IS_WINDOWS", True)
    monkeypatch.setattr(files.time, "sleep", waits.append)
    monkeypatch.setattr(type(draft), "replace", held)
    if n_held < 99:
        files.replace(draft, target)
        assert target.read_text() == "new"
        assert len(waits) == n_held
    else:
        with pytest.raises(PermissionError, match="another program has it open") as seen:
            files.replace(draft, target)
        assert seen.value.filename == str(target)
        assert target.read_text() == "old"


def test_a_discarded_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    files.discard(path)
    assert not path.exists()
    files.discard(path)


@pytest.mark.skipif(sys.platform != "linux", reason="imitates Windows by /proc")
def test_a_discarded_file_stays_while_it_is_open_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "file", tmp_path / "another name"
    path.touch()
    os.link(path, other)
    windows_rules.imitate(monkeypatch)
    with other.open("rb"):
        files.discard(path)
        assert path.exists()
    files.discard(path)
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="imitates Windows by /proc")
def test_a_read_only_file_is_not_replaced_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, target = tmp_path / "draft", tmp_path / "target"
    for path in (draft, target):
        path.touch()
    target.chmod(0o444)
    windows_rules.imitate(monkeypatch)
    monkeypatch.setattr(os, "access", lambda path, _: path != target)  # root may write
    with pytest.raises(PermissionError, match="because it is read-only"):
        files.replace(draft, target)


@contextmanager
def _full_after(n_bytes: int) -> Iterator[None]:
    """Limit the size of files, as a full disk does; no import writes half a .pyc file."""
    resource = pytest.importorskip("resource")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    is_unwritten, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        sys.dont_write_bytecode = is_unwritten


def _write_codebook(path: Path) -> None:
    lh.write_codebook(lh.Codebook("Which? " * 100, ["a", "b"]), path, overwrite=True)


def _write_sample(path: Path) -> None:
    data = {"text": [f"A text of some length, number {i}." for i in range(40)]}
    lh.gold_sample(data, 40, text="text", seed=1).write(path, overwrite=True)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_whole(path, bytes(500)),
        lambda path: append_whole(path, bytes(500)),
        _write_codebook,
        _write_sample,
    ],
    ids=["write_whole", "append_whole", "codebook", "gold sample"],
)
def test_a_full_disk_leaves_the_old_file(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("old", encoding="utf-8")
    with _full_after(100), pytest.raises(OSError, match="too large") as caught:
        write(path)
    assert caught.value.filename in {str(path), f"{path}.json"}  # a sheet's design
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_bytes_of_another_process_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"before")

    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            os.truncate(path, 20)  # as if another process had added more than fits
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "open", lambda *_, **__: Full())
    with pytest.raises(OSError, match="No space"):
        append_whole(path, b"own")
    assert path.stat().st_size == 20


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_a_copy_goes_into_a_folder_and_to_the_file_of_a_link(tmp_path: Path) -> None:
    source, folder = tmp_path / "a.gguf", tmp_path / "folder"
    source.write_bytes(b"content")
    folder.mkdir()
    assert copy_whole(source, folder) == folder / "a.gguf"
    assert copy_whole(folder / "a.gguf", folder).read_bytes() == b"content"
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    assert copy_whole(source, link) == link
    assert (link.is_symlink(), target.read_bytes()) == (True, b"content")
    with pytest.raises(FileNotFoundError):
        copy_whole(tmp_path / "missing", target)
    assert target.read_bytes() == b"content"
    assert not list(tmp_path.glob(".llamaherd-*"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_a_written_file_keeps_its_link_and_permissions(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old", encoding="utf-8")
    target.chmod(0o640)
    link.symlink_to(target)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_write_names_the_file_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "none" / "file", b"")
    assert caught.value.filename == str(tmp_path / "none" / "file")
    path = tmp_path / "read only"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write
    with pytest.raises(PermissionError) as refused:
        write_whole(path, b"new")
    assert refused.value.filename == str(path)
    assert path.read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EBUSY])
def test_a_file_that_cannot_be_replaced_is_written(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mounted file, and a file in a folder in which the user may not write."""
    path = tmp_path / "file"
    path.write_text("old, and longer", encoding="utf-8")

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files, "replace", refuse)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError, match=os.strerror(number)):
        write_whole(tmp_path / "other", b"new")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_a_copy_keeps_the_permissions_of_the_file_that_it_replaces(
    tmp_path: Path,
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"content")
    target.touch(0o600)
    copy_whole(source, target)
    assert (target.stat().st_mode & 0o777, target.read_bytes()) == (0o600, b"content")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_a_draft_of_a_private_file_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, modes = tmp_path / "file", []
    path.touch(0o600)
    monkeypatch.setattr(
        files.shutil,
        "copymode",
        lambda _, draft: modes.append(draft.stat().st_mode & 0o777),
    )
    write_whole(path, b"new")
    assert modes == [0o600]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no /dev/fd")
def test_a_link_to_a_pipe_is_written_to() -> None:
    ends = os.pipe()
    try:
        pipe = pathlib.Path(f"/dev/fd/{ends[1]}")
        write_whole(pipe, b"new")
        append_whole(pipe, b" more")
        assert os.read(ends[0], 10) == b"new more"
    finally:
        for end in ends:
            os.close(end)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right in Windows")
def test_a_circle_of_links_is_an_error_of_the_path(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.symlink_to(path)
    with pytest.raises(OSError, match=str(path)):
        write_whole(path, b"new")


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full exists on Linux")
def test_a_device_is_written_to_directly() -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        write_whole(pathlib.Path("/dev/full"), b"new")
    assert files.is_full(caught.value)
    assert caught.value.filename == "/dev/full"


@pytest.mark.parametrize(
    ("line", "separator"),
    [
        ("sep=;\r\n", ";"),
        ("SEP=,", ","),
        ('"sep=\t"\n', "\t"),
        ("sep=|\n", "|"),
        ("sep=\n", None),
        ("sep=;;\n", None),
        ("sep=;id\n", None),
        ("separator\n", None),
        ("", None),
    ],
)
def test_the_line_names_one_character(line: str, separator: str | None) -> None:
    assert separator_in(line) == separator


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_tables_begin_after_the_line(
    tmp_path: Path, separator: str, encoding: str
) -> None:
    file = tmp_path / "table.csv"
    rows = [["text", "label"], ["a, b; c", "x"], ['a "quote"', "y"]]
    lines = [separator.join('"' + c.replace('"', '""') + '"' for c in r) for r in rows]
    content = "\n".join([f"sep={separator}", *lines]) + "\n"
    file.write_text(content, encoding=encoding)
    table = CsvTable(file, "utf-8-sig", ",")
    assert (list(table.columns), table.n_rows) == (["text", "label"], 2)
    (block,) = table.blocks(10)
    assert [row["text"] for row in block.rows] == ["a, b; c", 'a "quote"']
    assert read_whole(str(file)) == {
        "text": ["a, b; c", 'a "quote"'],
        "label": ["x", "y"],
    }


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_sheet_of_codes_has_the_line(tmp_path: Path, separator: str) -> None:
    data = {"text": [f"one, two; three {i}" for i in range(20)], "label": ["x", "y"] * 10}
    drawn = lh.gold_sample(data, 10, text="text", label="label", seed=1)
    path = tmp_path / "gold.csv"
    delimiter: Any = separator if separator != "|" else ","
    drawn.with_codes(["x"] * 10).write(path, delimiter=delimiter)
    text = path.read_bytes().decode("utf-8-sig")
    if separator == "|":
        text = text.replace('","', '"|"')
    path.write_bytes(f"sep={separator}\r\n{text}".encode("utf-8-sig"))
    assert lh.read_gold(path).codes == [["x"] * 10]


def test_a_file_that_has_only_the_line_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("sep=;\n", encoding="utf-8")
    with pytest.raises(ValueError, match="it is empty"):
        CsvTable(file, "utf-8", ",")
