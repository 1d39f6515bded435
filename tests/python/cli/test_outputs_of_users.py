"""No command replaces a file that it did not write, unless the user asks for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.calls.journal.journal import Journal
from llamaherd.cli import serve_run
from llamaherd.coding.reports.report import write_report
from llamaherd.coding.selection.comparison import seconds_per_text
from llamaherd.engine.core import files
from llamaherd.engine.core.errors import ArgumentError, DownloadError, JournalError
from llamaherd.engine.hub.download import FileRequest, download
from llamaherd.engine.hub.progress import FetchOptions
from llamaherd.remote import processes
from llamaherd.remote.processes import FOLDER_VARIABLE, start_server
from llamaherd.tables.outputs import found_output, replacing
from llamaherd.tables.whole import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from commands import Commands

MINE = b"years of work\n"
BOOK = lh.Codebook("Which?", ["a", "b"])
ROWS = {"text": [f"Text {i}" for i in range(9)]}


def written(path: Path) -> None:
    """Write the sample of a sheet."""
    lh.gold_sample(ROWS, 5, text="text", names=["a", "b"], seed=1).write(path)


def stored_seconds(folder: Path) -> None:
    run = {
        "n_prompts": 1,
        "n_texts": 1,
        "seconds": 1.0,
        "settings": {},
        "model": {"sha256": "0"},
        "codebook": {"hash": "0"},
    }
    assert seconds_per_text(run, str(folder / "j")) == 1.0
    raise ValueError("the file of another kind is left as it is")


def locked(folder: Path) -> None:
    assert files.take_lock(folder / "out.csv.lock") is None
    raise ValueError("no lock")


def fetched(folder: Path) -> None:
    request = FileRequest(
        url="https://localhost/a.gguf", target=folder / "a.gguf", source="x"
    )
    download(request, FetchOptions(cache=folder))


# Name of a file of the user, and a function that would replace it.
CALLS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "codebook": ("a.yaml", lambda f: lh.write_codebook(BOOK, f / "a.yaml")),
    "sheet": ("a.csv", lambda f: written(f / "a.csv")),
    "design": ("a.csv.json", lambda f: written(f / "a.csv")),
    "report": ("a.html", lambda f: write_report({}, f / "a.html")),
    "json": ("a.json", lambda f: write_report({}, f / "a.json")),
    "document": ("a.docx", lambda f: write_report({}, f / "a.docx")),
    "metadata": ("o.csv.meta.json", lambda f: found_output(f / "o.csv", overwrite=False)),
    "ready": ("ready", lambda f: serve_run.check_ready_file(str(f / "ready"))),
    "seconds": ("j.times.json", stored_seconds),
    "lock": ("out.csv.lock", locked),
    "note": ("a.gguf.json", fetched),
    "server": ("mine/server.log", lambda _: start_server("a.gguf", name="mine")),
}
REASONS = (
    "exists already|already exists|not a journal|record of a download|other files"
    "|is left as it is|no lock"
)
ERRORS = (ArgumentError, ValueError, JournalError, DownloadError)


@pytest.mark.parametrize("kind", CALLS)
def test_a_file_of_the_user_is_left_as_it_is(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    Journal(tmp_path / "journal").close()
    name, call = CALLS[kind]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(MINE)
    if kind == "server":  # the folder of another program
        (tmp_path / "mine" / "notes").write_bytes(MINE)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ERRORS, match=REASONS):
        call(tmp_path)
    assert (tmp_path / name).read_bytes() == MINE
    assert sorted(tmp_path.rglob("*")) == before


SPANS = "spans\n[]\n"
RUN = 'input = "in.csv"\noutput = "out.csv"\n[model]\npath = "m.gguf"\n'
COMMANDS = [
    "codebooks ready sentiment -o",
    "codebooks compare gold.csv -c one.yaml -m model.gguf -o",
    "codebooks compare gold.csv -c one.yaml -m model.gguf --plot",
    "spans spans.csv -o",
    "gold sample in.csv -n 2 --name a -o",
    "pairs in.csv --question ? -m model.gguf -o",
    "recalibrate in.csv --gold gold.csv -o",
]


ON_TABLES = ("spans", "gold", "pairs", "recalibrate")  # which write no .json


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["mine.csv", "mine.json", "in.csv"])
def test_a_command_replaces_a_file_only_if_asked(
    command: str, name: str, cli: Commands
) -> None:
    for path, text in (("spans.csv", SPANS), ("run.toml", RUN), ("in.csv", "text\na\n")):
        Path(path).write_text(text)
    mine = Path(name)
    mine.write_bytes(MINE)
    stderr = cli(command, name, status=2).err
    if name == "mine.json" and command.startswith(ON_TABLES):
        assert "out must end in .csv" in stderr
    else:
        assert f"{name}' already exists" in stderr
        assert "--overwrite" in stderr
    assert mine.read_bytes() == MINE
    if command.startswith(("codebooks ready", "spans")) and name == "mine.csv":
        cli(command, name, "--overwrite")
        assert mine.read_bytes() != MINE


MISSING_FOLDER = "there is no folder"
BEFORE_WORK = [
    *((f"{command} none/out.csv", 2, MISSING_FOLDER) for command in COMMANDS[1:]),
    (f"{COMMANDS[2]} none/out.png", 2, "--plot 'none/out.png': there is no folder"),
    (f"{COMMANDS[2]} out.xyz", 2, "--plot must end in one of .eps, "),
    (f"{COMMANDS[2]} out.png", 1, "plots need matplotlib"),
    (f"{COMMANDS[5]} out.parquet", 1, ".parquet needs pyarrow"),
    (f"{COMMANDS[6]} out.csv.zst", 1, ".zst needs pyarrow"),
]


@pytest.mark.parametrize(("command", "status", "message"), BEFORE_WORK)
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    command: str,
    status: int,
    message: str,
    *,
    cli: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("in.csv").write_text("text\na\n")
    for package in ("pyarrow", "matplotlib"):
        if package in message:
            monkeypatch.setitem(sys.modules, package, None)
    cli(command, status=status, err=message)


def test_the_folder_of_a_server_is_used_again(tmp_path: Path) -> None:
    """Files that a killed start left behind are no files of others."""
    for name in ("server.log", "data", "ready-01234567.json", ".llamaherd-7-0a1b2c3d"):
        (tmp_path / name).touch()
    processes._check_own(tmp_path)


PIPE = "is not a regular file: write to '-'"
TO_PIPES = [
    *((f"{command} out.csv", "out.csv", PIPE) for command in COMMANDS[3:]),
    ("run in.csv -m no.gguf -o out.csv", "out.csv", PIPE),
    ("run in.csv -m no.gguf -o out.csv", "out.csv.meta.json", PIPE),
    ("run in.csv -m no.gguf -o out.csv --journal pipe", "pipe", "not a regular file"),
]


with_pipes = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other pipes")


@with_pipes
@pytest.mark.parametrize("is_linked", [False, True])
@pytest.mark.parametrize(("command", "name", "message"), TO_PIPES)
def test_a_table_does_not_replace_a_pipe(
    command: str, name: str, message: str, *, is_linked: bool, cli: Commands
) -> None:
    Path("in.csv").write_text("text\na\n")
    Path("spans.csv").write_text(SPANS)
    os.mkfifo("it" if is_linked else name)
    if is_linked:
        Path(name).symlink_to("it")
    stderr = cli(command, status=2).err
    assert message in stderr or ("gold" in command and "must be a file" in stderr)
    assert Path(name).is_fifo()
    assert Path(name).is_symlink() is is_linked


@with_pipes
def test_no_writer_replaces_removes_or_waits_for_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ArgumentError, match=PIPE), replacing(pipe) as draft:
        draft.write_bytes(MINE)
    assert files.take_lock(pipe) is None
    assert list(tmp_path.iterdir()) == [pipe]
    assert pipe.is_fifo()


@with_pipes
def test_the_description_of_a_run_is_written_into_a_pipe(cli: Commands) -> None:
    os.mkfifo("pipe")
    number = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    cli("run in.csv -m no.gguf --save pipe")
    assert os.read(number, 1000).startswith(b'task = "generate"\n')
    os.close(number)
    assert Path("pipe").is_fifo()


def test_a_table_goes_to_the_file_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "out.csv")
    write_whole({"text": ["a"]}, str(tmp_path / "link.csv"), overwrite=False)
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "out.csv").read_bytes() == b"text\na\n"
