"""Predictions of codes that an estimate corrects: labels, or their probabilities."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.columns import EACH
from llamaherd.coding.codes import text_of
from llamaherd.coding.estimation.notes import note
from llamaherd.coding.estimation.outcomes import (
    Numbers,
    Outcome,
    checked_labels,
    labels_of,
    scores_of,
)
from llamaherd.coding.estimation.recalibrated import (
    Recalibrated,
    probabilities_in,
    probability_columns,
)
from llamaherd.coding.gold.joins import RAW
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from llamaherd.coding.frames import Input
    from llamaherd.coding.gold.population import Population
    from llamaherd.engine.core.arrays import Floats, Ints

Kind = Literal["labels", "probs"]
KINDS: tuple[Kind, ...] = ("labels", "probs")
Predictions = Kind | Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predicted:
    """Predictions of N texts."""

    kind: str  # "labels", "probs" or "recalibrated"
    labels: list[str | None]  # N labels
    # The k labels that have probabilities; () for kind "labels"
    names: tuple[str, ...] = ()
    # float64[N, k], probabilities that sum to 1 for each text with a label; None for kind
    # "labels"
    probs: Floats | None = None

    def shares(self, name: str, kept: Ints) -> Floats:
        """Return the probability of a label in the kept texts; 0 for unknown labels."""
        if self.probs is None:
            return np.array([self.labels[i] == name for i in kept], dtype=np.float64)
        if name not in self.names:
            return np.zeros(len(kept))
        return np.asarray(self.probs[kept, self.names.index(name)])

    def labels_of(self, kept: Ints) -> tuple[str, ...]:
        """Return the labels that have a probability above 0 in a kept text."""
        if self.probs is None:
            return tuple(sorted({self.labels[i] or "" for i in kept}))
        most = self.probs[kept].max(axis=0, initial=0.0).tolist()
        return tuple(name for name, p in zip(self.names, most, strict=True) if p > 0)

    def among(self, names: Collection[str]) -> Predicted:
        """Return the same predictions restricted to the labels in `names`."""
        if self.probs is None:
            return self
        used = [j for j, name in enumerate(self.names) if name in names]
        used_names = tuple(self.names[j] for j in used)
        return _with_probs(self.kind, self.labels, used_names, self.probs[:, used])


def predictions_of(
    coded: Input, texts: Population, predictions: Predictions | None, *, several: bool
) -> list[Predicted]:
    """Return the predictions to use, then other predictions to compare widths with."""
    if predictions is None:
        predictions = "probs" if _is_recalibrated(coded, texts) else "labels"
    if not isinstance(predictions, Mapping):
        checks.choice("predictions", predictions, KINDS)
    by_labels = Predicted(kind="labels", labels=texts.labels)
    if predictions == "labels":
        return [by_labels]
    if several:
        raise ArgumentError(
            "must be 'labels' where a text may have several labels",
            argument="predictions",
            code="unsupported",
        )
    if isinstance(coded, Coded):
        predicted = _of_coded(coded, texts)
    else:
        columns = predictions if isinstance(predictions, Mapping) else None
        predicted = _of_frame(texts, columns)
    has_none = np.isnan(predicted[0].probs).any(axis=1)  # type: ignore[arg-type] # of kind "probs"
    has_label = np.array([label is not None for label in texts.labels], dtype=bool)
    if (has_none & has_label).any():
        raise ArgumentError(
            "must have probabilities for each text with a label; row "
            f"{int(np.argmax(has_none & has_label)) + 1} has none",
            argument="predictions",
            code="no_probabilities",
        )
    unknown = {label for label in texts.labels if label is not None} - set(
        predicted[0].names
    )
    if unknown:
        raise ArgumentError(
            f"must have a column of probabilities for each label; "
            f"{checks.quoted(min(unknown))} has none",
            argument="predictions",
            code="no_probabilities",
        )
    if predicted[0].kind == "recalibrated":
        return predicted
    return [*predicted, by_labels]


def shares_or_scores(
    outcome: Outcome | None,
    texts: Population,
    kept: Ints,
    predicted: Predicted,
    codes: Sequence[str],
    *,
    several: bool,
) -> tuple[str, list[Numbers]]:
    """Return outcomes of texts and codes as numbers, and the term "share" or "mean"."""
    labels = [predicted.labels[i] or "" for i in kept]
    by_labels = predicted.probs is None
    if isinstance(outcome, Mapping):
        if several:
            raise ArgumentError(
                "must be labels, not numbers of labels: a text may have several labels",
                argument="outcome",
            )
        scores = scores_of(outcome, {*labels, *codes})
        of_labels = np.array([scores[label] for label in labels])
        if not by_labels:
            of_labels = sum(
                (score * predicted.shares(name, kept) for name, score in scores.items()),
                np.zeros(len(labels)),
            )
        of_codes = np.array([scores[code] for code in codes])
        return "mean", [("score", of_labels, of_codes)]
    of_texts = [labels_of(label, several=several) for label in labels]
    of_people = [labels_of(code, several=several) for code in codes]
    labels_used = frozenset().union(*of_texts, *of_people)
    return "share", [
        (
            name,
            _has(of_texts, name) if by_labels else predicted.shares(name, kept),
            _has(of_people, name),
        )
        for name in checked_labels(outcome, texts, labels_used)
    ]


def _has(label_sets: Sequence[frozenset[str]], name: str) -> Floats:
    return np.array([name in labels for labels in label_sets], dtype=np.float64)


def _is_recalibrated(coded: object, texts: Population) -> bool:
    """Return True for a result of `recalibrate`, or a data frame with its columns."""
    if isinstance(coded, Coded):
        return isinstance(coded, Recalibrated)
    columns = set(frames.names(texts.frame))
    starts = f"{RAW}{EACH}"
    return f"{RAW}{texts.label_column}" in columns and any(
        name.startswith(starts) and name.removeprefix(RAW) in columns for name in columns
    )


def comparable_predictions(
    predicted: Sequence[Predicted], texts: Population, codes: Sequence[str], kept: Ints
) -> list[Predicted]:
    """Return predictions for a formula, restricted to labels that a text or code has.

    Predictions are left out if they contain a label that neither a code nor the label of
    a used text has: they cannot be compared. After `recalibrate`, this is possible for
    the model's original labels.
    """
    known = {*codes, *(texts.labels[i] or "" for i in kept)}
    kinds = [kind.among(known) for kind in predicted]
    return [kind for kind in kinds if set(kind.labels_of(kept)) <= known]


def _of_coded(coded: Coded, texts: Population) -> list[Predicted]:
    if coded.probs is None:
        raise ArgumentError(
            "must be 'labels': they were generated, without probabilities",
            argument="predictions",
            code="no_probabilities",
        )
    kind = "recalibrated" if isinstance(coded, Recalibrated) else "probs"
    of_coding = _with_probs(kind, texts.labels, coded.names, coded.probs)
    if not isinstance(coded, Recalibrated) or coded.original.probs is None:
        return [of_coding]
    raw = coded.original
    return [
        of_coding,
        _with_probs("probs", raw.labels, raw.names, coded.original.probs),
        Predicted(kind="labels", labels=raw.labels),
    ]


def _of_frame(
    texts: Population, columns_by_label: Mapping[str, str] | None
) -> list[Predicted]:
    existing = frames.names(texts.frame)
    columns = probability_columns(texts.frame, columns_by_label)
    probs = probabilities_in(texts.frame, columns)
    old = f"{RAW}{texts.label_column}"
    raw = {name: f"{RAW}{column}" for name, column in columns.items()}
    names = tuple(columns)
    if old not in existing or not set(raw.values()) <= set(existing):
        return [_with_probs("probs", texts.labels, names, probs)]
    labels = [text_of(label) for label in frames.column(texts.frame, old, "label")]
    return [
        _with_probs("recalibrated", texts.labels, names, probs),
        _with_probs("probs", labels, names, probabilities_in(texts.frame, raw)),
        Predicted(kind="labels", labels=labels),
    ]


def _with_probs(
    kind: str, labels: list[str | None], names: Sequence[str], probs: Floats
) -> Predicted:
    """Return predictions with probabilities that sum to 1 for each text."""
    total = probs.sum(axis=1, keepdims=True)
    scaled = np.divide(probs, total, out=np.full_like(probs, np.nan), where=total > 0)
    return Predicted(kind=kind, labels=labels, names=tuple(names), probs=scaled)


def cluster_notes(coded: object, cluster: str | None) -> list[str]:
    """Return a note if folds of the head may divide the clusters of the estimate."""
    if not isinstance(coded, Recalibrated) or cluster is None:
        return []
    if coded.run["recalibration"]["cluster"] == cluster:
        return []
    return [note("split_clusters", cluster=cluster)]
