"""Gold samples: texts for human coding, and their codes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd.coding.annotation.label_sets import joined_labels, labels_in, none_of
from llamaherd.coding.codes.coders import majority, majority_of_sets
from llamaherd.coding.gold import forms, waves
from llamaherd.coding.gold.forms import CodeReader, read_codes
from llamaherd.coding.statistics.dsl import Outside, join_outside
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import check_free, check_kind, write_whole
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.gold.waves import Wave
    from llamaherd.engine.core.arrays import Floats, Ints

# Columns of the CSV that contain no codes.
OURS = ("id", "text", "model_label", "inclusion_prob")
SPLIT = "split"  # key of the record of a split in the design
PART = "part"  # additional column of a sample that was split


@dataclass(frozen=True, kw_only=True, eq=False)
class GoldSample:
    """Texts for human coding, drawn from N texts with known inclusion probabilities.

    Attributes:
        rows: n indices of the drawn texts in the data.
        ids: n identifiers of the texts.
        texts: n texts; None without a column of texts.
        all_probs: float64[N], inclusion probabilities of all texts; 0 for missing and
            blank texts.
        strata: int64[N], stratum of every text; from each stratum a fixed number of texts
            was drawn.
        names: Labels that codes may have; () if every text is a valid code.
        labels: n labels of the model; None if unknown.
        design: Record of the draw, sufficient to verify it: "kind", "n", "N", "seed",
            "sha256" of all ids and texts, and the settings of this kind; "several" is
            true if a text may have several labels, which are then joined.
        codes: For each coder a list of n codes; None for texts without a code.
        coders: Names of the coders.
        all_ids: N identifiers of all texts, to match data in another order; None if texts
            are identified by row numbers.
        waves: Draws of a sample whose waves have different designs; () for a sample drawn
            in a single wave, and for waves that form one sample of the same design.
        label_marks: int64[N], short hashes of the labels of all texts at the draw, 0 for
            no label; None for samples of earlier versions.
        outside: For a subset, the coded texts outside of the subset; None if there are no
            such texts, and for a sample with `waves`, which contain these texts.
    """

    rows: list[int]
    ids: list[str]
    texts: list[str | None]
    all_probs: Floats
    strata: Ints
    names: tuple[str, ...]
    labels: list[str | None]
    design: dict[str, Any]
    codes: list[list[str | None]] = field(default_factory=list)
    coders: list[str] = field(default_factory=list)
    all_ids: list[str] | None = None
    waves: tuple[Wave, ...] = ()
    outside: Outside | None = None
    label_marks: Ints | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def probs(self) -> Floats:
        """Inclusion probabilities of the drawn texts, float64[n]."""
        return np.asarray(self.all_probs[self.rows])

    @property
    def draw_strata(self) -> Ints:
        """Stratum of each drawn text in its wave, int64[n]."""
        if self.waves:
            return waves.combine(self.waves).of(self.rows).strata
        return np.asarray(self.strata[self.rows])

    @property
    def history(self) -> list[dict[str, Any]]:
        """Record of each draw: "wave", "kind", "n", "N", "seed", settings of the kind.

        "N" is the number of texts from which the wave was drawn; "n_coded" is the number
        of codes when the wave was drawn.
        """
        known = self.design.get("history")
        if known is not None:
            return [dict(draw) for draw in known]
        design = self.design
        n_texts = design.get("N", len(self.all_probs)) - design.get("n_missing", 0)
        return [{"wave": 1, **waves.draw_record(design), "N": n_texts, "n_coded": 0}]

    @property
    def several(self) -> bool:
        """True if a text may have several labels."""
        return bool(self.design.get("several"))

    @property
    def parts(self) -> list[str] | None:
        """Part of each text by `gold_split`; None for a sample that was not split."""
        split = self.design.get(SPLIT)
        return None if split is None else list(split["parts"])

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Columns of a sheet that contain no codes."""
        return OURS if self.parts is None else (*OURS, PART)

    def moved(self, new_rows: Sequence[int] | None) -> GoldSample:
        """Return the sample for the same data with the rows in another order.

        Args:
            new_rows: Current row of each of the N texts of the draw; None if unchanged.
        """
        if new_rows is None:
            return self
        old_rows = np.argsort(new_rows)
        return replace(
            self,
            rows=[int(new_rows[row]) for row in self.rows],
            **self._of_texts(old_rows),
            waves=tuple(wave.moved(np.array(new_rows)) for wave in self.waves),
        )

    def with_labels(self, labels: Sequence[str | None]) -> GoldSample:
        """Return the sample with labels of the model, unless the draw recorded labels.

        Response rates are compared between these labels, see `codes.codes_of_sample`.
        """
        if any(label is not None for label in self.labels):
            return self
        return replace(self, labels=list(labels))

    def among(self, kept: Sequence[int]) -> GoldSample:
        """Return the sample for a subset of the texts, which must not depend on codes.

        Args:
            kept: Rows of the subset, in the order of its data.

        Raises:
            ValueError: The sample was split; call this method of one of its parts.
        """
        if self.parts is not None:
            raise ArgumentError(
                f"is split: give a part, by {call('gold_part')}, to use it for a "
                "subset of the texts",
                argument="gold",
                code="already_split",
            )
        new_rows = np.full(len(self.all_probs), -1, dtype=np.int64)
        new_rows[list(kept)] = np.arange(len(kept))
        at = [i for i, row in enumerate(self.rows) if new_rows[row] >= 0]
        hashes = {"sha256", "labels_sha256"}
        facts = self.design.items()
        return replace(
            self,
            waves=tuple(w.among(np.array(kept), new_rows) for w in self.waves),
            outside=self._outside(set(at)),
            design={name: value for name, value in facts if name not in hashes},
            **self._of_texts(np.array(kept)),
            **self.texts_at(at, [int(new_rows[self.rows[i]]) for i in at]),
        )

    def _of_texts(self, rows: Ints) -> dict[str, Any]:
        """Return the fields of the N texts, for some of them in another order."""
        marks = self.label_marks
        return {
            "all_probs": self.all_probs[rows],
            "strata": self.strata[rows],
            "label_marks": None if marks is None else marks[rows],
            "all_ids": None,
        }

    def _outside(self, kept: set[int]) -> Outside | None:
        """Return the coded texts other than those at the indices `kept`."""
        if self.waves:
            return None
        gold = self.gold
        coded = [i for i in range(len(self)) if gold[i] is not None]
        gone = [self.rows[i] for i in coded if i not in kept]
        # Missing codes are treated as one more draw.
        response = len(coded) / max(len(self), 1)
        left = 1 - self.all_probs[gone] * response
        return join_outside([self.outside, Outside(strata=self.strata[gone], left=left)])

    def texts_at(self, at: Sequence[int], rows: list[int]) -> dict[str, Any]:
        """Return the fields of some drawn texts, with their new rows."""
        names = ("ids", "texts", "labels")
        columns = {name: [getattr(self, name)[i] for i in at] for name in names}
        codes = [[column[i] for i in at] for column in self.codes]
        return {"rows": rows, **columns, "codes": codes}

    def coded_waves(self) -> GoldSample:
        """Return the sample without its last waves, if these have no codes."""
        is_coded = np.zeros(len(self.all_probs), dtype=bool)
        is_coded[self.rows] = [code is not None for code in self.gold]
        used = waves.with_codes(self.waves, is_coded) if self.waves else ()
        if len(used) == len(self.waves):
            return self
        is_single, combined = len(used) == 1, waves.combine(used)
        at = np.flatnonzero(np.isin(self.rows, combined.rows)).tolist()
        history = self.history[: len(used)]
        return replace(
            self,
            all_probs=used[0].probs if is_single else combined.all_probs,
            strata=used[0].strata if is_single else self.strata,
            waves=() if is_single else used,
            outside=used[0].outside if is_single else None,
            design={
                **self.design,
                **(history[0] if is_single else {}),
                "N": self.design["N"],
                "n": len(at),
                "history": history,
            },
            **self.texts_at(at, [self.rows[i] for i in at]),
        )

    @property
    def gold(self) -> list[str | None]:
        """Return the majority code of each text; on a tie the code of the first coder.

        The first coder is the first of those who gave one of the most frequent codes.
        With several labels per text, each label is decided by its own majority.
        """
        texts = zip(*self.codes, strict=True)
        return [self.decided(codes)[0] for codes in texts] or [None] * len(self)

    def decided(self, codes: Sequence[str | None]) -> tuple[str | None, bool]:
        """Return the majority code of one text, and True if its coders tie."""
        return majority_code(codes, self.names, several=self.several)

    def with_codes(
        self,
        codes: Any,  # a data frame of any kind, a mapping, a sequence
        coder: str = "code",
    ) -> GoldSample:
        """Return the sample with the codes of one coder, or of several coders by name.

        Args:
            codes: n codes; or a mapping or data frame with n codes for each coder. Pandas
                objects are matched by their index if it contains the sample's ids, its
                rows or the numbers 0 to n - 1. All other codes must be in the sample's
                order.
            coder: Name of the coder if there is a single coder.

        A code is the text of a label, in upper or lower case, or a value whose `str` is a
        label. None, NaN and every cell that `read_gold` reads as "no code" are missing.
        With several labels per text, "" means that no label applies, as in `annotate`.

        Raises:
            ValueError: The number of codes is not n, a code is not a label, or an index
                does not match.
        """
        new_codes = read_codes(
            codes,
            coder,
            self.ids,
            self.rows,
            CodeReader(self.names, several=self.several),
        )
        coders = {**dict(zip(self.coders, self.codes, strict=True)), **new_codes}
        return replace(self, coders=list(coders), codes=list(coders.values()))

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        coders: Sequence[str] | None = None,
        blind: bool = True,
        shuffle: bool = True,
        bom: bool = True,
        delimiter: Literal[",", ";", "\t"] = ",",
        overwrite: bool = False,
        uncoded: bool = False,
        spreadsheet: bool = False,
    ) -> None:
        """Write a CSV file for coding, and a sidecar `path`.json with the design.

        The file has the columns `id` and `text`, and for each coder a column with the
        codes that this coder gave so far. You can also write a separate file for each
        coder.

        Args:
            path: Path of the CSV file.
            coders: Name or names of the columns for codes; None uses the coders of the
                sample, or "code" if it has none.
            blind: Omit the model's label and the inclusion probability, which coders
                should not see. If False, the file has columns `model_label` and
                `inclusion_prob`, and `part` if the sample was split.
            shuffle: Write rows in a random order, derived from the draw's seed, so that
                the first rows are a random subsample.
            bom: Write a byte order mark, by which Excel recognizes UTF-8.
            delimiter: Column delimiter. In locales with a decimal comma, Excel expects
                ";" and shows a file with "," as one column. `read_gold` recognizes ",",
                ";" and tabs.
            overwrite: Overwrite an existing file.
            uncoded: Write only texts that nobody has coded yet, such as the texts of a
                second wave. `read_gold` keeps the codes of the other texts.
            spreadsheet: Put an apostrophe before cells that a spreadsheet would execute
                as a formula (`=`, `+`, `-`, `@`), also before ids; `read_gold` removes
                it. Use it if you open texts of strangers in a spreadsheet. By default
                ids and texts are written unchanged, so that other programs can join them.

        Raises:
            ValueError: A coder's name is not allowed as a column name, or a file with
                other content, such as codes, exists.
            OSError: The file cannot be written.
        """
        checks.choice("delimiter", delimiter, forms.DELIMITERS)
        flags = {"blind": blind, "shuffle": shuffle, "bom": bom, "overwrite": overwrite}
        flags |= {"uncoded": uncoded, "spreadsheet": spreadsheet}
        for name, flag in flags.items():
            checks.flag(name, flag)
        check_kind(checks.path("path", path), ".csv")
        names = self.coders or ["code"]
        if coders is not None:
            names = list(checks.some_texts("coders", coders))
        for name in names:
            if not name or name in self.own_columns or names.count(name) > 1:
                others = ", ".join(self.own_columns)
                raise ArgumentError(
                    "must be different names, and must not be names of other columns "
                    f"({others}); {checks.brief(name)} is not allowed",
                    argument="coders",
                    code="duplicate",
                )
        known = dict(zip(self.coders, self.codes, strict=True))
        order = np.arange(len(self))
        if shuffle:
            order = np.random.default_rng(self.design["seed"]).permutation(len(self))
        columns: dict[str, Sequence[Any]] = {"id": self.ids, "text": self.texts}
        if not blind:
            columns |= self._of_model(list(map(repr, self.probs.tolist())))
        for name in names:
            columns[name] = list(map(self.word_of, known.get(name, [None] * len(self))))
        table = list(zip(*columns.values(), strict=True))
        done = [uncoded and code is not None for code in self.gold]
        rows = [[cell or "" for cell in table[i]] for i in order.tolist() if not done[i]]
        content = forms.csv_bytes([list(columns), *rows], bom, delimiter, spreadsheet)
        files = {Path(path): content, sidecar(path): self.to_json().encode()}
        for file, content in files.items():
            check_free(file, content, overwrite=overwrite)
        for file, content in reversed(files.items()):  # no sheet without its design
            write_whole(file, content, argument="path")

    def _of_model(self, probs: Sequence[str] | Floats) -> dict[str, Any]:
        """Return the columns that coders should not see."""
        parts = {} if self.parts is None else {PART: self.parts}
        labels = list(map(self.word_of, self.labels))
        return {"model_label": labels, "inclusion_prob": probs, **parts}

    def word_of(self, code: str | None) -> str | None:
        """Return a code for tables: a word, not "", if none of the labels applies.

        Programs read an empty cell of a CSV file as a missing code.
        """
        return none_of(self.names) if self.several and code == "" else code

    def to_pandas(self) -> Any:  # pandas is optional
        """Return a data frame: row, id, text, model_label, inclusion_prob, codes.

        If texts may have several labels, "none" (or "(none)", if a label is called
        "none") means that no label applies, so that the codes survive a CSV file. The
        index is new: with the data frame from which the sample was drawn,
        `frame.iloc[table["row"]]` has the rows of the sample.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional

        texts = {"row": self.rows, "id": self.ids, "text": self.texts}
        codes = [list(map(self.word_of, column)) for column in self.codes]
        by_coder = dict(zip(self.coders, codes, strict=True))
        return pd.DataFrame({**texts, **self._of_model(self.probs), **by_coder})

    def to_json(self) -> str:
        """Return the sample as JSON, which `from_json` reads; floats are exact."""
        return forms.json_of(self)

    @classmethod
    def from_json(cls, text: str) -> GoldSample:
        """Read a sample that `to_json` wrote.

        Raises:
            ValueError: The text is not a sample, or its probabilities were changed.
        """
        return cls(**forms.fields_of(text))

    def __repr__(self) -> str:
        n_coded = sum(code is not None for code in self.gold)
        return (
            f"<GoldSample: {len(self)} of {count_of(len(self.all_probs), 'text')}, "
            f"{self.design['kind']}, {n_coded} coded by "
            f"{count_of(len(self.coders), 'coder')}>"
        )


def majority_code(
    codes: Sequence[str | None], names: Sequence[str], *, several: bool
) -> tuple[str | None, bool]:
    """Return the code of a text by the majority of its coders, and True if they tie."""
    if not several:
        return majority(codes)
    labels, is_tie = majority_of_sets(
        [None if code is None else labels_in(code, names) for code in codes]
    )
    if labels is None:
        return None, False
    return joined_labels(labels_in(joined_labels(labels), names)), is_tie


def sidecar(path: str | os.PathLike[str]) -> Path:
    """Return the path of the design file that belongs to a CSV file."""
    return Path(f"{os.fspath(path)}.json")
