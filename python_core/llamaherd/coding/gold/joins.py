"""Joining a gold sample to data, by id or by row.

Estimates correct the labels of all texts by the errors of the coded texts. If people
replace the wrong labels of coded texts, no error is left to be seen there, although the
other texts have as many errors as before. Marks of labels show such changes.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.label_sets import joined_labels, labels_in
from llamaherd.coding.annotation.texts import comparable_text, hash_of_texts, sha256_of
from llamaherd.coding.codes import form_of, is_nothing, text_of
from llamaherd.coding.gold.sample import SPLIT
from llamaherd.coding.sentences import Notes
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, part_of, verb
from llamaherd.engine.core.words import call, name_of, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.frames import Input
    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.coding.statistics.sampling import Floats, Ints

note = Notes("llamaherd.coding.gold")
RAW = "raw_"  # prefix of the model's columns in recalibrated data


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRows:
    """Columns of data used to find a sample's texts."""

    n: int  # Number of rows
    # n identifiers; None if the data do not have the sample's column of ids
    ids: Sequence[str] | None = None
    texts: Sequence[Any] | None = None  # n texts; None if unknown
    labels: Sequence[str | None] | None = None  # n labels of the model; None if unknown
    # n labels that are used; they are `labels`, or labels of another column
    used: Sequence[str | None] | None = None
    # A column whose values are in another order than in the draw, if the sample has no
    # ids, texts and labels; "" if there is none
    moved: str = ""

    @classmethod
    def of(
        cls,
        gold: GoldSample,
        frame: Input,
        n: int,
        *,
        texts: Sequence[Any] | None = None,
        labels: Sequence[Any] | None = None,
    ) -> SampleRows:
        """Select the sample's columns of the data; `labels` replace a missing column."""
        is_frame = isinstance(frame, Mapping) or hasattr(frame, "columns")
        there = frames.names(frame) if is_frame else []
        design = gold.design

        def column(role: str) -> list[Any] | None:
            name = design.get(role)
            if role == "label" and f"{RAW}{name}" in there:
                name = f"{RAW}{name}"  # samples are drawn with the model's labels
            return frames.column(frame, name, role) if name in there else None

        ids, label_column = column("id"), column("label")
        drawn_with = labels if label_column is None else label_column
        is_raw = f"{RAW}{design.get('label')}" in there
        used = drawn_with if labels is None or is_raw else labels
        return cls(
            n=n,
            ids=None if ids is None else _ids(ids),
            texts=column("text") if texts is None else texts,
            labels=None if drawn_with is None else label_forms(drawn_with),
            used=None if used is None else label_forms(used),
            moved=_moved(design.get("columns") or {}, frame, there),
        )


def current_rows(gold: GoldSample, rows: SampleRows) -> list[int] | None:
    """Return the current row of each of the N texts from which the sample was drawn.

    If the data have the sample's ids, rows are matched by id. Otherwise the texts, or the
    labels of all rows, must show that the rows are in the order of the draw: the result
    is then None.
    """
    n_texts = len(gold.all_probs)
    if n_texts != rows.n:
        _refuse(
            f"it was drawn from {count_of(n_texts, 'text')}, but the data have {rows.n}. "
            f"To compare groups of texts, use {name_of('by')}. To omit a text, set "
            "its label to missing. To use some of the rows, draw the sample with a "
            "column of ids"
        )
    if rows.moved:
        _refuse(
            f"column {checks.quoted(rows.moved)} has the same values in another order"
        )
    new_rows = None if rows.ids is None else _by_id(gold, rows.ids)
    drawn = gold.rows if new_rows is None else [new_rows[i] for i in gold.rows]
    if not drawn:
        return new_rows
    if rows.texts is not None and any(text is not None for text in gold.texts):
        _check_texts(gold, rows, rows.texts, new_rows, drawn)
    else:
        _check_labels(gold, rows, drawn)
    _check_edits(gold, rows, new_rows)
    return new_rows


def _check_edits(
    gold: GoldSample, rows: SampleRows, new_rows: Sequence[int] | None
) -> None:
    """Refuse labels that were edited for the coded texts alone."""
    before = gold.label_marks
    if before is None or rows.used is None:
        return
    now = marks_of(rows.used)
    coded = [
        row
        for row, *codes in zip(gold.rows, *gold.codes, strict=True)
        if any(code is not None for code in codes)
    ]
    rate = len(coded) / max(len(gold.rows), 1)
    check_relabelled(
        before,
        now if new_rows is None else now[list(new_rows)],
        coded,
        gold.all_probs * rate,
    )


def filtered(gold: GoldSample, rows: SampleRows) -> GoldSample:
    """Restrict a sample to the texts that the data contain; texts are matched by id.

    It stays as it is if no row is missing, or if ids are not those of different texts.
    """
    if gold.all_ids is None or rows.ids is None or rows.n >= len(gold.all_ids):
        return gold
    at = {identifier: i for i, identifier in enumerate(_ids(gold.all_ids))}
    kept = [at.get(identifier, -1) for identifier in rows.ids]
    if min(kept, default=-1) < 0 or len(set(kept)) < len(kept):
        return gold
    return gold.among(kept)


def matched(
    gold: GoldSample, data: SampleRows, labels: Sequence[str | None]
) -> tuple[GoldSample, list[str]]:
    """Find the unlocked texts of a sample in the data; `labels` are the model's.

    Also return notes on missing texts, on a locked part, and on changed labels.
    """
    here = filtered(gold, data)
    new_rows = current_rows(here, data)
    notes, n_all = [], len(gold.all_probs)
    if data.n < n_all:
        counts = {"n": data.n, "n_all": n_all, "n_drawn": len(gold.rows)}
        notes.append(note("fewer_rows", n_here=len(here.rows), **counts))
    notes += locked_note(here)
    n_other = _n_relabelled(here, data, new_rows)
    if n_other:
        notes.append(note("relabelled", n=n_other, n_drawn=len(here.rows)))
    here = here.moved(new_rows)
    return here.with_labels([labels[row] for row in here.rows]), notes


def _n_relabelled(
    gold: GoldSample, rows: SampleRows, new_rows: Sequence[int] | None
) -> int:
    """Count drawn texts whose model label changed since the draw."""
    if rows.labels is None or not any(label is not None for label in gold.labels):
        return 0
    drawn = gold.rows if new_rows is None else [new_rows[i] for i in gold.rows]
    return sum(
        rows.labels[i] != _label_form(label)
        for i, label in zip(drawn, gold.labels, strict=True)
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


def _moved(known: Mapping[str, Any], frame: Input, there: Sequence[str]) -> str:
    """Return the first column with the same values in another order, or ""."""
    hashes = column_hashes(frame, [name for name in known if name in there])
    for name, (ordered, values) in hashes.items():
        if values == known[name][1] and ordered != known[name][0]:
            return name
    return ""


def _by_id(gold: GoldSample, ids: Sequence[str]) -> list[int] | None:
    """Return row indices matched by id; None if rows are in the order of the draw."""
    at = {identifier: i for i, identifier in enumerate(ids)}
    column = gold.design["id"]
    if len(at) < len(ids):
        twice = next(same for i, same in enumerate(ids) if at[same] != i)
        _refuse(f"column {checks.quoted(column)} has the id {checks.quoted(twice)} twice")
    if gold.all_ids is None:  # samples of earlier versions have only the drawn ids
        if [at.get(identifier) for identifier in _ids(gold.ids)] != gold.rows:
            _refuse(
                f"ids in column {checks.quoted(column)} differ from those of the "
                "sample, or are in "
                "another order"
            )
        return None
    all_ids = _ids(gold.all_ids)
    missing = next((identifier for identifier in all_ids if identifier not in at), None)
    if missing is not None:
        _refuse(
            f"the id {checks.quoted(missing)} is not in column {checks.quoted(column)}"
        )
    new_rows = [at[identifier] for identifier in all_ids]
    return None if new_rows == list(range(len(ids))) else new_rows


def _check_texts(
    gold: GoldSample,
    rows: SampleRows,
    texts: Sequence[Any],
    new_rows: Sequence[int] | None,
    drawn: Sequence[int],
) -> None:
    pairs = zip(drawn, gold.texts, strict=True)
    if not all((texts[i] or "") == (text or "") for i, text in pairs):
        _refuse("texts or their order differ from the data that it was drawn from")
    design, ids = gold.design, gold.all_ids
    if "sha256" not in design:
        return
    if ids is None and design.get("id") is None:
        ids = [str(i + 1) for i in range(rows.n)]
    if ids is None and rows.ids is not None:
        ids = list(rows.ids)
    ordered = texts if new_rows is None else [texts[i] for i in new_rows]
    if ids is not None and sha256_of(ids, ordered) != design["sha256"]:
        _refuse("ids, texts or their order differ from the data that it was drawn from")


def _check_labels(gold: GoldSample, rows: SampleRows, drawn: Sequence[int]) -> None:
    """Check the order of rows by the labels of the rows, if texts are unknown."""
    design = gold.design
    by_id = rows.ids is not None
    is_bare = design.get("text") is None and design.get("id") is None
    drawn_labels = [_label_form(label) for label in gold.labels]
    labels = rows.labels
    if labels is None or not any(label is not None for label in drawn_labels):
        if by_id or is_bare:
            return
        _refuse(f"the order of the rows cannot be verified: {_without(design)}")
    sha256 = design.get("labels_sha256")
    same = [labels[i] for i in drawn] == drawn_labels
    if not by_id and sha256 is not None:
        same = same and hash_of_labels(labels) == sha256
    if not same:
        _refuse(
            "the model's labels of the drawn texts have changed, or the rows are in "
            f"another order; {_without(design)}"
        )
    runs = 1 + sum(one != other for one, other in pairwise(labels))
    if not (by_id or is_bare) and runs <= len(set(labels)):
        _refuse(
            "the order of rows that are sorted by label cannot be verified; "
            f"{_without(design)}"
        )


def label_forms(labels: Sequence[Any]) -> list[str | None]:
    """Normalize labels for comparison; equal texts are normalized only once."""
    known: dict[str, str | None] = {}
    out = []
    for label in labels:
        if not isinstance(label, str):
            out.append(_label_form(label))
            continue
        if label not in known:
            known[label] = _label_form(label)
        out.append(known[label])
    return out


def _label_form(label: Input) -> str | None:
    """Normalize a label to identify rows: case, whitespace and order are ignored.

    None for a blank cell or no label.
    """
    parts = labels_in(text_of(label) or "", ())
    forms = {form_of(part) for part in parts if not is_nothing(part)}
    return joined_labels(sorted(forms)) or None


def _without(design: Mapping[str, Any]) -> str:
    columns = [design[role] for role in ("id", "text") if design.get(role) is not None]
    named = " or ".join(repr(name) for name in columns)
    return f"the data has no column {named}" if named else "no texts or ids are known"


def _refuse(problem: str) -> NoReturn:
    raise ArgumentError(
        f"was drawn from other data: {problem}. Use the {words().frame} that "
        f"{call('gold_sample')} got, with all its rows, and with its column of ids or of "
        "texts",
        argument="gold",
    )


OTHER_PART = -1  # mark of a coded text in another part of the sample
_MARKS = 65_521  # number of different marks
_IMPROBABLE = math.log(1e3)  # less probable changes are no chance


def marks_of(forms: Sequence[str | None]) -> Ints:
    """Return a short hash of each normalized label, int64[N]; 0 for no label."""
    known: dict[str | None, int] = {None: 0}
    for form in forms:
        if form not in known:
            known[form] = 1 + zlib.crc32(str(form).encode()) % _MARKS
    return np.array([known[form] for form in forms], dtype=np.int64)


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
        marks[[row for row, here in zip(gold.rows, is_in, strict=True) if not here]] = (
            OTHER_PART
        )
    design = {name: value for name, value in gold.design.items() if name != SPLIT}
    design |= {"n": len(kept), "part": " and ".join(parts)}
    return replace(
        gold,
        all_probs=gold.all_probs * chance,
        label_marks=marks,
        design={**design, "split_sha256": record["sha256"]},
        **gold.texts_at(kept, [gold.rows[i] for i in kept]),
    )


def open_parts(gold: Any) -> Any:  # noqa: ANN401 - GoldSample, or what is like it
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


def locked_note(gold: GoldSample) -> list[str]:
    """Return a note on the texts that `open_parts` left out; none without such texts."""
    n_locked = gold.design.get(_LOCKED, 0)
    return [note("locked", n=n_locked)] if n_locked else []
