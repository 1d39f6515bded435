"""Texts to code on the page, with codebook and coders."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.coding import frames
from llamaherd.coding.annotation.codebook import Codebook, checked_codebook
from llamaherd.coding.codes import text_of
from llamaherd.coding.gold import forms
from llamaherd.coding.gold.sample import OURS, PART, GoldSample, sidecar
from llamaherd.coding.gold.sheets import read_gold
from llamaherd.coding_page.schema_form import form_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.files import content_of, text_of_file
from llamaherd.engine.core.plain import cell_text
from llamaherd.engine.core.words import words

if TYPE_CHECKING:
    from llamaherd.coding_page.form import Form

DEFAULT_CODER = "code"  # column of codes that `GoldSample.write` creates
_MOST_CODERS = 50
_LONGEST_NAME = 60  # maximum number of characters of a coder's name
_QUESTION = "Which label does the text have?"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sheet:
    """Texts to code, without labels of a model or other data that coders must not see."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    codebook: Codebook  # codebook with the labels or fields
    form: Form
    coders: tuple[str, ...]  # names of the coders who code all texts
    # Name of the coder who codes texts on which the others disagree; None without such a
    # coder.
    tie_coder: str | None
    seed: int  # seed of the orders
    sample: GoldSample | None  # gold sample of the texts; None for other texts
    are_named: bool = True  # whether the caller named the coders

    @property
    def people(self) -> tuple[str, ...]:
        """All coders; the coder of ties is first, and decides if all codes differ."""
        return self.coders if self.tie_coder is None else (self.tie_coder, *self.coders)

    @property
    def sha256(self) -> str:
        """SHA-256 of ids and texts, as 64 hexadecimal digits."""
        content = json.dumps([self.ids, self.texts], ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def with_coders_of(sheet: Sheet, stored: Sequence[str]) -> Sheet:
    """Give a sheet whose coders nobody named the coders who have codes in a store."""
    if sheet.are_named or not stored:
        return sheet
    coded = (*stored, *(() if sheet.sample is None else sheet.sample.coders))
    coders = [name for name in sheet.coders if name != DEFAULT_CODER or name in coded]
    return replace(sheet, coders=tuple(dict.fromkeys([*coders, *stored])))


def make_sheet(
    data: Any,  # GoldSample, a path or a data frame
    codebook: Codebook | None,
    coders: str | Sequence[str] | None,
    tie_coder: str | None,
    *,
    text: str = "text",
    id: str | None = None,  # noqa: A002 - name of the column
    seed: int = 1,
) -> Sheet:
    """Check the arguments of `code_texts` and collect the texts."""
    sample, ids, texts = _texts_of(data, checks.text("text", text), id)
    if codebook is None:
        codebook = _of_sample(sample)
    codebook = checked_codebook(codebook)
    _check_agrees(codebook, sample)
    names = [coders] if isinstance(coders, str) else list(coders or ())
    are_named = bool(names)
    names = names or _default_coders(data, sample)
    return Sheet(
        ids=tuple(ids),
        texts=tuple(texts),
        codebook=codebook,
        form=form_of(codebook),
        coders=_names(names, tie_coder),
        tie_coder=tie_coder,
        seed=checks.integer("seed", seed, 0),
        sample=sample,
        are_named=are_named,
    )


def _default_coders(data: object, sample: GoldSample | None) -> list[str]:
    """Return the code columns of a coding sheet, or the coders of a sample."""
    coders: list[str] = []
    if sample is not None and isinstance(data, (str, os.PathLike)):
        path = Path(data)
        header = (
            forms.unescape_cell(cell.strip())
            for cell in forms.rows_of_csv(path.read_bytes(), str(path))[0]
        )
        of_sample = (*sample.own_columns, "")
        columns = [name for name in header if name not in of_sample]
        coders = forms.without_notes(columns)
    elif sample is not None:
        coders = list(sample.coders)
    return coders or [DEFAULT_CODER]


def _names(names: Sequence[object], tie_coder: str | None) -> tuple[str, ...]:
    """Check the names of coders, which become names of columns."""
    if tie_coder is not None and len(names) < 2:
        raise ArgumentError(
            f"needs at least two coders who may disagree, not {len(names)}",
            argument="tie_coder",
            code="conflict",
        )
    checked: list[str] = []
    for name, argument in [
        *((name, "coders") for name in names),
        *([] if tie_coder is None else [(tie_coder, "tie_coder")]),
    ]:
        plain = checks.text(argument, name)
        is_wrong = (
            plain != plain.strip()
            or not plain.isprintable()
            or not 0 < len(plain) <= _LONGEST_NAME
            or plain.casefold() in (*OURS, PART)
        )
        taken = {other.casefold() for other in checked}
        taken |= {f"{other}{forms.NOTE}" for other in taken}  # of note columns
        taken |= {other.removesuffix(forms.NOTE) for other in taken}
        if is_wrong or plain.casefold() in taken:
            raise ArgumentError(
                f"must be different names of 1 to {_LONGEST_NAME} characters, other than "
                f"{', '.join((*OURS, PART))}, not {checks.brief(plain)}",
                argument=argument,
                code="duplicate",
            )
        checked.append(plain)
    if len(checked) > _MOST_CODERS:
        raise ArgumentError(
            f"must be at most {_MOST_CODERS}, not {len(checked)}",
            argument="coders",
            code="too_many",
        )
    return tuple(checked[: len(names)])


def _of_sample(sample: GoldSample | None) -> Codebook:
    """Return a codebook with the labels of a sample and no definitions."""
    if sample is None or not sample.names:
        raise ArgumentError(
            "must be given: the texts have no list of labels",
            argument="codebook",
            code="missing",
        )
    is_ordered = sample.design.get("scale") in ("ordinal", "interval")
    kind: Any = "multiple" if sample.several else "ordinal" if is_ordered else "label"
    return Codebook(_QUESTION, list(sample.names), type=kind)


def _check_agrees(codebook: Codebook, sample: GoldSample | None) -> None:
    """Check that the codebook's labels can be codes of the sample."""
    if sample is None or codebook.kind.is_generated:
        return
    other = [name for name in codebook.names if sample.names and name not in sample.names]
    if other:
        raise ArgumentError(
            f"has the label {checks.quoted(other[0])}, but the labels of the sample are "
            f"{', '.join(sample.names[:20])}",
            argument="codebook",
            code="conflict",
        )
    if codebook.kind.is_several != sample.several:
        words = {True: "several labels per text", False: "one label per text"}
        raise ArgumentError(
            f"has {words[codebook.kind.is_several]}, but the sample was drawn for "
            f"{words[sample.several]}",
            argument="codebook",
            code="conflict",
        )


def _texts_of(
    data: Any,  # GoldSample, a path or a data frame
    text: str,
    id: str | None,  # noqa: A002 - name of the column
) -> tuple[GoldSample | None, list[str], list[str]]:
    """Return the sample (None for other data), ids and texts."""
    file = None
    if isinstance(data, (str, os.PathLike)):
        file = Path(data)
        data = _of_file(file)
        _check_columns(file, data, {"text": text, "id": id})
    if isinstance(data, GoldSample):
        if None in data.texts:
            raise ArgumentError(
                "has no texts: draw it with the column of texts",
                argument="data",
                code="missing",
            )
        return data, list(data.ids), [cell or "" for cell in data.texts]
    if not isinstance(data, Mapping) and not hasattr(data, "columns"):
        raise ArgumentTypeError(
            f"must be a gold sample, a CSV file or a {words().frame}, not "
            f"{checks.brief(data)}",
            argument="data",
        )
    cells = frames.column(data, text, "text")
    # Texts are not normalized, because positions of passages count their characters.
    texts = [None if cell is None else cell_text(cell) for cell in cells]
    if id is None and "id" in frames.names(data):
        id = "id"  # noqa: A001 - name of the column
    keys = range(1, len(texts) + 1) if id is None else frames.column(data, id, "id")
    ids = [text_of(key) or "" for key in keys]
    _check_rows(ids, texts, file)
    return None, ids, [text or "" for text in texts]


def _check_columns(
    file: Path, data: GoldSample | dict[str, list[str]], columns: dict[str, str | None]
) -> None:
    """Check that a file has the columns that the arguments name."""
    if isinstance(data, GoldSample):
        return
    for argument, name in columns.items():
        if name is not None and name not in data:
            existing = ", ".join(map(checks.quoted, list(data)[:20]))
            raise ArgumentError(
                f"is {checks.quoted(name)}, but {file} has the columns {existing}",
                argument=argument,
                code="unknown_column",
            )


def _check_rows(
    ids: Sequence[str], texts: Sequence[str | None], file: Path | None
) -> None:
    """Check that there are texts, and that ids are unique."""
    if not texts:
        name = "has no texts" if file is None else f"{file} has no texts"
        form = "{name} {problem}" if file is None else "{problem}"
        raise ArgumentError(name, argument="data", code="empty", form=form)

    def wrong(i: int, problem: str, place: tuple[int | str, ...], code: str) -> None:
        if file is None:
            raise ArgumentError(problem, argument="data", place=place, code=code)
        raise ArgumentError(
            f"{file}, row {i + 1} below the names of the columns: it {problem}",
            argument="data",
            place=place,
            code=code,
            form="{problem}",
        )

    seen: set[str] = set()
    for i, (key, text) in enumerate(zip(ids, texts, strict=True)):
        if not key or key in seen:
            again = (
                f"must have a different id in each row, not {checks.quoted(key)} again"
            )
            wrong(i, again, (i, "id"), "duplicate")
        if text is None or not text.strip():
            wrong(i, "must have a text in each row", (i,), "empty")
        seen.add(key)


def _of_file(path: Path) -> GoldSample | dict[str, list[str]]:
    """Return the sample of a CSV file with a sidecar, with codes, or else its columns."""
    header, *rows = forms.rows_of_csv(content_of("data", path), str(path))
    if sidecar(path).exists():
        drawn = GoldSample.from_json(text_of_file("data", sidecar(path)))
        n_own = sum(name.strip() in drawn.own_columns for name in header)
        is_coded = any(cell.strip() for row in rows for cell in row[n_own:])
        return read_gold(path) if is_coded else drawn
    names = [name.strip() for name in header]
    for i, row in enumerate(rows):
        if len(row) != len(names):
            raise ArgumentError(
                f"has {len(row)} cells, but there are {len(names)} columns: a cell that "
                "contains the delimiter must be in quotes",
                argument="data",
                place=(i,),
                code="wrong_length",
            )
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return dict(zip(names, map(list, columns), strict=True))
