"""The R package with real models: its contract, Ctrl-C, and its installation."""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest
import rscript
from llamaherd.calls.journal.journal import Journal
from thorough import sized

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.model
@pytest.mark.long(reason="a minute on two real models; of Python, make test runs it")
def test_contract(smollm2_path: Path, gemma3_path: Path) -> None:
    rscript.run(
        "contract.R",
        LLAMAHERD_TEST_SMOLLM2=str(smollm2_path),
        LLAMAHERD_TEST_GEMMA3=str(gemma3_path),
    )


@pytest.mark.long(reason="starts R, with a real model or several calls")
@pytest.mark.model
def test_ctrl_c_goes_on_with_what_is_done(smollm2_path: Path) -> None:
    # The first interrupt is caught, and the session remains usable. The second interrupt
    # ends the loop and the script.
    status, output = rscript.interrupted(
        "interrupted.R", smollm2_path, at=[r" [1-9]/104 ", "^round"]
    )
    assert status == 1, output
    assert re.search(r"^caught: [1-9] of 104, cancelled length$", output, re.MULTILINE)
    assert re.search(r"^Interrupted: [1-9] of 104 prompts done\. $", output, re.MULTILINE)
    assert "unfinished: shown\n" in output, output
    assert "next call: same\n" in output, output
    assert "round 1" in output, output
    assert "round 2" not in output, output
    assert "went on" not in output, output


def test_ctrl_c_reaches_r_when_it_calls_python_itself(
    tiny_path: Callable[[str], Path],
) -> None:
    # Python's signal.signal would replace R's handler.
    _, output = rscript.interrupted(
        "python_in_r.R", tiny_path("llama"), at=["^computing$"]
    )
    lines = [line.strip() for line in output.splitlines()]
    assert lines == ["computing", "interrupted", "3 answers"]


@pytest.mark.slow(reason="starts R")
def test_ctrl_c_keeps_the_variants_that_are_finished(
    tiny_path: Callable[[str], Path],
) -> None:
    early_in_the_second = r" 3,?(?!000)\d{3}/12,?000 "
    _, output = rscript.interrupted(
        "composite.R", tiny_path("llama"), at=[early_in_the_second]
    )
    assert re.search(
        r"^Interrupted: [\d,]+ of 12,000 prompts done\.", output, re.MULTILINE
    )
    assert re.search(
        "^finished: own order of 3000 texts; running: TRUE$", output, re.MULTILINE
    ), output
    assert "kept: TRUE" in output, output
    assert "next call: llamaherd_pairs" in output, output


@pytest.mark.long(reason="starts R, with a real model or several calls")
@pytest.mark.model
def test_a_call_that_ctrl_c_ended_goes_on(smollm2_path: Path, tmp_path: Path) -> None:
    journal = tmp_path / "run.sqlite"
    _, first = rscript.interrupted(
        "journal.R", smollm2_path, journal, at=[r" [1-9]\d?/64 "]
    )
    match = re.search(r"^answered: (\d+) of 64, 0 from the journal$", first, re.MULTILINE)
    assert match, first
    n_answered = int(match[1])
    assert 0 < n_answered < 64, first
    assert f"stored: {n_answered}, as returned: TRUE\n" in first, first
    second = rscript.run("journal.R", smollm2_path, journal)
    assert f"answered: 64 of 64, {n_answered} from the journal\n" in second, second
    assert "stored: 64, as returned: TRUE\n" in second, second
    assert "as without a journal: TRUE\n" in second, second


@pytest.mark.more(reason="3 of 8 moments")
def test_ctrl_c_at_any_moment_leaves_a_context_that_works(
    tiny_path: Callable[[str], Path],
) -> None:
    moments = random.Random(7)
    n_rounds = sized(3, 8)
    # The interrupts arrive between the first check of arguments and the middle of
    # generation.
    status, output = rscript.interrupted(
        "interrupted_often.R",
        tiny_path("llama"),
        n_rounds,
        at=["^started$"] * n_rounds,
        wait=lambda: moments.choice([0, 0.01, 0.05, 0.3]) * moments.random(),
    )
    assert status == 0, output
    rounds = re.findall(r"^round: (.*) (\w+) $", output, re.MULTILINE)
    assert len(rounds) == n_rounds, output
    assert {verdict for _, verdict in rounds} == {"same"}, output
    assert {outcome for outcome, _ in rounds} <= {"cut", "thrown away"}, output


@pytest.mark.long(reason="starts R, with a real model or several calls")
def test_forked_children_are_refused(tiny_path: Callable[[str], Path]) -> None:
    output = rscript.run("forked.R", tiny_path("llama"))
    twice = " ".join(["llamaherd_error_process"] * 2)
    assert f"children: {twice} \n" in output
    assert "parent: same" in output


def install(folder: Path, library: Path) -> list[str]:
    """Install an R package from a folder; return the names of its exports."""
    library.mkdir()
    subprocess.run(
        [
            "R",
            "CMD",
            "INSTALL",
            "--no-docs",
            "--no-test-load",
            f"--library={library}",
            ".",
        ],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    code = f"cat(sort(getNamespaceExports(loadNamespace('llamaherd', '{library}'))))"
    done = subprocess.run(
        ["Rscript", "--vanilla", "-e", code],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.split()


def a_clone(folder: Path) -> Path:
    """Copy what R sees of the repository, and leftovers of an earlier installation."""
    names = ("DESCRIPTION", ".Rbuildignore", "configure", "cleanup")
    (folder / "tests").mkdir(parents=True)
    for name in (*names, "configure.win", "cleanup.win", "tests/conftest.py"):
        shutil.copy(rscript.ROOT / name, folder / name)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(rscript.ROOT / "r_package", folder / "r_package", ignore=ignored)
    (folder / "R").mkdir()
    (folder / "R" / "left.R").write_text("stop('left over')\n", encoding="utf-8")
    return folder


def test_the_root_builds_the_package_that_r_package_builds(tmp_path: Path) -> None:
    clone = a_clone(tmp_path / "clone")
    files = []
    for source in (clone, clone / "r_package"):
        folder = tmp_path / f"built-{source.name}"
        folder.mkdir()
        subprocess.run(
            ["R", "CMD", "build", "--no-build-vignettes", source],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        with tarfile.open(folder / "llamaherd_0.1.0.tar.gz") as built:
            files.append(
                {
                    member.name: re.sub(
                        rb"Packaged: .*", b"", built.extractfile(member).read()
                    )
                    for member in built.getmembers()
                    if member.isfile()
                }
            )
    assert files[0] == files[1]
    assert b"LazyData: true" in files[0]["llamaherd/DESCRIPTION"]
    assert (clone / "R" / "left.R").exists()


@pytest.mark.long(reason="installs the package twice")
def test_the_root_installs_as_r_package_does(tmp_path: Path) -> None:
    clone = a_clone(tmp_path / "clone")
    from_root = install(clone, tmp_path / "root")
    # Like remotes with subdir = "r_package": the parent folder is not available.
    shutil.move(clone / "r_package", tmp_path / "r_package")
    from_folder = install(tmp_path / "r_package", tmp_path / "folder")
    assert "generate_parallel" in from_root
    assert from_root == from_folder


def test_paths_that_cannot_be_journals(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    Journal(tmp_path / "two.sqlite").close()
    os.link(tmp_path / "two.sqlite", tmp_path / "names.sqlite")
    os.mkfifo(tmp_path / "fifo")
    refused = {
        tmp_path / "notes.txt": "is not a journal",
        tmp_path / "two.sqlite": "is a file with 2 names (hard links)",
        tmp_path / "names.sqlite": "is a file with 2 names (hard links)",
        tmp_path / "fifo": "is not a regular file",
        tmp_path: "is a folder",
        tmp_path / "none" / "run.sqlite": "there is no folder",
        tmp_path / ("n" * 250): "its name has 250 bytes",
    }
    output = rscript.run_shared("journal_paths.R", tiny_path("llama"), *refused)
    lines = re.findall("^(?:read|write) .*$", output, re.MULTILINE)
    messages = [*refused.values(), "its name has 100000 bytes"]
    for line, message in zip(lines, [m for m in messages for _ in range(2)], strict=True):
        assert re.match("(read|write) llamaherd_error_journal: ", line), output
        assert message in line, output


def test_r_tells_of_a_journal_that_another_process_holds(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / "run.sqlite"
    Journal(path).close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    notice = "another process holds '.*run.sqlite': waiting for it"
    arguments = tiny_path("llama"), path
    status, output = rscript.interrupted(
        "journal_paths.R", *arguments, at=[notice], act=other.close
    )
    assert status == 0, output
    assert "write used" in output
    assert len(re.findall(notice, output)) == 1
