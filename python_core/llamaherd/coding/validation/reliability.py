"""Confusion tables and reliability of several models, as in the R package localLLM.

Values equal the values of R's package irr; see `intercoder_reliability`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.codes import Code, check_declared, is_missing, read, text_of
from llamaherd.coding.sentences import number, table
from llamaherd.coding.statistics.agreement import cohen_kappa
from llamaherd.coding.statistics.many_coders import pairs_alike
from llamaherd.coding.statistics.ratings import Ratings
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import percents

if TYPE_CHECKING:
    from llamaherd.coding.frames import Input
    from llamaherd.engine.core.arrays import Floats, Ints

_MOST_LABELS = 8  # of printed tables

Method = Literal["auto", "cohen", "krippendorff"]
METHODS: tuple[Method, ...] = ("auto", "cohen", "krippendorff")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConfusionTables:
    """Confusion tables of models, by pairs and with human labels.

    Attributes:
        levels: The k labels, in the order of first occurrence.
        vs_gold: int64[k, k] for each model: a row for each label of the model, a column
            for each human label; {} without human labels.
        pairwise: int64[k, k] for each pair, named "a vs b": a row for each label of a, a
            column for each label of b; {} if there is only one model.
    """

    levels: tuple[Hashable, ...]
    vs_gold: dict[str, Ints]
    pairwise: dict[str, Ints]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairKappa:
    """Cohen's kappa of two models."""

    model_a: str
    model_b: str
    kappa: float  # NaN if chance alone would give perfect agreement
    observed: float  # Share of texts with the same label
    expected: float  # Share of texts that would have the same label by chance


@dataclass(frozen=True, slots=True, kw_only=True)
class NominalAlpha:
    """Krippendorff's alpha of nominal labels.

    Attributes:
        alpha: Alpha as in irr's `kripp.alpha`; 1 under perfect agreement.
        alpha_exact: Alpha as Krippendorff defines it. This value differs from `alpha`
            only for three or more models without missing labels, because irr then does
            not divide coincidences by m - 1.
        per_item: By text, the share of pairs of models that agree; NaN if a text has
            fewer than two labels.
        category_proportions: By label, the share of this label among all labels.
    """

    alpha: float
    alpha_exact: float
    per_item: dict[str, float]
    category_proportions: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """Kappa of each pair of models, and alpha of all; () and None if not requested."""

    cohen: tuple[PairKappa, ...]
    krippendorff: NominalAlpha | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelComparison:
    """Confusion tables and reliability of models; None if not requested."""

    confusion: ConfusionTables | None
    reliability: Reliability | None

    def __str__(self) -> str:
        lines = [["<ModelComparison: of models' labels>"]]
        tables = self.confusion
        if tables is not None:
            lines.append(_right_table(tables))
        if self.reliability is not None:
            lines += _reliability_lines(self.reliability)
        if tables is not None:
            named = {f"{m} \\ people": counts for m, counts in tables.vs_gold.items()}
            named |= {n.replace(" vs ", " \\ "): t for n, t in tables.pairwise.items()}
            lines += [_counts_table(t, tables.levels, n) for n, t in named.items()]
        return "\n\n".join("\n".join(part) for part in lines if part)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Wide:
    """Labels as indices of k levels, -1 if missing: a row for each model, n texts."""

    models: dict[str, Ints]
    samples: list[Hashable]
    truth: Ints | None  # int64[n]
    levels: tuple[Hashable, ...]


def compute_confusion_matrices(
    annotations: Any,  # a data frame of any kind
    gold: Sequence[Code] | Mapping[Any, Code] | str | None = None,
    *,
    pairwise: bool = True,
    label_levels: Sequence[Hashable] | None = None,
    sample_col: str = "sample_id",
    model_col: str = "model_id",
    label_col: str = "label",
    truth_col: str = "truth",
) -> ConfusionTables:
    """Return confusion tables of models with human labels, and of models with each other.

    Args:
        annotations: Data frame with a row for each text and model.
        gold: Human labels: one for each text, in the order in which texts first occur; a
            mapping by text; or the name of a column. None for the column `truth_col`, if
            it exists.
        pairwise: True to compare models with each other.
        label_levels: All labels in their order; None for the labels that occur.
        sample_col: Column that identifies texts.
        model_col: Column of models.
        label_col: Column of labels.
        truth_col: Column of human labels.

    Raises:
        TypeError: `annotations` is not a data frame.
        ValueError: A column is missing, a model has two labels for a text, or `gold` does
            not fit the texts.
    """
    columns = (sample_col, model_col, label_col)
    wide = _wide(annotations, columns, gold, truth_col, label_levels)
    models, truth, k = wide.models, wide.truth, len(wide.levels)
    pairs = combinations(models, 2) if checks.flag("pairwise", pairwise) else ()
    return ConfusionTables(
        levels=wide.levels,
        vs_gold={}
        if truth is None
        else {name: _table(models[name], truth, k) for name in sorted(models)},
        pairwise={f"{a} vs {b}": _table(models[a], models[b], k) for a, b in pairs},
    )


def intercoder_reliability(
    annotations: Any,  # a data frame of any kind
    *,
    method: Method = "auto",
    label_levels: Sequence[Hashable] | None = None,
    sample_col: str = "sample_id",
    model_col: str = "model_id",
    label_col: str = "label",
) -> Reliability:
    """Return Cohen's kappa of each pair of models, and nominal Krippendorff's alpha.

    Args:
        annotations: Data frame with a row for each text and model.
        method: "cohen", "krippendorff", or "auto" for both.
        label_levels: All labels; None for the labels that occur.
        sample_col: Column that identifies texts.
        model_col: Column of models.
        label_col: Column of labels.

    Raises:
        TypeError: `annotations` is not a data frame.
        ValueError: A column is missing, or a model has two labels for a text.
    """
    checks.choice("method", method, METHODS)
    wide = _wide(
        annotations, (sample_col, model_col, label_col), None, None, label_levels
    )
    pairs = () if method == "krippendorff" else combinations(wide.models, 2)
    return Reliability(
        cohen=tuple(_pair(wide, a, b) for a, b in pairs),
        krippendorff=None if method == "cohen" else _alpha(wide),
    )


def _wide(
    annotations: Input,
    columns: tuple[str, str, str],
    gold: Input,
    truth_col: str | None,
    levels: Sequence[Hashable] | None,
) -> _Wide:
    existing = frames.names(annotations)
    missing = [name for name in columns if name not in existing]
    if missing:
        raise ArgumentError(
            f"is missing required column(s): {', '.join(missing)}; there are "
            f"{frames.list_columns(annotations)}",
            argument="annotations",
            code="missing",
        )
    sample, model, label = (
        frames.column(annotations, name, argument)
        for name, argument in zip(
            columns, ("sample_col", "model_col", "label_col"), strict=True
        )
    )
    samples = list(dict.fromkeys(sample))
    truth = _truth(annotations, gold, truth_col, sample, samples)
    reading = read([label, truth or []], () if levels is None else levels)
    codes, right = reading.columns
    known = _levels(None if levels is None else reading.names, [*codes, *right])
    index = {code: i for i, code in enumerate(known)}
    by_model: dict[str, dict[Any, int]] = {}
    for s, m, code in zip(sample, map(str, model), codes, strict=True):
        if s in by_model.setdefault(m, {}):
            raise ArgumentError(
                f"has two labels of the text {s!r} by {m!r}", argument="annotations"
            )
        by_model[m][s] = index.get(code, -1)
    return _Wide(
        models={
            m: np.array([labels_by_text.get(s, -1) for s in samples], dtype=int)
            for m, labels_by_text in by_model.items()
        },
        samples=samples,
        truth=None
        if truth is None
        else np.array([index.get(code, -1) for code in right], dtype=int),
        levels=known,
    )


def _truth(
    annotations: Input,
    gold: Input,
    truth_col: str | None,
    sample: list[Any],
    samples: list[Any],
) -> list[Code] | None:
    """Return the human label of each text; None without human labels."""
    if gold is None and truth_col in frames.names(annotations):
        gold = truth_col
    if gold is None:
        return None
    if isinstance(gold, str):
        gold = frames.column(annotations, gold, "gold")
        first: dict[Any, Code] = {}
        for s, code in zip(sample, gold, strict=True):
            if text_of(first.get(s)) in {None, ""}:
                first[s] = code
        labels = [first[s] for s in samples]
        return labels if any(code is not None for code in labels) else None
    if isinstance(gold, Mapping):
        return [None if is_missing(gold.get(s)) else gold.get(s) for s in samples]
    if len(gold) != len(samples):
        raise ArgumentError(
            "must either be a vector aligned with unique samples, of which there "
            f"are {len(samples)}, or the name of a column in annotations, not "
            f"{len(gold)} values",
            argument="gold",
        )
    return [None if is_missing(code) else code for code in gold]


def _levels(levels: Sequence[Hashable] | None, codes: list[Code]) -> tuple[Hashable, ...]:
    labels = [code for code in dict.fromkeys(codes) if code is not None]
    if levels is None:
        return tuple(labels)
    check_declared(levels, [labels], "label_levels")
    return tuple(dict.fromkeys(levels))


def _table(rows: Ints, columns: Ints, k: int) -> Ints:
    both = (rows >= 0) & (columns >= 0)
    counts = np.bincount(rows[both] * k + columns[both], minlength=k * k)
    return np.asarray(counts.reshape(k, k))


def _pair(wide: _Wide, first: str, second: str) -> PairKappa:
    pair = np.array([wide.models[first], wide.models[second]])
    kappa = cohen_kappa(*np.where(pair < 0, math.nan, pair))
    return PairKappa(
        model_a=first,
        model_b=second,
        kappa=kappa.value,
        observed=kappa.observed,
        expected=kappa.expected,
    )


def _alpha(wide: _Wide) -> NominalAlpha:
    shape = len(wide.models), len(wide.samples)
    indices = np.array([*wide.models.values()], dtype=int).reshape(shape)
    counts = Ratings(indices=indices, values=wide.levels).counts
    sizes, total = counts.sum(axis=1), counts.sum()
    paired = sizes >= 2
    n = sizes[paired]
    shares = np.full(len(counts), math.nan)
    shares[paired] = pairs_alike(counts[paired])
    is_complete = bool((sizes == len(wide.models)).all())
    return NominalAlpha(
        alpha=_of_counts(counts[paired], np.ones(len(n)) if is_complete else n - 1),
        alpha_exact=_of_counts(counts[paired], n - 1),
        per_item=dict(zip(map(str, wide.samples), shares.tolist(), strict=True)),
        category_proportions={
            str(level): float(n / total) if total else math.nan
            for level, n in zip(wide.levels, counts.sum(axis=0), strict=True)
        },
    )


def _of_counts(counts: Floats, below: Floats) -> float:
    """Return alpha, with coincidences divided by `below`; 1 for perfect agreement."""
    if len(counts) == 0:
        return math.nan
    sizes = counts.sum(axis=1)
    apart = float(((sizes**2 - (counts**2).sum(axis=1)) / below).sum())
    marginals = (counts * ((sizes - 1) / below)[:, None]).sum(axis=0)
    n = marginals.sum()
    if apart == 0:
        return 1.0
    return float(1 - (n - 1) * apart / (n**2 - (marginals**2).sum()))


def compare_models(
    annotations: Any,  # a data frame of any kind
    of_confusion: Mapping[str, Any] | None,
    of_reliability: Mapping[str, Any] | None,
) -> ModelComparison:
    """Compare models by the functions whose arguments are given."""
    confusion = reliability = None
    if of_confusion is not None:
        confusion = compute_confusion_matrices(annotations, **of_confusion)
    if of_reliability is not None:
        reliability = intercoder_reliability(annotations, **of_reliability)
    return ModelComparison(confusion=confusion, reliability=reliability)


def _right_table(tables: ConfusionTables) -> list[str]:
    """Return the share of labels that equal the codes of people, by model."""
    rows = [
        [
            f"  {name}",
            percents(counts.trace() / max(counts.sum(), 1)),
            f"of {counts.sum():,}",
        ]
        for name, counts in tables.vs_gold.items()
    ]
    return ["labels that equal the codes of people:", *table(rows)] if rows else []


def _reliability_lines(reliability: Reliability) -> list[list[str]]:
    rows = [
        [
            f"  {pair.model_a} and {pair.model_b}",
            f"Cohen's kappa {number(pair.kappa, missing='NA')},",
            f"alike {percents(pair.observed)}",
        ]
        for pair in reliability.cohen
    ]
    parts = [["between models:", *table(rows)]] if rows else []
    if reliability.krippendorff is not None:
        alpha = number(reliability.krippendorff.alpha, missing="NA")
        parts.append([f"Krippendorff's alpha of all models: {alpha}"])
    return parts


def _counts_table(counts: Ints, levels: Sequence[object], title: str) -> list[str]:
    """Return a table of few labels; its title names who gave the rows and columns."""
    if len(levels) > _MOST_LABELS:
        return []
    names = [str(level) for level in levels]
    named_rows = zip(names, counts.tolist(), strict=True)
    return table([[title, *names], *([name, *map(str, row)] for name, row in named_rows)])
