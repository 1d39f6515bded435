"""Seconds per test: the slowest twenty at the end of a run, each with its reason.

`--times FILE` writes the seconds of all tests as JSON. A test has seconds of CPU, which
a busy machine hardly changes, and seconds of the clock. CPU seconds count this process
and the programs that the test started and waited for. The set-up of a shared fixture
counts for the first test that needs it.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

N_PRINTED = 20
LIMIT_S = 5.0  # A test that takes longer has a reason.
NO_REASON = "NO REASON: add @pytest.mark.slow(reason=...)"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", metavar="FILE", help="write every test's seconds as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Collected(), "test-times")


def _cpu_s() -> float:
    """CPU seconds of this process and of the children it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[_STARTED] = (_cpu_s(), time.perf_counter())
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Add the seconds to a test's last report, which xdist sends to its main process."""
    if call.when != "teardown":
        return
    cpu_s, wall_s = item.stash[_STARTED]
    marks = (item.get_closest_marker(name) for name in ("slow", "long", "more"))
    reasons = [mark.kwargs["reason"] for mark in marks if mark]
    item.user_properties.append(
        (
            "times",
            {
                "cpu_s": round(_cpu_s() - cpu_s, 3),
                "wall_s": round(time.perf_counter() - wall_s, 3),
                "reason": "; ".join(reasons),
            },
        )
    )


_STARTED = pytest.StashKey[tuple[float, float]]()


class _Collected:
    """Seconds of all tests, in the process that prints them."""

    def __init__(self) -> None:
        self.times: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            properties = dict(report.user_properties)
            if "times" in properties:
                self.times[report.nodeid] = properties["times"]

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        if hasattr(config, "workerinput") or not self.times:
            return
        if path := config.getoption("--times"):
            text = json.dumps(self.times, indent=1)
            Path(path).write_text(text + "\n", encoding="utf-8")
        ordered = sorted(
            self.times.items(), key=lambda one: _longer(one[1]), reverse=True
        )
        slow = [one for one in ordered if _longer(one[1]) >= 1]
        if not slow:
            return
        terminalreporter.section("slowest tests: seconds of CPU, of the clock, reason")
        for i, (name, times) in enumerate(slow):
            over = times["cpu_s"] > LIMIT_S and not times["reason"]
            if i < N_PRINTED or over:
                reason = times["reason"] or (NO_REASON if over else "")
                terminalreporter.write_line(
                    f"{times['cpu_s']:7.1f} {times['wall_s']:7.1f}  {name}  {reason}"
                )


def _longer(times: dict[str, Any]) -> float:
    return max(times["cpu_s"], times["wall_s"])
