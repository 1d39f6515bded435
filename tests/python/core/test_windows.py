"""Code that runs on Windows only, or that Windows' rules restrict, on any system."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import windows_rules
from llamaherd.cli import serve_run
from llamaherd.engine.core import files
from llamaherd.remote import processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Modules and names of POSIX, which Windows lacks.
_IMPORT_ALL = """
import asyncio, concurrent.futures, ctypes, importlib, multiprocessing, os, pkgutil
import shutil, signal, socket, sqlite3, subprocess, sys, tempfile, webbrowser
import cffi, click, uvicorn, starlette, narwhals, numpy, jinja2, jsonschema, llama_cpp
import filelock, httpx, huggingface_hub.hf_api, platformdirs, psutil, tqdm
import llamaherd.engine.native.shim

class Posix:
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Posix())
for name in (
    "fork", "forkpty", "getuid", "geteuid", "getgid", "sched_getaffinity", "statvfs",
    "sched_setaffinity", "register_at_fork", "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC",
    "fchmod", "chown", "getloadavg", "sysconf", "mkfifo", "uname", "setsid", "killpg",
):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGPIPE",
             "SIGQUIT", "SIGTSTP", "SIGCONT", "pthread_kill", "pthread_sigmask"):
    if hasattr(signal, name):
        delattr(signal, name)
if hasattr(socket, "AF_UNIX"):
    del socket.AF_UNIX
sys.platform = "win32"
import llamaherd
n = 0
for module in pkgutil.walk_packages(llamaherd.__path__, "llamaherd."):
    if module.name.startswith("llamaherd.ray"):  # for clusters of Linux machines
        continue
    if module.name.endswith((".__main__", ".libllamaherd")):  # the second is no module
        continue
    importlib.import_module(module.name)
    n += 1
print(n)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="imitates Windows")
def test_all_modules_import_without_posix() -> None:
    for extra in ("uvicorn", "pyarrow"):
        pytest.importorskip(extra)
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200


@pytest.fixture
def handled() -> Iterator[threading.Event]:
    """Event that SIGTERM sets."""
    event = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: event.set())
    yield event
    signal.signal(signal.SIGTERM, before)


def _end_at_once(pid: int, number: int) -> None:
    raise AssertionError(f"os.kill ends process {pid} without its handlers: {number}")


def test_the_handlers_of_a_server_run_at_its_end(
    monkeypatch: pytest.MonkeyPatch, handled: threading.Event
) -> None:
    monkeypatch.setattr(serve_run, "_IS_WINDOWS", True)
    monkeypatch.setattr(os, "kill", _end_at_once)
    monkeypatch.setattr(os, "read", lambda *_: b"")
    thread = threading.Thread(target=serve_run._end_with_stdin)
    thread.start()
    thread.join()
    assert handled.wait(60)


def test_a_server_is_asked_to_end_by_its_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_IS_WINDOWS", True)
    command = [sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(7)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        with monkeypatch.context() as patch:
            patch.setattr(os, "kill", _end_at_once)
            processes._ask_to_end(child.pid, child)
        assert child.wait(60) == 7


@pytest.mark.skipif(sys.platform != "linux", reason="imitates Windows by /proc")
def test_an_open_target_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows_rules.imitate(monkeypatch)
    draft, target = tmp_path / "draft", tmp_path / "target"
    draft.write_text("new", encoding="utf-8")
    target.write_text("old", encoding="utf-8")
    with (
        target.open(encoding="utf-8"),
        pytest.raises(PermissionError, match="another program has it open"),
    ):
        files.replace(draft, target)
    assert target.read_text(encoding="utf-8") == "old"
    files.replace(draft, target)
    assert target.read_text(encoding="utf-8") == "new"
