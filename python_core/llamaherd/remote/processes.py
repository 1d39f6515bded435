"""Processes of servers: functions that start, find and stop them."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks, files
from llamaherd.engine.core.checks import quoted
from llamaherd.engine.core.errors import ArgumentError, ServerError
from llamaherd.engine.core.files import LockHeldError, take_lock
from llamaherd.engine.core.words import call, words
from llamaherd.remote.server import (
    KEY_VARIABLE,
    Models,
    RemoteServer,
    StrPath,
    lora_arguments,
    model_arguments,
    start_of_process,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
FOLDER_VARIABLE = "LLAMAHERD_SERVERS"
# Language of the program that starts the server, "Python" or "R". The program shows the
# server's messages about the start to its user.
LANGUAGE_VARIABLE = "LLAMAHERD_LANGUAGE"
_INFO, _LOG, _LOCK, _DATA = "server.json", "server.log", "start.lock", "data"
# Files that a start leaves behind if it is killed.
_LEFT = re.compile(r"ready-[0-9a-f]{8}\.json|\.llamaherd-[0-9a-f-]+")
_LOOK_S = 0.05
_LOG_LINES = 5
_IS_WINDOWS = sys.platform == "win32"
_NEW_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
# Processes that this process started. Without `stay`, they end when their stdin closes.
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


def servers_folder() -> Path:
    """Return the folder of all servers: `LLAMAHERD_SERVERS`, or a folder in the home."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Path(folder) if folder else Path.home() / ".local" / "state" / "llamaherd"


def start_server(
    model: Models,
    *,
    lora: Mapping[str, StrPath] | None = None,
    name: str = "default",
    port: int = 0,
    stay: bool = False,
    options: Sequence[str] = (),
    timeout_s: float = 600.0,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> RemoteServer:
    """Start a server in a separate process, or return the one that is already running.

    The server listens only on this machine and has its own API key. Its folder stores
    files and batches, so that a server continues its jobs after a restart. A server runs
    as long as its process exists, even if it is too busy to answer. If it is ending, this
    function waits for its end and starts another one. If another program starts a server
    of this name at the same time, both get the same server.

    Args:
        model: Path of a model, or a source as in `download_model`. For several models,
            a list, or a mapping from the names in requests to sources. Several models
            are loaded only when they are needed.
        lora: LoRA adapters, as a mapping from the names in requests to paths. An
            adapter belongs to the first model, or to another model whose name is
            appended to the path: `FILE@MODEL`.
        name: Name of the server: letters, digits, `_` and `-`.
        port: Port; 0 for any free port.
        stay: Whether the server outlives this process.
        options: Further arguments of `llamaherd serve`, such as `["--n-ctx", "8192"]`.
        timeout_s: Maximum time in seconds until the model is loaded.
        is_cancelled: Function that is called repeatedly during the start; the start ends
            if it returns True.

    Raises:
        ArgumentError: An argument is invalid; or a server with this name is running
            with another model, or with other options.
        ServerError: The server did not start; the message contains the end of its log.
            Or the start was cancelled.
    """
    folder = _folder(name)
    checks.flag("stay", stay)
    checks.integer("port", port, 0, 65535)
    checks.real("timeout_s", timeout_s, 0.0, 86400.0)
    options = list(checks.some_texts("options", options))
    models, model_names = model_arguments(model)
    loras = lora_arguments(lora)
    if loras:
        model_names = f"{model_names}, {', '.join(loras[1::2])}"
    _check_own(folder)
    files.make_private_folder(folder)
    start = _Start(folder, timeout_s, is_cancelled)
    command = [*models, *loras, "--port", str(port), *options]
    with start.alone():
        running = _info(folder)
        if running is not None and running.is_ending:
            start.wait_for_end(running)
        if running is None or not running.is_running:
            return start.run(command, model_names, stay=stay, options=options)
    if running.model != model_names:
        raise ArgumentError(
            f"is the name of a running server with {quoted(running.model)}: stop it, or "
            "choose another name",
            argument="name",
        )
    if options and options != running.options:
        raise ArgumentError(
            "is the name of a running server that was started with other settings: stop "
            "it, choose another name, or leave out the settings to use it",
            argument="name",
        )
    return running


class _Start:
    """Start of a server."""

    def __init__(
        self, folder: Path, timeout_s: float, is_cancelled: Callable[[], bool]
    ) -> None:
        self._folder = folder
        self._timeout_s = timeout_s
        self._end_s = time.monotonic() + timeout_s
        self._is_cancelled = is_cancelled

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other process, and no other thread, starts this server."""
        while True:
            try:
                lock = take_lock(self._folder / _LOCK)
                break
            except LockHeldError as error:
                text = f"process {error.process or 'unknown'} is still starting it"
                self._wait(partial(str, text))
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    def wait_for_end(self, server: RemoteServer) -> None:
        """Wait until a server that is ending has ended."""
        while server.is_running:
            self._wait(lambda: f"process {server.pid}, the server before it, is ending")

    def _wait(self, why_late: Callable[[], str]) -> None:
        """Wait a moment."""
        if self._is_cancelled():
            raise ServerError("the start of the server was cancelled")
        if time.monotonic() > self._end_s:
            raise ServerError(
                f"the server was not ready in {self._timeout_s:g} s: {why_late()}"
            )
        time.sleep(_LOOK_S)

    def run(
        self, arguments: list[str], model_names: str, *, stay: bool, options: list[str]
    ) -> RemoteServer:
        """Start the process, and wait until it answers."""
        # The process of a start whose program was killed may still write its own file.
        ready = self._folder / f"ready-{secrets.token_hex(4)}.json"
        key = secrets.token_hex(24)
        command = [
            *(sys.executable, "-m", "llamaherd.cli", "serve", *arguments),
            *("--data", str(self._folder / _DATA), "--ready-file", str(ready)),
            *([] if stay else ["--while-stdin-open"]),
        ]
        process = self._process(command, key, stay=stay)
        _CHILDREN[process.pid] = process
        try:
            url = self._url(process, ready)
            server = RemoteServer(
                name=self._folder.name,
                url=url,
                key=key,
                pid=process.pid,
                model=model_names,
                folder=str(self._folder),
                stays=stay,
                options=options,
                started=start_of_process(process.pid) or "",
            )
            description = self._folder / _INFO
            description.touch(0o600)  # has the key; a replaced file keeps its permissions
            files.write_whole(description, json.dumps(asdict(server)).encode())
        except BaseException:  # without its description no program could stop the server
            process.kill()
            _forget(process)
            raise
        finally:
            ready.unlink(missing_ok=True)
        return server

    def _process(
        self, command: list[str], key: str, *, stay: bool
    ) -> subprocess.Popen[bytes]:
        with (self._folder / _LOG).open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own program
                command,
                stdin=subprocess.DEVNULL if stay else subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**_environment(), KEY_VARIABLE: key},
                # Ctrl-C in this process does not reach the server.
                start_new_session=True,
                creationflags=_NEW_GROUP,  # the same on Windows
            )

    def _url(self, process: subprocess.Popen[bytes], ready: Path) -> str:
        """Wait until a server answers and return its address."""
        log = self._folder / _LOG
        while not ready.exists():
            if process.poll() is not None:
                raise ServerError(f"the server did not start: {_tail(log)}")
            self._wait(lambda: _tail(log))
        return str(json.loads(ready.read_text(encoding="utf-8"))["url"])


def stop_server(server: RemoteServer, timeout_s: float = 60.0) -> bool:
    """Stop a server; return False if it was not running.

    Its jobs are kept, and the next server with this name continues them.

    Raises:
        ArgumentTypeError: An argument has the wrong type.
        ServerError: The server did not end in time.
    """
    expected = f"a server of {call('start_server')} or {call('server_named')}"
    checks.instance("server", server, RemoteServer, expected)
    checks.real("timeout_s", timeout_s, 0.0, 86400.0)
    child = _CHILDREN.get(server.pid)

    def runs() -> bool:
        return server.is_running if child is None else child.poll() is None

    is_running = runs()
    if is_running:
        _ask_to_end(server.pid, child)
    elif child is None:
        return False
    end_s = time.monotonic() + timeout_s
    while runs():
        if time.monotonic() > end_s:
            text = f"the server {server.name!r} did not end in {timeout_s:g} s"
            raise ServerError(text)
        time.sleep(_LOOK_S)
    if child is not None:
        _forget(child)
    return is_running


def _ask_to_end(pid: int, child: subprocess.Popen[bytes] | None) -> None:
    """Ask a server to end; on Windows, kill the server if its stdin is not open."""
    if _IS_WINDOWS and child is not None and child.stdin is not None:
        child.stdin.close()
    else:
        with suppress(OSError if _IS_WINDOWS else ProcessLookupError):  # has ended
            os.kill(pid, signal.SIGTERM)
            if not _IS_WINDOWS:
                os.kill(pid, signal.SIGCONT)  # a stopped process cannot end


def _forget(process: subprocess.Popen[bytes]) -> None:
    """Release a process that has ended."""
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
    _CHILDREN.pop(process.pid, None)


def server_named(name: str) -> RemoteServer:
    """Return the server with a name, whether it is running or not.

    Raises:
        ArgumentError: There is no server of this name.
    """
    server = _info(_folder(name))
    if server is None:
        known = ", ".join(server.name for server in list_servers())
        known_servers = f"there are {known}" if known else "no server was started yet"
        raise ArgumentError(
            f"there is no server {quoted(name)} ({known_servers}): start it with "
            f"{call('start_server')}",
            argument="name",
            form="{problem}",
        )
    return server


def list_servers() -> list[RemoteServer]:
    """Return all servers that were ever started, sorted by name."""
    folder = servers_folder()
    names = sorted(path.parent.name for path in folder.glob(f"*/{_INFO}"))
    servers = [_info(folder / name) for name in names if _NAME.fullmatch(name)]
    return [server for server in servers if server is not None]


def _folder(name: str) -> Path:
    if not _NAME.fullmatch(checks.text("name", name)):
        text = "must have 1 to 40 letters, digits, '_' and '-', not"
        raise ArgumentError(f"{text} {checks.brief(name)}", argument="name")
    return servers_folder() / name


def _check_own(folder: Path) -> None:
    """Check that a folder contains nothing but the files of a server."""
    if not folder.exists():
        return
    names = {path.name for path in folder.iterdir()} - {_INFO, _LOG, _LOCK, _DATA}
    other = sorted(name for name in names if not _LEFT.fullmatch(name))
    if other and _info(folder) is None:
        raise ArgumentError(
            f"names the folder {str(folder)!r}, which has other files, such as "
            f"{other[0]!r}: choose another name",
            argument="name",
        )


def _info(folder: Path) -> RemoteServer | None:
    with suppress(OSError, ValueError, TypeError):
        content = json.loads((folder / _INFO).read_text(encoding="utf-8"))
        return RemoteServer(**content)
    return None


def _environment() -> dict[str, str]:
    """Return the environment without R's folders, from which Python would load."""
    variables = {**os.environ, LANGUAGE_VARIABLE: words().language}
    home = variables.get("R_HOME")
    if home:
        folders = variables.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        of_r = (home, "/usr/lib")
        others = [folder for folder in folders if not folder.startswith(of_r)]
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(others)
    return variables


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return " / ".join(lines[-_LOG_LINES:]) or "its log is empty"
