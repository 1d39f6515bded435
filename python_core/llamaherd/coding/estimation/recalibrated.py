"""Result of `recalibrate`: coded texts with labels and probabilities by a head."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from llamaherd.calls.api.embed import embed_parallel
from llamaherd.coding import frames
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.coded import Coded, row_indices
from llamaherd.coding.annotation.columns import (
    EACH,
    as_results,
    label_column,
    spread_of,
    values_of,
)
from llamaherd.coding.codes import text_of
from llamaherd.coding.estimation.notes import note
from llamaherd.coding.estimation.outcomes import value_numbers
from llamaherd.coding.gold.joins import RAW
from llamaherd.coding.sentences import quoted_name
from llamaherd.coding.statistics.accuracy import accuracy_of
from llamaherd.coding.statistics.calibration import brier_score, calibration_error
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of, shape_of
from llamaherd.engine.core.stats import Stats
from llamaherd.engine.core.table import free_name
from llamaherd.engine.core.words import call, name_of, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.annotation.answer_types import Kind
    from llamaherd.coding.frames import Input
    from llamaherd.coding.gold.codes import Codes
    from llamaherd.coding.gold.population import Population
    from llamaherd.coding.statistics.intervals import Measure
    from llamaherd.engine.core.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbabilityScores:
    """Scores of label probabilities against codes, weighted by 1 / inclusion probability.

    Attributes:
        accuracy: Share of texts whose most probable label is the code.
        brier: Brier score over all labels, from 0 (perfect) to 2 (certain, but wrong).
        ece: Expected calibration error of the most probable label.
    """

    accuracy: Measure
    brier: Measure
    ece: float

    @classmethod
    def of(
        cls, probs: Floats, codes: Ints, weights: Floats, level: float
    ) -> ProbabilityScores:
        """Compute the scores.

        Args:
            probs: float64[n, k], probabilities.
            codes: int64[n], codes as indices of label columns.
            weights: float64[n], 1 / inclusion probability.
            level: Confidence level.
        """
        likeliest = probs.argmax(axis=1)
        accuracy = accuracy_of(
            likeliest.tolist(),
            codes.tolist(),
            labels=range(probs.shape[1]),
            unit_weights=weights,
            level=level,
        ).accuracy
        error = calibration_error(
            probs.max(axis=1), likeliest == codes, unit_weights=weights, level=level
        )
        brier = brier_score(probs, codes, unit_weights=weights, level=level)
        return cls(accuracy=accuracy, brier=brier, ece=error.ece)

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as JSON types."""
        return {
            name: {"value": part.value, "low": part.low, "high": part.high, "n": part.n}
            for name, part in (("accuracy", self.accuracy), ("brier", self.brier))
        } | {"ece": self.ece}


@dataclass(frozen=True, kw_only=True, eq=False)
class Recalibrated(Coded):
    """Data frame of n texts with labels and probabilities by a head.

    This result can be used wherever a result of `annotate` is accepted. The data
    frame also has the model's original columns, renamed with the prefix "raw_", and the
    column "fold" (see `folds`).

    Attributes:
        original: Coding by the model.
        folds: n fold numbers, from 1; None for texts without a code.
        raw: Scores of the model's probabilities on the codes.
        cross_validated: Scores of the head's probabilities; each text was predicted
            without its own code.
        gain: Accuracy of the head minus accuracy of the model on the same texts.
        constant: Scores of a constant, the shares of the codes of the other folds.
        gain_on_constant: Brier score of the constant minus that of the head.
    """

    original: Coded
    folds: list[int | None]
    raw: ProbabilityScores
    cross_validated: ProbabilityScores
    gain: Measure
    constant: ProbabilityScores
    gain_on_constant: Measure

    def __getitem__(self, rows: slice | Sequence[int] | Sequence[bool]) -> Recalibrated:
        """Return some rows; see `Coded.__getitem__`. Scores still describe all rows."""
        indices = row_indices(rows, len(self))
        part = super().__getitem__(indices)
        folds = [self.folds[i] for i in indices]
        return replace(
            cast("Recalibrated", part), original=self.original[indices], folds=folds
        )

    def summary(self) -> str:
        """Return sentences on the scores before and after recalibration."""
        return note(
            "recalibrated",
            run=self.run["recalibration"],
            model=self.raw,
            head=self.cross_validated,
            gain=self.gain,
            constant=self.constant,
            says_more=self.gain_on_constant.low > 0,
        )

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), self.summary()])


def with_new_columns(
    model: Coded, probs: Floats, folds: list[int | None]
) -> tuple[Any, list[str | None]]:
    """Return the data frame with the new columns, and the new labels."""
    results = as_results(probs, model.names)
    values: dict[str, Any] = {
        "label": label_column(results.labels, model.codebook),
        "prob": results.prob,
        "margin": results.margin,
        "entropy": results.entropy,
    }
    if model.codebook.kind.is_ordered:
        numbers = values_of(model.names)
        values["mean"], values["sd"] = probs @ numbers, spread_of(probs, numbers)
    values |= {f"{EACH}{name}": probs[:, j] for j, name in enumerate(model.names)}
    columns = {role: name for role, name in model.columns.items() if role in values}
    existing = frames.names(model.frame)
    old: dict[str, Any] = {
        RAW + name: np.array(frames.column(model.frame, name, role), dtype=np.float64)
        for role, name in columns.items()
        if role.startswith(EACH)
    }
    old = {
        RAW + columns["label"]: label_column(list(model.labels), model.codebook),
        **old,
    }
    new = {name: values[role] for role, name in columns.items()}
    fold = free_name("fold", dict.fromkeys([*existing, *old]))
    frame = frames.with_columns(model.frame, {**new, **old, fold: folds})
    return frame, results.labels


_ROLES = ("prob", "margin", "entropy", "mean", "coverage", "error")


def coded_of(
    data: Input,
    label: str,
    text: str | None,
    probs: Mapping[str, str] | None = None,
    *,
    roles: Mapping[str, str] | None = None,
    ordered: bool = False,
) -> Coded:
    """Read a data frame with columns of labels and of their probabilities."""
    existing = frames.names(data)
    if f"{RAW}{label}" in existing:
        raise ArgumentError(
            f"has a column {RAW + label!r}: it is recalibrated already. Give the "
            f"{words().frame} with the model's columns",
            argument="coded",
            code="conflict",
        )
    if text is None:
        raise ArgumentError(
            "must name the column of texts", argument="text", code="missing"
        )
    labels = [text_of(value) for value in frames.column(data, label, "label")]
    columns = probability_columns(data, probs)
    values = probabilities_in(data, columns)
    names = tuple(columns)
    known = (
        {role: role for role in _ROLES if role in existing} if roles is None else roles
    )
    kind: Kind = "ordinal" if ordered else "label"
    return Coded(
        frame=data,
        text=text,
        codebook=Codebook(f"Labels of the column {label!r}.", names, type=kind),
        columns={"label": label}
        | dict(known)
        | {f"{EACH}{name}": columns[name] for name in names},
        names=names,
        labels=labels,
        probs=np.where(
            np.array([value is None for value in labels], dtype=bool)[:, None],
            np.nan,
            values,
        ),
        errors=[None] * len(labels),
        run={},
        stats=Stats(),
    )


def probability_columns(data: Input, probs: Mapping[str, str] | None) -> dict[str, str]:
    """Return the columns of probabilities by label."""
    existing = frames.names(data)
    columns = dict(probs or {})
    if probs is None:
        columns = {
            name.removeprefix(EACH): name
            for name in existing
            if name.startswith(EACH) and name != EACH
        }
    if len(columns) < 2:
        raise ArgumentError(
            f"must have a column p_<label> with the probability of each label, as "
            f"{call('annotate')} gives; there are {frames.list_columns(data)}",
            argument="coded",
            code="no_probabilities",
        )
    return columns


def probabilities_in(data: Input, columns: Mapping[str, str]) -> Floats:
    """Return the columns of probabilities, float64[n, k]; missing values are NaN."""
    read = [frames.column(data, name, "coded") for name in columns.values()]
    try:
        values = np.array(read, dtype=np.float64).T.reshape(-1, len(read))
    except (TypeError, ValueError):
        raise ArgumentError(
            f"must have numbers in the columns {', '.join(columns.values())}",
            argument="coded",
        ) from None
    if ((values < -1e-9) | (values > 1 + 1e-9)).any():
        raise ArgumentError(
            f"must have probabilities from 0 to 1 in the columns "
            f"{', '.join(columns.values())}",
            argument="coded",
            code="out_of_range",
        )
    return np.asarray(np.clip(values, 0.0, 1.0))


def vectors_of(embeddings: Input, texts: Sequence[str | None]) -> Floats:
    """Return a vector for each text, float64[n, d]; failed texts get the mean vector."""
    if isinstance(embeddings, (str, bytes, int, float)):
        raise ArgumentTypeError(
            f"must be a model or an array, not {checks.brief(embeddings)}",
            argument="embeddings",
        )
    if hasattr(embeddings, "__len__") or hasattr(embeddings, "__array__"):
        values = np.array(embeddings, dtype=np.float64)
    else:
        known = list(dict.fromkeys(text for text in texts if text))
        vectors = embed_parallel(embeddings, known).vectors
        at = {text: i for i, text in enumerate(known)}
        values = np.full((len(texts), vectors.shape[1]), np.nan)
        rows = [i for i, text in enumerate(texts) if text]
        values[rows] = vectors[[at[texts[i] or ""] for i in rows]]
    if values.ndim != 2 or len(values) != len(texts) or values.shape[1] < 1:
        raise ArgumentError(
            f"must have a row for each of {count_of(len(texts), 'text')}, not "
            f"{shape_of(values.shape)}",
            argument="embeddings",
            code="wrong_length",
        )
    good = np.asarray(np.isfinite(values).all(axis=1))
    if not good.any():
        raise ArgumentError(
            "must have finite numbers for some text", argument="embeddings"
        )
    n_bad = sum(text is not None and not ok for text, ok in zip(texts, good, strict=True))
    if n_bad:
        warnings.warn(note("no_embedding", n=n_bad), UserWarning, stacklevel=3)
    values[~good] = values[good].mean(axis=0)
    return values


LEAST_CODES = 30  # least number of codes of all labels together
LEAST_OF_LABEL = 5  # least number of codes of each label that occurs
# least number of codes of each label in the data to which the head of a fold is fitted
_LEAST_IN_PART = 2


def columns_of(codes: Sequence[str], names: Sequence[str]) -> Ints:
    """Return each code as the index of its label."""
    at = {name: j for j, name in enumerate(names)}
    for code in codes:
        if code not in at:
            raise ArgumentError(
                f"must have codes among the labels {', '.join(names)}, not "
                f"{checks.quoted(code)}{checks.meant(code, names)}",
                argument="gold",
                code="unknown_choice",
            )
    return np.array([at[code] for code in codes], dtype=np.int64)


def used_labels(
    columns: Ints, folds: Ints, names: Sequence[str], n_folds: int
) -> tuple[Ints, list[str]]:
    """Return the columns of labels that have codes, and notes on labels without codes."""
    counts = Counter(columns.tolist())
    few = [f"{names[j]!r} {n}" for j, n in sorted(counts.items()) if n < LEAST_OF_LABEL]
    more = "code more texts of the rare labels, or merge labels"
    if len(columns) < LEAST_CODES or few or len(counts) < 2:
        have = ", ".join(f"{names[j]!r} {counts[j]}" for j in sorted(counts))
        raise ArgumentError(
            f"must have at least {LEAST_CODES} codes, {LEAST_OF_LABEL} of each label "
            f"that occurs, and two labels; it has {len(columns)} codes: {have}; {more}",
            argument="gold",
            code="too_few_codes",
        )
    for fold in range(n_folds):
        part = Counter(columns[folds != fold].tolist())
        for j in counts:
            if part[j] < _LEAST_IN_PART or len(columns[folds == fold]) == 0:
                raise ArgumentError(
                    f"must have {_LEAST_IN_PART} codes of each label if any fold is "
                    f"left out; without fold {fold + 1} of {n_folds}, {names[j]!r} has "
                    f"{part[j]}: choose another {name_of('seed')} or "
                    f"{name_of('n_folds')}, or {more}",
                    argument="gold",
                    code="too_few_codes",
                )
    used = np.array(sorted(counts), dtype=np.int64)
    never = [quoted_name(name) for j, name in enumerate(names) if j not in counts]
    return used, [note("labels_without_codes", labels=", ".join(never))] if never else []


def units_of(texts: Population, codes: Codes, cluster: str | None) -> list[Any]:
    """Return the unit of each text: its cluster, or the text itself.

    Texts of one unit are in the same fold, so that a copy of a coded text is not
    predicted from that text's code.
    """
    everywhere = np.arange(len(texts))
    if cluster is not None:
        column = frames.column(texts.frame, cluster, "cluster")
        missing = [i for i in codes.rows.tolist() if column[i] is None]
        if missing:
            raise ArgumentError(
                "is missing for a coded text", argument="cluster", place=(missing[0],)
            )
        known = everywhere[[value is not None for value in column]]
        units: list[Any] = [("row", i) for i in range(len(texts))]
        for i, number in zip(known, value_numbers(texts, cluster, known)[0], strict=True):
            units[i] = ("cluster", int(number))
        return units
    return [
        ("row", i) if text is None else ("text", text)
        for i, text in enumerate(texts.texts)
    ]
