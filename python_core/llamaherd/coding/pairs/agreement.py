"""Agreement of strengths with pairs that people compared, and with known scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.pairs.bradley_terry import Pairs
from llamaherd.coding.pairs.comparison import PairComparison
from llamaherd.coding.statistics.intervals import LEVEL, Measure, level_of, wilson
from llamaherd.coding.statistics.number_agreement import number_agreement
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of, decimals, limits, verb
from llamaherd.engine.core.words import call, name_of

if TYPE_CHECKING:
    from llamaherd.engine.core.arrays import Floats

_COLUMNS = ("first", "second", "winner")
_TITLES = {
    "accuracy": "people's pairs won by the stronger text",
    "direct": "people's pairs that the model decides alike",
    "pearson": "Pearson's correlation with known scores",
    "spearman": "Spearman's correlation with known scores",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonAgreement:
    """Agreement of a comparison with pairs that people compared and with known scores.

    Attributes:
        measures: Values with intervals: "accuracy", the share of people's pairs whose
            winner is the text with the larger strength; "direct", the share of pairs in
            which the model and people chose the same winner, among pairs that both
            compared; "pearson" and "spearman", correlations of strengths with known
            scores.
        n_ties: Number of people's pairs without a winner, which are left out.
        level: Confidence level.
    """

    measures: Mapping[str, Measure]
    n_ties: int
    level: float

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dict for each measure, for a data frame."""
        return [
            {"measure": name, **asdict(measure)}
            for name, measure in self.measures.items()
        ]

    def to_pandas(self) -> Any:  # pandas is optional
        """Return a data frame with a row for each measure.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional

        return pd.DataFrame(self.to_dicts())

    def __str__(self) -> str:
        wide = max(map(len, _TITLES.values()))
        lines = [
            f"{_TITLES[name]:<{wide}}  {decimals(measure.value, 3):>6} "
            f"{limits(measure.low, measure.high, 3)}  n = {measure.n}"
            for name, measure in self.measures.items()
        ]
        if self.n_ties:
            ties, are = count_of(self.n_ties, "pair"), verb(self.n_ties, "is", "are")
            lines.append(f"{ties} without a winner {are} left out")
        return "\n".join(["<ComparisonAgreement>", *lines])

    __repr__ = __str__


def pair_agreement(
    comparison: PairComparison,
    pairs: Any = None,  # a data frame of any kind, or rows
    known: Mapping[str, float] | Sequence[float] | None = None,
    *,
    level: float = LEVEL,
) -> ComparisonAgreement:
    """Compare strengths with pairs that people compared, with known scores, or both.

    Intervals of shares take into account that pairs with a common text are dependent.

    Args:
        comparison: Result of `compare_pairs`.
        pairs: Pairs that people compared: a data frame with the columns "first", "second"
            and "winner", which contain names of texts; or rows of these three values. An
            empty winner means a tie.
        known: Known scores: a number for each text, or numbers by name. None or NaN if a
            score is unknown.
        level: Confidence level of the intervals.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `pairs` and `known` are both missing, a name is unknown, or a winner
            is not in its pair.

    Source:
        Aronow, Samii, Assenova, Political Analysis 23, 2015 (pairs that share a text).
    """
    expected = f"what {call('compare_pairs')} returns"
    checks.instance("comparison", comparison, PairComparison, expected)
    if pairs is None and known is None:
        raise ArgumentError(
            f"must be given, or {name_of('known')} must be given",
            argument="pairs",
            code="missing",
        )
    level = level_of(level)
    names = [text.name for text in comparison.strengths]
    measures: dict[str, Measure] = {}
    n_ties = 0
    if pairs is not None:
        decided, won, n_ties = _decided_pairs(_rows(pairs), names)
        measures |= _of_pairs(comparison, decided, won, level)
    if known is not None:
        measures |= _of_scores(comparison, known, level)
    return ComparisonAgreement(measures=measures, n_ties=n_ties, level=level)


def _rows(pairs: object) -> Sequence[Sequence[Any]]:
    if isinstance(pairs, Sequence) and not isinstance(pairs, str):
        return pairs
    columns = [frames.column(pairs, name, "pairs") for name in _COLUMNS]
    return list(zip(*columns, strict=True))


def _decided_pairs(
    rows: Sequence[Sequence[Any]], names: Sequence[str]
) -> tuple[Pairs, Floats, int]:
    """Return the pairs with a winner, 1 or -1 if the first or second won, and n_ties."""
    place = {name: i for i, name in enumerate(names)}
    decided: list[tuple[int, int, int]] = []
    for i, row in enumerate(rows):
        if isinstance(row, str) or len(row) != 3:
            raise ArgumentTypeError(
                "must be a first text, a second text and the winner, not "
                f"{checks.brief(row)}",
                argument="pairs",
                place=(i,),
            )
        first, second, winner = (_name(cell) for cell in row)
        for name in (first, second):
            if name not in place:
                raise ArgumentError(
                    f"must have names of texts, not {checks.brief(name)}"
                    f"{checks.meant(name, names)}",
                    argument="pairs",
                    place=(i,),
                    code="unknown_choice",
                )
        if first == second or winner not in (None, first, second):
            raise ArgumentError(
                f"must have two texts of which one is the winner, not "
                f"{checks.brief([first, second, winner])}",
                argument="pairs",
                place=(i,),
            )
        if winner is not None:
            won = 1 if winner == first else -1
            decided.append((place[str(first)], place[str(second)], won))
    first_at, second_at, won_by = np.array(decided, dtype=np.int64).reshape(-1, 3).T
    n_ties = len(rows) - len(decided)
    return Pairs(first_at, second_at, len(names)), won_by.astype(float), n_ties


def _name(value: object) -> str | None:
    """Return the name in a cell; None for an empty cell."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)  # type: ignore[call-overload]


def _of_pairs(
    comparison: PairComparison, pairs: Pairs, won: Floats, level: float
) -> dict[str, Measure]:
    strengths = np.array([text.strength for text in comparison.strengths])
    odds: dict[tuple[int, int], float] = {}
    for pair in comparison.pairs:
        if pair.error is None:
            odds[pair.first, pair.second] = pair.log_odds
            odds[pair.second, pair.first] = -pair.log_odds
    rows = zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
    direct = np.array([odds.get(both, math.nan) for both in rows])
    return {
        "accuracy": _share(pairs, won * pairs.odds(strengths), level),
        "direct": _share(pairs, won * direct, level),
    }


def _share(pairs: Pairs, odds: Floats, level: float) -> Measure:
    """Return the share of pairs with positive odds; 0 counts half, NaN is left out."""
    known = ~np.isnan(odds)
    m = int(known.sum())
    if not m:
        return Measure(n=0)
    pairs = Pairs(pairs.first[known], pairs.second[known], pairs.n)
    hits = (np.sign(odds[known]) + 1) / 2
    share = float(hits.mean())
    simple = share * (1 - share) / m
    dependent = pairs.variance_of_mean(hits - share)
    effective = m if simple == 0 else m * simple / max(dependent, simple)
    low, high = wilson(share, effective, level)
    return Measure(value=share, low=low, high=high, n=m)


def _of_scores(
    comparison: PairComparison, known: Mapping[str, float] | Sequence[float], level: float
) -> dict[str, Measure]:
    names = [text.name for text in comparison.strengths]
    if isinstance(known, Mapping):
        odd = [name for name in known if str(name) not in names]
        if odd:
            raise ArgumentError(
                f"must have names of texts, not {checks.brief(odd[0])}"
                f"{checks.meant(str(odd[0]), names)}",
                argument="known",
                code="unknown_choice",
            )
        by_name = {str(name): value for name, value in known.items()}
        values: list[Any] = [by_name.get(name) for name in names]
    else:
        values = list(known)
    if len(values) != len(names):
        raise ArgumentError(
            f"must have {len(names)} numbers, one for each text, not {len(values)}",
            argument="known",
        )
    numbers = [
        math.nan
        if _name(value) is None
        else checks.real(Argument("known", (i,)), value, -1e300, 1e300)
        for i, value in enumerate(values)
    ]
    strengths = [text.strength for text in comparison.strengths]
    measures = number_agreement([strengths, numbers], level=level).measures
    return {name: measures[name] for name in ("pearson", "spearman")}
