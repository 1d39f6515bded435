"""Writes figures into docs/reliability.md, between its markers.

python report.py faults FAULTS.json
python report.py soak SOAK.json
python report.py callers SOAK_CALLERS.json
python report.py server SOAK_SERVER.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import marked

ACTIONS = {
    "call": "calls",
    "cancelled_call": "cancelled ones",
    "single": "single prompts",
    "stream": "streams",
    "submits": "groups of handles",
    "submitted": "handles",
    "asyncio": "event loops",
    "interrupted": "of these actions interrupted",
}
PAGE = ROOT / "docs" / "reliability.md"
STRUCK = {"cases": "struck", "crowds": "struck_crowds", "scored": "struck_scored"}
MARK = "{}: made by tests/faults/report.py"


def table(report: dict[str, Any]) -> str:
    """Return the table: a row for each outcome, without figures that depend on time.

    Raises:
        ValueError: A fault occurred in none of its cases.
    """
    groups: dict[str, list[str]] = {}
    for name, tally in report.items():
        groups.setdefault(outcome(name, tally), []).append(name)
    rows = [
        [result, "; ".join(names), *_sums(report[name] for name in names)]
        for result, names in groups.items()
    ]
    rows.append(["no property was violated", "all", *_sums(report.values())])
    head = ["outcome", "faults", "one call", "several callers", "labels scored"]
    return marked.table(head, rows, 2)


def _sums(tallies: Iterable[dict[str, Any]]) -> list[int]:
    """Return the sums of tallies for each kind of calls."""
    rows = list(tallies)
    return [sum(tally[kind] for tally in rows) for kind in STRUCK]


def outcome(name: str, tally: dict[str, Any]) -> str:
    if name == "none":
        return "every prompt has the answer that it gets alone"
    for n, n_struck in STRUCK.items():
        if tally[n] and not tally[n_struck]:
            raise ValueError(f"{name} never struck any of the {n}")
    if tally["raised"]:
        return "the call raises an error with a reason; the next call works"
    if "one prompt" in name:
        return "only this prompt fails, with a reason"
    return "every prompt has an answer or an error with a reason; the next call works"


def soak(report: dict[str, Any]) -> str:
    growth = report["memory_last_bytes"] / report["memory_first_bytes"] - 1
    first, last = (report[f"memory_{which}_bytes"] / 1e6 for which in ("first", "last"))
    steps = [report[f"tokens_per_step_{which}"] for which in ("first", "last")]
    summary = (
        f"{report['calls']} calls with {report['prompts']} prompts; faults occurred in "
        f"{report['struck']} calls, and {report['failed']} prompts failed because of "
        "them."
    )
    return f"""\
| | second tenth | last tenth |
|---|---|---|
| resident memory, MB | {first:.1f} | {last:.1f} ({growth:+.1%}) |
| tokens per step | {steps[0]:.3f} | {steps[1]:.3f} |

{summary}"""


def at_rest(samples: list[dict[str, int]]) -> str:
    """Return the row with the memory at rest."""
    memory = [sample["memory_bytes"] / 1e6 for sample in samples]
    half = (len(memory) + 1) // 2
    early, late = median(memory[:half]), median(memory[half:] or memory)
    return (
        f"| resident memory at rest, MB | {early:.0f} in the first half, {late:.0f} in "
        f"the second ({late / early - 1:+.1%}), {min(memory):.0f} to {max(memory):.0f} |"
    )


def between(samples: list[dict[str, int]], name: str) -> str:
    """Return the range of a number of the samples."""
    values = [sample[name] for sample in samples]
    return " to ".join(map(str, sorted({min(values), max(values)})))


def callers(report: dict[str, Any]) -> str:
    did, ends, samples = report["did"], report["got"], report["samples"]
    actions = ", ".join(f"{did.get(name, 0)} {text}" for name, text in ACTIONS.items())
    return f"""\
| | |
|---|---|
| callers, minutes | {report["callers"]}, {report["minutes"]} |
| what they did | {actions} |
| what they got | {ends["length"] + ends["stop"]} answers, {ends["streamed"]} texts in \
pieces, {ends["cancelled"]} cancelled prompts, {ends.get("closed", 0)} times a closed \
context |
| lost, wrong | 0, 0 |
{at_rest(samples)}
| threads at rest | {between(samples, "threads")} |"""


def server(report: dict[str, Any]) -> str:
    did, samples = dict(report["did"]), report["samples"]
    others = {name: did.pop(name) for name in ("disconnected", "wrong requests")}
    kinds = ", ".join(f"{n} {name}" for name, n in sorted(did.items()))

    return f"""\
| | |
|---|---|
| clients, minutes | {report["clients"]}, {report["minutes"]} |
| answers equal to the library's | {sum(did.values())} of {sum(did.values())}: {kinds} |
| wrong requests, all refused with a status from 400 to 499 | {others["wrong requests"]} |
| clients that disconnected, no prompt left | {others["disconnected"]} |
{at_rest(samples)}
| open descriptors at rest | {between(samples, "descriptors")} |
| threads at rest | {between(samples, "threads")} |"""


def main() -> None:
    name, path = sys.argv[1], Path(sys.argv[2])
    report = json.loads(path.read_text(encoding="utf-8"))
    parts = {"faults": table, "soak": soak, "callers": callers, "server": server}
    marked.write(PAGE, {MARK.format(name): parts[name](report)})


if __name__ == "__main__":
    main()
