"""What `estimate` returns."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.core import checks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.coding.source import Source
    from llamaherd.research.statistics.sampling import Floats

Method = Literal["dsl", "ppi", "gold", "naive"]
METHODS: tuple[Method, ...] = ("dsl", "ppi", "gold", "naive")
TITLES: dict[Method, str] = {
    "dsl": "labels corrected by codes (DSL)",
    "ppi": "labels corrected by codes (PPI++)",
    "gold": "codes of the gold sample alone",
    "naive": "labels as if they were right",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One number that was estimated by one method.

    Attributes:
        outcome: What of: a label, or the left side of a formula.
        term: "share", "mean" or "difference", or the coefficient.
        group: Which texts; "" for all, "b - a" for differences.
        method: By which method.
        estimate: The estimate; NaN where there is none.
        std_error: Its standard error.
        low: Lower confidence limit; of a share never below 0, of a difference of shares
            never below -1.
        high: Upper confidence limit, likewise.
        lam: For "ppi": how much the labels counted, 0 to 1; else NaN.
        df: Degrees of freedom of the t distribution that the interval is by; infinite:
            it is by the normal distribution.
    """

    outcome: str
    term: str
    group: str
    method: Method
    estimate: float
    std_error: float
    low: float
    high: float
    lam: float = math.nan
    df: float = math.inf


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Estimates by several methods, side by side.

    Attributes:
        rows: One for each number and method.
        model: "mean", "ols" or "logit".
        formula: The regression's; None: there is none.
        level: Confidence level of the intervals.
        target: "population": of what these texts are a sample of; "texts": of these.
        n_texts: Texts that were used.
        n_gold: Of these, with codes.
        design: How the gold sample was drawn, in words.
        notes: What to know of these estimates.
        covariances: By outcome and method float64[p, p], in the order of the terms that
            are no differences.
        source: Texts and labels that they came from; None: of an earlier version.
        grouped_by: Columns that groups are of.
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

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def methods(self) -> tuple[Method, ...]:
        """Those that there are estimates by."""
        return tuple(dict.fromkeys(row.method for row in self.rows))

    def by(self, method: Method) -> tuple[Estimate, ...]:
        """The estimates by one method.

        Raises:
            ValueError: There are none.
        """
        checks.choice("method", method, self.methods)
        return tuple(row for row in self.rows if row.method == method)

    def covariance(self, method: Method = "dsl", outcome: str | None = None) -> Floats:
        """Covariances of the estimates by one method, float64[p, p].

        Args:
            method: Which.
            outcome: Of which outcome, if there are several.

        Raises:
            ValueError: There is no such one.
        """
        outcomes = tuple(dict.fromkeys(outcome for outcome, _ in self.covariances))
        if outcome is None and len(outcomes) == 1:
            outcome = outcomes[0]
        checks.choice("outcome", outcome, outcomes)
        return self.covariances[checks.choice("outcome", outcome, outcomes) or "", method]

    def gold_worth(self, method: Method = "dsl") -> float:
        """How many coded texts would give as short intervals without labels.

        The median over all estimates of n_gold times the ratio of the variances; NaN
        where one of the two has none.
        """
        errors = {
            (row.outcome, row.term, row.group): row.std_error for row in self.by("gold")
        }
        worths = sorted(
            self.n_gold * (errors[key] / row.std_error) ** 2
            for row in self.by(method)
            for key in [(row.outcome, row.term, row.group)]
            if row.std_error > 0 and not math.isnan(errors[key])
        )
        return worths[len(worths) // 2] if worths else math.nan

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain data; NaN as None."""
        return [
            {
                name: None if isinstance(value, float) and math.isnan(value) else value
                for name, value in asdict(row).items()
            }
            for row in self.rows
        ]

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is optional
        """A data frame with a row for each number and method.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # noqa: PLC0415 - optional

        columns = ["outcome", "term", "group", "method", "estimate", "std_error"]
        columns += ["low", "high", "lam"]
        return pd.DataFrame([asdict(row) for row in self.rows], columns=columns)

    def __str__(self) -> str:
        head = self.formula or {"mean": "shares and means"}.get(self.model, self.model)
        lines = [
            f"{head}: {self.n_texts:,} texts, {self.n_gold} with codes ({self.design})",
        ]
        for method in self.methods:
            lines += ["", f"{method}: {TITLES[method]}"]
            lines += [self._line(row) for row in self.by(method)]
        worths = self._worths() if "gold" in self.methods else []
        lines += ["", *worths] if worths else []
        lines += ["", *(f"Note: {note}" for note in self.notes)] if self.notes else []
        return "\n".join(lines)

    def _worths(self) -> list[str]:
        corrected: list[Method] = [m for m in self.methods if m in {"dsl", "ppi"}]
        worths = {method: self.gold_worth(method) for method in corrected}
        told = [
            f"{n:.0f} texts ({name})" for name, n in worths.items() if not math.isnan(n)
        ]
        if not told:
            return []
        line = f"{', '.join(told)}; {self.n_gold} are coded."
        return [f"Intervals are as short as those by codes alone of {line}"]

    def _line(self, row: Estimate) -> str:
        group = group_name(row.group, self.grouped_by)
        what = " ".join(part for part in (row.outcome, row.term, group) if part)
        if math.isnan(row.estimate):
            return f"  {what:40} none"
        return (
            f"  {what:40} {row.estimate:9.4f}  std. error {row.std_error:.4f}  "
            f"{self.level:.0%} [{row.low:.4f}, {row.high:.4f}]"
        )

    def __repr__(self) -> str:
        return (
            f"<Estimates: {self.model} of {self.n_texts} texts with {self.n_gold} codes, "
            f"by {', '.join(self.methods)}>"
        )


def group_name(group: str, columns: Sequence[str]) -> str:
    """A group with the names of its columns, as tables and plots show it."""
    return f"{' / '.join(columns)}: {group}" if group and columns else group
