"""Two Ray nodes on one machine, in separate network namespaces joined by a cable."""

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
    from typing import Self

Side = Literal["head", "work"]
SCRIPT = Path(__file__).with_name("netns.sh")
RAY = Path(sys.executable).with_name("ray")
ADDRESS = "10.77.0.1:6379"
IPS: dict[Side, str] = {"head": "10.77.0.1", "work": "10.77.0.2"}


def why_not() -> str:
    """Return the reason why namespaces cannot be created; "" if they can."""
    done = subprocess.run([SCRIPT, "can"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()


class Nodes:
    """A Ray head and a Ray worker, with one CPU each."""

    def __init__(self, name: str, folder: Path, settings: Mapping[str, str]) -> None:
        self._name = name
        self._folder = folder
        # The nodes authenticate each other by a token.
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
        self._netns("down")  # left by a run that was killed
        self._netns("up")
        self._start("head", "--head", "--port=6379", f"--temp-dir={self._folder}")
        self._start("work", f"--address={ADDRESS}")
        return self

    def __exit__(self, *_: object) -> None:
        sides: tuple[Side, ...] = ("work", "head")
        for side in sides:
            self.kill(side)
        for process in self._started:
            process.wait()
        self._netns("down")

    def cut(self) -> None:
        """Cut the cable."""
        self._netns("cut")

    def join(self) -> None:
        """Join the cable again."""
        self._netns("join")

    def kill(self, side: Side) -> None:
        """End all processes of a node."""
        for _ in range(50):
            pids = self.pids(side)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not pids:
                return
            time.sleep(0.1)

    def pids(self, side: Side) -> list[int]:
        """Return the process ids of a node."""
        done = subprocess.run(
            ["ip", "netns", "pids", f"{self._name}-{side}"],
            capture_output=True,
            text=True,
            check=False,
        )
        return [int(pid) for pid in done.stdout.split()]

    def popen(self, side: Side, *command: str, **options: Any) -> subprocess.Popen[str]:
        """Start a program on a node."""
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
            # Each node runs as if it had its own processor.
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
    """Reads the output of a running program, one JSON object per line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, key: str, least: float = 0, timeout_s: float = 300) -> Any:
        """Wait for a value of `key` that is at least `least`; return the first one."""
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
        """End the program if it still runs."""
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
