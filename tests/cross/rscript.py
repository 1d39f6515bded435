"""Runs R programs on the R package that is installed, with this very Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "RETICULATE_PYTHON": sys.executable, **variables}


def command(program: str, *arguments: object) -> list[str]:
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.fail("Rscript is missing: run `make setup`")
    return [rscript, "--vanilla", str(HERE / program), *map(str, arguments)]


def run(program: str, *arguments: object, **variables: str) -> str:
    """Runs a program of this folder and returns what it wrote to stdout and stderr."""
    done = subprocess.run(
        command(program, *arguments),
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{program} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def answers(folder: Path, job: dict[str, Any], **variables: str) -> dict[str, Any]:
    """Has answers.R do a job."""
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    run("answers.R", folder / "job.json", folder / "answers.json", **variables)
    return json.loads((folder / "answers.json").read_text(encoding="utf-8"))
