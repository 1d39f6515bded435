"""The program that runs each file of the R package's tests in a process of its own."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
import rscript

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = rscript.ROOT / "scripts" / "testthat_files.R"


def run(folder: Path, seconds: int = 600) -> tuple[int, list[str]]:
    done = subprocess.run(
        rscript.command(PROGRAM, 2, folder, seconds),
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


@pytest.mark.long(reason="starts R, with a real model or several calls")
def test_all_files_run_although_one_ends_r(tmp_path: Path) -> None:
    write(
        tmp_path,
        good='test_that("one", expect_true(TRUE))\ntest_that("two", skip("no model"))',
        quits='test_that("three", quit(status = 3))',
        wrong='test_that("four", expect_true(FALSE))\ntest_that("five", succeed())',
        z_last='test_that("six", skip("no model"))\nstop("outside")',
    )
    status, lines = run(tmp_path)
    assert status == 1
    assert lines[-1] == "files: 4, tests: 6, failed: 3, skipped: 2"
    first = lines.index("skipped, no model (2):")
    assert lines[first + 1 : first + 3] == ["  test-good.R: two", "  test-z_last.R: six"]
    failed = [line for line in lines if line.startswith("FAILED")]
    assert failed[0] == "FAILED test-quits.R: R ended early, exit status 3"
    assert failed[1] == "FAILED test-wrong.R: four"
    assert failed[2] == "FAILED test-z_last.R: code outside of test_that()"
    assert any("FALSE is not TRUE" in line for line in lines)


def test_files_that_pass_or_skip_are_a_success(tmp_path: Path) -> None:
    write(tmp_path, good='test_that("one", expect_true(TRUE))')
    status, lines = run(tmp_path)
    assert (status, lines[-1]) == (0, "files: 1, tests: 1, failed: 0, skipped: 0")
    (tmp_path / "test-good.R").unlink()
    assert run(tmp_path)[0] == 1


def test_a_file_that_blocks_is_killed_and_named(tmp_path: Path) -> None:
    write(tmp_path, waits='test_that("one", repeat Sys.sleep(1))')
    status, lines = run(tmp_path, seconds=5)
    assert status == 1
    assert "FAILED test-waits.R: killed after 5 s" in lines
