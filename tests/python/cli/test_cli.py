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
from programs import ended, run
from waiting import HANGS_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from commands import Commands

LLAMAHERD = f"{sys.executable} -m llamaherd.cli"
FULL = Path("/dev/full")
BY_SIGINT = -signal.SIGINT if os.name == "posix" else 130
TAKES_NOTHING = {"> /dev/full": "No space left on", ">&-": "stdout is closed"}
COMMANDS_THAT_PRINT = ["--help", "codebooks --help", "doctor", "run", "chat"]
TABLE = "text\na\nb\n"
not_on_windows = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows has other pipes and signals"
)
in_processes = pytest.mark.more(reason="a process for each case", cases=1)


def test_all_commands_can_be_loaded_and_teach_by_examples(cli: Commands) -> None:
    cli("--version", out=__version__)
    cli("serve --help", out="/generate")
    overview = cli("--help").out
    for name, what in COMMANDS.items():
        assert f"  {name} " in overview
        assert what in overview
        text = cli(f"{name} --help", out="Examples:\n").out
        assert f"\n  llamaherd {name} " in text
        assert all(len(line) <= 80 for line in text.splitlines()), name


SIGNALLED = """
import os, signal, sys, time
from llamaherd.cli import main
from llamaherd.server import serving
sent, handled, handler = sys.argv[1:]
def bind(*_):
    os.kill(os.getpid(), getattr(signal, sent))
    time.sleep(60 if sent == "SIGTERM" else 0)
    raise OSError("reached")
serving.bind = bind
signal.signal(getattr(signal, handled), getattr(signal, handler))
sys.exit(main(["serve", "no.gguf"]))
"""


@pytest.mark.long(reason="a process for each case")
@pytest.mark.parametrize("handler", ["default_int_handler", "SIG_IGN"])
def test_sigterm_ends_a_command_and_its_status_says_so(handler: str) -> None:
    """SIG_IGN: a command in the background."""
    assert ended(SIGNALLED, "SIGTERM", "SIGINT", handler, status=143).stderr == ""


@not_on_windows
def test_nohup_keeps_a_command_that_lost_its_terminal() -> None:
    done = ended(SIGNALLED, "SIGHUP", "SIGHUP", "SIG_IGN", status=1)
    assert "reached" in done.stderr


@pytest.mark.parametrize("module", ["llamaherd", "llamaherd.cli", ""])
def test_ctrl_c_while_parts_are_imported(tmp_path: Path, module: str) -> None:
    interrupt = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "numpy.py").write_text(f"{interrupt}time.sleep(60)", encoding="utf-8")
    script = tmp_path / "llamaherd"
    script.write_text("from llamaherd.cli import main\nmain()", encoding="utf-8")
    program = ["-m", module] if module else [str(script)]
    path = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, *program, "run", "--help"]
    done = run(command, PYTHONPATH=os.pathsep.join(path))
    assert (done.returncode, done.stdout, done.stderr) == (BY_SIGINT, "", "")


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


@not_on_windows
@pytest.mark.parametrize(("end", "status"), ENDS.values(), ids=ENDS)
def test_a_script_that_ctrl_c_ends_ends_by_the_signal(
    end: str, status: int | str
) -> None:
    done = ended(SCRIPT + end, status=BY_SIGINT if status == "sigint" else int(status))
    assert "first registered, last called" in done.stdout
    assert ("Interrupted" in done.stderr) is (status != 0 and "ValueError" not in end)


# Imports leave signals to other programs, and the server's packages to the server.
IMPORTS = """
import signal, sys
import llamaherd
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
import llamaherd.cli
found = {'starlette', 'uvicorn', 'prometheus_client'} & set(sys.modules)
assert not found, found
"""


def test_imports_leave_signals_and_packages_of_the_server_alone() -> None:
    assert ended(IMPORTS, "llamaherd").stderr == ""


@pytest.mark.parametrize("command", ["--help", "run --help", "codebooks ready sentiment"])
def test_a_reader_that_leaves_is_told_by_the_status_alone(command: str) -> None:
    line = f"{LLAMAHERD} {command} | true; echo ${{PIPESTATUS[0]}}"
    done = run(["bash", "-c", line])
    assert (done.returncode, done.stdout, done.stderr) == (0, "141\n", "")


def test_a_file_that_is_no_model(cli: Commands) -> None:
    for _ in range(2):
        stderr = cli("serve no.gguf --port 0", status=1, err="no.gguf").err
        assert stderr.startswith("llamaherd: ")
        assert len(stderr.splitlines()) == 1
        Path("no.gguf").write_text("no model")


def test_a_port_in_use_is_told_before_the_model_is_loaded(cli: Commands) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        message = f"cannot listen on 127.0.0.1:{port}"
        cli(f"serve no.gguf --port {port}", status=1, err=message)


EVERYWHERE = "serve no.gguf --port 0 --host 0.0.0.0"


@pytest.fixture
def no_key(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    return monkeypatch


@pytest.mark.usefixtures("no_key")
@pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
def test_other_machines_without_a_key_must_be_meant(
    capfd: pytest.CaptureFixture[str], cli: Commands, host: str
) -> None:
    assert main(cli.words(EVERYWHERE, "--host", host)) in {1, 2}
    error = capfd.readouterr().err
    assert KEY_VARIABLE in error or "cannot listen" in error
    assert "no.gguf" not in error  # this fails before the model is searched


def test_other_machines_with_a_key_or_without_one_said_twice(
    cli: Commands, no_key: pytest.MonkeyPatch
) -> None:
    warning = "warning: anybody who can reach"
    assert "no.gguf" in cli(f"{EVERYWHERE} --no-api-key", status=1, err=warning).err
    errors = cli(f"{EVERYWHERE} --api-key secret", status=1).err
    no_key.setenv(KEY_VARIABLE, "secret")
    errors += cli(EVERYWHERE, status=1).err
    assert KEY_VARIABLE not in errors
    assert "secret" not in errors
    cli(f"{EVERYWHERE} --no-api-key", status=2, err="is given with an API key")


@pytest.mark.parametrize(
    "key", ["trail ", " lead", "secret\n", "\r\nsecret\r\n", "sécret"]
)
def test_keys_are_stripped(key: str, no_key: pytest.MonkeyPatch) -> None:
    assert serve._key(key) == key.strip()
    no_key.setenv(KEY_VARIABLE, key)
    assert serve._key(None) == key.strip()


def test_a_missing_extra_is_told() -> None:
    done = ended(
        "import sys; sys.modules['starlette'] = None\n"
        "from llamaherd.cli import main\n"
        "assert main(['serve', '--help']) == 0\n"
        "sys.exit(main(['serve', 'no.gguf']))",
        status=1,
    )
    assert "--max-body BYTES" in done.stdout
    assert 'pip install "llamaherd[server] @ git' in done.stderr
    assert "Traceback" not in done.stderr


def line_of(cli: Commands, command: str) -> str:
    """Return a command on a table with the tiny model, as a line of a shell."""
    Path("in.csv").write_text(TABLE)
    (model,) = cli.words("MODEL")
    return f"{LLAMAHERD} {command} -m {model} --prompt '{{text}}'"


@in_processes
@pytest.mark.parametrize(
    ("redirected", "message"),
    [
        (">&-", "answers ended at --max-tokens"),
        ("2>&-", ""),
        ("<&- >&- 2>&-", ""),
    ],
)
def test_a_run_with_a_closed_stream(cli: Commands, redirected: str, message: str) -> None:
    line = f"{line_of(cli, 'run in.csv')} --max-tokens 3 -o out.csv {redirected}"
    done = run(line)
    assert done.returncode == 0, done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == bool(message)
    with Path("out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows] == ["text", "a", "b"]


@in_processes
@pytest.mark.parametrize("filter_", ["error::UserWarning", "error"])
def test_no_filter_turns_the_warnings_of_a_run_into_errors(
    cli: Commands, filter_: str
) -> None:
    line = line_of(cli, "classify in.csv --labels a,b -o out.csv --journal ''")
    done = run(line, PYTHONWARNINGS=filter_)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("llamaherd: warning: Median coverage is")
    assert len(Path("out.csv").read_text().splitlines()) == 3


@not_on_windows
def test_a_minus_stands_for_stdin_and_stdout(cli: Commands) -> None:
    ready = f"{LLAMAHERD} codebooks ready sentiment"
    book = run(f"{ready} -o -").stdout
    assert book.startswith("question: ")
    line = line_of(cli, "annotate in.csv -o out.csv").rpartition(" --prompt")[0]
    done = run(f"{ready} -o - | {line} --codebook - --save -")
    assert (done.returncode, done.stderr) == (0, "")
    assert 'answer_role = "Sentiment"' in done.stdout
    asked = line_of(cli, "run in.csv -o out.csv --max-tokens 9 --schema -")
    done = run(f"""echo '{{"const": 1}}' | {asked}""")
    assert (done.returncode, done.stderr) == (0, "")
    for _ in range(2):
        run(f"{line} --codebook ready:sentiment --save - >> all.txt")
    assert Path("all.txt").read_text().count('input = "in.csv"') == 2
    assert not Path("-").exists()


@not_on_windows
def test_a_reader_that_ends_first_causes_no_message(cli: Commands) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    line = f"{line_of(cli, 'run in.csv')} --max-tokens 3"
    done = subprocess.run(
        line, shell=True, stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@not_on_windows
def test_a_reader_that_ends_during_a_run_ends_the_run(cli: Commands) -> None:
    line = f"exec {line_of(cli, 'run in.csv')} --temperature 1"
    Path("in.csv").write_text("text\n" + "a\n" * 100_000)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(line, shell=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"text,answer,finish_reason,error\n"
        process.stdout.close()
        assert process.wait(HANGS_S) == 141  # all rows would take an hour
        assert process.stderr.read() == b""


@in_processes
@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", COMMANDS_THAT_PRINT)
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("stdout", list(TAKES_NOTHING))
def test_stdout_that_takes_nothing_is_an_error(
    cli: Commands,
    tiny_path: Callable[[str], Path],
    command: str,
    unbuffered: str,
    stdout: str,
) -> None:
    line = f"{LLAMAHERD} {command}"
    if command == "run":
        line = line_of(cli, "run in.csv")
    elif command == "chat":
        model = tiny_path("chat")
        line = f"printf 'One\\nTwo' | {line} {model} --max-tokens 2"
    done = run(f"{line} {stdout}", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    assert done.stderr.startswith(f"llamaherd: {TAKES_NOTHING[stdout]}")
    assert len(done.stderr.splitlines()) == 1


def test_a_character_that_the_console_lacks_is_escaped(own_cache: Path) -> None:
    own_cache.mkdir(parents=True)
    (own_cache / "schön-\u96ea.gguf").write_bytes(b"GGUF")
    command = f"PYTHONIOENCODING=cp1252 {LLAMAHERD} models list"
    out = subprocess.check_output(command, shell=True, encoding="cp1252")
    assert out.startswith("schön-\\u96ea.gguf ")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no openpty")
def test_a_table_that_is_read_from_the_terminal_is_told(cli: Commands) -> None:
    """Without a file the command would wait silently."""
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"text\nhello\n\x04")
    done = subprocess.run(
        line_of(cli, "run -") + " -o out.csv",
        shell=True, stdin=terminal, capture_output=True, text=True, check=False,
        timeout=600,
    )  # fmt: skip
    assert "read from this terminal" in done.stderr
    assert "hello" in Path("out.csv").read_text("utf-8")


def test_a_table_from_a_closed_stdin(cli: Commands) -> None:
    done = run(f"{line_of(cli, 'run -')} -o out.csv <&-")
    assert done.returncode == 2
    assert "stdin, line 1: it is empty" in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("out.csv").exists()


@in_processes
@pytest.mark.parametrize("command", ["--version", "--help", "models list", "doctor"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_no_command_ends_in_a_traceback(command: str, closed: str) -> None:
    done = run(f"{LLAMAHERD} {command} {closed}")
    assert "Traceback" not in done.stderr + done.stdout
    assert "Exception ignored" not in done.stderr
    assert done.returncode in {0, 1}
    assert not (done.returncode == 0 and " >&-" in f" {closed}")
