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
from llamaherd.coding.estimation.gold_drawn import GoldSample
from llamaherd.coding.estimation.outcomes import numbered
from llamaherd.coding.statistics.representative import (
    LabelCheck,
    copied,
    groups_of,
    label_check,
)
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.phrases import count_of, decimals, verb

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from llamaherd.coding.estimation.fitting import Compared, Found
    from llamaherd.coding.estimation.population import Population
    from llamaherd.coding.statistics.sampling import Ints, Target


_LEAST_CLUSTERS = 10
_LEAST_SIZE = 1.5  # least mean number of texts per cluster
_UNLIKELY = 4.0  # distance of F from 1, in standard errors, above which a note is given
_WIDER = 1.1  # ratio of interval widths above which a note is given


def clustering_column(
    frame: Any,  # noqa: ANN401 - a data frame of any kind
    labels: Sequence[str | None],
    kept: Ints,
    used: Collection[str],
) -> tuple[str, Ints, float] | None:
    """Find the column whose values explain the labels best, and better than chance.

    A column is tested only if it contains texts or whole numbers, has at least ten
    different values, and has on average at least 1.5 texts per value.

    Args:
        frame: The data.
        labels: N labels.
        kept: Rows of the texts that are used.
        used: Columns that the call uses in another role; they are not tested.

    Returns:
        Name of the column, the cluster of each kept row, and the intraclass correlation
        of the labels; None if no column clusters the labels.
    """
    number: dict[str | None, int] = {}
    group = groups_of(labels)
    own = np.array([number.setdefault(group[labels[i]], len(number)) for i in kept])
    given = np.eye(len(number))[own]
    best = None
    for name in frames.names(frame):
        if name in used or name.startswith(("p_", "raw_")):
            continue
        clusters = _clusters(frames.column(frame, name, "cluster"), kept)
        if clusters is None:
            continue
        far, correlation = _explained(given, clusters)
        if far > _UNLIKELY and (best is None or correlation > best[2]):
            best = (name, clusters, correlation)
    return best


def _clusters(values: Sequence[Any], kept: Ints) -> Ints | None:
    """Return the cluster of each kept row; None if the values cannot define clusters."""
    numbers: dict[Any, int] = {}
    found = np.empty(len(kept), dtype=np.int64)
    for at, i in enumerate(kept):
        value = values[i]
        if not isinstance(value, (str, int, np.integer)) or isinstance(value, bool):
            return None
        found[at] = numbers.setdefault(value, len(numbers))
        if len(kept) < _LEAST_SIZE * len(numbers):
            return None
    n = len(numbers)
    return found if n >= _LEAST_CLUSTERS else None


def _explained(given: Any, clusters: Ints) -> tuple[float, float]:  # noqa: ANN401 - Floats
    """Return (F - 1) / standard error of F, and the intraclass correlation.

    F is the F statistic of a one-way analysis of variance of the labels by cluster.

    Source: Snedecor, Cochran, "Statistical Methods", 6th edition, 1967, chapter 10.
    """
    n, sizes = len(clusters), np.bincount(clusters)
    k = len(sizes)
    sums = np.zeros((k, given.shape[1]))
    np.add.at(sums, clusters, given)
    means = sums / sizes[:, None]
    between = float((sizes[:, None] * (means - given.mean(axis=0)) ** 2).sum()) / (k - 1)
    inside = float(((given - means[clusters]) ** 2).sum()) / (n - k)
    size = (n - float((sizes**2).sum()) / n) / (k - 1)
    if inside <= 0:
        return (math.inf, 1.0) if between > 0 else (0.0, 0.0)
    spread = math.sqrt(2 * (n - 1) / ((k - 1) * (n - k)))
    correlation = (between - inside) / (between + (size - 1) * inside)
    return (between / inside - 1) / spread, correlation


def cluster_hint(
    found: Found,
    column: tuple[str, Ints, float] | None,
    fit: Callable[[Ints], Found],
) -> list[str]:
    """Return a note if clustering by this column makes the intervals wider.

    Args:
        found: Estimates without clusters.
        column: See `clustering_column`.
        fit: Function that repeats the estimates with the given clusters.
    """
    if column is None:
        return []
    name, clusters, correlation = column
    own, wide = _widths(found), _widths(fit(clusters))
    ratios = [wide[key] / own[key] for key in own if own[key] > 0 and key in wide]
    ratio = float(np.median(ratios)) if ratios else 1.0
    if not ratio > _WIDER:
        return []
    note = (
        f"Texts with the same {name!r} have similar labels (intraclass correlation "
        f"{decimals(correlation)}). If they are dependent, name the column as cluster: "
        f"intervals of {found.rows[0].method} are then {ratio:.1f} times as wide"
    )
    return [note]


def _widths(found: Found) -> dict[tuple[str, str, str], float]:
    method = found.rows[0].method
    return {
        (row.outcome, row.term, row.group): row.high - row.low
        for row in found.rows
        if row.method == method and not math.isnan(row.high - row.low)
    }


def copied_texts(texts: Population, kept: Ints) -> tuple[Ints | None, list[str]]:
    """Return equal texts as clusters, and a note; None if few texts are copies.

    Copies have the same label and code, so that they are no more information than one
    text. Few copies change intervals less than the clusters' variance would.

    Returns:
        Clusters of the kept rows, int64[m]; None if a text has on average less than a
        tenth of a copy, or if there are fewer than ten different texts.
    """
    if texts.text_column is None:
        return None, []
    numbers: dict[str | int, int] = {}
    keys = ((i, texts.texts[i]) for i in kept.tolist())
    own = [numbers.setdefault(i if t is None else t, len(numbers)) for i, t in keys]
    clusters = np.array(own, dtype=np.int64)
    sizes = np.bincount(clusters)
    if len(sizes) < _LEAST_CLUSTERS or float((sizes**2).sum()) < _WIDER * len(kept):
        return None, []
    n = len(kept) - len(sizes)
    note = (
        f"{count_of(n, 'text')} of {len(kept):,} {verb(n, 'is a copy', 'are copies')} of "
        "other texts: equal texts count as one cluster. Name another column as cluster "
        "to change this"
    )
    return clusters, [note]


def clusters_of(
    texts: Population, cluster: str | None, kept: Ints, target: Target
) -> tuple[Ints | None, list[str]]:
    """Return the clusters of the kept rows, by a column or by equal texts, and a note."""
    if cluster is not None:
        return numbered(texts, cluster, kept)[0], []
    return copied_texts(texts, kept) if target == "population" else (None, [])


def hinted(
    texts: Population,
    kept: Ints,
    roles: set[str | None],
    compared: Compared,
    fit: Callable[[Ints], Compared],
) -> list[str]:
    """Return a note if texts cluster by a column that the call does not use."""
    used = {name for name in roles if name is not None}
    column = clustering_column(texts.frame, texts.labels, kept, used)

    def by_cluster(clusters: Ints) -> Found:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return fit(clusters).found

    return cluster_hint(compared.found, column, by_cluster)


def label_check_of(
    texts: Population, gold: GoldSample | Sequence[Any], prob: object
) -> LabelCheck | None:
    """Compare codes with the labels, and coded texts with all texts.

    Returns:
        The check; None for a `GoldSample`, or if `prob` is not "simple".

    Warns:
        UserWarning: A code is not the label of any text, or the labels of the coded texts
            are improbable for a simple random sample.
    """
    if isinstance(gold, GoldSample):
        return None
    _warn_of_unknown(texts, gold)
    if not isinstance(prob, str):  # numbers; a column was replaced by its values
        return None
    coded = [
        label for label, code in zip(texts.labels, gold, strict=True) if code is not None
    ]
    found = label_check(texts.labels, coded)
    if found.is_unlikely:
        warn_caller(
            f"The codes are hardly a simple sample: labels of coded texts differ from "
            f"those of all texts. {found}. If texts were picked by their labels, give "
            "the probability of each text as prob; otherwise no estimate from these "
            "texts is valid"
        )
    return found


def copies(texts: Population, gold: GoldSample | Sequence[Any]) -> list[str]:
    """Return a note if codes may be a copy of the model's labels."""
    if isinstance(gold, GoldSample):
        labels = [texts.labels[row] for row in gold.rows]
        same = copied(labels, gold.codes, gold.coders)
    else:
        same = copied(texts.labels, [gold], ["gold"])
    note = (
        f"All codes of {', '.join(map(repr, same))} equal the model's labels: if they "
        "are a copy of the labels and not the codes of people, no error is corrected"
    )
    return [note] if same else []


def _warn_of_unknown(texts: Population, codes: Sequence[Any]) -> None:
    """Warn of codes that no text has as its label, such as a misspelt label."""
    known = set(texts.names)
    if texts.label_column is not None:
        of_column = frames.categories(texts.frame, texts.label_column) or ()
        known |= {str(each) for each in of_column}
    if not texts.names:  # any number may be a code
        return
    given = [text_of(code) for code in codes]
    parts = [
        part
        for code in given
        if code is not None
        for part in (labels_in(code, texts.names) if texts.several else (code,))
    ]
    counts = Counter(part for part in parts if part not in known)
    if counts:
        listed = ", ".join(f"{code!r} ({n})" for code, n in counts.most_common(5))
        more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
        warn_caller(
            f"People gave labels that no text has: {listed}{more}. If they are misspelt, "
            "correct them: a share counts only codes that equal its label"
        )
