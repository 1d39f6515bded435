"""The program: signals, streams, its start and its end."""

from __future__ import annotations

import csv
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from llamaherd import __version__
from llamaherd.cli import main, serve
from llamaherd.cli.main import COMMANDS
from llamaherd.remote.server import KEY_VARIABLE
from waiting import HANGS_S

if TYPE_CHECKING:
    from collections.abc import Callable

    Tiny = Callable[[str], Path]


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in (
        (["--help"], "serve"),
        (["--version"], __version__),
        (["serve", "--help"], "/generate"),
    ):
        assert main(arguments) == 0
        assert text in capsys.readouterr().out


def test_all_commands_can_be_loaded_and_teach_by_examples(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    for name, what in COMMANDS.items():
        assert f"  {name} " in overview
        assert what in overview
        assert main([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert "Examples:\n" in text
        assert f"\n  llamaherd {name} " in text
        assert all(len(line) <= 80 for line in text.splitlines()), name


@pytest.mark.long(reason="a process for each case")
def test_sigterm_ends_a_command_and_its_status_says_so() -> None:
    code = """
import os, signal, sys, time
from llamaherd.cli import main
from llamaherd.server import serving
def bind(*_):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
serving.bind = bind
signal.signal(signal.SIGINT, getattr(signal, sys.argv[1]))
sys.exit(main(["serve", "no.gguf"]))
"""
    for handler in (
        "default_int_handler",
        "SIG_IGN",
    ):  # the second run is in the background
        command = [sys.executable, "-c", code, handler]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (143, "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
def test_nohup_keeps_a_command_that_lost_its_terminal() -> None:
    code = """
import os, signal, sys
from llamaherd.cli import main
from llamaherd.server import serving
def bind(*_):
    os.kill(os.getpid(), signal.SIGHUP)
    raise OSError("reached")
serving.bind = bind
signal.signal(signal.SIGHUP, signal.SIG_IGN)
sys.exit(main(["serve", "no.gguf"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "reached" in done.stderr


BY_SIGINT = -signal.SIGINT if os.name == "posix" else 130


@pytest.mark.parametrize("module", ["llamaherd", "llamaherd.cli", ""])
def test_ctrl_c_while_parts_are_imported(tmp_path: Path, module: str) -> None:
    interrupt = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "numpy.py").write_text(f"{interrupt}time.sleep(60)", encoding="utf-8")
    script = tmp_path / "llamaherd"
    script.write_text("from llamaherd.cli import main\nmain()", encoding="utf-8")
    program = ["-m", module] if module else [str(script)]
    command = [sys.executable, *program, "run", "--help"]
    path = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(command, check=False, capture_output=True, env=here)
    assert (done.returncode, done.stdout, done.stderr) == (BY_SIGINT, b"", b"")


SCRIPT = """
import atexit, os, signal
import llamaherd as lh
atexit.register(print, "first registered, last called")
def work():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass
    except KeyboardInterrupt:
        raise lh.Interrupted(None) from None
"""
# Ends of a script, its exit status, and the lines that it prints.
ENDS = {
    "uncaught": ("work()", "sigint"),
    "at exit": ("atexit.register(print, 'then')\nwork()", "sigint"),
    "caught": ("try:\n    work()\nexcept lh.Interrupted:\n    print('caught')", 0),
    "another error": (
        "try:\n    work()\nexcept lh.Interrupted:\n    pass\nraise ValueError",
        1,
    ),
    "a prompt": ("import sys\nsys.ps1 = '>'\nwork()", 1),
}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has another status")
@pytest.mark.parametrize(("end", "status"), ENDS.values(), ids=ENDS)
def test_a_script_that_ctrl_c_ends_ends_by_the_signal(
    end: str, status: int | str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + end], check=False, capture_output=True, text=True
    )
    assert done.returncode == (BY_SIGINT if status == "sigint" else status)
    assert "first registered, last called" in done.stdout
    assert ("Interrupted" in done.stderr) is (status != 0 and "ValueError" not in end)


def test_ctrl_c_in_other_programs_is_theirs() -> None:
    code = """
import signal, sys
import llamaherd
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
    subprocess.run([sys.executable, "-c", code, "llamaherd"], check=True)


@pytest.mark.parametrize("command", ["--help", "run --help", "codebooks ready sentiment"])
def test_a_reader_that_leaves_is_told_by_the_status_alone(command: str) -> None:
    line = f"{LLAMAHERD} {command} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], check=True, capture_output=True)
    assert (done.stdout, done.stderr) == (b"141\n", b"")


def test_a_file_that_is_no_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "no.gguf"
    assert main(["serve", str(path), "--port", "0"]) == 1
    path.write_text("no model")
    assert main(["serve", str(path), "--port", "0"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("llamaherd: ") and "no.gguf" in line for line in lines)
    assert len(lines) == 2


def test_a_port_in_use_is_told_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["serve", "no.gguf", "--port", str(port)]) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


EVERYWHERE = ["serve", "no.gguf", "--port", "0", "--host", "0.0.0.0"]


@pytest.fixture
def no_key(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    return monkeypatch


@pytest.mark.usefixtures("no_key")
@pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
def test_other_machines_without_a_key_must_be_meant(
    capsys: pytest.CaptureFixture[str], host: str
) -> None:
    command = [*EVERYWHERE[:-1], host]
    assert main(command) in {1, 2}
    error = capsys.readouterr().err
    assert KEY_VARIABLE in error or "cannot listen" in error
    assert "no.gguf" not in error  # this fails before the model is searched


def test_other_machines_with_a_key_or_without_one_said_twice(
    capsys: pytest.CaptureFixture[str], no_key: pytest.MonkeyPatch
) -> None:
    assert main([*EVERYWHERE, "--no-api-key"]) == 1
    error = capsys.readouterr().err
    assert "warning: anybody who can reach" in error
    assert "no.gguf" in error
    assert main([*EVERYWHERE, "--api-key", "secret"]) == 1
    no_key.setenv(KEY_VARIABLE, "secret")
    assert main(EVERYWHERE) == 1
    error = capsys.readouterr().err
    assert KEY_VARIABLE not in error
    assert "secret" not in error
    assert main([*EVERYWHERE, "--no-api-key"]) == 2
    assert "is given with an API key" in capsys.readouterr().err


@pytest.mark.parametrize(
    "key", ["trail ", " lead", "secret\n", "\r\nsecret\r\n", "sécret"]
)
def test_keys_are_stripped(key: str, no_key: pytest.MonkeyPatch) -> None:
    assert serve._key(key) == key.strip()
    no_key.setenv(KEY_VARIABLE, key)
    assert serve._key(None) == key.strip()


def test_the_package_needs_nothing_of_the_server() -> None:
    code = (
        "import sys, llamaherd, llamaherd.cli\n"
        "found = {'starlette', 'uvicorn', 'prometheus_client'} & set(sys.modules)\n"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_extra_is_told() -> None:
    code = (
        "import sys; sys.modules['starlette'] = None\n"
        "from llamaherd.cli import main\n"
        "assert main(['serve', '--help']) == 0\n"
        "sys.exit(main(['serve', 'no.gguf']))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "--max-body BYTES" in done.stdout
    assert 'pip install "llamaherd[server] @ git' in done.stderr
    assert "Traceback" not in done.stderr


FULL = Path("/dev/full")
LLAMAHERD = f"{sys.executable} -m llamaherd.cli"


@pytest.mark.more(reason="a process for each case", cases=1)
@pytest.mark.parametrize(
    ("redirected", "told"),
    [
        (">&-", "answers ended at --max-tokens"),
        ("2>&-", ""),
        ("<&- >&- 2>&-", ""),
    ],
)
def test_a_run_with_a_closed_stream(
    tiny_path: Tiny, tmp_path: Path, redirected: str, told: str
) -> None:
    (tmp_path / "in.csv").write_text("text\na\nb\n")
    run = f"run in.csv -m {tiny_path('llama')} --prompt '{{text}}' --max-tokens 3"
    done = shell(f"{LLAMAHERD} {run} -o out.csv {redirected}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == bool(told)
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows] == ["text", "a", "b"]


@pytest.mark.more(reason="a process for each case", cases=1)
@pytest.mark.parametrize("filter_", ["error::UserWarning", "error"])
def test_no_filter_turns_the_warnings_of_a_run_into_errors(
    tiny_path: Tiny, tmp_path: Path, filter_: str
) -> None:
    (tmp_path / "in.csv").write_text("text\na\nb\n")
    run = f"classify in.csv -m {tiny_path('llama')} --prompt '{{text}}' --labels a,b"
    done = shell(
        f"PYTHONWARNINGS={filter_} {LLAMAHERD} {run} -o out.csv --journal ''", tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("llamaherd: warning: Median coverage is")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other pipes")
def test_a_reader_that_ends_first_causes_no_message(
    tiny_path: Tiny, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text("text\na\nb\n")
    reader, writer = os.pipe()
    os.close(reader)
    run = f"run in.csv -m {tiny_path('llama')} --prompt {{text}} --max-tokens 3"
    done = subprocess.run(
        [*LLAMAHERD.split(), *run.split()],
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other pipes")
def test_a_reader_that_ends_during_a_run_ends_the_run(
    tiny_path: Tiny, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text("text\n" + "a\n" * 100_000)
    run = f"run in.csv -m {tiny_path('llama')} --prompt {{text}} --temperature 1"
    with subprocess.Popen(
        [*LLAMAHERD.split(), *run.split()],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"text,answer,finish_reason,error\n"
        process.stdout.close()
        assert process.wait(HANGS_S) == 141  # all rows would take an hour
        assert process.stderr.read() == b""


@pytest.mark.more(reason="a process for each case", cases=1)
@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["--help", "codebooks --help", "doctor", "run"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_stdout_is_named(
    tiny_path: Tiny,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    unbuffered: str,
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    (tmp_path / "in.csv").write_text("text\na\n")
    if command == "run":
        command = f"run in.csv -m {tiny_path('llama')} --prompt '{{text}}'"
    done = shell(f"{LLAMAHERD} {command} > /dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("llamaherd: No space left on")
    assert len(done.stderr.splitlines()) == 1


def test_a_character_that_the_console_lacks_is_escaped(
    own_cache: Path, tmp_path: Path
) -> None:
    own_cache.mkdir(parents=True)
    (own_cache / "schön-\u96ea.gguf").write_bytes(b"GGUF")
    narrow = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    done = subprocess.run(
        f"{LLAMAHERD} models list",
        cwd=tmp_path,
        env=narrow,
        shell=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode("cp1252").startswith("schön-\\u96ea.gguf ")


def test_a_table_from_a_closed_stdin(tiny_path: Tiny, tmp_path: Path) -> None:
    run = f"run - -m {tiny_path('llama')} --prompt '{{text}}' -o out.csv <&-"
    done = shell(f"{LLAMAHERD} {run}", tmp_path)
    assert done.returncode == 2
    assert "stdin, line 1: it is empty" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.more(reason="a process for each case", cases=1)
@pytest.mark.parametrize("command", ["--version", "--help", "models list", "doctor"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_no_command_ends_in_a_traceback(
    tmp_path: Path, command: str, closed: str
) -> None:
    done = shell(f"{LLAMAHERD} {command} {closed}", tmp_path)
    assert "Traceback" not in done.stderr + done.stdout
    assert "Exception ignored" not in done.stderr
    assert done.returncode in {0, 1}


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line, shell=True, cwd=folder, capture_output=True, text=True, check=False
    )
