"""Names and content of the columns that coding adds to a data frame."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from operator import attrgetter, itemgetter, methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.asks.scores import ClassifyResults, of_best
from llamaherd.calls.structured.columns import (
    BOOLEAN,
    INTEGER,
    JSON,
    NUMBER,
    STRING,
    Column,
    cells,
    columns_of,
)
from llamaherd.coding.annotation.answer_types import JOINED
from llamaherd.coding.codes import number_in
from llamaherd.coding.frames import Categories, Integers
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.plain import plain_tree
from llamaherd.engine.core.stats import Stats
from llamaherd.engine.core.table import free_name
from llamaherd.engine.core.words import setting, words

if TYPE_CHECKING:
    from llamaherd.coding.annotation.answers import Answers
    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.annotation.settings import Settings
    from llamaherd.engine.core.arrays import Floats

EACH = "p_"  # prefix of the role of a label's probability
_OF_ONE = ("prob", "margin", "entropy", "coverage")  # with one label per text
APPLIES = 0.5  # with several labels per text, labels with a higher probability apply


class CodedRows:
    """Answers of n rows, with the values that columns have.

    Attributes:
        probs: float64[n, k]; NaN for failed texts; None if answers were generated.
        errors: n error messages, also for fields that no column can hold.
    """

    def __init__(self, answers: Answers, codebook: Codebook) -> None:
        self.answers = answers
        self._codebook = codebook
        self._failed = np.array([error is not None for error in answers.errors], bool)
        self.probs = self._values_of_known(answers.probs)
        self._fields, self.errors = self._read_fields()

    def cells(self, settings: Settings) -> dict[str, Any]:
        """Return the values of the new columns by role."""
        columns = _columns(self._codebook, settings)
        return {role: values(self) for role, (_, values) in columns.items()}

    @cached_property
    def labels(self) -> list[str | None]:
        """Labels of the n rows; joined, if there are several, and JSON for fields."""
        kind, names = self._codebook.kind, self._codebook.names
        if self.probs is None:
            values = self.answers.values or []
            return [
                None if value is None or error is not None else _as_label(value)
                for value, error in zip(values, self.answers.errors, strict=True)
            ]
        if not kind.is_several:
            return self.results.labels
        return [
            None
            if np.isnan(row).any()
            else JOINED.join(n for n, p in zip(names, row, strict=True) if p > APPLIES)
            for row in self.probs
        ]

    @cached_property
    def results(self) -> ClassifyResults:
        """Probabilities as the result type of `classify_parallel`."""
        assert self.probs is not None  # noqa: S101 - asked only for probabilities
        return as_results(self.probs, self._codebook.names)

    def label_column(self) -> Any:  # see `label_column`
        """Return the values of the column of labels."""
        return label_column(self.labels, self._codebook)

    def field(self, name: str) -> list[Any]:
        """Return the values of a field."""
        return self._fields[name]

    def probs_of(self, j: int) -> Floats | None:
        """Return the probability of label j, float64[n]."""
        return None if self.probs is None else self.probs[:, j]

    def coverage(self) -> Floats | None:
        """Return the total probability of all labels; NaN for failed texts."""
        return self._values_of_known(self.answers.coverage)

    def expected(self) -> Floats:
        """Return the expected value of each distribution over ordered labels."""
        return np.asarray(self.results.probs @ values_of(self._codebook.names))

    def spread(self) -> Floats:
        """Return the standard deviation of each distribution over numbers."""
        return spread_of(self.results.probs, values_of(self._codebook.names))

    def between(self) -> Floats | None:
        """Return the deviation between thoughts of the label's probability."""
        if self.probs is None or self.answers.between is None:
            return None
        return of_best(self.probs, self.answers.between)

    # ---- private ----

    def _values_of_known(self, values: Floats | None) -> Floats | None:
        """Return values of rows, NaN for failed texts."""
        if values is None:
            return None
        failed = self._failed if values.ndim == 1 else self._failed[:, None]
        return np.where(failed, np.nan, values)

    def _read_fields(self) -> tuple[dict[str, list[Any]], list[str | None]]:
        """Return the fields of generated answers by name, and the errors of the rows."""
        errors = self.answers.errors
        if not self._codebook.kind.is_generated:
            return {}, errors
        problems: dict[int, str] = {}
        rows = self.answers.values or [None] * len(errors)
        objects = [row if isinstance(row, Mapping) else {} for row in rows]
        columns = {
            name: cells(name, [row.get(name) for row in objects], column.hold, problems)
            for name, column in _fields_of(self._codebook).items()
        }
        return columns, [error or problems.get(i) for i, error in enumerate(errors)]


_NUMBERS: dict[str, Callable[[CodedRows], Any]] = {
    "prob": lambda rows: rows.results.prob,
    "margin": lambda rows: rows.results.margin,
    "entropy": lambda rows: rows.results.entropy,
    "coverage": CodedRows.coverage,
    "mean": CodedRows.expected,
    "sd": CodedRows.spread,
}


def _columns(
    codebook: Codebook, settings: Settings
) -> dict[str, tuple[Column, Callable[[CodedRows], Any]]]:
    """Return type and values of the new columns by role, in order."""
    kind = codebook.kind
    columns: dict[str, tuple[Column, Callable[[CodedRows], Any]]] = {}
    if kind.is_generated:
        for name, column in _fields_of(codebook).items():
            columns[name] = column, methodcaller("field", name)
    else:
        columns["label"] = _label_type(codebook), CodedRows.label_column
    if settings.method == "classify":
        roles = ("coverage",) if kind.is_several else _OF_ONE
        if kind.is_numeric:
            roles = ("mean", "sd", *roles)
        elif kind.is_ordered:
            roles = (*roles, "mean")
        columns |= {role: (NUMBER, _NUMBERS[role]) for role in roles}
        if settings.distribution or not kind.is_numeric:
            for j, name in enumerate(codebook.names):
                columns[EACH + name] = NUMBER, methodcaller("probs_of", j)
    is_quoted = settings.evidence is not None
    quote, thought = partial(_reader, "quotes"), partial(_reader, "thoughts")
    further = (
        ("step", settings.in_steps, STRING, lambda rows: rows.answers.steps),
        ("quote", is_quoted, STRING, quote(itemgetter("quote"))),
        ("start", is_quoted, INTEGER, quote(itemgetter("start"))),
        ("end", is_quoted, INTEGER, quote(itemgetter("end"))),
        ("between", settings.n_thoughts > 1, NUMBER, CodedRows.between),
        ("thinking", settings.thinks, STRING, thought(attrgetter("text"))),
        ("n_thinking_tokens", settings.thinks, INTEGER, thought(attrgetter("n_tokens"))),
        (
            "thinking_complete",
            settings.thinks,
            BOOLEAN,
            thought(attrgetter("is_complete")),
        ),
        ("error", True, STRING, lambda rows: rows.errors),
    )
    for role, is_there, column, values in further:
        if is_there:
            columns[free_name(role, columns)] = column, values
    return columns


def _reader(name: str, read: Callable[[Any], Any]) -> Callable[[CodedRows], list[Any]]:
    """Return a function that reads quotes or thoughts, None without one."""
    return lambda rows: [value and read(value) for value in getattr(rows.answers, name)]


def types_of(codebook: Codebook, settings: Settings) -> dict[str, Column]:
    """Return the types of the new columns by role, in order."""
    columns = _columns(codebook, settings)
    return {role: column for role, (column, _) in columns.items()}


def _label_type(codebook: Codebook) -> Column:
    """Return the type of the label column: numeric if all labels are numbers."""
    if codebook.numbers is None:
        return STRING
    are_whole = all(isinstance(number, int) for number in codebook.numbers)
    return INTEGER if are_whole else NUMBER


def _fields_of(codebook: Codebook) -> dict[str, Column]:
    schema = codebook.table_schema
    return columns_of(schema) or dict.fromkeys(json.loads(schema)["properties"], JSON)


def names_of_columns(
    roles: Sequence[str], columns: object, existing: Sequence[str]
) -> dict[str, str]:
    """Return the names of the new columns by role."""
    if columns is None:
        names = {role: role for role in roles}
    elif isinstance(columns, str):
        prefix = checks.text("columns", columns)
        names = {role: prefix + role for role in roles}
    elif isinstance(columns, Mapping):
        names = _by_mapping(roles, columns)
    else:
        raise ArgumentTypeError(
            "must be a prefix for all names, or map columns to names, not be "
            f"{checks.brief(columns)}",
            argument="columns",
        )
    existing_names = set(existing)
    counts = Counter(names.values())
    for role, name in names.items():
        if name in existing_names:
            example = f"columns={{{role!r}: ...}}".replace("{", "{{").replace("}", "}}")
            raise ArgumentError(
                f"the {words().frame} has a column {checks.quoted(name)} already",
                argument="columns",
                place=(role,),
                code="conflict",
                form=f"{{problem}}; choose another name with {example}, or "
                f"{setting('columns', 'coded_')} for all",
            )
        if counts[name] > 1:
            raise ArgumentError(
                f"two new columns would be called {checks.quoted(name)}",
                argument="columns",
                place=(role,),
                code="duplicate",
                form="columns: {problem}",
            )
    return names


def _by_mapping(roles: Sequence[str], columns: Mapping[Any, Any]) -> dict[str, str]:
    has_each = any(role.startswith(EACH) for role in roles)
    for role, name in columns.items():
        if role not in roles and not (role == EACH and has_each):
            allowed = ", ".join(repr(role) for role in roles[:20])
            raise ArgumentError(
                f"there is no {checks.quoted(role)}; there are "
                f"{allowed}{checks.meant(role, roles)}",
                argument="columns",
                place=(str(role),),
                code="unknown_argument",
                form="columns: {problem}",
            )
        if name is not None:
            checks.text(Argument("columns", (role,)), name)
    name_of_role, names = plain_tree(columns), {}
    for role in roles:
        name = name_of_role.get(role, role)
        if role not in name_of_role and role.startswith(EACH) and EACH in name_of_role:
            start = name_of_role[EACH]
            name = None if start is None else start + role.removeprefix(EACH)
        if name is not None:
            names[role] = name
    return names


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


def label_column(labels: list[str | None], codebook: Codebook) -> Any:
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
    """Return labels as integers with None, or, with fractions, as floats with NaN."""
    if all(isinstance(number, int) for number in number_of.values()):
        whole = {label: int(number) for label, number in number_of.items()}
        return Integers(values=[None if x is None else whole[x] for x in labels])
    return np.array([np.nan if label is None else number_of[label] for label in labels])


def _as_label(value: object) -> str:
    """Return a generated answer as text: a label, joined labels, or fields as JSON."""
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return value if isinstance(value, str) else JOINED.join(value)  # type: ignore[arg-type] # labels
