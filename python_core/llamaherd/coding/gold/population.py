"""Texts from which a gold sample is drawn, read from any form of input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.label_sets import confidence_of, labels_in, scale_of
from llamaherd.coding.annotation.texts import hash_of_ids_and_texts, is_blank
from llamaherd.coding.codes import are_measured, form_of, numbers_of, text_of
from llamaherd.coding.gold.forms import stored_text
from llamaherd.coding.gold.joins import (
    Join,
    column_hashes,
    hash_of_labels,
    label_forms,
    marks_of,
    note,
    open_parts,
)
from llamaherd.coding.gold.sample import GoldSample
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.words import words

if TYPE_CHECKING:
    from llamaherd.coding.frames import Input
    from llamaherd.coding.statistics.sampling import Draw
    from llamaherd.engine.core.arrays import Floats, Ints


_NO_LABEL = "(none)"  # stratum of texts without a label


@dataclass(frozen=True, kw_only=True)
class Population:
    """N texts with labels."""

    data: Any  # Input data
    frame: Any  # Data frame of the input
    ids: list[str]  # N identifiers
    texts: list[str | None]  # N texts; None for missing texts
    labels: list[str | None]  # N labels as texts; None for missing labels
    names: tuple[str, ...]  # Labels that codes may have
    several: bool  # True if a text may have several labels
    text_column: str | None  # Name of the column of texts; None if there is none
    label_column: str | None  # Name of the column of labels
    id_column: str | None  # Name of the column of identifiers; None for row numbers
    drawn: frozenset[int] = frozenset()  # Rows that were drawn in earlier waves

    @classmethod
    def of(
        cls,
        data: Input,
        *,
        text: str | None,
        label: str | None,
        id: str | None,  # noqa: A002 - as gold_sample calls it
        names: Sequence[str] = (),
        several: bool | None = None,
    ) -> Population:
        """Read data in the forms that `gold_sample` accepts."""
        frame, codebook = data, getattr(data, "codebook", None)
        if isinstance(data, Coded):
            if label is None:
                data.check_frame()
            frame = data.frame
            text = text or data.text
            label = label or data.columns.get("label")
            if several is None:
                several = getattr(codebook, "type", "label") == "multiple"
        if isinstance(data, (Coded, Mapping)):  # R's columns have their codebook
            names = names or getattr(data, "names", ()) or getattr(codebook, "names", ())
        n_texts = frames.n_rows(frame)
        texts = _texts(frame, text, n_texts)
        ids = [str(i + 1) for i in range(n_texts)]
        if id is not None:
            ids = _ids(frames.column(frame, id, "id"))
        labels: list[str | None] = [None] * n_texts
        label_values: tuple[str, ...] = ()
        if label is not None:
            labels, label_values = _labels(frame, label, several=bool(several))
        return cls(
            data=data,
            frame=frame,
            ids=ids,
            texts=texts,
            labels=labels,
            names=tuple(text_of(name) or "" for name in names) or label_values,
            several=bool(several),
            text_column=text,
            label_column=label,
            id_column=id,
        )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def eligible(self) -> Ints:
        """Rows with a text that no earlier wave drew; all if no column has texts."""
        has_text = np.ones(len(self), dtype=bool)
        if self.text_column is not None:
            has_text = np.array(
                [bool(text) and not is_blank(text) for text in self.texts]
            )
        has_text[list(self.drawn)] = False
        return np.flatnonzero(has_text)

    def join(self, gold: GoldSample) -> Join:
        """Join a sample to these texts."""
        texts = None if self.text_column is None else self.texts
        return Join.of(gold, self.frame, len(self), texts=texts, labels=self.labels)

    @cached_property
    def sha256(self) -> str:
        """Return the SHA-256 of all ids and texts."""
        return hash_of_ids_and_texts(self.ids, [stored_text(text) for text in self.texts])

    def of_rows(self, values: object, name: str) -> Floats:
        """Return the numbers of the rows with a text."""
        return np.asarray(frames.numbers_for(values, len(self), name)[self.eligible])

    def strata(self, by: str | Sequence[str] | None) -> list[str]:
        """Return the stratum of each row with a text, such as "a / b" for two columns."""
        if by is None and self.label_column is None:
            raise ArgumentError(
                "must name the columns of strata: the data have no column of labels",
                argument="by",
                code="unknown_argument",
            )
        names = by_columns(by)
        columns = [frames.column(self.frame, name, "by") for name in names]
        columns = [list(map(text_of, column)) for column in columns] or [self.labels]
        rows = list(zip(*columns, strict=True))
        return [
            " / ".join(_NO_LABEL if part is None else part or "none" for part in rows[i])
            for i in self.eligible
        ]

    def confidence(self, source: str | Sequence[float] | None) -> Floats:
        """Return the confidence of the model for each row with a text, in [0, 1]."""
        if source is None and isinstance(self.data, Coded):
            source = self.data.columns.get("margin") or self.data.columns.get("prob")
            if self.several and self.data.probs is not None:
                source = confidence_of(self.data.probs).tolist()
        if source is None:
            raise ArgumentError(
                "must be a column with the confidence of the model, from 0 to 1",
                argument="confidence",
            )
        values = (
            frames.column(self.frame, source, "confidence")
            if isinstance(source, str)
            else source
        )
        numbers = np.nan_to_num(self.of_rows(values, "confidence"), nan=0.0)
        bad = np.flatnonzero((numbers < 0) | (numbers > 1 + 1e-9))
        if len(bad):
            raise ArgumentError(
                f"must be between 0 and 1, not {words().number(f'{numbers[bad[0]]:g}')}",
                argument="confidence",
                place=(int(self.eligible[bad[0]]),),
                code="out_of_range",
            )
        return np.asarray(np.minimum(numbers, 1.0))

    def sample(self, draw: Draw, design: dict[str, Any]) -> GoldSample:
        """Return the sample drawn from the rows with a text.

        Hashes of all columns show that rows were sorted, if no id, text or label does.
        """
        all_probs = np.zeros(len(self))
        all_probs[self.eligible] = draw.all_probs
        strata = np.full(len(self), -1, dtype=np.int64)
        strata[self.eligible] = draw.strata
        rows = self.eligible[draw.rows].tolist()
        columns = (self.text_column, self.label_column, self.id_column)
        is_bare = columns == (None, None, None)
        marks = column_hashes(self.frame, frames.names(self.frame)) if is_bare else None
        scale = scale_of(self.data, None, self.label_column)
        facts = {
            "kind": design["kind"],
            "n": len(rows),
            "N": len(self),
            "n_missing": len(self) - len(self.eligible) - len(self.drawn),
            "seed": design["seed"],
            "sha256": self.sha256,
            "labels_sha256": hash_of_labels(self.labels),
            **dict(zip(("text", "label", "id"), columns, strict=True)),
            **({} if marks is None else {"columns": marks}),
            **({"several": True} if self.several else {}),
            **({} if scale == "nominal" else {"scale": scale}),
        }
        return GoldSample(
            rows=rows,
            ids=[self.ids[i] for i in rows],
            texts=[self.texts[i] for i in rows],
            all_probs=all_probs,
            strata=strata,
            names=self.names,
            labels=[self.labels[i] for i in rows],
            design=facts | design,
            all_ids=None if self.id_column is None else self.ids,
            label_marks=marks_of(label_forms(self.labels)),
        )


def _labels(
    frame: Input, label: str, *, several: bool
) -> tuple[list[str | None], tuple[str, ...]]:
    """Return the labels of all rows, and the labels that codes may have."""
    cells = frames.column(frame, label, "label")
    labels = [text_of(cell) for cell in cells]
    if not several:
        labels = [value if form_of(value or "") else None for value in labels]
    distinct: set[str] = set()
    if not are_measured(cells):  # else any number is allowed as a code
        distinct = {value for value in labels if value is not None}
        if not several and frames.are_ordered(frame, label):
            # Agreement on an ordinal scale depends on the order of the names.
            known = frames.categories(frame, label)
            if known:
                return labels, tuple(text_of(name) or "" for name in known)
    if several:
        distinct = {part for value in distinct for part in labels_in(value, ())}
    return labels, tuple(sorted(distinct | _with_probabilities(frame, label, distinct)))


def own_column(frame: object, role: str) -> str | None:
    """Return the column with the name of its role, if it has labels, or only texts."""
    if role not in frames.names(frame):
        return None
    cells = [cell for cell in frames.column(frame, role, role) if cell is not None]
    has_texts = role != "text" or all(isinstance(cell, str) for cell in cells)
    return role if cells and has_texts else None


def own_ids(frame: object) -> str | None:
    """Return "id" if this column exists and its values are unique, else None."""
    if "id" not in frames.names(frame):
        return None
    values = [text_of(value) for value in frames.column(frame, "id", "id")]
    twice, n = Counter(values).most_common(1)[0] if values else (None, 0)
    if None not in values and n < 2:
        return "id"
    problem = "has no value for some texts"
    if None not in values:
        problem = f"has the value {twice!r} {count_of(n, 'time')}"
    warn_caller(note("bad_ids", column="id", problem=problem))
    return None


def _with_probabilities(frame: object, label: str, distinct: set[str]) -> set[str]:
    """Return the labels whose probabilities are in columns of the data.

    People may give a label that the model never gave; only its column of probabilities
    shows that it exists. `annotate` writes a column p_<label> for each label, with the
    prefix of the column "label". The columns are used only if every label that
    occurs has such a column.
    """
    if not distinct:
        return set()
    prefix = f"{label.removesuffix('label')}p_" if label.endswith("label") else "p_"
    labels = {
        name.removeprefix(prefix)
        for name in frames.names(frame)
        if name.startswith(prefix) and name != prefix
    }
    return labels if distinct <= labels else set()


def _texts(frame: object, text: str | None, n_texts: int) -> list[str | None]:
    if text is None:
        return [None] * n_texts
    values = frames.column(frame, text, "text")
    for i, value in enumerate(values):
        if value is not None and not isinstance(value, str):
            raise ArgumentTypeError(
                f"must be a text or missing, not {checks.brief(value)}",
                argument="text",
                place=(i,),
            )
    return values


def _ids(values: Sequence[Any]) -> list[str]:
    ids = [text_of(value) for value in values]  # R and pandas may store floats
    if None in ids:
        raise ArgumentError(
            "is missing: each text needs an id",
            argument="id",
            place=(ids.index(None),),
            code="missing",
        )
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise ArgumentError(
            f"must differ from text to text: {checks.quoted(str(twice))} occurs twice",
            argument="id",
            code="duplicate",
        )
    return [identifier or "" for identifier in ids]


def by_columns(by: object, argument: str = "by") -> list[str]:
    """Return one column name, or several, as a list."""
    if by is None:
        return []
    if isinstance(by, str):
        return [by]
    what = checks.no_list(by)
    if what or not isinstance(by, Iterable) or isinstance(by, (bytes, Mapping)):
        raise ArgumentTypeError(
            f"must be the name of a column, or a list of names, not "
            f"{what or checks.brief(by)}",
            argument=argument,
        )
    names = [checks.text(argument, name) for name in by]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ArgumentError(
                f"names the column {checks.quoted(name)} twice",
                argument=argument,
                code="duplicate",
            )
    return names


def match_sample(
    coded: Input, gold: Input, label: str | None, text: str | None, *, several: bool
) -> tuple[Population, Any, list[str]]:
    """Match a sample to the texts; return both, and notes on texts that do not match."""
    _check_gold(gold)
    gold = open_parts(gold)
    if isinstance(coded, Sequence) and not isinstance(coded, str):
        coded = {"label": list(coded)}
    design = gold.design if isinstance(gold, GoldSample) else {}
    frame = coded.frame if isinstance(coded, Coded) else coded
    known = known_columns(design, frame)
    if label is None and frame is coded:
        label = design.get("label") or "label"
    texts = Population.of(
        coded,
        text=text or known.get("text"),
        label=label,
        id=known.get("id"),
        names=gold.names if isinstance(gold, GoldSample) else (),
        several=several,
    )
    if not isinstance(gold, GoldSample):
        return texts, gold, []
    return texts, *texts.join(gold).matched(texts.labels)


def known_columns(design: Mapping[str, Any], frame: object) -> dict[str, str]:
    """Return the columns of a design that the data have, by role."""
    columns = frames.names(frame)
    roles = ("text", "label", "id")
    return {role: design[role] for role in roles if design.get(role) in columns}


def codes_and_probs(
    texts: Population, gold: Input, prob: Input, weights: object
) -> tuple[Any, Any]:
    """Return `gold` and `prob`, or their columns; check the index of pandas objects."""
    if isinstance(gold, str):
        gold = frames.column(texts.frame, gold, "gold")
    if isinstance(prob, str) and prob in frames.names(texts.frame):
        prob = numbers_of(frames.column(texts.frame, prob, "prob"), "prob")
    for name, values in (("gold", gold), ("prob", prob), ("weights", weights)):
        frames.check_index(values, texts.frame, name)
    return gold, prob


def _check_gold(gold: object) -> None:
    if isinstance(gold, (GoldSample, str)):
        return
    is_other = isinstance(gold, (Mapping, Coded, bytes)) or not isinstance(gold, Iterable)
    what = checks.brief(gold) if is_other else checks.no_list(gold)
    if what:
        raise ArgumentTypeError(
            f"must be a GoldSample, the name of a column, or a list of codes, not {what}",
            argument="gold",
        )
