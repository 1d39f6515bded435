"""Completion of the command line by a shell."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import HANGS_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

if sys.platform == "win32" or shutil.which("bash") is None:
    pytest.skip("there is no bash", allow_module_level=True)

import pty

PROMPT = "ready> "
PROGRAM = Path(sys.executable).parent


@pytest.fixture
def typed(tmp_path: Path) -> Iterator[Callable[[str, str], None]]:
    """Return a function that types keys in bash, and waits for an output."""
    ours, theirs = pty.openpty()
    environment = {
        "PATH": f"{PROGRAM}{os.pathsep}{os.environ['PATH']}",
        "PS1": PROMPT,
        "TERM": "dumb",
        "HOME": str(tmp_path),
        "INPUTRC": os.devnull,
    }
    command = ["bash", "--norc", "--noprofile", "-i"]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    shell = subprocess.Popen(
        command, cwd=tmp_path, env=environment, start_new_session=True, **streams
    )

    def type_(keys: str, expected: str) -> None:
        os.write(ours, keys.encode())
        seen = ""
        while expected not in seen:
            assert select.select([ours], [], [], HANGS_S)[0], seen
            seen += os.read(ours, 4096).decode(errors="replace")

    try:
        yield type_
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)
        os.close(theirs)


@pytest.mark.long(reason="a process for each case")
def test_bash_completes_commands_options_and_files(
    typed: Callable[[str, str], None], tmp_path: Path
) -> None:
    (tmp_path / "my-model.gguf").touch()
    source = 'eval "$(_LLAMAHERD_COMPLETE=bash_source llamaherd)"; echo do"ne"\n'
    typed(source, "done")
    typed("llamaherd doc\t", "llamaherd doctor ")
    typed("\x15llamaherd models dow\t", "llamaherd models download ")
    typed("\x15llamaherd serve --api-\t", "llamaherd serve --api-key ")
    typed("\x15llamaherd serve my\t", "llamaherd serve my-model.gguf ")
    typed("\x15llamaherd annotate texts.csv --model my\t", "--model my-model.gguf ")


@pytest.mark.more(reason="a process for each case", cases=1)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_function(shell: str) -> None:
    environment = {**os.environ, "_LLAMAHERD_COMPLETE": f"{shell}_source"}
    command = [PROGRAM / "llamaherd"]
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    assert f"_LLAMAHERD_COMPLETE={shell}_complete" in found.stdout
