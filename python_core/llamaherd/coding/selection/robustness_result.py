"""Labels of several variants of a codebook, and how much they differ."""

from __future__ import annotations

import math
import textwrap
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.answer_types import JOINED
from llamaherd.coding.annotation.record import plain
from llamaherd.coding.annotation.texts import Source
from llamaherd.coding.estimation.estimate import estimate
from llamaherd.coding.estimation.estimates import TITLES
from llamaherd.coding.gold.population import match_sample
from llamaherd.coding.sentences import range_of, shortened
from llamaherd.coding.statistics.many_coders import krippendorff_alpha
from llamaherd.coding.statistics.ratings import CodesByCoder
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import (
    MOST_ROWS,
    as_sentence,
    count_of,
    decimals,
    first_rows,
    limits,
    percents,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.calls.asks.calibration import Floats
    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.estimation.estimates import Estimates
    from llamaherd.coding.estimation.outcomes import Outcome
    from llamaherd.coding.gold.sample import GoldSample

_MOST_LABELS = 12  # columns of a printed table
_LINE = 90  # characters of a line of notes
_LABEL_WIDTH = 16  # characters of a label above its column


@dataclass(frozen=True, kw_only=True, eq=False)
class Robustness:
    """Labels of n texts under v variants, and how much they differ.

    Attributes:
        variants: Names of the v variants; all others are compared with the first.
        names: The k labels.
        rows: int[n], rows of the data frame that were coded.
        labels: Labels of the n texts in each variant; None for failed texts.
        flips: float64[v], share of texts whose label differs from the label by the first
            variant, among texts with both labels; NaN if no text has both.
        pairwise: float64[v, v], share of texts with different labels for each pair of
            variants.
        agreement: Mean share of equal labels over all pairs of variants.
        alpha: Krippendorff's alpha with variants as coders, ordinal for an ordinal scale;
            None if it could not be computed.
        shares: float64[v, k], share of each label among the texts with a label.
        runs: Provenance of each variant's labels, see `Coded.run`.
        estimates: v estimates, each from a variant's labels and the codes of a gold
            sample; None for an estimate that failed; () if there is no sample.
        source: Hashes of the texts and labels of the first variant; None if unknown.
    """

    variants: tuple[str, ...]
    names: tuple[str, ...]
    rows: list[int]
    labels: list[list[str | None]]
    flips: Floats
    pairwise: Floats
    agreement: float
    alpha: float | None
    shares: Floats
    runs: list[dict[str, Any]]
    estimates: tuple[Estimates | None, ...] = ()
    source: Source | None = None

    def estimate_rows(self) -> list[dict[str, Any]]:
        """Return a dict for each estimate, with the name of its variant."""
        if not self.estimates:
            return []
        return [
            {"variant": name, **row}
            for name, estimates in zip(self.variants, self.estimates, strict=True)
            for row in (estimates.to_dicts() if estimates is not None else ())
        ]

    def estimates_dict(self) -> dict[str, Any] | None:
        """Return all estimates in the form of `Estimates.to_dict`; None without any."""
        known = [estimates for estimates in self.estimates if estimates is not None]
        if not known:
            return None
        rows = plain(self.estimate_rows())
        return {**known[0].to_dict(), "notes": self._notes, "rows": rows}

    def to_dict(self) -> dict[str, Any]:
        """Return the variants as JSON types, without labels of texts."""
        names = ["variants", "names", "rows", "source", "flips", "pairwise"]
        names += ["agreement", "alpha", "shares"]
        recorded = ("codebook", "settings", "model", "context")
        fields: dict[str, Any] = plain(
            {
                **{name: getattr(self, name) for name in names},
                "n_texts": len(self.rows),
                "estimates": self.estimates_dict(),
                "runs": [{key: run.get(key) for key in recorded} for run in self.runs],
            }
        )
        return fields

    @property
    def costs(self) -> list[dict[str, float]]:
        """Cost per text of each variant: seconds, computed tokens, thinking tokens."""
        return [
            {
                "seconds": run["seconds"] / max(1, run["n_texts"]),
                "tokens": run.get("n_computed_tokens", math.nan) / max(1, run["n_texts"]),
                "thinking_tokens": run.get("thinking", {}).get("n_thinking_tokens", 0)
                / max(1, run["n_texts"]),
            }
            for run in self.runs
        ]

    @property
    def thinks(self) -> bool:
        """True if the model thought before its answers in some variant."""
        return any("thinking" in run for run in self.runs)

    @property
    def ranges(self) -> Floats:
        """Smallest and largest share of each label, float64[k, 2]."""
        return np.stack([self.shares.min(axis=0), self.shares.max(axis=0)], axis=1)

    @property
    def unstable(self) -> Floats:
        """Share of variants that do not give the text's modal label, float64[n]."""
        return np.array(
            [_spread(text_labels) for text_labels in zip(*self.labels, strict=True)]
        )

    def __str__(self) -> str:
        wide = max(map(len, self.variants))
        first = shortened(self.names[:_MOST_LABELS], _LABEL_WIDTH)
        names = [f"{name:>6}" for name in first]
        n_more = len(self.names) - len(names)
        more = f"  ({n_more:,} more labels)" if n_more > 0 else ""
        rows = []
        for i, name in enumerate(self.variants):
            shares = "  ".join(
                f"{percents(share):>{len(name)}}"
                for share, name in zip(self.shares[i, : len(names)], names, strict=True)
            )
            rows.append(f"{name:<{wide}}  {percents(self.flips[i]):>5}  {shares}")
        lines = [
            (
                f"<Robustness: {count_of(len(self.rows), 'text')}, "
                f"{count_of(len(self.variants), 'variant')}>"
            ),
            f"{'':<{wide}}  flips  " + "  ".join(names) + more,
            *first_rows(rows),
        ]
        alpha = (
            ""
            if self.alpha is None
            else f", Krippendorff's alpha {decimals(self.alpha, 3)}"
        )
        lines.append(f"agreement {percents(self.agreement)}{alpha}")
        estimated = estimate_lines(self.estimate_rows(), self._notes)
        return "\n".join([*lines, *self._costs(wide), *estimated])

    __repr__ = __str__

    @property
    def _notes(self) -> list[str]:
        """Notes of all estimates, each once."""
        notes = (note for e in self.estimates if e is not None for note in e.notes)
        return list(dict.fromkeys(notes))

    def _costs(self, wide: int) -> list[str]:
        """Describe the costs of variants if some variant thinks."""
        if not self.thinks:
            return []
        lines = [
            f"{name:<{wide}}  {cost['seconds']:.3g} s, {cost['tokens']:.0f} tokens "
            f"computed, {cost['thinking_tokens']:.0f} of them in thoughts"
            for name, cost in zip(self.variants, self.costs, strict=True)
        ]
        return ["cost per text:", *first_rows(lines)]


def estimate_lines(rows: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> list[str]:
    """Return the printed lines on estimates: how much each differs between variants."""
    if not rows:
        return []
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        parts = (row[part] for part in ("outcome", "term", "group"))
        groups.setdefault(" ".join(filter(None, parts)), []).append(row)
    most = max(2, 2 * MOST_ROWS // min(len(groups), MOST_ROWS))
    wide = max(len(row["variant"]) for row in rows)
    group_lines = []
    for what, group_rows in groups.items():
        values = [row["estimate"] for row in group_rows]
        estimates = [
            f"  {row['variant']:<{wide}}  {decimals(row['estimate'], 3)} "
            f"{limits(row['low'], row['high'], 3)}"
            for row in group_rows
        ]
        ends = range_of(decimals(min(values), 3), decimals(max(values), 3))
        group_lines.append("\n".join([f"{what}: {ends}", *first_rows(estimates, most)]))
    head = f"{TITLES['dsl']}, with intervals:"
    wrapped = (
        textwrap.fill(f"Note: {as_sentence(note)}", _LINE, subsequent_indent="  ")
        for note in notes
    )
    lines = [head, *first_rows(group_lines), *first_rows(list(wrapped))]
    return "\n".join(lines).split("\n")


def compared(
    variants: Mapping[str, Sequence[str | None]],
    codebook: Codebook,
    rows: Sequence[int],
    runs: Sequence[dict[str, Any]],
    texts: Sequence[str | None] | None = None,
) -> Robustness:
    """Compare the labels of variants, which have the names and labels in `variants`."""
    labels, v = list(variants.values()), len(variants)
    codes = _codes(labels)
    pairwise = np.array(
        [[_flips(codes[i], codes[j]) for j in range(v)] for i in range(v)]
    )
    others = pairwise[np.triu_indices(v, 1)]
    known = others[~np.isnan(others)]
    return Robustness(
        variants=tuple(variants),
        names=codebook.names,
        rows=list(rows),
        labels=[list(variant_labels) for variant_labels in labels],
        flips=pairwise[0],
        pairwise=pairwise,
        agreement=1 - float(known.mean()) if len(known) else math.nan,
        alpha=_alpha(labels, codebook) if v > 1 else None,
        shares=np.array(
            [_shares(variant_labels, codebook) for variant_labels in labels]
        ).reshape(v, -1),
        runs=list(runs),
        source=None if texts is None else Source.of(texts, labels[0]),
    )


def _codes(labels: Sequence[Sequence[str | None]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return labels as numbers, -1 for missing labels."""
    number_of: dict[str, int] = {}
    return np.array(
        [
            [
                -1 if x is None else number_of.setdefault(x, len(number_of))
                for x in variant_labels
            ]
            for variant_labels in labels
        ],
        dtype=np.int64,
    ).reshape(len(labels), -1)


def _flips(one: Any, other: Any) -> float:  # noqa: ANN401 - int64[n]
    both = (one >= 0) & (other >= 0)
    return float((one[both] != other[both]).mean()) if both.any() else math.nan


def _spread(labels: Sequence[str | None]) -> float:
    known = [label for label in labels if label is not None]
    if not known:
        return math.nan
    return 1 - max(map(known.count, known)) / len(known)


def _shares(labels: Sequence[str | None], codebook: Codebook) -> list[float]:
    known = [label for label in labels if label is not None]
    if not known:
        return [math.nan] * len(codebook.names)
    if codebook.kind.is_several:
        parts = [label.split(JOINED) for label in known]
        return [
            sum(name in label_names for label_names in parts) / len(known)
            for name in codebook.names
        ]
    return [known.count(name) / len(known) for name in codebook.names]


def _alpha(labels: Sequence[Sequence[str | None]], codebook: Codebook) -> float | None:
    scale = codebook.kind.measured
    levels = None if codebook.kind.is_several else codebook.names
    alpha = krippendorff_alpha(CodesByCoder(labels), scale=scale, levels=levels).value
    return None if math.isnan(alpha) else alpha


_LABEL = "label"  # name of labels in formulas


@dataclass(frozen=True, kw_only=True, eq=False)
class Judge:
    """Estimator that uses the codes of a gold sample for every variant."""

    columns: dict[str, list[Any]]
    text: str
    gold: GoldSample
    rows: Sequence[int]

    @classmethod
    def of(
        cls,
        frame: Any,  # noqa: ANN401 - a data frame of any kind
        text: str,
        gold: GoldSample,
        rows: Sequence[int],
    ) -> Judge:
        """Check that the sample fits, before anything is coded."""
        names = frames.names(frame)
        columns = {name: frames.column(frame, name, "frame") for name in names}
        columns[_LABEL] = [None] * len(columns[text])
        # Variants have other labels than the draw.
        gold = replace(gold, labels=[None] * len(gold), label_marks=None)
        _, moved, _ = match_sample(columns, gold, _LABEL, text, several=gold.several)
        here = set(rows)
        coded = zip(moved.rows, moved.gold, strict=True)
        if sum(code is not None and row in here for row, code in coded) < 2:
            raise ArgumentError(
                "has fewer than two codes of the texts to be coded", argument="gold"
            )
        return cls(columns=columns, text=text, gold=gold, rows=rows)

    def estimates(
        self,
        variant: str,
        labels: Sequence[str | None],
        codebook: Codebook,
        formula: str | None,
        outcome: Outcome | None,
    ) -> Estimates | None:
        """Estimate by DSL from n labels of a variant; if this fails, warn."""
        column: list[str | None] = [None] * len(self.columns[self.text])
        for row, label in zip(self.rows, labels, strict=True):
            column[row] = label
        try:
            with warnings.catch_warnings():
                # the notes contain the same information
                warnings.simplefilter("ignore", UserWarning)
                return estimate(
                    {**self.columns, _LABEL: column},
                    self.gold,
                    formula,
                    outcome,
                    methods=("dsl",),
                    label=_LABEL,
                    text=self.text,
                    several=codebook.kind.is_several,
                )
        except ValueError as error:
            warn_caller(f"The variant {checks.quoted(variant)} has no estimate: {error}")
            return None
