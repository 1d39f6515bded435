"""Labels of the same texts in several variants of a coding, and how much they differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.annotation.answer_types import JOINED
from llamaherd.coding.annotation.record import plain
from llamaherd.coding.estimation.estimates import TITLES, Estimates
from llamaherd.coding.sentences import range_of, shorten_names, table
from llamaherd.coding.statistics.many_coders import krippendorff_alpha
from llamaherd.coding.statistics.ratings import CodesByCoder
from llamaherd.engine.core.phrases import (
    MOST_ROWS,
    count_of,
    decimals,
    first_rows,
    limits,
    percents,
    printed_notes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.annotation.texts import Source
    from llamaherd.engine.core.arrays import Floats

_MOST_LABELS = 12  # columns of a printed table
_LABEL_WIDTH = 16  # characters of a label above its column


@dataclass(frozen=True, kw_only=True, eq=False)
class Robustness:
    """Labels of n texts under v variants, and how much they differ.

    Attributes:
        variants: Names of the v variants; all others are compared with the first.
        codebook: Codebook of the first variant.
        rows: int[n], rows of the data frame that were coded.
        labels: Labels of the n texts in each variant; None for failed texts.
        runs: Provenance of each variant's labels, see `Coded.run`.
        estimates: v estimates, each from a variant's labels and the codes of a gold
            sample; None for an estimate that failed; () if there is no sample.
        source: Hashes of the texts and labels of the first variant; None if unknown.
    """

    variants: tuple[str, ...]
    codebook: Codebook
    rows: list[int]
    labels: list[list[str | None]]
    runs: list[dict[str, Any]]
    estimates: tuple[Estimates | None, ...] = ()
    source: Source | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The k labels."""
        return self.codebook.names

    @property
    def flips(self) -> Floats:
        """Share of texts whose label differs from that of the first variant, float64[v].

        Texts with both labels count; NaN if no text has both.
        """
        return np.asarray(self.pairwise[0])

    @cached_property
    def pairwise(self) -> Floats:
        """Share of texts with different labels for pairs of variants, float64[v, v]."""
        known = {label for labels in self.labels for label in labels} - {None}
        number_of = {None: -1, **{label: i for i, label in enumerate(known)}}
        codes = np.array(
            [[number_of[label] for label in labels] for labels in self.labels],
            dtype=np.int64,
        ).reshape(len(self.labels), -1)
        shares = []
        for of_one in codes:
            both = (of_one >= 0) & (codes >= 0)
            n, n_apart = both.sum(axis=1), (both & (of_one != codes)).sum(axis=1)
            shares.append(np.where(n > 0, n_apart / np.maximum(n, 1), math.nan))
        return np.array(shares)

    @property
    def agreement(self) -> float:
        """Mean share of equal labels over all pairs of variants."""
        others = self.pairwise[np.triu_indices(len(self.variants), 1)]
        known = others[~np.isnan(others)]
        return 1 - float(known.mean()) if len(known) else math.nan

    @cached_property
    def alpha(self) -> float | None:
        """Krippendorff's alpha with variants as coders, ordinal for an ordinal scale.

        None if it could not be computed.
        """
        if len(self.variants) < 2:
            return None
        kind = self.codebook.kind
        alpha = krippendorff_alpha(
            CodesByCoder(self.labels),
            scale=kind.measured,
            levels=None if kind.is_several else self.names,
        ).value
        return None if math.isnan(alpha) else alpha

    @cached_property
    def shares(self) -> Floats:
        """Share of each label among the texts with a label, float64[v, k]."""
        is_several = self.codebook.kind.is_several
        shares = []
        for labels in self.labels:
            sets = [
                label.split(JOINED) if is_several else [label]
                for label in labels
                if label is not None
            ]
            counts = [sum(name in names for names in sets) for name in self.names]
            shares.append([n / len(sets) if sets else math.nan for n in counts])
        return np.array(shares, dtype=np.float64).reshape(len(shares), -1)

    @property
    def ranges(self) -> Floats:
        """Smallest and largest share of each label, float64[k, 2]."""
        return np.stack([self.shares.min(axis=0), self.shares.max(axis=0)], axis=1)

    @property
    def unstable(self) -> Floats:
        """Share of variants that do not give the text's modal label, float64[n]."""
        texts = zip(*self.labels, strict=True)
        known = [[label for label in labels if label is not None] for labels in texts]
        return np.array(
            [
                1 - max(map(labels.count, labels)) / len(labels) if labels else math.nan
                for labels in known
            ]
        )

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

    def estimate_rows(self) -> list[dict[str, Any]]:
        """Return a dict for each estimate, with the name of its variant."""
        names = self.variants if self.estimates else ()
        return [
            {"variant": name, **row}
            for name, estimates in zip(names, self.estimates, strict=True)
            for row in (estimates.to_dicts() if estimates is not None else ())
        ]

    def estimates_dict(self) -> dict[str, Any] | None:
        """Return all estimates in the form of `Estimates.to_dict`; None without any."""
        known = [estimates for estimates in self.estimates if estimates is not None]
        if not known:
            return None
        rows = plain(self.estimate_rows())
        return {**known[0].to_dict(), "notes": self._notes, "rows": rows}

    @property
    def _notes(self) -> list[str]:
        """Notes of all estimates, each once."""
        notes = (note for e in self.estimates if e is not None for note in e.notes)
        return list(dict.fromkeys(notes))

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

    def __str__(self) -> str:
        names = shorten_names(self.names[:_MOST_LABELS], _LABEL_WIDTH)
        head, *rows = table(
            [
                ["", "flips", *names],
                *(
                    [name, *map(percents, [flip, *shares[: len(names)]])]
                    for name, flip, shares in zip(
                        self.variants, self.flips, self.shares, strict=True
                    )
                ),
            ]
        )
        n_more = len(self.names) - len(names)
        n_texts = count_of(len(self.rows), "text")
        n_variants = count_of(len(self.variants), "variant")
        alpha = self.alpha
        more = "" if alpha is None else f", Krippendorff's alpha {decimals(alpha, 3)}"
        lines = [
            f"<Robustness: {n_texts}, {n_variants}>",
            f"{head}  ({n_more:,} more labels)" if n_more else head,
            *first_rows(rows),
            f"agreement {percents(self.agreement)}{more}",
        ]
        if self.thinks:
            wide = max(map(len, self.variants))
            costs = [
                f"{name:<{wide}}  {cost['seconds']:.3g} s, {cost['tokens']:.0f} tokens "
                f"computed, {cost['thinking_tokens']:.0f} of them in thoughts"
                for name, cost in zip(self.variants, self.costs, strict=True)
            ]
            lines += ["cost per text:", *first_rows(costs)]
        return "\n".join([*lines, *estimate_lines(self.estimate_rows(), self._notes)])

    __repr__ = __str__


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
    lines = [head, *first_rows(group_lines), *first_rows(printed_notes(notes))]
    return "\n".join(lines).split("\n")
