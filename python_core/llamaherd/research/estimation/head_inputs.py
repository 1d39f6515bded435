"""Inputs of a head: labels with probabilities, vectors of texts, and codes."""

from __future__ import annotations

import warnings
from collections import Counter
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
from llamaherd.research.estimation.outcomes import numbered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.coding.answer_types import Kind
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.estimation.population import Population
    from llamaherd.research.statistics.sampling import Floats, Ints


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


LEAST_CODES = 30  # least number of codes of all labels together
LEAST_OF_LABEL = 5  # least number of codes of each label that occurs
# least number of codes of each label in the data to which the head of a fold is fitted
_LEAST_IN_PART = 2


def columns_of(codes: Sequence[str], names: Sequence[str]) -> Ints:
    """Return each code as the index of its label.

    Raises:
        ValueError: A code is not among the labels.
    """
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
    """Return the columns of labels that have codes, and notes on labels without codes.

    Raises:
        ValueError: There are too few codes.
    """
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
                    f"{part[j]}: choose another seed or n_folds, or {more}",
                    argument="gold",
                    code="too_few_codes",
                )
    used = np.array(sorted(counts), dtype=np.int64)
    never = [repr(name) for j, name in enumerate(names) if j not in counts]
    notes = []
    if never:
        notes.append(
            f"No text has the code {', '.join(never)}: its recalibrated probability is 0"
        )
    return used, notes


def units_of(texts: Population, codes: GoldUsed, cluster: str | None) -> list[Any]:
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
        known = everywhere[[each is not None for each in column]]
        units: list[Any] = [("row", i) for i in range(len(texts))]
        for i, number in zip(known, numbered(texts, cluster, known)[0], strict=True):
            units[i] = ("cluster", int(number))
        return units
    return [
        ("row", i) if each is None else ("text", each)
        for i, each in enumerate(texts.texts)
    ]
