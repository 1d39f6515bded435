"""A server in another process: its arguments, address, key and process."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import httpx
import psutil

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError

KEY_VARIABLE = "LLAMAHERD_API_KEY"  # hidden from other users, unlike arguments
_IS_LINUX = sys.platform == "linux"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_I_START = 18  # index of the start among the fields after the state, see proc(5)


def start_of_process(pid: int) -> str | None:
    """Return a text that no other process with this id has; None if it does not run.

    A process that has ended does not run, even if its parent has not fetched its exit
    status yet. A process that is stopped (SIGSTOP) runs.
    """
    if _IS_LINUX:  # psutil's time changes with the clock of the machine
        return _start_on_linux(pid)
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return repr(process.create_time())
    return None


def _start_on_linux(pid: int) -> str | None:
    boot = ""
    with suppress(FileNotFoundError):
        boot = _BOOT.read_text(encoding="ascii").strip()
    with suppress(FileNotFoundError, ProcessLookupError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        state, *fields = stat.rpartition(")")[2].split()
        return None if state in {"Z", "X"} else f"{boot} {fields[_I_START]}"
    return None


StrPath: TypeAlias = "str | os.PathLike[str]"
Models: TypeAlias = "StrPath | Sequence[StrPath] | Mapping[str, StrPath]"


def model_arguments(model: Models) -> tuple[list[str], str]:
    """Return the command-line arguments for models, and a text that names the models."""
    if isinstance(model, (str, os.PathLike)):
        model_path = os.fspath(model)
        return [model_path], model_path
    if isinstance(model, Mapping):
        texts = [_server_name("model", name, path) for name, path in model.items()]
    elif isinstance(model, (list, tuple)):
        texts = [_path(Argument("model", (i,)), path) for i, path in enumerate(model)]
    else:
        expected = "must be a path, a list of paths, or paths by name, not"
        text = f"{expected} {checks.brief(model)}"
        raise ArgumentTypeError(text, argument="model")
    if not texts:
        raise ArgumentError("must have at least one model", argument="model")
    return [part for text in texts for part in ("--model", text)], ", ".join(texts)


def lora_arguments(lora: object) -> list[str]:
    """Return the command-line arguments for adapters."""
    if lora is None:
        return []
    if not isinstance(lora, Mapping):
        text = f"must be paths by name, not {checks.brief(lora)}"
        raise ArgumentTypeError(text, argument="lora")
    texts = [_server_name("lora", name, path) for name, path in lora.items()]
    return [part for text in texts for part in ("--lora", text)]


def _server_name(argument: str, name: object, path: object) -> str:
    where = Argument(argument, (Field(str(name)),))
    text = checks.text(argument, name)
    if not text.strip() or any(sign in text for sign in ("=", "?", "\\", "://")):
        raise ArgumentError(f"has the name {checks.brief(name)}", argument=argument)
    return f"{text}={_path(where, path)}"


def _path(where: Argument, path: object) -> str:
    if not isinstance(path, (str, os.PathLike)):
        text = f"must be a path, not {checks.brief(path)}"
        raise ArgumentTypeError(text, argument=where)
    return os.fsdecode(path)


_HEALTH_S = 5.0  # after this time without an answer a server counts as busy


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server that runs, or has run, in a separate process; see `connect`.

    Attributes:
        name: Name.
        url: Address, without a path.
        key: API key; `repr` does not show it.
        pid: Process id of the server.
        model: Models that the server loads, as given to `start_server`.
        folder: Folder of its data and its log.
        stays: Whether the server outlives the process that started it.
        options: Further arguments of `llamaherd serve` with which it was started.
        started: Start of its process, see `start_of_process`; "" if it is unknown.
    """

    name: str
    url: str
    key: str = field(repr=False)
    pid: int
    model: str
    folder: str
    stays: bool
    options: list[str] = field(default_factory=list)
    started: str = field(default="", repr=False)

    @property
    def is_running(self) -> bool:
        """Return whether the server's process runs, even if it is too busy to answer.

        Another process with the same id is not taken for the server.
        """
        return start_of_process(self.pid) == self.started

    @property
    def is_ending(self) -> bool:
        """Whether the server runs, but refuses requests or accepts no connections."""
        if not self.is_running:
            return False
        headers = {"authorization": f"Bearer {self.key}"}
        try:
            with httpx.Client(trust_env=False, timeout=_HEALTH_S) as client:
                answer = client.get(f"{self.url}/health", headers=headers)
        except (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError):
            return True
        except httpx.HTTPError:
            return False
        return answer.status_code >= 400
