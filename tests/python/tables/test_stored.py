"""Tables in compressed files and in pipes, their first rows; outputs that exist."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pyarrow as pa
import pytest
from llamaherd.calls.journal import file
from llamaherd.cli.conventions import print_failure
from llamaherd.tables import outputs
from llamaherd.tables.execution import do_run
from llamaherd.tables.inputs import open_input
from llamaherd.tables.outputs import checked_output, locked_file, replacing
from llamaherd.tables.spec import RunSpec
from llamaherd.tables.table import growing
from llamaherd.tables.whole import read_whole, write_whole

if TYPE_CHECKING:
    from commands import Commands

CSV = "text,n\n" + "".join(f"t{i},{i}\n" for i in range(100))
JSON = "".join(f'{{"text": "t{i}", "n": {i}}}\n' for i in range(100))


pytestmark = pytest.mark.usefixtures("cli")  # an empty folder


def _zstd(content: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(content)
    return out.getvalue().to_pybytes()


def _rows(path: str, **more: object) -> list[object]:
    with open_input(RunSpec(input=path, **more)) as source:  # type: ignore[arg-type]
        assert source.table.n_rows == sum(len(b.rows) for b in source.table.blocks(7))
        return [row["text"] for b in source.table.blocks(64) for row in b.rows]


FILES = {
    "a.csv": CSV.encode(),
    "a.tsv": CSV.replace(",", "\t").encode(),
    "a.ndjson": JSON.encode(),
    "a.csv.gz": gzip.compress(CSV.encode()),
    "a.jsonl.zst": _zstd(JSON.encode()),
    "a.TSV.GZ": gzip.compress(CSV.replace(",", "\t").encode()),
    "plain.csv.gz": CSV.encode(),  # decompressed by a browser
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_read_by_their_names(name: str) -> None:
    Path(name).write_bytes(FILES[name])
    every = [f"t{i}" for i in range(100)]
    assert _rows(name) == every
    assert _rows(name, limit=3) == every[:3]
    assert read_whole(name)["text"] == every


@pytest.mark.parametrize("name", ["out.tsv", "out.csv.gz", "out.ndjson.zst", "o.jsonl"])
def test_whole_tables_are_written_and_read_again(name: str) -> None:
    columns = {"text": ["a\tb", "c"], "n": ["1", "2"]}
    write_whole(columns, name, overwrite=False)
    assert read_whole(name) == columns
    first = Path(name).read_bytes()
    write_whole(columns, name, overwrite=True)
    assert Path(name).read_bytes() == first


@pytest.mark.parametrize("name", ["out.xlsx", "out.parquet.gz", "out"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(lh.ArgumentError, match=r"\.ndjson"):
        write_whole({"a": ["1"]}, name, overwrite=False)
    with pytest.raises(lh.ArgumentError, match=r"\.ndjson"):
        RunSpec(output=name)


GZIP, ZSTD = gzip.compress(CSV.encode()), _zstd(CSV.encode())
BROKEN = {
    "cut.csv.gz": GZIP[:-12],
    "stream.csv.gz": GZIP[:30] + bytes(8) + GZIP[38:],
    "method.csv.gz": GZIP[:2] + b"\x01" + GZIP[3:],
    "check.csv.gz": GZIP[:-8] + bytes(8),
    "cut.csv.zst": ZSTD[:-12],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_compressed_file_is_named(name: str, cli: Commands) -> None:
    Path(name).write_bytes(BROKEN[name])
    with pytest.raises(lh.ArgumentError, match="is cut off or damaged") as caught:
        read_whole(name)
    assert (caught.value.file, caught.value.code) == (name, "damaged")
    message = f"{name}: the compressed file ("
    cli(f"run {name} -m no.gguf --show-prompt", status=2, err=message)


def test_an_output_that_cannot_be_written_has_the_systems_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = RunSpec(input="a.csv", output="o.csv")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(lh.ArgumentError, match=r"o\.csv.* cannot be written: Permission"):
        checked_output(spec)
    if sys.platform != "win32":
        read_only = SimpleNamespace(f_flag=os.ST_RDONLY)
        monkeypatch.setattr(os, "statvfs", lambda _: read_only)
        with pytest.raises(lh.ArgumentError, match="cannot be written: Read-only file"):
            checked_output(spec)
    Path("folder.csv").mkdir()
    with pytest.raises(lh.ArgumentError, match="cannot be written: Is a directory"):
        checked_output(RunSpec(input="a.csv", output="folder.csv"))


def test_an_input_that_ends_too_early_is_not_an_abort(
    monkeypatch: pytest.MonkeyPatch, cli: Commands
) -> None:
    def ends(_path: str, _mode: str) -> None:
        raise EOFError

    monkeypatch.setattr("llamaherd.tables.stored.open", ends, raising=False)
    Path("a.csv.gz").write_bytes(GZIP)
    error = cli("run a.csv.gz --show-prompt", status=1).err
    assert error == "llamaherd: an input ended too early\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes")
@pytest.mark.parametrize("content", [CSV.encode(), JSON.encode(), FILES["a.csv.gz"]])
def test_pipes_are_read_by_their_content(content: bytes) -> None:
    def feed() -> None:
        Path("pipe").write_bytes(content)

    for read in (_rows, lambda path: read_whole(path)["text"]):
        os.mkfifo("pipe")
        writer = threading.Thread(target=feed)
        writer.start()
        assert read("pipe") == [f"t{i}" for i in range(100)]
        writer.join()
        Path("pipe").unlink()


def test_standard_input_is_read_by_every_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = io.BytesIO(FILES["a.csv.gz"])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=content))
    assert read_whole("-")["n"][99] == "99"


def test_blocks_of_a_stream_grow_and_lose_no_row() -> None:
    Path("a.csv").write_text(CSV)
    with open_input(RunSpec(input="a.csv")) as source:
        blocks = list(growing(source.table, 48))
    places = [(block.start, len(block.rows)) for block in blocks]
    assert places == [(0, 32), (32, 32), (64, 32), (96, 4)]
    with open_input(RunSpec(input="a.csv")) as source:
        blocks = list(growing(source.table, 8192))
    assert [len(block.rows) for block in blocks] == [32, 64, 4]


def test_the_first_rows_of_a_run_and_the_whole_run(cli: Commands) -> None:
    Path("a.csv").write_text(CSV)
    run = "run a.csv -m MODEL --max-tokens 2 --n-threads 1 -q"
    cli(f"{run} -o few.csv --limit 3")
    cli(f"{run} -o every.tsv.gz")
    few, every = read_whole("few.csv"), read_whole("every.tsv.gz")
    assert few == {name: cells[:3] for name, cells in every.items()}
    assert len(every["text"]) == 100


def test_the_prompt_of_the_first_row_is_shown(
    cli: Commands, tiny_path: Callable[[str], Path]
) -> None:
    Path("a.csv").write_text(CSV)
    Path("b.yaml").write_text("question: Is it?\nlabels: [yes it is, no]\n")
    line = "a.csv --prompt 'About {text}:' --show-prompt"
    chat = f"{line} --chat -m {tiny_path('chat')}"
    user = "<user>About t0:\n<assistant>\n"
    assert cli(f"run {line}").out == "About t0:\n"
    assert cli(f"run {chat} --system Be").out == f"<system>Be\n{user}"
    assert cli(f"classify {chat} --labels a,b").out == user
    annotated = cli("annotate a.csv --codebook b.yaml --show-prompt", out="Is it?")
    assert "t0" in annotated.out
    assert cli("embed a.csv --show-prompt").out == "t0\n"
    cli(f"run {line} --chat", status=2)  # a template needs a model
    assert not list(Path().glob("*.journal"))


Tiny = Callable[[str], Path]


def described(folder: Path, model: Path, **keys: Any) -> RunSpec:
    (folder / "in.csv").write_text("text\none\ntwo\n", encoding="utf-8")
    keys = {"output": "out.csv", "sampling": {"max_tokens": 2}, **keys}
    keys["output"] = str(folder / keys["output"])
    context = {"deterministic": True, "n_threads": 1}
    fields = {"input": str(folder / "in.csv"), "context": context, **keys}
    return RunSpec(model={"path": str(model)}, **fields)


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_what_llamaherd_did_not_write_is_not_lost(
    tmp_path: Path, tiny_path: Tiny, name: str
) -> None:
    spec = described(tmp_path, tiny_path("llama"), output=name)
    path = tmp_path / name
    path.touch()  # an empty file, as created by mktemp, may be replaced
    assert do_run(spec).n_failed == 0
    content = path.read_bytes()
    assert do_run(spec).n_failed == 0  # the same run again
    assert path.read_bytes() == content
    path.write_bytes(b"by hand")
    with pytest.raises(ValueError, match=rf"{name}' exists already.*--overwrite"):
        do_run(described(tmp_path, tmp_path / "no.gguf", output=name))
    assert path.read_bytes() == b"by hand"
    assert do_run(spec, overwrite=True).n_failed == 0
    assert path.read_bytes() == content


def test_that_another_run_is_replaced_is_told(tmp_path: Path, tiny_path: Tiny) -> None:
    assert do_run(described(tmp_path, tiny_path("llama"))).n_failed == 0
    longer = described(tmp_path, tiny_path("llama"), sampling={"max_tokens": 3})
    journal = rf"its results in {tmp_path}/out.csv.journal are kept"
    message = rf"output of a run with another description of the run: .*; {journal}"
    with pytest.warns(UserWarning, match=message):
        do_run(longer)
    assert do_run(longer).n_failed == 0  # without a word
    meta = json.loads((tmp_path / "out.csv.meta.json").read_bytes())
    assert meta["run_sha256"] == longer.hash()


def test_an_output_is_never_there_without_what_it_is_of(
    tmp_path: Path, tiny_path: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = described(tmp_path, tiny_path("llama"))
    replace = Path.replace

    def killed(draft: Path, path: Path) -> Path:
        if path.name == "out.csv":
            raise KeyboardInterrupt
        return replace(draft, path)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        do_run(spec)
    assert not (tmp_path / "out.csv").exists()
    monkeypatch.undo()
    assert do_run(spec).n_failed == 0


_HOLD = """
import sys, time
from pathlib import Path
from llamaherd.tables.outputs import locked_file
with locked_file("output", Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Any:
    command = [sys.executable, "-c", _HOLD, str(tmp_path / "out.csv")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_one_run_at_a_time_writes_an_output(
    tmp_path: Path, tiny_path: Tiny, holder: subprocess.Popen[bytes]
) -> None:
    spec = described(tmp_path, tiny_path("llama"))
    refusal = rf"out.csv' is being written by another run, process {holder.pid}:"
    with pytest.raises(ValueError, match=refusal):
        do_run(described(tmp_path, tmp_path / "no.gguf"))
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "out.csv.lock").exists()  # which nobody holds
    assert do_run(spec).n_failed == 0
    assert not (tmp_path / "out.csv.lock").exists()


def test_one_run_at_a_time_writes_a_shard(tmp_path: Path) -> None:
    spec = described(tmp_path, tmp_path / "no.gguf")
    journal = tmp_path / "out.csv.1-of-2.journal"
    with (
        locked_file("journal", journal),
        pytest.raises(ValueError, match=f"{os.getpid()}"),
    ):
        do_run(spec, shard=(1, 2))


def test_where_nothing_can_be_locked_nothing_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.csv"
    monkeypatch.setattr(outputs, "network_type", lambda _: "nfs4")
    with locked_file("output", path), locked_file("output", path):
        assert not list(tmp_path.iterdir())
    monkeypatch.setattr(outputs, "network_type", file.network_type)
    (tmp_path / "out.csv.lock").symlink_to(tmp_path / "mine.txt")
    with locked_file("output", path):
        assert not (tmp_path / "mine.txt").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_a_full_disk_is_an_error_of_the_output(tmp_path: Path) -> None:
    def fill() -> None:
        with Path("/dev/full").open("wb", buffering=0) as device:
            device.write(b"x")

    output = tmp_path / "out.csv"
    with pytest.raises(OSError, match="No space left") as caught, replacing(output):
        fill()
    assert caught.value.filename == str(output)
    with pytest.raises(OSError, match="reset") as caught, replacing(output):
        raise ConnectionResetError(104, "reset")
    assert caught.value.filename is None  # not an error of a write
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_reported_with_the_file_and_advice(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert print_failure(OSError(errno.ENOSPC, "No space left on device", "out.csv")) == 1
    assert capfd.readouterr().err == (
        "llamaherd: 'out.csv' cannot be used: No space left on device; free space and "
        "run the command again\n"
    )
    assert (
        print_failure(PermissionError(errno.EACCES, "Permission denied", "out.csv")) == 1
    )
    assert "free space" not in capfd.readouterr().err
