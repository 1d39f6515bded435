"""Columns with which formulas are evaluated: for all rows, with labels and with codes."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.research import frames
from llamaherd.research.codes import text_of
from llamaherd.research.estimation.formula_errors import refused_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.estimation.gold_data import Population
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.statistics.sampling import Ints

_TRUTH = {"true": "1", "false": "0"}


def formula_rows(frame: object, names: Sequence[str], label: str) -> Ints:
    """Return the rows that have a value in each column of a formula.

    The column of labels may have missing values.
    """
    there = set(frames.names(frame)) & set(names) - {label}
    complete = np.ones(frames.n_rows(frame), dtype=bool)
    for name in there:
        values = frames.column(frame, name, "formula")
        complete &= np.array([value is not None for value in values], dtype=bool)
    return np.flatnonzero(complete)


def is_numeric(texts: Population) -> bool:
    """Return True if labels are numbers or truth values (1 and 0)."""
    values = frames.column(texts.frame, texts.label_column or "", "label")
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(v, (Real, np.bool_)) for v in there)


def recoded(texts: Population, rows: Ints, coded: Ints, gold: GoldUsed) -> Any:  # noqa: ANN401 - of pandas
    """Return labels of rows, and a copy in which codes replace labels of coded texts."""
    import pandas as pd  # noqa: PLC0415 - formulaic has it

    labels = [texts.labels[i] for i in rows]
    mixed = list(labels)
    for row, code in zip(coded.tolist(), gold.codes, strict=True):
        mixed[row] = code
    if is_numeric(texts):
        return [_as_number(each) for each in labels], [_as_number(each) for each in mixed]
    there = {each for each in (*labels, *mixed) if each is not None}
    categories = frames.categories(texts.frame, texts.label_column or "") or []
    known = [text_of(each) for each in categories]
    names = [name for name in known if name in there]
    names += sorted(there.difference(names))
    ordered = frames.are_ordered(texts.frame, texts.label_column or "")
    return (
        pd.Categorical(labels, categories=names, ordered=ordered),
        pd.Categorical(mixed, categories=names, ordered=ordered),
    )


def constant(column: Any, name: str) -> Any:  # noqa: ANN401 - of pandas
    """Return a copy of a column of labels in which all texts have the same label."""
    import pandas as pd  # noqa: PLC0415 - formulaic has it

    if not hasattr(column, "cat"):
        return [_as_number(name)] * len(column)
    return pd.Categorical(
        [name] * len(column),
        categories=list(column.cat.categories),
        ordered=bool(column.cat.ordered),
    )


def used_columns(frame: object, names: Sequence[str], rows: Ints, used: Ints) -> Any:  # noqa: ANN401 - of pandas
    """Return the columns of a formula, without categories that no used row has."""
    import pandas as pd  # noqa: PLC0415 - formulaic has it

    there = [name for name in names if name in frames.names(frame)]
    if isinstance(frame, pd.DataFrame):
        made = frame[there].iloc[rows].reset_index(drop=True)
    else:
        columns = {name: frames.column(frame, name, "formula") for name in there}
        made = pd.DataFrame(columns).iloc[rows].reset_index(drop=True)
    for name in there:
        values = made[name]
        is_text = isinstance(values.dtype, pd.StringDtype) or values.dtype == object
        if hasattr(values, "cat") or is_text:
            try:
                kept = set(values.iloc[used])
            except TypeError:  # such as lists
                raise refused_values(name, values.iloc[used[0]]) from None
            known = (
                values.cat.categories if hasattr(values, "cat") else sorted(kept, key=str)
            )
            made[name] = pd.Categorical(
                [each if each in kept else None for each in values],
                [each for each in known if each in kept],
            )
    return made


def _as_number(code: str | None) -> float:
    """Convert a code to a number; a truth value gives 1 or 0, a missing code NaN.

    Raises:
        ValueError: The code is neither a number nor a truth value.
    """
    text = "nan" if code is None else _TRUTH.get(code.casefold(), code)
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(
            f"must have numbers or truth values, as the labels are, not {code!r}",
            argument="gold",
        ) from None
