"""A call on a cluster of two real nodes, whose cable is cut during the call.

Needs root, for network namespaces.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from namespaces import Nodes, Told, why_not
from namespaces_driver import prompts, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

N, SEED = 192, 7
CUT_S = 20
# Settings of Ray, see docs/cluster.md. By default Ray notices a lost node after about 65
# s; with these settings the test is shorter.
SETTINGS = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "5",
}

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")


@pytest.fixture(scope="module")
def expected(smollm2_path: Path) -> lh.Results:
    """Return the answers of a single machine, with the threads of an actor."""
    with (
        lh.Model(smollm2_path) as model,
        lh.Context(model, deterministic=True, n_threads=1) as context,
    ):
        return lh.generate_parallel(context, prompts(N), **settings(SEED))  # type: ignore[arg-type]


@pytest.fixture
def start(tmp_path: Path, smollm2_path: Path) -> Iterator[Callable[..., Any]]:
    """Start two nodes and the call; end all processes at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="lhns", dir="/tmp") as folder,
        Nodes("lhtest", Path(folder), SETTINGS) as nodes,
        (tmp_path / "driver.err").open("w+") as errors,
    ):
        program = Path(__file__).with_name("namespaces_driver.py")
        journal = str(tmp_path / "journal")
        arguments = [str(smollm2_path), str(N), str(SEED), journal]
        process = nodes.popen(
            "head",
            sys.executable,
            str(program),
            *arguments,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        driver = Told(process)
        try:
            yield nodes, driver, journal
        finally:
            driver.close()
            errors.seek(0)
            sys.stderr.write(errors.read()[-4000:])


def check(driver: Told, expected: lh.Results, journal: str) -> None:
    """Check that each answer is right and delivered once."""
    texts = driver.wait_for("texts", timeout_s=400)
    assert texts == expected.texts
    assert driver.wait_for("errors") == [None] * N
    # Answers that were computed twice are delivered once.
    assert driver.wait_for("n_generated") == expected.stats.n_generated_tokens
    counts = [line["n_done"] for line in driver.lines if "n_done" in line]
    assert counts == sorted(counts)
    assert counts[-1] == N
    stored = lh.journal_read(journal)
    assert len(stored) == N


def test_a_cable_that_is_whole(
    start: tuple[Nodes, Told, str], expected: lh.Results
) -> None:
    _, driver, journal = start
    check(driver, expected, journal)


def test_a_cable_that_is_cut_for_a_while(
    start: tuple[Nodes, Told, str], expected: lh.Results
) -> None:
    nodes, driver, journal = start
    driver.wait_for("n_done", N // 4)
    nodes.cut()
    time.sleep(CUT_S)
    nodes.join()
    check(driver, expected, journal)


def test_a_cable_that_is_cut_for_good(
    start: tuple[Nodes, Told, str], expected: lh.Results
) -> None:
    nodes, driver, journal = start
    driver.wait_for("n_done", N // 4)
    nodes.cut()
    check(driver, expected, journal)
