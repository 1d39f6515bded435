from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llamaherd.calls.journal import file
from llamaherd.cli.conventions import failed
from llamaherd.tables import outputs
from llamaherd.tables.execution import do_run
from llamaherd.tables.outputs import locked, replacing
from llamaherd.tables.spec import RunSpec

Tiny = Callable[[str], Path]


def described(folder: Path, model: Path, **keys: Any) -> RunSpec:
    (folder / "in.csv").write_text("text\none\ntwo\n", encoding="utf-8")
    keys = {"output": "out.csv", "sampling": {"max_tokens": 2}, **keys}
    keys["output"] = str(folder / keys["output"])
    context = {"deterministic": True, "n_threads": 1}
    given = {"input": str(folder / "in.csv"), "context": context, **keys}
    return RunSpec(model={"path": str(model)}, **given)


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_what_llamaherd_did_not_write_is_not_lost(
    tmp_path: Path, tiny_path: Tiny, name: str
) -> None:
    spec = described(tmp_path, tiny_path("llama"), output=name)
    path = tmp_path / name
    path.touch()  # an empty file, as created by mktemp, may be replaced
    assert do_run(spec).n_failed == 0
    own = path.read_bytes()
    assert do_run(spec).n_failed == 0  # the same run again
    assert path.read_bytes() == own
    path.write_bytes(b"by hand")
    with pytest.raises(ValueError, match=rf"{name}' exists already.*--overwrite"):
        do_run(described(tmp_path, tmp_path / "no.gguf", output=name))
    assert path.read_bytes() == b"by hand"
    assert do_run(spec, overwrite=True).n_failed == 0
    assert path.read_bytes() == own


def test_that_another_run_is_replaced_is_told(tmp_path: Path, tiny_path: Tiny) -> None:
    assert do_run(described(tmp_path, tiny_path("llama"))).n_failed == 0
    longer = described(tmp_path, tiny_path("llama"), sampling={"max_tokens": 3})
    journal = rf"its results in {tmp_path}/out.csv.journal are kept"
    told = rf"output of a run with another description of the run: .*; {journal}"
    with pytest.warns(UserWarning, match=told):
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
from llamaherd.tables.outputs import locked
with locked("output", Path(sys.argv[1])):
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
    with locked("journal", journal), pytest.raises(ValueError, match=f"{os.getpid()}"):
        do_run(spec, shard=(1, 2))


def test_where_nothing_can_be_locked_nothing_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.csv"
    monkeypatch.setattr(outputs, "network_type", lambda _: "nfs4")
    with locked("output", path), locked("output", path):
        assert not list(tmp_path.iterdir())
    monkeypatch.setattr(outputs, "network_type", file.network_type)
    (tmp_path / "out.csv.lock").symlink_to(tmp_path / "mine.txt")
    with locked("output", path):
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
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert failed(OSError(errno.ENOSPC, "No space left on device", "out.csv")) == 1
    assert capsys.readouterr().err == (
        "llamaherd: 'out.csv' cannot be used: No space left on device; free space and "
        "run the command again\n"
    )
    assert failed(PermissionError(errno.EACCES, "Permission denied", "out.csv")) == 1
    assert "free space" not in capsys.readouterr().err
