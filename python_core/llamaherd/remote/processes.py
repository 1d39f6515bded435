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
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.core import checks, files
from llamaherd.core.checks import quoted
from llamaherd.core.errors import ArgumentError, ServerError
from llamaherd.core.words import words
from llamaherd.remote.client import RemoteServer
from llamaherd.remote.models import lora_arguments, model_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.remote.models import Models, StrPath

_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
FOLDER_VARIABLE = "LLAMAHERD_SERVERS"
# Language of the program that starts the server, "Python" or "R". The program shows the
# server's messages about the start to its user.
LANGUAGE_VARIABLE = "LLAMAHERD_LANGUAGE"
KEY_VARIABLE = "LLAMAHERD_API_KEY"  # hidden from other users, unlike arguments
_INFO, _READY, _LOG = "server.json", "ready.json", "server.log"
_LOOK_S = 0.05
_LOG_LINES = 5
_IS_WINDOWS = sys.platform == "win32"
_NEW_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
# Processes that this process started. Without `stay`, they end when their stdin closes.
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


def servers_folder() -> Path:
    """Return the folder of all servers: `LLAMAHERD_SERVERS`, or a folder in the home."""
    given = os.environ.get(FOLDER_VARIABLE)
    return Path(given) if given else Path.home() / ".local" / "state" / "llamaherd"


def start_server(
    model: Models,
    *,
    lora: Mapping[str, StrPath] | None = None,
    name: str = "default",
    port: int = 0,
    stay: bool = False,
    options: Sequence[str] = (),
    timeout_s: float = 600.0,
) -> RemoteServer:
    """Start a server in a separate process, or return the one that is already running.

    The server listens only on this machine and has its own API key. Its folder stores
    files and batches, so that a server continues its jobs after a restart.

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

    Raises:
        ArgumentError: An argument is invalid; or a server with this name is running
            with another model, or with other options.
        ServerError: The server did not start; the message contains the end of its log.
    """
    return launched(
        lambda: False,
        model,
        lora=lora,
        name=name,
        port=port,
        stay=stay,
        options=options,
        timeout_s=timeout_s,
    )


def launched(
    is_cancelled: Callable[[], bool],
    model: Models,
    *,
    lora: Mapping[str, StrPath] | None = None,
    name: str = "default",
    port: int = 0,
    stay: bool = False,
    options: Sequence[str] = (),
    timeout_s: float = 600.0,
) -> RemoteServer:
    """Start a server, see `start_server`, unless another thread cancels the start.

    Args:
        is_cancelled: Function called repeatedly; the start ends if it returns True.
        model: See `start_server`.
        lora: See `start_server`.
        name: See `start_server`.
        port: See `start_server`.
        stay: See `start_server`.
        options: See `start_server`.
        timeout_s: See `start_server`.

    Raises:
        ServerError: The start was cancelled.
    """
    folder = _folder(name)
    checks.flag("stay", stay)
    checks.integer("port", port, 0, 65535)
    models, shown = model_arguments(model)
    loras = lora_arguments(lora)
    if loras:
        shown = f"{shown}, {', '.join(loras[1::2])}"
    found = _info(folder)
    if found is not None and found.is_running:
        if found.model != shown:
            raise ArgumentError(
                f"is the name of a running server with {quoted(found.model)}: stop it, "
                "or choose another name",
                argument="name",
            )
        if options and list(options) != found.options:
            raise ArgumentError(
                "is the name of a running server that was started with other settings: "
                "stop it, choose another name, or leave out the settings to use it",
                argument="name",
            )
        return found
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ready = folder / _READY
    ready.unlink(missing_ok=True)
    key = secrets.token_hex(24)
    command = [
        *(sys.executable, "-m", "llamaherd.cli", "serve", *models, *loras),
        *("--port", str(port), "--data", str(folder / "data")),
        *("--ready-file", str(ready), *([] if stay else ["--while-stdin-open"])),
        *options,
    ]
    with (folder / _LOG).open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.DEVNULL if stay else subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**_environment(), KEY_VARIABLE: key},
            start_new_session=True,  # Ctrl-C in this process does not reach the server
            creationflags=_NEW_GROUP,  # the same on Windows
        )
    _CHILDREN[process.pid] = process
    try:
        url = _wait_until_ready(process, ready, folder / _LOG, timeout_s, is_cancelled)
        server = RemoteServer(
            name, url, key, process.pid, shown, str(folder), stay, list(options)
        )
        _write(folder / _INFO, json.dumps(asdict(server)))
    except BaseException:  # without its description no program could stop the server
        process.kill()
        _forget(process)
        raise
    return server


def _wait_until_ready(
    process: subprocess.Popen[bytes],
    ready: Path,
    log: Path,
    timeout_s: float,
    is_cancelled: Callable[[], bool],
) -> str:
    """Wait until a server answers and return its address."""
    end_s = time.monotonic() + timeout_s
    while not ready.exists():
        if is_cancelled():
            raise ServerError("the start of the server was cancelled")
        is_late = time.monotonic() > end_s
        if is_late or process.poll() is not None:
            why = f"was not ready in {timeout_s:g} s" if is_late else "did not start"
            raise ServerError(f"the server {why}: {_tail(log)}")
        time.sleep(_LOOK_S)
    return str(json.loads(ready.read_text(encoding="utf-8"))["url"])


def stop_server(server: RemoteServer, timeout_s: float = 60.0) -> bool:
    """Stop a server; return False if it was not running.

    Its jobs are kept, and the next server with this name continues them.

    Raises:
        ServerError: The server did not end in time.
    """
    child = _CHILDREN.get(server.pid)
    # A busy server may answer too late, so a child is asked nothing. The pid of another
    # server that does not answer may belong to another process.
    is_running = server.is_running if child is None else child.poll() is None
    if is_running:
        _ask_to_end(server.pid, child)
    elif child is None:
        return False
    end_s = time.monotonic() + timeout_s
    while server.is_running if child is None else child.poll() is None:
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
        os.kill(pid, signal.SIGTERM)


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
    found = _info(_folder(name))
    if found is None:
        known = ", ".join(each.name for each in list_servers())
        there = f"there are {known}" if known else "no server was started yet"
        raise ArgumentError(
            f"there is no server {quoted(name)} ({there}): start it with "
            f"{words().start_server}",
            argument="name",
            form="{problem}",
        )
    return found


def list_servers() -> list[RemoteServer]:
    """Return all servers that were ever started, sorted by name."""
    folder = servers_folder()
    names = sorted(path.parent.name for path in folder.glob(f"*/{_INFO}"))
    found = [_info(folder / name) for name in names if _NAME.fullmatch(name)]
    return [each for each in found if each is not None]


def _folder(name: str) -> Path:
    if not _NAME.fullmatch(checks.text("name", name)):
        text = "must have 1 to 40 letters, digits, '_' and '-', not"
        raise ArgumentError(f"{text} {checks.shown(name)}", argument="name")
    return servers_folder() / name


def _info(folder: Path) -> RemoteServer | None:
    with suppress(OSError, ValueError, TypeError):
        content = json.loads((folder / _INFO).read_text(encoding="utf-8"))
        return RemoteServer(**content)
    return None


def _write(path: Path, text: str) -> None:
    """Write or replace a file that only its owner may read."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "w", encoding="utf-8") as file:
        file.write(text)
    files.replace(draft, path)


def _environment() -> dict[str, str]:
    """Return the environment variables for a server.

    R adds its own folders to the search path of libraries. They are removed, because
    Python would load R's libraries from them.
    """
    found = {**os.environ, LANGUAGE_VARIABLE: words().language}
    home = found.get("R_HOME")
    if home:
        folders = found.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        own = [each for each in folders if not each.startswith((home, "/usr/lib"))]
        found["LD_LIBRARY_PATH"] = os.pathsep.join(own)
    return found


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return " / ".join(lines[-_LOG_LINES:]) or "its log is empty"
