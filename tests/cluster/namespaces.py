"""Two nodes of Ray on one machine, in network namespaces of their own, and the cable."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

Side = Literal["head", "work"]
SCRIPT = Path(__file__).with_name("netns.sh")
RAY = Path(sys.executable).with_name("ray")
ADDRESS = "10.77.0.1:6379"
IPS: dict[Side, str] = {"head": "10.77.0.1", "work": "10.77.0.2"}


def why_not() -> str:
    """Why this machine has no namespaces for us; "": it has."""
    done = subprocess.run([SCRIPT, "can"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()


class Nodes:
    """A head of Ray and a worker, with a CPU each.

    Args:
        name: Of the namespaces.
        folder: For Ray's files; its path must be short.
        settings: Environment variables of Ray's.
    """

    def __init__(self, name: str, folder: Path, settings: Mapping[str, str]) -> None:
        self._name = name
        self._folder = folder
        # Nodes show each other a token that the two of them know.
        token = folder.parent / f"{folder.name}.token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        self._settings = {
            **settings,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
        }
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        self._netns("down")  # of a run that was killed
        self._netns("up")
        self._start("head", "--head", "--port=6379", f"--temp-dir={self._folder}")
        self._start("work", f"--address={ADDRESS}")
        return self

    def __exit__(self, *_: object) -> None:
        sides: tuple[Side, ...] = ("work", "head")
        for side in sides:
            self.kill(side)
        for each in self._started:
            each.wait()
        self._netns("down")

    def cut(self) -> None:
        """Cuts the cable."""
        self._netns("cut")

    def join(self) -> None:
        """Mends it."""
        self._netns("join")

    def kill(self, side: Side) -> None:
        """Ends all processes of a node."""
        for _ in range(50):
            pids = self.pids(side)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not pids:
                return
            time.sleep(0.1)

    def pids(self, side: Side) -> list[int]:
        """Processes of a node."""
        done = subprocess.run(
            ["ip", "netns", "pids", f"{self._name}-{side}"],
            capture_output=True,
            text=True,
            check=False,
        )
        return [int(pid) for pid in done.stdout.split()]

    def popen(self, side: Side, *command: str, **options: Any) -> subprocess.Popen[str]:
        """Starts a program on a node."""
        environment = {**os.environ, **self._settings}
        environment.pop("RAY_ADDRESS", None)
        process = subprocess.Popen(
            ["ip", "netns", "exec", f"{self._name}-{side}", *command],
            text=True,
            env=environment,
            **options,
        )
        self._started.append(process)
        return process

    def _start(self, side: Side, *arguments: str) -> None:
        log = (self._folder.parent / f"{self._folder.name}-{side}.log").open("w")
        with log:
            # As if each had a processor of its own.
            cores = sorted(os.sched_getaffinity(0))
            core = cores[0] if side == "head" else cores[-1]
            self.popen(
                side,
                "taskset",
                "--cpu-list",
                str(core),
                str(RAY),
                "start",
                "--block",
                f"--node-ip-address={IPS[side]}",
                "--num-cpus=1",
                "--object-store-memory=200000000",
                "--disable-usage-stats",
                *(["--include-dashboard=false"] if side == "head" else []),
                *arguments,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        time.sleep(8 if side == "head" else 4)

    def _netns(self, verb: str) -> None:
        subprocess.run([SCRIPT, verb, self._name], check=True)


class Told:
    """What a program says, a JSON object a line, read while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, key: str, least: float = 0, timeout_s: float = 300) -> Any:
        """The first value of `key`, of what is said from now or before, of that size.

        Raises:
            TimeoutError: It was not said.
        """
        until_s = time.monotonic() + timeout_s
        with self._more:
            while True:
                for line in self.lines:
                    if key in line and not (
                        isinstance(line[key], (int, float)) and line[key] < least
                    ):
                        return line[key]
                if not self._reader.is_alive() or time.monotonic() > until_s:
                    last = self.lines[-1:]
                    raise TimeoutError(f"no {key!r} of {least} at least; last: {last}")
                self._more.wait(0.5)

    def close(self) -> None:
        """Ends the program, if it still runs."""
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            if text.startswith("{"):
                with self._more:
                    self.lines.append({**json.loads(text), "at_s": time.monotonic()})
                    self._more.notify_all()
