"""Inputs of a head: labels with probabilities, and vectors of texts."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.api.embed import embed_parallel
from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.plurals import count_of, shape_of, verb
from llamaherd.core.stats import Stats
from llamaherd.core.words import call, words
from llamaherd.research import frames
from llamaherd.research.codes import text_of
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.columns import EACH
from llamaherd.research.coding.joins import RAW

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.coding.answer_types import Kind
    from llamaherd.research.statistics.sampling import Floats

_ROLES = ("prob", "margin", "entropy", "mean", "coverage", "error")


def coded_of(
    data: Any,  # noqa: ANN401 - a data frame of any kind
    label: str,
    text: str | None,
    probs: Mapping[str, str] | None = None,
    *,
    roles: Mapping[str, str] | None = None,
    ordered: bool = False,
) -> Coded:
    """Read a data frame with columns of labels and of their probabilities.

    Args:
        data: Data frame.
        label: Column of labels.
        text: Column of texts.
        probs: Columns of probabilities by label; None for columns "p_<label>".
        roles: Columns by role, as in `Coded.columns`; None if each column has the name of
            its role.
        ordered: True for an ordinal scale.

    Raises:
        ValueError: A column does not exist, or its values are not probabilities.
        TypeError: `data` is not a data frame.
    """
    there = frames.names(data)
    if f"{RAW}{label}" in there:
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
    given = [text_of(each) for each in frames.column(data, label, "label")]
    columns = probability_columns(data, probs)
    values = probabilities_in(data, columns)
    names = tuple(columns)
    known = {role: role for role in _ROLES if role in there} if roles is None else roles
    kind: Kind = "ordinal" if ordered else "label"
    return Coded(
        frame=data,
        text=text,
        codebook=Codebook(f"Labels of the column {label!r}.", names, type=kind),
        columns={"label": label}
        | dict(known)
        | {f"{EACH}{name}": columns[name] for name in names},
        names=names,
        labels=given,
        probs=np.where(
            np.array([each is None for each in given], dtype=bool)[:, None],
            np.nan,
            values,
        ),
        errors=[None] * len(given),
        run={},
        stats=Stats(),
    )


def probability_columns(
    data: Any,  # noqa: ANN401 - a data frame of any kind
    probs: Mapping[str, str] | None,
) -> dict[str, str]:
    """Return the columns of probabilities by label.

    Raises:
        ValueError: There are fewer than two such columns.
    """
    there = frames.names(data)
    found = dict(probs or {})
    if probs is None:
        found = {
            name.removeprefix(EACH): name
            for name in there
            if name.startswith(EACH) and name != EACH
        }
    if len(found) < 2:
        shown = ", ".join(there[:20])
        raise ArgumentError(
            f"must have a column p_<label> with the probability of each label, as "
            f"{call('annotate')} gives; there are {shown}",
            argument="coded",
            code="no_probabilities",
        )
    return found


def probabilities_in(
    data: Any,  # noqa: ANN401 - a data frame of any kind
    columns: Mapping[str, str],
) -> Floats:
    """Return the columns of probabilities, float64[n, k]; missing values are NaN.

    Raises:
        ValueError: A value is not between 0 and 1.
    """
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


def vectors_of(embeddings: Any, texts: Sequence[str | None]) -> Floats:  # noqa: ANN401 - see recalibrate
    """Return a vector for each text, float64[n, d]; failed texts get the mean vector.

    Args:
        embeddings: Model, context or `Llama` that computes the vectors; or float[n, d].
        texts: n texts.

    Raises:
        ValueError: The array has another number of rows, or no row has finite numbers.
        TypeError: `embeddings` has another type.
    """
    if embeddings is None:
        raise ArgumentError(
            "must be a model for embeddings, or an array with a row for each text",
            argument="embeddings",
            code="missing",
        )
    if isinstance(embeddings, (str, bytes)) or (
        not hasattr(embeddings, "__len__") and not hasattr(embeddings, "__array__")
    ):
        if isinstance(embeddings, (str, bytes, int, float)):
            raise ArgumentTypeError(
                f"must be a model or an array, not {checks.shown(embeddings)}",
                argument="embeddings",
            )
        known = list(dict.fromkeys(each for each in texts if each))
        made = embed_parallel(embeddings, known).vectors
        at = {each: i for i, each in enumerate(known)}
        values = np.full((len(texts), made.shape[1]), np.nan)
        rows = [i for i, each in enumerate(texts) if each]
        values[rows] = made[[at[texts[i] or ""] for i in rows]]
    else:
        values = np.array(embeddings, dtype=np.float64)
    if values.ndim != 2 or len(values) != len(texts) or values.shape[1] < 1:
        raise ArgumentError(
            f"must have a row for each of {count_of(len(texts), 'text')}, not "
            f"{shape_of(values.shape)}",
            argument="embeddings",
            code="wrong_length",
        )
    good = np.isfinite(values).all(axis=1)
    if not good.any():
        raise ArgumentError(
            "must have finite numbers for some text", argument="embeddings"
        )
    n_bad = sum(each is not None and not ok for each, ok in zip(texts, good, strict=True))
    if n_bad:
        note = (
            f"{count_of(n_bad, 'text')} {verb(n_bad, 'has', 'have')} no embedding: the "
            "mean of the others is used"
        )
        warnings.warn(note, UserWarning, stacklevel=3)
    values[~good] = values[good].mean(axis=0)
    return values
