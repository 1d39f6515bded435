"""Result of a comparison of texts in pairs."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.pairs.design import ComparedPair, PairDesign, PairWork
from llamaherd.coding.sentences import Notes, number
from llamaherd.coding.statistics.intervals import Measure, student_quantile
from llamaherd.engine.core.phrases import percent, percents, printed_notes, rounded
from llamaherd.engine.core.plain import from_stored, stored_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.pairs.bradley_terry import Pairs, StrengthFit
    from llamaherd.engine.core.arrays import Floats

note = Notes("llamaherd.coding.pairs")
page = Notes("llamaherd.coding.pairs", "pages.txt.j2")
STRENGTH_COLUMNS = (
    "name", "text", "strength", "std_error", "low", "high", "rank", "n_pairs",
)  # fmt: skip
PAIR_COLUMNS = (
    "first", "second", "round", "log_odds", "prob", "position_bias", "consistent",
    "coverage", "error",
)  # fmt: skip
_SURE = math.log(99)  # log-odds of a win with the probability 0.99
_MOST_SHOWN = 10
_BIASED = 1.0  # mean position bias in log-odds from which a note is given


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStrength:
    """Strength of a text; the difference of two strengths is the log-odds of a win.

    Attributes:
        name: Name of the text.
        text: The text.
        strength: Strength; the mean over all texts is 0. NaN if pairs do not connect the
            text with the others.
        std_error: Standard error.
        low: Lower end of the confidence interval.
        high: Upper end of the confidence interval.
        rank: Rank, 1 for the strongest text; None if the strength is unknown.
        n_pairs: Number of pairs with a result.
    """

    name: str
    text: str
    strength: float
    std_error: float
    low: float
    high: float
    rank: int | None
    n_pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairComparison:
    """Strengths of texts, estimated from comparisons in pairs.

    Attributes:
        strengths: Strength of each text, in the order of the texts.
        pairs: Results of all pairs.
        question: The question.
        level: Confidence level.
        design: "adaptive" or "random".
        seed: Seed of the design.
        position_bias: Mean log-odds in favour of the text that the prompt shows first.
        consistent: Share of pairs in which the same text wins in both orders.
        reliability: Share of the variance of strengths that is not error variance; NaN if
            unknown.
        dispersion: Variance of results relative to the binomial variance under the fit.
        df: Degrees of freedom of intervals.
        n_parts: Number of connected components: sets of texts that pairs connect. 1 if
            pairs connect all texts.
        is_converged: True if the fit converged.
        correlations: For each round the rank correlation of the strengths after this
            round with the strengths after the previous round; NaN if either is unknown.
        notes: Notes for the user.
    """

    strengths: tuple[TextStrength, ...]
    pairs: tuple[ComparedPair, ...]
    question: str
    level: float
    design: str
    seed: int
    position_bias: Measure
    consistent: float
    reliability: float
    dispersion: float
    df: int
    n_parts: int
    is_converged: bool
    correlations: tuple[float, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def n_failed(self) -> int:
        """Number of pairs without a result."""
        return sum(pair.error is not None for pair in self.pairs)

    @property
    def is_connected(self) -> bool:
        """True if pairs connect all texts, so that all strengths can be compared."""
        return self.n_parts == 1

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dict for each text, for a data frame."""
        return [
            {name: getattr(text, name) for name in STRENGTH_COLUMNS}
            for text in self.strengths
        ]

    def pair_dicts(self) -> list[dict[str, Any]]:
        """Return a dict for each pair, for a data frame."""
        names = [text.name for text in self.strengths]
        return [
            {
                "first": names[pair.first],
                "second": names[pair.second],
                "round": pair.round,
                "log_odds": pair.log_odds,
                "prob": pair.prob,
                "position_bias": pair.position_bias,
                "consistent": None if pair.error else pair.is_consistent,
                "coverage": pair.coverage,
                "error": pair.error,
            }
            for pair in self.pairs
        ]

    def to_pandas(self) -> Any:  # pandas is optional
        """Return a data frame with a row for each text.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional

        return pd.DataFrame(self.to_dicts(), columns=list(STRENGTH_COLUMNS))

    def pairs_to_pandas(self) -> Any:  # pandas is optional
        """Return a data frame with a row for each pair.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional

        return pd.DataFrame(self.pair_dicts(), columns=list(PAIR_COLUMNS))

    def to_json(self) -> str:
        """Return the comparison as JSON text, which `from_json` reads."""
        return stored_json("pairs", self)

    @classmethod
    def from_json(cls, text: str) -> PairComparison:
        """Read a comparison that `to_json` wrote.

        Raises:
            ValueError: The text is not a stored comparison.
        """

        def from_fields(fields: dict[str, Any]) -> PairComparison:
            parts = {
                "strengths": tuple(TextStrength(**row) for row in fields["strengths"]),
                "pairs": tuple(ComparedPair(**row) for row in fields["pairs"]),
                "position_bias": Measure(**fields["position_bias"]),
                "correlations": tuple(fields["correlations"]),
                "notes": tuple(fields["notes"]),
            }
            return cls(**{**fields, **parts})

        return from_stored("pairs", text, from_fields, "comparison")

    def summary(self) -> str:
        """Return the checks of the comparison as text, without the strengths."""
        return "\n".join([self._checks, *self._noted])

    def __str__(self) -> str:
        ordered = sorted(
            (text for text in self.strengths if text.rank is not None),
            key=lambda text: text.rank or 0,
        )
        n_more = len(ordered) - 2 * _MOST_SHOWN
        texts = ordered
        if n_more > 0:
            texts = ordered[:_MOST_SHOWN] + ordered[-_MOST_SHOWN:]
        wide = max([4, *(len(text.name) for text in texts)])
        rows = [
            f"{text.rank or 0:>4}  {text.name:<{wide}}  {rounded(text.strength):>8}  "
            f"{_interval(text)}  {textwrap.shorten(text.text, 40, placeholder='...')}"
            for text in texts
        ]
        if n_more > 0:
            rows.insert(_MOST_SHOWN, f" ... and {n_more:,} more")
        title = f"rank  {'name':<{wide}}  strength  {percent(self.level)} interval"
        return "\n".join([self._checks, "", title, *rows, *self._noted])

    __repr__ = __str__

    # ---- private ----

    @property
    def _checks(self) -> str:
        bias = self.position_bias
        ends = [rounded(end, sign="+") for end in (bias.low, bias.high)]
        correlations = [r for r in self.correlations if not math.isnan(r)]
        return page(
            "checks",
            comparison=self,
            bias=rounded(bias.value, sign="+"),
            interval=f" [{', '.join(ends)}]" if bias.low < bias.high else "",
            correlation=number(correlations[-1], 3) if correlations else "",
            reliability=number(self.reliability, missing="unknown"),
            consistent=_percent_text(self.consistent),
        )

    @property
    def _noted(self) -> list[str]:
        return [f"\n{note}" for note in printed_notes(self.notes)]


def comparison_of(
    work: PairWork, design: PairDesign, notes: Sequence[str]
) -> PairComparison:
    """Fit the strengths of texts to the results of a design."""
    n, done, pairs, fit = len(work.texts), design.done, design.pairs, design.fit
    parts = pairs.components
    values = np.full((2, n), np.nan)
    if fit is not None:
        with np.errstate(invalid="ignore"):
            values[:, parts == 0] = fit.strengths, np.sqrt(np.diag(fit.covariance))
    counts = np.bincount(np.concatenate([pairs.first, pairs.second]), minlength=n)
    far = math.inf if fit is None else student_quantile(work.level, fit.df)
    ranks = _ranks(values[0])
    strengths = [
        TextStrength(
            name=work.names[i],
            text=work.texts[i],
            strength=float(values[0, i]),
            std_error=float(values[1, i]),
            low=float(values[0, i] - far * values[1, i]),
            high=float(values[0, i] + far * values[1, i]),
            rank=ranks[i],
            n_pairs=int(counts[i]),
        )
        for i in range(n)
    ]
    bias = np.array([pair.position_bias for pair in done])
    comparison = PairComparison(
        strengths=tuple(strengths),
        pairs=tuple(design.results),
        question=work.question,
        level=work.level,
        design=work.design,
        seed=work.seed,
        position_bias=_mean_bias(bias, pairs, work.level),
        consistent=(
            float(np.mean([pair.is_consistent for pair in done])) if done else math.nan
        ),
        reliability=_reliability(values),
        dispersion=math.nan if fit is None else fit.dispersion,
        df=0 if fit is None else fit.df,
        n_parts=int(parts.max()) + 1,
        is_converged=fit is not None and fit.is_converged,
        correlations=tuple(design.correlations),
    )
    all_notes = [*notes, *_notes(comparison, work, fit)]
    return replace(comparison, notes=tuple(text.rstrip(".") for text in all_notes))


def _mean_bias(bias: Floats, pairs: Pairs, level: float) -> Measure:
    m = len(bias)
    value = float(bias.mean()) if m else math.nan
    if m < 2:
        return Measure(value=value, n=m)
    error = math.sqrt(pairs.variance_of_mean(bias - value))
    reach = student_quantile(level, max(pairs.n - 1, 1)) * error
    return Measure(value=value, low=value - reach, high=value + reach, n=m)


def _reliability(values: Floats) -> float:
    known = values[:, ~np.isnan(values).any(axis=0)]
    if known.shape[1] < 2 or not (spread := float(known[0].var(ddof=1))):
        return math.nan
    return max(0.0, 1 - float((known[1] ** 2).mean()) / spread)


def _ranks(strengths: Floats) -> list[int | None]:
    """Return ranks from 1; texts of equal strength have the same rank, the best one."""
    known = strengths[~np.isnan(strengths)]
    return [
        None if math.isnan(strength) else 1 + int((known > strength).sum())
        for strength in strengths
    ]


def _notes(
    comparison: PairComparison, work: PairWork, fit: StrengthFit | None
) -> list[str]:
    notes = []
    n_pairs, n_texts = len(comparison.pairs), len(comparison.strengths)
    if comparison.n_failed:
        reason = next(pair.error for pair in comparison.pairs if pair.error)
        notes.append(
            note("failed", n=comparison.n_failed, n_pairs=n_pairs, reason=reason)
        )
    if n_pairs < work.n_pairs:
        notes.append(note("not_all", n=n_pairs, n_wanted=work.n_pairs))
    n_without = sum(text.rank is None for text in comparison.strengths)
    if n_without:
        notes.append(note("unconnected", n=n_without, n_texts=n_texts))
    if fit is not None and not fit.is_converged:
        notes.append(note("not_converged"))
    if fit is not None and fit.df == 0:
        notes.append(note("no_errors"))
    one_sided = _one_sided(comparison)
    if one_sided:
        notes.append(note("one_sided", n=one_sided, n_texts=n_texts))
    if abs(comparison.position_bias.value) > _BIASED:
        position = "first" if comparison.position_bias.value > 0 else "second"
        share = _percent_text(comparison.consistent)
        notes.append(note("favoured", position=position, consistent=share))
    return notes


def _one_sided(comparison: PairComparison) -> int:
    """Count texts that won, or lost, each of their pairs with probability above 0.99."""
    odds: dict[int, list[float]] = {}
    for pair in comparison.pairs:
        if pair.error is None:
            odds.setdefault(pair.first, []).append(pair.log_odds)
            odds.setdefault(pair.second, []).append(-pair.log_odds)
    return sum(
        min(log_odds) > _SURE or max(log_odds) < -_SURE for log_odds in odds.values()
    )


def _interval(text: TextStrength) -> str:
    if math.isnan(text.low):
        return " " * 16
    return f"[{rounded(text.low):>6}, {rounded(text.high):>6}]"


def _percent_text(value: float) -> str:
    return "unknown" if math.isnan(value) else percents(value, 0)
