"""Comparisons of texts in pairs, with results as columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, clean, clean_or_none
from llamaherd.asks.keywords import PairSettings
from llamaherd.research.pairs.comparison import PAIR_COLUMNS, STRENGTH_COLUMNS
from llamaherd.research.statistics.intervals import Measure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OF_CALL = ("n_pairs", "design", "labels", "layout", "level")


@boundary
def compare_pairs_start(
    context: lh.Context,
    texts: Sequence[str],
    names: Sequence[str],
    question: str,
    options: Mapping[str, Any],
) -> dict[str, lh.Job[lh.PairComparison]]:
    """Start `compare_pairs`.

    Args:
        context: Context to run in.
        texts: Texts.
        names: Unique names of the texts.
        question: Question.
        options: Other arguments of `compare_pairs` that the R user gave.
    """
    given = {
        name: options[name]
        for name in (*PairSettings.__annotations__, *_OF_CALL)
        if name in options
    }
    if "seed" in given:
        given["seed"] = int(given["seed"])  # R sends seeds above 2^31 as floats
    by_name = dict(zip(names, texts, strict=True))
    return {"job": lh.start_compare_pairs(by_name, question, context, **given)}


@boundary
def compare_pairs_result(job: lh.Job[lh.PairComparison]) -> dict[str, Any]:
    """Wait until the job ends; return strengths and pairs as columns, and the checks."""
    found = job.results()
    bias = found.position_bias
    return {
        "strengths": _columns(found.to_dicts(), STRENGTH_COLUMNS),
        "pairs": _columns(found.pair_dicts(), PAIR_COLUMNS),
        "position_bias": [bias.value, bias.low, bias.high],
        "consistent": found.consistent,
        "reliability": found.reliability,
        "dispersion": found.dispersion,
        "df": found.df,
        "n_parts": found.n_parts,
        "converged": found.is_converged,
        "correlations": list(found.correlations),
        "notes": [clean(note) for note in found.notes],
        "page": clean(str(found)),
        "checks": clean(found.summary()),
    }


@boundary
def pair_agreement(
    given: Mapping[str, Any],
    pairs: Sequence[Sequence[str | None]] | None,
    known: Sequence[float] | None,
    level: float,
) -> dict[str, Any]:
    """Return the measures of `pair_agreement` as columns, and its printed text.

    Args:
        given: See `comparison_given`.
        pairs: Rows of first, second, winner; None if no pairs were coded.
        known: Known scores of the texts, NaN if unknown; None if no scores are known.
        level: Confidence level.
    """
    found = lh.pair_agreement(comparison_given(given), pairs, known, level=level)
    return {
        "columns": _columns(found.to_dicts(), ("measure", "value", "low", "high", "n")),
        "n_ties": found.n_ties,
        "page": clean(str(found)),
    }


def comparison_given(given: Mapping[str, Any]) -> lh.PairComparison:
    """Create the parts of a comparison that plots and measures of agreement use.

    Args:
        given: `name`, `strength`, `low` and `high` of texts; `first`, `second` (names)
            and `log_odds` of pairs; `question`, `level`. Missing numbers are NaN.
    """
    nan = math.nan
    columns = (given[name] for name in ("name", "strength", "low", "high"))
    strengths = [
        lh.TextStrength(
            name=name,
            text="",
            strength=strength,
            std_error=nan,
            low=low,
            high=high,
            rank=None if math.isnan(strength) else 1,
            n_pairs=0,
        )
        for name, strength, low, high in zip(*columns, strict=True)
    ]
    at = {each.name: i for i, each in enumerate(strengths)}
    rows = (given[name] for name in ("first", "second", "log_odds"))
    pairs = [
        lh.ComparedPair(
            first=at[first],
            second=at[second],
            round=0,
            forward=odds,
            backward=odds,
            coverage=nan,
            error="failed" if math.isnan(odds) else None,
        )
        for first, second, odds in zip(*rows, strict=True)
    ]
    return lh.PairComparison(
        strengths=tuple(strengths),
        pairs=tuple(pairs),
        question=given["question"],
        level=given["level"],
        design="adaptive",
        seed=0,
        position_bias=Measure(value=nan, low=nan, high=nan, n=0),
        consistent=nan,
        reliability=nan,
        dispersion=nan,
        df=0,
        n_parts=1,
        is_converged=True,
        correlations=(),
    )


def _columns(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> dict[str, list[Any]]:
    """Return rows as columns of clean texts, numbers, truth values or None."""
    return {name: [_cell(row[name]) for row in rows] for name in names}


def _cell(value: object) -> object:
    return clean_or_none(value) if isinstance(value, str) else value
