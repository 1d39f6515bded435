"""Result of `estimate`: estimates by several methods, side by side."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd.coding.annotation.record import plain
from llamaherd.coding.sentences import shorten_names
from llamaherd.coding.statistics.intervals import level_of, student_quantile
from llamaherd.engine.core import checks
from llamaherd.engine.core.phrases import (
    MOST_ROWS,
    count_of,
    decimals,
    first_rows,
    limits,
    percent,
    printed_notes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.annotation.texts import Source
    from llamaherd.coding.statistics.sampling import LabelCheck
    from llamaherd.engine.core.arrays import Floats


_MOST_NAME = 36  # characters of an estimate's name in the printed table
_OF = {
    "labels": "labels",
    "probs": "probabilities",
    "recalibrated": "recalibrated probabilities",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """Mean width of a call's intervals by one method and one kind of predictions.

    Attributes:
        predictions: "labels" or "probs" of the model, or "recalibrated"; "" for the
            method "gold", which uses only codes.
        method: "dsl", "ppi" or "gold".
        width: Mean over the estimates of `high - low`; NaN without intervals.
    """

    predictions: str
    method: str
    width: float

    @classmethod
    def of(cls, predictions: str, method: str, rows: Sequence[Estimate]) -> Width:
        """Return the mean width by a method; missing intervals are left out."""
        widths = [row.high - row.low for row in rows if row.method == method]
        known = [width for width in widths if not math.isnan(width)]
        width = sum(known) / len(known) if known else math.nan
        return cls(predictions=predictions, method=method, width=width)


def describe_widths(widths: Sequence[Width]) -> str:
    """Return the widths as a sentence; "" if there are none."""
    parts = []
    for method in ("dsl", "ppi"):
        phrases = [
            f"{decimals(width.width, 4)} by {_OF[width.predictions]}"
            for width in widths
            if width.method == method
        ]
        parts += [f"{method} {', '.join(phrases)}"] if phrases else []
    if not parts:
        return ""
    alone = [decimals(width.width, 4) for width in widths if width.method == "gold"]
    end = f"; codes alone {alone[0]}" if alone else ""
    return f"Mean width of the intervals: {'; '.join(parts)}{end}."


Method = Literal["dsl", "ppi", "gold", "naive"]
METHODS: tuple[Method, ...] = ("dsl", "ppi", "gold", "naive")
TITLES: dict[Method, str] = {
    "dsl": "labels corrected by codes (DSL)",
    "ppi": "labels corrected by codes (PPI++)",
    "gold": "codes of the gold sample alone",
    "naive": "labels as if they were right",
}
_LEAST_CODES = 2  # minimum number of codes for an interval
# Fields of a result that reports store, besides its rows.
_FIELDS = (
    "model", "formula", "level", "target", "n_texts", "n_gold", "design", "notes",
    "grouped_by", "predictions", "simultaneous", "agreement", "is_weighted", "source",
    "n_clusters",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimate of one quantity by one method.

    Attributes:
        outcome: Outcome: a label, or the left side of a formula.
        term: "share", "mean", "quantile" (the median) or "difference", or the name of the
            coefficient.
        group: Name of the group of texts; "" for all, "b - a" for differences.
        method: Method of the estimate.
        estimate: Estimate; NaN if unavailable.
        std_error: Standard error of the estimate.
        low: Lower confidence limit; at least 0 for a share, at least -1 for a difference
            of shares. A mean of a declared scale, or of numbers given for all labels, is
            limited to the smallest and largest number.
        high: Upper confidence limit; limited in the same way.
        lam: Weight that "ppi" gives to the labels, 0 to 1; NaN for other methods.
        df: Degrees of freedom of the interval's t distribution; infinite for the normal
            distribution.
    """

    outcome: str
    term: str
    group: str
    method: Method
    estimate: float = math.nan
    std_error: float = math.nan
    low: float = math.nan
    high: float = math.nan
    lam: float = math.nan
    df: float = math.inf

    @property
    def quantity(self) -> tuple[str, str, str]:
        """Outcome, term and group, which identify the quantity for all methods."""
        return self.outcome, self.term, self.group


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Estimates by several methods, side by side.

    Attributes:
        rows: One row for each quantity and method.
        model: "mean", "ols" or "logit".
        formula: Formula of the regression; None for shares, means and medians.
        level: Confidence level of the intervals.
        target: "population": estimates describe the population from which the texts are a
            sample; "texts": estimates describe the texts themselves.
        n_texts: Number of texts used.
        n_gold: Number of these texts with codes.
        design: Description of how the gold sample was drawn.
        notes: Notes for the user.
        covariances: Covariance matrices by outcome and method, float64[p, p], in the
            order of the terms; differences are not included.
        source: Hashes of the texts and labels used; None if an earlier version made the
            result.
        grouped_by: Columns that define the groups.
        predictions: Predictions that the codes corrected: "labels", "probs" or
            "recalibrated".
        widths: Mean widths of the intervals by each kind of predictions; () if only
            labels were used.
        simultaneous: "bonferroni" if all intervals of a method together cover
            the true values with probability `level`; None if each interval
            alone covers its true value with this probability.
        agreement: Sentence on the agreement of the coders; "" for one coder.
        is_weighted: True if survey weights were used.
        n_clusters: Number of clusters of dependent texts; None without clusters.
        label_check: Comparison of the labels of coded texts with all labels, if the user
            declared the codes a simple random sample; else None.
    """

    rows: tuple[Estimate, ...]
    model: str
    formula: str | None
    level: float
    target: str
    n_texts: int
    n_gold: int
    design: str
    notes: tuple[str, ...] = ()
    covariances: dict[tuple[str, str], Floats] = field(default_factory=dict)
    source: Source | None = None
    grouped_by: tuple[str, ...] = ()
    predictions: str = "labels"
    widths: tuple[Width, ...] = ()
    simultaneous: str | None = None
    agreement: str = ""
    is_weighted: bool = False
    n_clusters: int | None = None
    label_check: LabelCheck | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def methods(self) -> tuple[Method, ...]:
        """Methods that have estimates."""
        return tuple(dict.fromkeys(row.method for row in self.rows))

    def by(self, method: Method) -> tuple[Estimate, ...]:
        """Return the estimates by one method.

        Raises:
            ValueError: The method has no estimates.
        """
        checks.choice("method", method, self.methods)
        return tuple(row for row in self.rows if row.method == method)

    def covariance(self, method: Method = "dsl", outcome: str | None = None) -> Floats:
        """Return the covariances of the estimates by one method, float64[p, p].

        Args:
            method: Method.
            outcome: Outcome, required if there are several.

        Raises:
            ValueError: The method or outcome does not exist.
        """
        outcomes = tuple(dict.fromkeys(outcome for outcome, _ in self.covariances))
        if outcome is None and len(outcomes) == 1:
            outcome = outcomes[0]
        return self.covariances[checks.choice("outcome", outcome, outcomes) or "", method]

    def gold_worth(self, method: Method = "dsl") -> float:
        """Return how many codes alone would give intervals as short as `method` gives.

        The variance by codes alone is that of a simple random sample: in proportion to
        1 / n for a population, and to 1 / n - 1 / N for these N texts. The number is that
        of the estimate with the median ratio of variances, at most N; NaN without an
        estimate that has both variances, and if all texts are coded.
        """
        n, n_texts = self.n_gold, self.n_texts
        variances = {
            row.quantity: row.std_error**2
            for row in self.rows
            if row.method == "gold" and row.std_error > 0
        }
        ratios = sorted(
            row.std_error**2 / variances[row.quantity]
            for row in self.by(method)
            if row.quantity in variances and row.std_error > 0
        )
        if not ratios or n >= n_texts:
            return math.nan
        ratio = ratios[(len(ratios) - 1) // 2]
        of_all = 1 / n_texts if self.target == "texts" else 0.0
        return min(1 / (of_all + ratio * (1 / n - of_all)), float(n_texts))

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dicts; NaN becomes None."""
        return [
            {
                name: None if isinstance(value, float) and math.isnan(value) else value
                for name, value in asdict(row).items()
            }
            for row in self.rows
        ]

    def to_dict(self, title: str = "") -> dict[str, Any]:
        """Return the estimates as JSON types, as reports and plots read them.

        Args:
            title: Title of their section in a report; "" for a title from their content.
        """
        fields = {name: getattr(self, name) for name in _FIELDS}
        content: dict[str, Any] = plain({"title": title, "rows": self.rows, **fields})
        return content

    def to_pandas(self) -> Any:  # pandas is optional
        """Return a data frame with a row for each quantity and method.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional

        columns = ["outcome", "term", "group", "method", "estimate", "std_error"]
        columns += ["low", "high", "lam"]
        return pd.DataFrame([asdict(row) for row in self.rows], columns=columns)

    def __str__(self) -> str:
        head = self.formula or {"mean": "shares and means"}.get(self.model, self.model)
        lines = [
            (
                f"{head}: {count_of(self.n_texts, 'text')}, {self.n_gold} with codes "
                f"({self.design})"
            )
        ]
        lines += [self.agreement] if self.agreement else []
        if self.simultaneous is not None:
            lines.append("intervals of each method are simultaneous (Bonferroni)")
        if self.label_check is not None:
            lines.append(f"labels of the coded texts: {self.label_check}")
        rows = [row for method in self.methods for row in self.by(method)[:MOST_ROWS]]
        whats = list(dict.fromkeys(map(self._what, rows)))
        names = dict(zip(whats, shorten_names(whats, _MOST_NAME), strict=True))
        width = max(map(len, names.values()), default=0)
        columns = f"estimate  std. error  {percent(self.level)} interval"
        head_of_rows = f"  {'':{width}}  {columns}"
        for method in self.methods:
            title = TITLES[method]
            if self.predictions != "labels":
                title = title.replace("labels", _OF[self.predictions])
            lines += ["", f"{method}: {title}", head_of_rows]
            lines += first_rows(
                [
                    self._line(row, f"{names.get(self._what(row), ''):{width}}")
                    for row in self.by(method)
                ]
            )
        worths = self._worths() if "gold" in self.methods else []
        lines += ["", *worths] if worths else []
        lines += ["", describe_widths(self.widths)] if self.widths else []
        lines += ["", *printed_notes(self.notes)] if self.notes else []
        return "\n".join(lines)

    def _worths(self) -> list[str]:
        corrected: list[Method] = [m for m in self.methods if m in {"dsl", "ppi"}]
        worths = {method: self.gold_worth(method) for method in corrected}
        counts = [
            f"{n:.0f} texts ({name})"
            for name, n in worths.items()
            if n >= _LEAST_CODES  # not NaN; fewer codes have no interval
        ]
        if not counts:
            return []
        line = f"{', '.join(counts)}; {self.n_gold} are coded."
        return [f"Codes alone would give equally short intervals with {line}"]

    def _what(self, row: Estimate) -> str:
        """Return the name of an estimate: its outcome, term and group."""
        group = group_name(row.group, self.grouped_by)
        return " ".join(part for part in (row.outcome, row.term, group) if part)

    def _line(self, row: Estimate, what: str) -> str:
        if math.isnan(row.estimate):
            return f"  {what}  not estimated: {self._reason(row)}"
        start = f"  {what}  {decimals(row.estimate, 4):>8}"
        has_error, has_interval = not math.isnan(row.std_error), not math.isnan(row.low)
        if not has_error and not has_interval:
            return f"{start}  no std. error: the codes show no variance"
        error = decimals(row.std_error, 4) if has_error else "-"
        interval = limits(row.low, row.high, 4) if has_interval else "-"
        return f"{start}  {error:>10}  {interval}"

    def _reason(self, row: Estimate) -> str:
        """Return why a quantity was not estimated.

        A method that fails gives no estimate of any group or coefficient of an outcome,
        and a note. Otherwise only groups with fewer than two codes are left out.
        """
        has_others = any(
            not math.isnan(other.estimate)
            for other in self.by(row.method)
            if other.outcome == row.outcome
        )
        return "fewer than two codes" if has_others else "see the notes"

    def __repr__(self) -> str:
        return (
            f"<Estimates: {self.model} of {count_of(self.n_texts, 'text')} with "
            f"{count_of(self.n_gold, 'code')}, by {', '.join(self.methods)}>"
        )


def group_name(group: str, columns: Sequence[str]) -> str:
    """Return a group's name preceded by its columns, as in tables and plots."""
    return f"{' / '.join(columns)}: {group}" if group and columns else group


_NUMBERS = ("estimate", "std_error", "low", "high", "df")


def limits_at(
    columns: Mapping[str, Sequence[Any]], level: float, own_level: float
) -> Floats:
    """Return confidence limits at another level, float64[n, 2].

    If few label errors were observed, one side of an interval is longer than the other.
    Another level multiplies each side by the ratio of the t quantiles, unless the side
    was cut at a bound of the range: shares are from 0 to 1, differences of shares from
    -1 to 1. `columns` are those of the rows of one method, with limits at `own_level`.
    """
    level_of(level)
    rows = {name: np.array(columns[name], dtype=float) for name in _NUMBERS}
    is_share = np.array([term == "share" for term in columns["term"]])
    most = 1.0 if is_share.any() else math.inf
    least = np.where(is_share, 0.0, -most)
    far = np.array([student_quantile(level, df) for df in rows["df"]])
    longer = far / np.array([student_quantile(own_level, df) for df in rows["df"]])
    limits = []
    for end, bounds, sign in (
        ("low", least, -1.0),
        ("high", np.full(len(far), most), 1.0),
    ):
        side = sign * (rows[end] - rows["estimate"]) * longer
        is_cut = sign * rows[end] >= sign * bounds
        side = np.where(is_cut, np.fmax(side, far * rows["std_error"]), side)
        limits.append(np.clip(rows["estimate"] + sign * side, least, most))
    return np.column_stack(limits)
