"""The program that runs each file of the R package's tests in a process of its own."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import rscript

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = rscript.ROOT / "scripts" / "testthat_files.sh"


def run(folder: Path, seconds: int = 600) -> tuple[int, list[str]]:
    done = subprocess.run(
        ["bash", PROGRAM, "2", folder, str(seconds)],
        env=rscript.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=900,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"test-{name}.R").write_text(text)


def test_all_files_run_although_one_ends_r(tmp_path: Path) -> None:
    write(
        tmp_path,
        good='test_that("one", expect_true(TRUE))\ntest_that("two", skip("no model"))',
        quits='test_that("three", quit(status = 3))',
        wrong='test_that("four", expect_true(FALSE))',
    )
    status, lines = run(tmp_path)
    assert status == 1
    assert lines[-1] == "files: 1 passed, 2 failed"
    assert any(
        re.fullmatch(r"test-good.R: \[ FAIL 0 .* SKIP 1 \| PASS 1 \]", x) for x in lines
    )
    assert "FAILED test-quits.R: exit status 3" in lines
    assert "FAILED test-wrong.R: exit status 1" in lines
    assert any("four" in line for line in lines)


def test_files_that_pass_are_a_success_and_no_files_are_none(tmp_path: Path) -> None:
    write(tmp_path, good='test_that("one", expect_true(TRUE))')
    status, lines = run(tmp_path)
    assert (status, lines[-1]) == (0, "files: 1 passed, 0 failed")
    (tmp_path / "test-good.R").unlink()
    assert run(tmp_path)[0] == 1


def test_a_file_that_blocks_is_killed_and_named(tmp_path: Path) -> None:
    write(tmp_path, waits='test_that("one", repeat Sys.sleep(1))')
    status, lines = run(tmp_path, seconds=5)
    assert status == 1
    assert "FAILED test-waits.R: exit status 124" in lines
