"""Scripts for localLLM run after only library() and the path are changed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
import rscript

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model


@pytest.fixture(autouse=True)
def _model(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMAHERD_TEST_SMOLLM2", str(smollm2_path))


@pytest.mark.long(reason="starts R, with a real model or several calls")
def test_parallel_generation() -> None:
    assert "parallel: done" in rscript.run("tutorials/parallel.R")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Path:
    """Run annotation.R; return the folder with its files."""
    path = tmp_path_factory.mktemp("tutorials") / "found.rds"
    output = rscript.run(
        "tutorials/annotation.R", path, LLAMAHERD_TEST_SMOLLM2=str(smollm2_path)
    )
    assert "annotation: done" in output
    return path


@pytest.mark.long(reason="starts R, with a real model or several calls")
def test_annotation(found: Path) -> None:
    assert found.stat().st_size > 0


@pytest.mark.long(reason="starts R, with a real model or several calls")
def test_validation(found: Path) -> None:
    assert "validation: done" in rscript.run("tutorials/validation.R", found)


@pytest.mark.long(reason="starts R, with a real model or several calls")
def test_reproducibility(tmp_path: Path) -> None:
    output = rscript.run("tutorials/reproducibility.R", tmp_path / "run.txt")
    assert "reproducibility: done" in output
    # The hashes are plain SHA-256 of the bytes of the log and of each text.
    said = dict(re.findall(r"^(input|output|text) (.*?) $", output, re.MULTILINE))
    assert said["input"] == hashlib.sha256(b"The sky is").hexdigest()
    text = json.loads(said["text"])
    assert said["output"] == hashlib.sha256(text.encode()).hexdigest()
    digest, name = (tmp_path / "run.txt.sha256").read_text().split()
    log = (tmp_path / "run.txt").read_bytes()
    assert (digest, name) == (hashlib.sha256(log).hexdigest(), "run.txt")
    program = shutil.which("sha256sum")
    if program is not None:
        subprocess.run([program, "--check", "run.txt.sha256"], cwd=tmp_path, check=True)
