"""Shell scripts: failures of their steps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "scripts"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="scripts of Linux")


def bash(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", *command],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Create a project that contains the scripts and a Python that records its calls."""
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    programs = {
        ".venv/bin/python": f'echo "$*" >>{tmp_path}/calls',
    }
    for name, text in programs.items():
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    return tmp_path


def test_a_logged_function_ends_at_its_first_command_that_fails(copy: Path) -> None:
    text = (
        f"source {copy}/scripts/common.sh; work() {{ echo first; false; echo second; }}; "
        "logged name work; echo after"
    )
    done = bash("-c", text)
    assert done.returncode == 1
    assert "after" not in done.stdout
    assert done.stderr.startswith("first\nerror: name failed (exit status 1)")
    assert (copy / "build/logs/name.log").read_text() == "first\n"
    assert bash("-c", text.replace("false", "true")).stdout == "after\n"
