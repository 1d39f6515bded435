"""Names and content of the columns that coding adds to a data frame."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.asks.scores import ClassifyResults
from llamaherd.calls.structured.columns import (
    BOOLEAN,
    INTEGER,
    JSON,
    NUMBER,
    STRING,
    cells,
)
from llamaherd.calls.structured.schema_columns import columns_of
from llamaherd.coding.annotation.answer_types import JOINED
from llamaherd.coding.codes import number_in
from llamaherd.coding.frames import Categories, Integers
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.plain import plain_tree
from llamaherd.engine.core.results import THOUGHT_COLUMNS
from llamaherd.engine.core.stats import Stats
from llamaherd.engine.core.table import free_name
from llamaherd.engine.core.words import setting, words

if TYPE_CHECKING:
    from llamaherd.calls.asks.annotate_options import Method
    from llamaherd.calls.asks.calibration import Calibration, Floats
    from llamaherd.calls.structured.columns import Column
    from llamaherd.coding.annotation.answers import Answers
    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.annotation.settings import Settings

_ERROR = ".error of columns"  # key of errors, which come last
EACH = "p_"  # prefix of the role of a label's probability
_ROLES_OF_ONE = ("prob", "margin", "entropy", "coverage")
_ROLES_OF_SCALE = ("mean", "sd")  # expected value, and standard deviation
APPLIES = 0.5  # with several labels per text, labels with a higher probability apply


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodedColumns:
    """Results of coding: labels and errors by row, and the values of the new columns."""

    labels: list[str | None]
    probs: Floats | None
    columns: dict[str, Any]
    errors: list[str | None]


def roles_of(codebook: Codebook, settings: Settings) -> list[str]:
    """Return the roles of the new columns, in order."""
    return list(types_of(codebook, settings))


def types_of(codebook: Codebook, settings: Settings) -> dict[str, Column]:
    """Return the types of the new columns by role, in order."""
    found = _types_of_answers(codebook, settings.method)
    if codebook.kind.is_numeric and not settings.distribution:
        for name in codebook.names:
            found.pop(f"{EACH}{name}", None)
    more: dict[str, Column] = {}
    if settings.in_steps:
        more["step"] = STRING
    if settings.evidence is not None:
        more |= {"quote": STRING, "start": INTEGER, "end": INTEGER}
    if settings.n_thoughts > 1:
        more["between"] = NUMBER
    if settings.thinks:
        more |= dict(zip(THOUGHT_COLUMNS, (STRING, INTEGER, BOOLEAN), strict=True))
    for name, column in {**more, "error": STRING}.items():
        found[free_name(name, found)] = column
    return found


def _types_of_answers(codebook: Codebook, method: Method) -> dict[str, Column]:
    if codebook.kind.is_generated:
        return dict(_fields_of(codebook))
    label = _label_type(codebook)
    if method == "generate":
        return {"label": label}
    numbers = [f"{EACH}{name}" for name in codebook.names]
    if codebook.kind.is_several:
        numbers = ["coverage", *numbers]
    else:
        more = [*_ROLES_OF_ONE, *(["mean"] if codebook.kind.is_ordered else [])]
        more = [*_ROLES_OF_SCALE, *_ROLES_OF_ONE] if codebook.kind.is_numeric else more
        numbers = [*more, *numbers]
    return {"label": label, **dict.fromkeys(numbers, NUMBER)}


def _label_type(codebook: Codebook) -> Column:
    """Return the type of the label column: numeric if all labels are numbers."""
    if codebook.numbers is None:
        return STRING
    are_whole = all(isinstance(each, int) for each in codebook.numbers)
    return INTEGER if are_whole else NUMBER


def _fields_of(codebook: Codebook) -> dict[str, Column]:
    schema = codebook.table_schema
    return columns_of(schema) or dict.fromkeys(json.loads(schema)["properties"], JSON)


def names_of_columns(
    roles: Sequence[str], columns: object, existing: Sequence[str]
) -> dict[str, str]:
    """Return the names of the new columns by role."""
    if columns is None:
        made = {role: role for role in roles}
    elif isinstance(columns, str):
        prefix = checks.text("columns", columns)
        made = {role: prefix + role for role in roles}
    elif isinstance(columns, Mapping):
        made = _by_mapping(roles, columns)
    else:
        raise ArgumentTypeError(
            "must be a prefix for all names, or map columns to names, not be "
            f"{checks.shown(columns)}",
            argument="columns",
        )
    there = set(existing)
    counts = Counter(made.values())
    for role, name in made.items():
        if name in there:
            example = f"columns={{{role!r}: ...}}".replace("{", "{{").replace("}", "}}")
            raise ArgumentError(
                f"the {words().frame} has a column {name!r} already",
                argument="columns",
                place=(role,),
                code="conflict",
                form=f"{{problem}}; choose another name with {example}, or "
                f"{setting('columns', 'coded_')} for all",
            )
        if counts[name] > 1:
            raise ArgumentError(
                f"two new columns would be called {name!r}",
                argument="columns",
                place=(role,),
                code="duplicate",
                form="columns: {problem}",
            )
    return made


def _by_mapping(roles: Sequence[str], columns: Mapping[Any, Any]) -> dict[str, str]:
    has_each = any(role.startswith(EACH) for role in roles)
    for role, name in columns.items():
        if role not in roles and not (role == EACH and has_each):
            allowed = ", ".join(repr(each) for each in roles[:20])
            raise ArgumentError(
                f"there is no {role!r}; there are {allowed}{checks.meant(role, roles)}",
                argument="columns",
                place=(str(role),),
                code="unknown_argument",
                form="columns: {problem}",
            )
        if name is not None:
            checks.text(Argument("columns", (role,)), name)
    made = {}
    names = plain_tree(columns)
    for role in roles:
        name = names.get(role, role)
        if role not in names and role.startswith(EACH) and EACH in names:
            start = names[EACH]
            name = None if start is None else start + role.removeprefix(EACH)
        if name is not None:
            made[role] = name
    return made


def table_of(
    answers: Answers, codebook: Codebook, calibration: Calibration | None = None
) -> CodedColumns:
    """Return the new columns for the rows, by role."""
    found = _table_of(answers, codebook, calibration)
    columns = found.columns
    for name, values in _further(answers, found.probs).items():
        columns[free_name(name, columns)] = values
    if answers.quotes is not None:
        for name in ("quote", "start", "end"):
            columns[name] = [each and each[name] for each in answers.quotes]
    columns[free_name("error", columns)] = columns.pop(_ERROR)
    return found


def _further(answers: Answers, probs: Floats | None) -> dict[str, Any]:
    """Return the columns about steps and thoughts."""
    found: dict[str, Any] = {}
    if answers.steps is not None:
        found["step"] = answers.steps
    if answers.between is not None and probs is not None:
        best = np.where(np.isnan(probs), -1, probs).argmax(axis=1)[:, None]
        found["between"] = np.take_along_axis(answers.between, best, axis=1)[:, 0]
    if answers.thoughts is not None:
        each = answers.thoughts
        found["thinking"] = [t and t.text for t in each]
        found["n_thinking_tokens"] = [t and t.n_tokens for t in each]
        found["thinking_complete"] = [t and t.is_complete for t in each]
    return found


def _table_of(
    answers: Answers, codebook: Codebook, calibration: Calibration | None
) -> CodedColumns:
    """Return the new columns for the rows, without the columns about thoughts."""
    if codebook.kind.is_generated:
        return _fields(answers, codebook)
    if answers.probs is None or answers.coverage is None:
        labels = [
            None if value is None or error is not None else _joined(value)
            for value, error in zip(answers.values or [], answers.errors, strict=True)
        ]
        made = {"label": label_column(labels, codebook), _ERROR: answers.errors}
        return CodedColumns(
            labels=labels, probs=None, columns=made, errors=answers.errors
        )
    if codebook.kind.is_several:
        return _several(answers, codebook, answers.probs, answers.coverage)
    return _one(answers, codebook, answers.probs, answers.coverage, calibration)


def as_results(probs: Floats, names: tuple[str, ...]) -> ClassifyResults:
    """Convert probabilities to the result type of `classify_parallel`."""
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
) -> CodedColumns:
    failed = np.array([error is not None for error in answers.errors], dtype=bool)
    probs = np.where(failed[:, None], np.nan, probs)
    results = as_results(probs, codebook.names)
    if calibration is not None:
        results = results.calibrated(calibration)
    labels = results.labels
    columns: dict[str, Any] = {
        "label": label_column(labels, codebook),
        "prob": results.prob,
        "margin": results.margin,
        "entropy": results.entropy,
        "coverage": np.where(failed, np.nan, coverage),
    }
    if codebook.kind.is_ordered:
        values = values_of(codebook.names)
        columns["mean"] = results.probs @ values
        if codebook.kind.is_numeric:
            columns["sd"] = spread_of(results.probs, values)
    columns |= {
        f"{EACH}{name}": results.probs[:, j] for j, name in enumerate(results.names)
    }
    return CodedColumns(
        labels=labels,
        probs=results.probs,
        columns={**columns, _ERROR: answers.errors},
        errors=answers.errors,
    )


def spread_of(probs: Floats, values: Floats) -> Floats:
    """Return the standard deviation of each distribution, float64[n]."""
    away = values[None, :] - (probs @ values)[:, None]
    return np.asarray(np.sqrt((probs * away**2).sum(axis=1)))


def values_of(names: Sequence[str]) -> Floats:
    """Return labels as numbers, float64[k]; ranks from 1 unless all are numeric."""
    numbers = [number_in(name) for name in names]
    if None in numbers:
        return np.arange(1.0, len(names) + 1)
    return np.array(numbers, dtype=np.float64)


def _several(
    answers: Answers, codebook: Codebook, probs: Floats, coverage: Floats
) -> CodedColumns:
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
        **{f"{EACH}{name}": probs[:, j] for j, name in enumerate(codebook.names)},
        _ERROR: answers.errors,
    }
    return CodedColumns(
        labels=labels, probs=probs, columns=columns, errors=answers.errors
    )


def _fields(answers: Answers, codebook: Codebook) -> CodedColumns:
    fields = _fields_of(codebook)
    problems: dict[int, str] = {}
    rows = answers.values or [None] * len(answers)
    given = [row if isinstance(row, Mapping) else {} for row in rows]
    columns: dict[str, Any] = {
        name: cells(name, [row.get(name) for row in given], column.hold, problems)
        for name, column in fields.items()
    }
    errors = [each or problems.get(i) for i, each in enumerate(answers.errors)]
    labels = [
        None
        if row is None or error is not None
        else json.dumps(row, ensure_ascii=False, sort_keys=True)
        for row, error in zip(rows, answers.errors, strict=True)
    ]
    return CodedColumns(
        labels=labels, probs=None, columns={**columns, _ERROR: errors}, errors=errors
    )


def label_column(labels: list[str | None], codebook: Codebook) -> Any:  # noqa: ANN401
    """Return labels as values of their column: numbers, categories or joined texts."""
    if codebook.kind.is_several:
        return labels
    if codebook.numbers is not None:
        return _numeric(labels, dict(zip(codebook.names, codebook.numbers, strict=True)))
    return Categories(
        values=labels, names=codebook.names, ordered=codebook.kind.is_ordered
    )


def _numeric(
    labels: Sequence[str | None], number_of: Mapping[str, int | float]
) -> Integers | Floats:
    """Return labels as integers if all numbers are integers, otherwise as floats.

    A missing label is None among integers, and NaN among floats.
    """
    if all(isinstance(each, int) for each in number_of.values()):
        whole = {label: int(number) for label, number in number_of.items()}
        return Integers(values=[None if x is None else whole[x] for x in labels])
    return np.array([np.nan if each is None else number_of[each] for each in labels])


def _joined(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else JOINED.join(value)
