"""Types of the simulated studies that coverage.py runs."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import llamaherd as lh
import numpy as np
from llamaherd.coding.selection.parts import PartCodes

if TYPE_CHECKING:
    from collections.abc import Sequence


class Hit(NamedTuple):
    """Result of one draw: whether an interval contains the true value, and its width.

    `share` is a number from 0 to 1 if a draw has several intervals. `width` is NaN for
    shares of another kind, such as the share of draws with a warning.
    """

    share: float
    width: float = math.nan


def hit(interval: Any, truth: float) -> Hit:
    """Return whether `interval.low` to `interval.high` contains the true value."""
    return Hit(
        interval.low - 1e-9 <= truth <= interval.high + 1e-9,
        interval.high - interval.low,
    )


def joined(hits: Sequence[Hit], adjust: str) -> Hit:
    """Return the share of hits, or with an adjustment whether all are, and the width."""
    shares = [one.share for one in hits]
    share = np.mean(shares) if adjust == "none" else all(shares)
    return Hit(float(share), float(np.mean([one.width for one in hits])))


KNOWN = tomllib.loads(Path(__file__).with_name("coverage.toml").read_text("utf-8"))
_BOOK = lh.Codebook("Which?", ["a", "b"]).to_dict()


def labelled(labels: Sequence[str], names: Sequence[str]) -> lh.Coded:
    """Return texts with these labels, or with numbers between two names."""
    run = {"codebook": {"content": _BOOK}}
    return lh.Coded.of_record(run, {}, "text", labels=labels, names=names)


def part_codes(
    codes: Sequence[str], names: Sequence[str], weights: Any, strata: Any
) -> PartCodes:
    """Return codes of texts that were drawn with these weights from these strata."""
    n = len(codes)
    ids = list(map(str, range(n)))
    of_texts = [(code,) for code in codes]
    return PartCodes(
        ids=ids,
        texts=ids,
        right=of_texts,
        names=tuple(names),
        rows=np.arange(n),
        probs=1 / weights,
        strata=strata,
        columns=[],
    )


Draw = Callable[[Any, np.random.Generator], Mapping[str, Hit]]


@dataclass(frozen=True, kw_only=True)
class Study:
    """Simulation of several cases."""

    title: str  # title of the column of cases
    cases: Mapping[str, Any]  # parameters of each case, by name
    # Simulates one draw of a case, and returns a result for each way: a method, a
    # measure, or "warned of".
    draw: Draw
    # File in docs; the table follows the mark "coverage: NAME". "": the table is only
    # printed.
    page: str = ""
    n_draws: int = 300  # default number of draws


def studies(**draws: Draw) -> dict[str, Study]:
    """Return studies of coverage.toml, with the functions that simulate them."""
    return {name: Study(**KNOWN[name], draw=draw) for name, draw in draws.items()}
