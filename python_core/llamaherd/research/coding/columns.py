"""The columns that coding adds to a data frame: their names, and what is in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.scores import ClassifyResults
from llamaherd.core.stats import Stats
from llamaherd.core.table import CANCELLED
from llamaherd.research.codes import number_in
from llamaherd.research.coding.codebook import JOINED
from llamaherd.research.frames import Categories

if TYPE_CHECKING:
    from llamaherd.core.calibration import Calibration, Floats
    from llamaherd.research.coding.answers import Answers
    from llamaherd.research.coding.codebook import Codebook
    from llamaherd.research.coding.settings import Method

_EACH = "p_"  # begins the role of a label's probability
APPLIES = 0.5  # least probability of a label, of several at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """What was found, by rows and by columns.

    Attributes:
        labels: As in `Coded`.
        probs: As in `Coded`.
        columns: Values by role.
    """

    labels: list[str | None]
    probs: Floats | None
    columns: dict[str, Any]


def roles_of(codebook: Codebook, method: Method) -> list[str]:
    """What the new columns are, in their order."""
    if codebook.type == "fields":
        known = list(json.loads(str(codebook.schema))["properties"])
        return [*known, "error" if "error" not in known else ".error"]
    if method == "generate":
        return ["label", "error"]
    each = [f"{_EACH}{name}" for name in codebook.names]
    if codebook.type == "multiple":
        return ["label", "coverage", *each, "error"]
    mean = ["mean"] if codebook.type == "ordinal" else []
    return ["label", "prob", "margin", "entropy", "coverage", *mean, *each, "error"]


def named(roles: Sequence[str], columns: object, there: Sequence[str]) -> dict[str, str]:
    """Names of the new columns by role.

    Args:
        roles: What they are.
        columns: What the caller wants: None; a text that comes before each name; or names
            by role, None for a column that is not wanted. "p_" stands for the beginning
            of all names of labels' probabilities.
        there: Names that the data frame has.

    Raises:
        TypeError: `columns` is something else.
        ValueError: There is no such role, or two columns would have the same name.
    """
    if columns is None:
        made = {role: role for role in roles}
    elif isinstance(columns, str):
        made = {role: columns + role for role in roles}
    elif isinstance(columns, Mapping):
        made = _by_mapping(roles, columns)
    else:
        raise TypeError(
            "columns must be a text that comes before each name, or map columns to "
            f"names, not be {checks.shown(columns)}"
        )
    taken = [name for name in made.values() if name in there]
    if taken:
        role = next(role for role, name in made.items() if name == taken[0])
        raise ValueError(
            f"the data frame has a column {taken[0]!r} already; choose another name with "
            f"columns={{{role!r}: ...}}, or columns='coded_' for all"
        )
    names = list(made.values())
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"columns: two new columns would be called {twice!r}")
    return made


def _by_mapping(roles: Sequence[str], columns: Mapping[Any, Any]) -> dict[str, str]:
    has_each = any(role.startswith(_EACH) for role in roles)
    for role, name in columns.items():
        if role not in roles and not (role == _EACH and has_each):
            allowed = ", ".join(repr(each) for each in roles[:20])
            raise ValueError(
                f"columns: there is no {role!r}; there are {allowed}"
                f"{checks.meant(role, roles)}"
            )
        if name is not None:
            checks.text(f"columns[{role!r}]", name)
    made = {}
    for role in roles:
        name = columns.get(role, role)
        if role not in columns and role.startswith(_EACH) and _EACH in columns:
            start = columns[_EACH]
            name = None if start is None else start + role.removeprefix(_EACH)
        if name is not None:
            made[role] = str(name)
    return made


def table_of(
    answers: Answers,
    codebook: Codebook,
    calibration: Calibration | None = None,
) -> Table:
    """The columns of rows, by role.

    Args:
        answers: Of rows.
        codebook: By which they were coded.
        calibration: Of the probabilities.
    """
    if codebook.type == "fields":
        return _fields(answers, codebook)
    if answers.probs is None or answers.coverage is None:
        labels = [
            None if value is None or error is not None else _joined(value)
            for value, error in zip(answers.values or [], answers.errors, strict=True)
        ]
        made = {"label": _label_column(labels, codebook), "error": answers.errors}
        return Table(labels=labels, probs=None, columns=made)
    if codebook.type == "multiple":
        return _several(answers, codebook, answers.probs, answers.coverage)
    return _one(answers, codebook, answers.probs, answers.coverage, calibration)


def as_results(probs: Floats, names: tuple[str, ...]) -> ClassifyResults:
    """Probabilities as what `classify_parallel` returns, for what follows from them."""
    n = len(probs)
    return ClassifyResults(
        names=names,
        probs=probs,
        logprobs=probs,
        normalize="sum",
        errors=[None] * n,
        finish_reasons=["stop"] * n,
        stats=Stats(),
    )


def _one(
    answers: Answers,
    codebook: Codebook,
    probs: Floats,
    coverage: Floats,
    calibration: Calibration | None,
) -> Table:
    failed = np.array([error is not None for error in answers.errors], dtype=bool)
    probs = np.where(failed[:, None], np.nan, probs)
    results = as_results(probs, codebook.names)
    if calibration is not None:
        results = results.calibrated(calibration)
    labels = results.labels
    columns: dict[str, Any] = {
        "label": _label_column(labels, codebook),
        "prob": results.prob,
        "margin": results.margin,
        "entropy": results.entropy,
        "coverage": np.where(failed, np.nan, coverage),
    }
    if codebook.type == "ordinal":
        columns["mean"] = results.probs @ _values(codebook.names)
    columns |= {
        f"{_EACH}{name}": results.probs[:, j] for j, name in enumerate(results.names)
    }
    return Table(
        labels=labels, probs=results.probs, columns={**columns, "error": answers.errors}
    )


def _values(names: Sequence[str]) -> Floats:
    """float64[k]: the labels as numbers if all are such, else their places from 1."""
    numbers = [number_in(name) for name in names]
    if None in numbers:
        return np.arange(1.0, len(names) + 1)
    return np.array(numbers, dtype=np.float64)


def _several(
    answers: Answers, codebook: Codebook, probs: Floats, coverage: Floats
) -> Table:
    failed = np.array([error is not None for error in answers.errors], dtype=bool)
    probs = np.where(failed[:, None], np.nan, probs)
    labels = [
        None
        if np.isnan(row).any()
        else JOINED.join(
            name for name, p in zip(codebook.names, row, strict=True) if p > APPLIES
        )
        for row in probs
    ]
    columns: dict[str, Any] = {
        "label": labels,
        "coverage": np.where(failed, np.nan, coverage),
        **{f"{_EACH}{name}": probs[:, j] for j, name in enumerate(codebook.names)},
        "error": answers.errors,
    }
    return Table(labels=labels, probs=probs, columns=columns)


def _fields(answers: Answers, codebook: Codebook) -> Table:
    roles = roles_of(codebook, "generate")
    rows = answers.values or [None] * len(answers)
    given = [row if isinstance(row, Mapping) else {} for row in rows]
    columns: dict[str, Any] = {
        role: [row.get(role) for row in given] for role in roles[:-1]
    }
    labels = [
        None
        if row is None or error is not None
        else json.dumps(row, ensure_ascii=False, sort_keys=True)
        for row, error in zip(rows, answers.errors, strict=True)
    ]
    return Table(
        labels=labels, probs=None, columns={**columns, roles[-1]: answers.errors}
    )


def _label_column(labels: list[str | None], codebook: Codebook) -> Any:  # noqa: ANN401
    if codebook.type == "multiple":
        return labels
    return Categories(
        values=labels, names=codebook.names, ordered=codebook.type == "ordinal"
    )


def _joined(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else JOINED.join(value)


def n_cancelled(answers: Answers) -> int:
    """How many were not computed because the call ended."""
    return sum(error == CANCELLED for error in answers.errors)
