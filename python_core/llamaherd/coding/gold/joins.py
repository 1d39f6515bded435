"""Joining a gold sample to data, by id or by row.

Estimates correct the labels of all texts by the errors of the coded texts. If people
replace the wrong labels of coded texts, no error is left to be seen there, although the
other texts have as many errors as before. Marks of labels show such changes.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.label_sets import joined_labels, labels_in
from llamaherd.coding.annotation.texts import (
    comparable_text,
    hash_of_ids_and_texts,
    hash_of_texts,
)
from llamaherd.coding.codes import form_of, is_nothing, text_of
from llamaherd.coding.gold.forms import stored_text
from llamaherd.coding.gold.sample import SPLIT, GoldSample
from llamaherd.coding.sentences import Notes
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, part_of, verb
from llamaherd.engine.core.words import call, name_of, words

if TYPE_CHECKING:
    from llamaherd.coding.frames import Input
    from llamaherd.engine.core.arrays import Floats, Ints

note = Notes("llamaherd.coding.gold")
RAW = "raw_"  # prefix of the model's columns in recalibrated data


@dataclass(frozen=True, kw_only=True, eq=False)
class Join:
    """A sample, and the columns of data in which its texts are found."""

    gold: GoldSample
    n: int  # Number of rows
    # n identifiers; None if the data do not have the sample's column of ids
    ids: list[str] | None
    texts: Sequence[Any] | None  # n texts; None if unknown
    labels: list[str | None] | None  # n labels of the model; None if unknown
    # n labels that are used; they are `labels`, or labels of another column
    used: list[str | None] | None
    # A column whose values are in another order than in the draw, if the sample has no
    # ids, texts and labels; "" if there is none
    reordered: str

    @classmethod
    def of(
        cls,
        gold: GoldSample,
        frame: Input,
        n: int,
        *,
        texts: Sequence[Any] | None = None,
        labels: Sequence[Any] | None = None,
    ) -> Join:
        """Select the sample's columns of the data; `labels` replace a missing column."""
        is_frame = isinstance(frame, Mapping) or hasattr(frame, "columns")
        existing = frames.names(frame) if is_frame else []
        name_of_labels = gold.design.get("label")
        raw = f"{RAW}{name_of_labels}"  # samples are drawn with the model's labels
        roles = {role: gold.design.get(role) for role in ("id", "text", "label")}
        if raw in existing:
            roles["label"] = raw
        columns = {
            role: frames.column(frame, name, role)
            for role, name in roles.items()
            if name in existing
        }
        drawn_with = columns.get("label", labels)
        used = drawn_with if labels is None or raw in existing else labels
        return cls(
            gold=gold,
            n=n,
            ids=_ids(columns["id"]) if "id" in columns else None,
            texts=columns.get("text") if texts is None else texts,
            labels=None if drawn_with is None else label_forms(drawn_with),
            used=None if used is None else label_forms(used),
            reordered=_reordered_column(
                gold.design.get("columns") or {}, frame, existing
            ),
        )

    @cached_property
    def rows(self) -> list[int] | None:
        """Current row of each of the N texts from which the sample was drawn.

        If the data have the sample's ids, rows are matched by id. Otherwise the texts, or
        the labels of all rows, must show that the rows are in the order of the draw: the
        result is then None.
        """
        n_texts = len(self.gold.all_probs)
        if n_texts != self.n:
            _refuse(
                f"it was drawn from {count_of(n_texts, 'text')}, but the data have "
                f"{self.n}. To compare groups of texts, use {name_of('by')}. To omit a "
                "text, set its label to missing. To use some of the rows, draw the "
                "sample with a column of ids"
            )
        if self.reordered:
            column = checks.quoted(self.reordered)
            _refuse(f"column {column} has the same values in another order")
        rows = None if self.ids is None else _by_id(self.gold, self.ids)
        if not self.gold.rows:
            return rows
        drawn = self.gold.rows if rows is None else [rows[i] for i in self.gold.rows]
        if self.texts is not None and any(text is not None for text in self.gold.texts):
            self._check_texts(self.texts, rows, drawn)
        else:
            self._check_labels(drawn)
        self._check_edits(rows)
        return rows

    def _check_texts(
        self, texts: Sequence[Any], rows: Sequence[int] | None, drawn: Sequence[int]
    ) -> None:
        design, ids = self.gold.design, self.gold.all_ids
        if any(
            stored_text(texts[i]) != stored_text(text)
            for i, text in zip(drawn, self.gold.texts, strict=True)
        ):
            _refuse("texts or their order differ from the data that it was drawn from")
        if ids is None and design.get("id") is None:
            ids = [str(i + 1) for i in range(self.n)]
        ids = self.ids if ids is None else ids
        ordered = texts if rows is None else [texts[i] for i in rows]
        stored = [stored_text(text) for text in ordered]
        hashes = (hash_of_ids_and_texts(ids or [], form) for form in (stored, ordered))
        # Samples of earlier versions have the hash of the texts as they were.
        if "sha256" in design and ids is not None and design["sha256"] not in hashes:
            _refuse(
                "ids, texts or their order differ from the data that it was drawn from"
            )

    def _check_labels(self, drawn: Sequence[int]) -> None:
        """Check the order of rows by the labels of the rows, if texts are unknown."""
        design, labels = self.gold.design, self.labels
        before = label_forms(self.gold.labels)
        columns = [
            design[role] for role in ("id", "text") if design.get(role) is not None
        ]
        is_sure = self.ids is not None or not columns
        without = "no texts or ids are known"
        if columns:
            without = f"the data has no column {' or '.join(map(repr, columns))}"
        if labels is None or not any(before):
            if is_sure:
                return
            _refuse(f"the order of the rows cannot be verified: {without}")
        sha256 = None if self.ids is not None else design.get("labels_sha256")
        if [labels[i] for i in drawn] != before or (
            sha256 is not None and hash_of_labels(labels) != sha256
        ):
            _refuse(
                "the model's labels of the drawn texts have changed, or the rows are in "
                f"another order; {without}"
            )
        n_runs = 1 + sum(one != other for one, other in pairwise(labels))
        if not is_sure and n_runs <= len(set(labels)):
            _refuse(
                "the order of rows that are sorted by label cannot be verified; "
                f"{without}"
            )

    def _check_edits(self, rows: Sequence[int] | None) -> None:
        """Refuse labels that were edited for the coded texts alone."""
        gold = self.gold
        if gold.label_marks is None or self.used is None:
            return
        now = marks_of(self.used)
        coded = [
            row
            for row, code in zip(gold.rows, gold.gold, strict=True)
            if code is not None
        ]
        rate = len(coded) / max(len(gold.rows), 1)
        check_relabelled(
            gold.label_marks,
            now if rows is None else now[rows],
            coded,
            gold.all_probs * rate,
        )

    def of_texts_here(self) -> Join:
        """Restrict the sample to the texts that the data contain, matched by id.

        It stays as it is if no row is missing, or if ids are not unique or unknown.
        """
        known = self.gold.all_ids
        if known is None or self.ids is None or self.n >= len(known):
            return self
        at = {identifier: i for i, identifier in enumerate(_ids(known))}
        kept = [at.get(identifier, -1) for identifier in self.ids]
        if min(kept, default=-1) < 0 or len(set(kept)) < len(kept):
            return self
        return replace(self, gold=self.gold.among(kept))

    def matched(self, labels: Sequence[str | None]) -> tuple[GoldSample, list[str]]:
        """Find the unlocked texts of the sample; `labels` are the model's.

        Also return notes on missing texts, on a locked part, and on changed labels.
        """
        join = self.of_texts_here()
        here, n_all, n_drawn = join.gold, len(self.gold.all_probs), len(self.gold.rows)
        moved = here.moved(join.rows)
        n_locked, n_other = here.design.get(_LOCKED, 0), join.n_relabelled(moved)
        notes = []
        if self.n < n_all:
            counts = {"n_all": n_all, "n_here": len(here), "n_drawn": n_drawn}
            notes.append(note("fewer_rows", n=self.n, **counts))
        if n_locked:
            notes.append(note("locked", n=n_locked))
        if n_other:
            notes.append(note("relabelled", n=n_other, n_drawn=len(here)))
        return moved.with_labels([labels[row] for row in moved.rows]), notes

    def n_relabelled(self, moved: GoldSample) -> int:
        """Count drawn texts whose model label changed since the draw."""
        if self.labels is None or not any(label is not None for label in moved.labels):
            return 0
        pairs = zip(moved.rows, label_forms(moved.labels), strict=True)
        return sum(self.labels[row] != label for row, label in pairs)


def _by_id(gold: GoldSample, ids: Sequence[str]) -> list[int] | None:
    """Return row indices matched by id; None if rows are in the order of the draw."""
    at = {identifier: i for i, identifier in enumerate(ids)}
    column = checks.quoted(gold.design["id"])
    if len(at) < len(ids):
        twice = next(id_ for i, id_ in enumerate(ids) if at[id_] != i)
        _refuse(f"column {column} has the id {checks.quoted(twice)} twice")
    if gold.all_ids is None:  # samples of earlier versions have only the drawn ids
        if [at.get(identifier) for identifier in _ids(gold.ids)] != gold.rows:
            _refuse(
                f"ids in column {column} differ from those of the sample, or are in "
                "another order"
            )
        return None
    all_ids = _ids(gold.all_ids)
    missing = next((identifier for identifier in all_ids if identifier not in at), None)
    if missing is not None:
        _refuse(f"the id {checks.quoted(missing)} is not in column {column}")
    rows = [at[identifier] for identifier in all_ids]
    return None if rows == list(range(len(ids))) else rows


def _refuse(problem: str) -> NoReturn:
    raise ArgumentError(
        f"was drawn from other data: {problem}. Use the {words().frame} that "
        f"{call('gold_sample')} got, with all its rows, and with its column of ids or of "
        "texts",
        argument="gold",
    )


def _ids(values: Sequence[Any]) -> list[str]:
    return [comparable_text(value) or "" for value in values]


def hash_of_labels(labels: Sequence[Any]) -> str | None:
    """Return the SHA-256 of all labels in order; None without labels."""
    formed = label_forms(labels)
    return hash_of_texts(formed) if any(label is not None for label in formed) else None


def column_hashes(frame: Input, names: Sequence[str]) -> dict[str, list[str]]:
    """Return two SHA-256 of each column: of its values in order, and of sorted values."""
    hashes = {}
    for name in names:
        values = [_cell(value) for value in frames.column(frame, name, "data")]
        hashes[name] = [hash_of_texts(values), hash_of_texts(sorted(values))]
    return hashes


def _cell(value: object) -> str:
    """Return a cell as text, the same for R and for any kind of data frame."""
    if isinstance(value, (str, int, float)) or value is None:
        return comparable_text(value) or ""
    return str(value)


def _reordered_column(
    known: Mapping[str, Any], frame: Input, existing: Sequence[str]
) -> str:
    """Return the first column with the same values in another order, or ""."""
    hashes = column_hashes(frame, [name for name in known if name in existing])
    for name, (ordered, values) in hashes.items():
        if values == known[name][1] and ordered != known[name][0]:
            return name
    return ""


def label_forms(labels: Sequence[Any]) -> list[str | None]:
    """Normalize labels to identify rows: case, whitespace and order are ignored.

    None for a blank cell or no label.
    """
    return [_label_form(text_of(label) or "") for label in labels]


@lru_cache(maxsize=1 << 16)
def _label_form(label: str) -> str | None:
    parts = labels_in(label, ())
    forms = {form_of(part) for part in parts if not is_nothing(part)}
    return joined_labels(sorted(forms)) or None


OTHER_PART = -1  # mark of a coded text in another part of the sample
_MARKS = 65_521  # number of different marks
_IMPROBABLE = math.log(1e3)  # less probable changes are no chance


def marks_of(forms: Sequence[str | None]) -> Ints:
    """Return a short hash of each normalized label, int64[N]; 0 for no label."""
    marks = {form: 1 + zlib.crc32((form or "").encode()) % _MARKS for form in set(forms)}
    marks[None] = 0
    return np.array([marks[form] for form in forms], dtype=np.int64)


def check_relabelled(
    before: Ints,
    now: Ints,
    coded: Sequence[int],
    probs: Floats | None,
    since: str = "when the sample was drawn",
) -> None:
    """Refuse labels that changed for coded texts, but not for the other texts.

    If the model codes all texts again, the changed texts are a random part of the coded
    texts: their number has the mean sum(probs), over all changed texts. It is compared
    with this mean by Chernoff's bound for sums of independent events.

    `before` is int64[N], `OTHER_PART` for texts that are not compared; `probs` None if
    all probabilities are equal; `since` the origin of `before`, for the message.
    """
    if not before.any():
        return
    is_coded = np.zeros(len(now), dtype=bool)
    is_coded[list(coded)] = True
    is_compared = (now != 0) & (before != OTHER_PART)
    changed = is_compared & (now != before)
    n_changed, n_other = int(changed[is_coded].sum()), int(changed[~is_coded].sum())
    if not n_changed or not is_compared[~is_coded].any():
        return
    if probs is None:
        probs = np.full(len(now), is_coded.mean())
    mean = float(probs[changed].sum())
    surprise = n_changed * math.log(n_changed / max(mean, 1e-300)) - (n_changed - mean)
    if n_other and (n_changed <= mean or surprise < _IMPROBABLE):
        return
    n_coded = int(is_coded.sum())
    others = count_of(n_other, "other text") if n_other else "no other text"
    raise ArgumentError(
        f"{part_of(n_changed, n_coded, 'coded text')} another label than "
        f"{since}, but {others} {verb(max(n_other, 1), 'has', 'have')}: labels that "
        "were corrected for the coded texts hide the model's errors, and every estimate "
        "would be wrong. Use the labels of the draw, as the model gave them: the codes "
        "correct them. If the model coded all texts again, draw a new sample",
        argument="coded",
        code="labels_edited",
        form="{problem}",
    )


_LOCKED = "n_locked"  # key of the number of texts that are left out
_OPEN = ("explore", "select")


def in_parts(gold: GoldSample, parts: Sequence[str]) -> GoldSample:
    """Return the texts of some parts of a split sample, as a sample of all N texts."""
    record = gold.design[SPLIT]
    is_in = np.array([part in parts for part in record["parts"]], dtype=bool)
    kept = np.flatnonzero(is_in).tolist()
    of_drawn = gold.strata[gold.rows]
    drawn = np.bincount(of_drawn)
    chances = np.bincount(of_drawn[is_in], minlength=len(drawn)) / np.maximum(drawn, 1)
    chance = np.where(gold.strata >= 0, chances[np.maximum(gold.strata, 0)], 0.0)
    marks = gold.label_marks
    if marks is not None:
        marks = marks.copy()
        marks[np.array(gold.rows)[~is_in]] = OTHER_PART
    design = {name: value for name, value in gold.design.items() if name != SPLIT}
    design |= {"n": len(kept), "part": " and ".join(parts)}
    return replace(
        gold,
        all_probs=gold.all_probs * chance,
        label_marks=marks,
        design={**design, "split_sha256": record["sha256"]},
        **gold.texts_at(kept, [gold.rows[i] for i in kept]),
    )


def open_parts(gold: Any) -> Any:  # GoldSample, or what is like it
    """Return a sample without the texts of "evaluate", if these are still locked."""
    design = getattr(gold, "design", None) or {}
    record = design.get(SPLIT)
    if record is None or record["opened"]:
        return gold
    open_sample = in_parts(gold, _OPEN)
    return replace(
        open_sample,
        design={**open_sample.design, _LOCKED: len(gold.rows) - len(open_sample.rows)},
    )
