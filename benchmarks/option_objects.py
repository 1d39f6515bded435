"""Times to create and hash settings objects, beside a pydantic model of the same fields.

    python benchmarks/option_objects.py [--before PYTHON]

`--before` is the Python of an environment with an older version; both run in turns. The
output is a table for docs/decisions/0056-declaration-of-options.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import timeit
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS = 7
_N = 2000
CASES: dict[str, dict[str, Any]] = {
    "no setting": {},
    "2 settings": {"temperature": 0.7, "top_p": 0.9},
    "5 settings": {
        "temperature": 0.7,
        "top_p": 0.9,
        "min_p": 0.1,
        "seed": 3,
        "max_tokens": 20,
    },
}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--before")
    parser.add_argument("--once", choices=("own", "pydantic"))
    asked = parser.parse_args()
    if asked.once:
        print(json.dumps(measured(asked.once)))
        return
    runs = {"after": [sys.executable, __file__, "--once", "own"]}
    if asked.before:
        runs = {"before": [asked.before, __file__, "--once", "own"], **runs}
    runs["pydantic"] = [sys.executable, __file__, "--once", "pydantic"]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    for _ in range(_ROUNDS):
        for name, command in runs.items():
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[name].append(json.loads(done.stdout))
    print("| us |" + "".join(f" {name} |" for name in runs))
    print("| --- |" + " ---: |" * len(runs))
    for case in found["after"][0]:
        middle = [statistics.median(one[case] for one in found[name]) for name in runs]
        print(f"| {case} |" + "".join(f" {each:,.2f} |" for each in middle))


def measured(which: str) -> dict[str, float]:
    """Return microseconds of each case."""
    make = _own() if which == "own" else _pydantic()
    found = {
        name: _us(lambda settings=settings: make(**settings))
        for name, settings in CASES.items()
    }
    one = make(**CASES["5 settings"])
    found["hash"] = _us(lambda: hash(one))
    start = time.process_time()
    if which == "pydantic":
        code = "import time; t = time.process_time(); import pydantic; "
        code += "pydantic.BaseModel; print(time.process_time() - t)"
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
        )
        found["import of the library"] = float(done.stdout) * 1e6
        start = time.process_time()
        _pydantic()
        found["creation of the class"] = (time.process_time() - start) * 1e6
    else:
        found |= {"import of the library": 0.0, "creation of the class": 0.0}
    return found


def _us(call: Callable[[], object]) -> float:
    return min(timeit.repeat(call, time.process_time, number=_N, repeat=9)) / _N * 1e6


def _own() -> Callable[..., Any]:
    from llamaherd import SamplingParams  # noqa: PLC0415 - one process measures one library

    return SamplingParams


def _pydantic() -> Callable[..., Any]:
    from llamaherd.engine.core.sampling import SamplingParams  # noqa: PLC0415
    from llamaherd.engine.core.values import Flag, Real, Whole  # noqa: PLC0415
    from pydantic import ConfigDict, Field, create_model  # noqa: PLC0415

    declared: dict[str, Any] = {}
    for name, each in SamplingParams.declared.items():
        kind, default = each.kind, each.default
        if isinstance(kind, (Whole, Real)):
            of = int if isinstance(kind, Whole) else float
            field = Field(default, ge=kind.low, le=kind.high)
            declared[name] = (of if default is not None else of | None, field)
        else:
            declared[name] = (bool if isinstance(kind, Flag) else Any, default)
    config = ConfigDict(frozen=True, extra="forbid", strict=True)
    model: Callable[..., Any] = create_model("Settings", __config__=config, **declared)
    return model


if __name__ == "__main__":
    main()
