"""Checks of the design: clusters, copies of texts, codes that are no simple sample."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.label_sets import labels_in
from llamaherd.coding.codes import text_of
from llamaherd.coding.estimation.notes import note
from llamaherd.coding.estimation.outcomes import value_numbers
from llamaherd.coding.gold.sample import GoldSample
from llamaherd.coding.sentences import quoted_name
from llamaherd.coding.statistics.sampling import (
    LabelCheck,
    Target,
    coders_like_model,
    groups_of,
    label_check,
)
from llamaherd.engine.core.caller import warn_caller

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from llamaherd.coding.estimation.fitting import Fits
    from llamaherd.coding.frames import Input
    from llamaherd.coding.gold.population import Population
    from llamaherd.engine.core.arrays import Floats, Ints


_LEAST_CLUSTERS = 10
_LEAST_SIZE = 1.5  # least mean number of texts per cluster
_UNLIKELY = 4.0  # distance of F from 1, in standard errors, above which a note is given
_WIDER = 1.1  # ratio of interval widths above which a note is given


def clustering_column(
    frame: Input, labels: Sequence[str | None], kept: Ints, used: Collection[str]
) -> tuple[str, Ints, float] | None:
    """Find the column whose values explain the labels best, and better than chance.

    A column is tested only if it contains texts or whole numbers, has at least ten
    different values, and has on average at least 1.5 texts per value. Returned are the
    column, the cluster of each kept row, and the intraclass correlation of the labels.
    """
    number: dict[str | None, int] = {}
    group = groups_of(labels)
    at = np.array([number.setdefault(group[labels[i]], len(number)) for i in kept])
    has_label = np.eye(len(number))[at]
    best = None
    for name in frames.names(frame):
        if name in used or name.startswith(("p_", "raw_")):
            continue
        clusters = _clusters(frames.column(frame, name, "cluster"), kept)
        if clusters is None:
            continue
        far, correlation = _clustering_of_labels(has_label, clusters)
        if far > _UNLIKELY and (best is None or correlation > best[2]):
            best = (name, clusters, correlation)
    return best


def _clusters(values: Sequence[Any], kept: Ints) -> Ints | None:
    """Return the cluster of each kept row; None if the values cannot define clusters."""
    numbers: dict[Any, int] = {}
    clusters = np.empty(len(kept), dtype=np.int64)
    for at, i in enumerate(kept):
        value = values[i]
        if not isinstance(value, (str, int, np.integer)) or isinstance(value, bool):
            return None
        clusters[at] = numbers.setdefault(value, len(numbers))
        if len(kept) < _LEAST_SIZE * len(numbers):
            return None
    n = len(numbers)
    return clusters if n >= _LEAST_CLUSTERS else None


def _clustering_of_labels(has_label: Floats, clusters: Ints) -> tuple[float, float]:
    """Return (F - 1) / standard error of F, and the intraclass correlation.

    F is the F statistic of a one-way analysis of variance of the labels by cluster.

    Source: Snedecor, Cochran, "Statistical Methods", 6th edition, 1967, chapter 10.
    """
    n, sizes = len(clusters), np.bincount(clusters)
    k = len(sizes)
    sums = np.zeros((k, has_label.shape[1]))
    np.add.at(sums, clusters, has_label)
    means = sums / sizes[:, None]
    between = float((sizes[:, None] * (means - has_label.mean(axis=0)) ** 2).sum()) / (
        k - 1
    )
    inside = float(((has_label - means[clusters]) ** 2).sum()) / (n - k)
    size = (n - float((sizes**2).sum()) / n) / (k - 1)
    if inside <= 0:
        return (math.inf, 1.0) if between > 0 else (0.0, 0.0)
    spread = math.sqrt(2 * (n - 1) / ((k - 1) * (n - k)))
    correlation = (between - inside) / (between + (size - 1) * inside)
    return (between / inside - 1) / spread, correlation


def cluster_hint(
    texts: Population,
    kept: Ints,
    roles: set[str | None],
    fits: Fits,
    fit: Callable[[Ints], Fits],
) -> list[str]:
    """Return a note if texts cluster by an unused column that widens the intervals."""
    used = {name for name in roles if name is not None}
    column = clustering_column(texts.frame, texts.labels, kept, used)
    if column is None:
        return []
    name, clusters, correlation = column
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        plain, wide = _widths(fits), _widths(fit(clusters))
    ratios = [wide[key] / plain[key] for key in plain if plain[key] > 0 and key in wide]
    ratio = float(np.median(ratios)) if ratios else 1.0
    if not ratio > _WIDER:
        return []
    method = fits.rows[0].method
    values = {"correlation": correlation, "method": method, "ratio": ratio}
    return [note("clustered", column=name, **values)]


def _widths(fits: Fits) -> dict[tuple[str, str, str], float]:
    method = fits.rows[0].method
    return {
        row.quantity: row.high - row.low
        for row in fits.rows
        if row.method == method and not math.isnan(row.high - row.low)
    }


def clusters_of(
    texts: Population, cluster: str | None, kept: Ints, target: Target
) -> tuple[Ints | None, list[str]]:
    """Return the clusters of the kept rows, by a column or by equal texts, and a note.

    Copies have the same label and code, so that they are no more information than one
    text. Few copies change intervals less than the clusters' variance would.
    """
    if cluster is not None:
        return value_numbers(texts, cluster, kept)[0], []
    if texts.text_column is None or target != "population":
        return None, []
    numbers: dict[str | int, int] = {}
    keys = ((i, texts.texts[i]) for i in kept.tolist())
    at = [numbers.setdefault(i if t is None else t, len(numbers)) for i, t in keys]
    clusters = np.array(at, dtype=np.int64)
    sizes = np.bincount(clusters)
    if len(sizes) < _LEAST_CLUSTERS or float((sizes**2).sum()) < _WIDER * len(kept):
        return None, []
    n = len(kept) - len(sizes)
    return clusters, [note("copied", n=n, n_texts=len(kept))]


def label_check_of(
    texts: Population, gold: GoldSample | Sequence[Any], prob: object
) -> LabelCheck | None:
    """Compare codes with the labels, and coded texts with all texts."""
    if isinstance(gold, GoldSample):
        return None
    _warn_of_unknown(texts, gold)
    if not isinstance(prob, str):  # numbers; a column was replaced by its values
        return None
    coded = [
        label for label, code in zip(texts.labels, gold, strict=True) if code is not None
    ]
    check = label_check(texts.labels, coded)
    if check.is_unlikely:
        warn_caller(note("not_simple", check=check))
    return check


def note_on_copies(texts: Population, gold: GoldSample | Sequence[Any]) -> list[str]:
    """Return a note if codes may be a copy of the model's labels."""
    if isinstance(gold, GoldSample):
        labels = [texts.labels[row] for row in gold.rows]
        copiers = coders_like_model(labels, gold.codes, gold.coders)
    else:
        copiers = coders_like_model(texts.labels, [gold], ["gold"])
    return [note("same_codes", coders=copiers)] if copiers else []


def _warn_of_unknown(texts: Population, codes: Sequence[Any]) -> None:
    """Warn of codes that no text has as its label, such as a misspelt label."""
    known = set(texts.names)
    if texts.label_column is not None:
        of_column = frames.categories(texts.frame, texts.label_column) or ()
        known |= {str(category) for category in of_column}
    if not texts.names:  # any number may be a code
        return
    texts_of_codes = [text_of(code) for code in codes]
    parts = [
        part
        for code in texts_of_codes
        if code is not None
        for part in (labels_in(code, texts.names) if texts.several else (code,))
    ]
    counts = Counter(part for part in parts if part not in known)
    if counts:
        first = ", ".join(
            f"{quoted_name(code)} ({n})" for code, n in counts.most_common(5)
        )
        warn_caller(note("unknown_labels", codes=first, n_more=len(counts) - 5))
