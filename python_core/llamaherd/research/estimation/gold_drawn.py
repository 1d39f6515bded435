"""The type of gold samples: texts for people to code, and their codes."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd.core import checks
from llamaherd.research import frames
from llamaherd.research.codes import text_of
from llamaherd.research.coding.label_sets import (
    joined,
    labels_in,
    majority,
    none_of,
)
from llamaherd.research.estimation import gold_file
from llamaherd.research.estimation.gold_codes import CodeReader, told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.sampling import Floats, Ints

_FORMAT = 1
# Columns of the CSV that are no coder's.
OURS = ("id", "text", "model_label", "inclusion_prob")


@dataclass(frozen=True, kw_only=True, eq=False)
class GoldSample:
    """Texts that people code, drawn from N texts with known inclusion probabilities.

    Attributes:
        rows: n indices of the texts into the data that they were drawn from.
        ids: n identifiers of the texts.
        texts: n texts; None where no column of texts was given.
        all_probs: float64[N], the inclusion probability of every text; 0 where there is
            no text to code.
        strata: int64[N]; of each stratum a fixed number of texts was drawn.
        names: The labels that codes may be; () if any.
        labels: n labels of the model, or None.
        design: How they were drawn, all that is needed to check it: "kind", "n", "N",
            "seed", "sha256" of all ids and texts, and what the kind needs; "several" is
            true where a text may have several labels, which are joined then.
        codes: For each coder n codes, None where a text has none yet.
        coders: Their names.
        all_ids: N identifiers of all texts, by which data in another order are matched;
            None: they are numbers of rows.
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

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def probs(self) -> Floats:
        """float64[n]: the inclusion probabilities of the texts drawn."""
        return np.asarray(self.all_probs[self.rows])

    @property
    def several(self) -> bool:
        """Whether a text may have several labels."""
        return bool(self.design.get("several"))

    def moved(self, places: Sequence[int] | None) -> GoldSample:
        """The same for data whose row i of the draw is in another place.

        Args:
            places: For each of N rows of the draw its row now; None: the same.
        """
        if places is None:
            return self
        probs, strata = np.empty_like(self.all_probs), np.empty_like(self.strata)
        probs[list(places)], strata[list(places)] = self.all_probs, self.strata
        return replace(
            self,
            rows=[int(places[row]) for row in self.rows],
            all_probs=probs,
            strata=strata,
            all_ids=None,
        )

    @property
    def gold(self) -> list[str | None]:
        """For each text what most of its coders say; of equally many the first.

        Of several labels each by itself.
        """
        most = self._majority_of_labels if self.several else _majority
        return [most(each) for each in zip(*self.codes, strict=True)] or (
            [None] * len(self)
        )

    def _majority_of_labels(self, codes: Sequence[str | None]) -> str | None:
        said = [labels_in(code, self.names) for code in codes if code is not None]
        if not said:
            return None
        more, half = majority(said)
        labels = (*more, *(label for label in half if label in said[0]))
        return joined(labels_in(joined(labels), self.names))

    def with_codes(
        self,
        codes: Any,  # noqa: ANN401 - a data frame of any kind, a mapping, a sequence
        coder: str = "code",
    ) -> GoldSample:
        """The same with codes: n of one coder, or those of several by their names.

        Args:
            codes: n codes; or a mapping or data frame with n codes for each coder. Those
                of pandas are matched by their index if it has the sample's ids, its rows
                or the numbers 0 to n - 1; else they must be in the sample's order.
            coder: Name of the one coder.

        Codes are labels, as texts or as what `str` makes them, in any case; None, NaN and
        what `read_gold` takes for no code are none. Of several labels "" is none of them,
        as `annotate` has it.

        Raises:
            ValueError: They are not as many as texts, or no labels; or their index is of
                something else.
        """
        order = self._order_of(codes)
        if isinstance(codes, Mapping) or hasattr(codes, "columns"):
            given = {
                name: frames.column(codes, name, "codes") for name in frames.names(codes)
            }
        else:  # a pandas Series among them, although it has items
            given = {coder: codes}
        if isinstance(codes, Mapping):  # of Series, it may be
            given = {
                name: _ordered(frames.column(codes, name, "codes"), self._order_of(each))
                for name, each in codes.items()
            }
        elif order is not None:
            given = {name: _ordered(list(each), order) for name, each in given.items()}
        made = {str(name): self._checked(each, str(name)) for name, each in given.items()}
        coders = {**dict(zip(self.coders, self.codes, strict=True)), **made}
        return replace(self, coders=list(coders), codes=list(coders.values()))

    def _order_of(self, codes: Any) -> list[int] | None:  # noqa: ANN401 - of any kind
        """Places of the codes in the order of the sample, by the index that pandas has.

        None: it has none, or they are in that order.
        """
        index = frames.index_of(codes)
        n = len(self)
        if index is None or len(index) != n or index == list(range(n)):
            return None
        texts = [text_of(each) or "" for each in index]
        for wanted in (self.ids, list(map(str, self.rows)), list(map(str, range(n)))):
            if set(texts) == set(wanted) and len(set(texts)) == n:
                at = {each: i for i, each in enumerate(texts)}
                return [at[each] for each in wanted]
        raise ValueError(
            "codes have an index that is neither the sample's ids nor its rows: give "
            "codes.to_numpy() if they are in the sample's order"
        )

    def _checked(self, codes: Sequence[Any], coder: str) -> list[str | None]:
        if isinstance(codes, str) or len(codes) != len(self):
            raise ValueError(
                f"codes of {coder!r} must be {len(self)}, one for each text of the sample"
            )
        reader = CodeReader(self.names, several=self.several)
        made: list[str | None] = []
        problems = []
        for i, code in enumerate(codes):
            text = text_of(code)
            if self.several and text == "":
                text = none_of(self.names)
            label, problem = reader.read(text or "")
            made.append(label)
            if problem:
                where = f"codes of {coder!r}, row {i + 1} (id {self.ids[i]})"
                problems.append(f"{where}: {problem}")
        if problems:
            raise ValueError(told(problems))
        return made

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
    ) -> None:
        """Writes a CSV to be coded, and a sidecar `path`.json with the design.

        Columns are `id`, `text` and one for each coder, with codes that there are
        already. Cells that a spreadsheet would run get an apostrophe in front;
        `read_gold` takes it away. One file can go to each coder, too.

        Args:
            path: Of the CSV.
            coders: Names of the columns for codes, or one; None: the sample's, or "code".
            blind: Without the model's label and the inclusion probability, of which
                coders should not know; else with columns `model_label` and
                `inclusion_prob`.
            shuffle: In a random order, from the draw's seed, so that codes of the first
                texts only are a random part.
            bom: With the mark by which Excel knows UTF-8.
            delimiter: Between cells. Where numbers have a decimal comma Excel expects
                ";", and shows a file with "," as one column. `read_gold` knows all.
            overwrite: Whether a file that is there already may be lost.

        Raises:
            ValueError: Names of coders are no names of columns; or there is a file with
                something else in it, such as codes.
            OSError: It cannot be written.
        """
        checks.choice("delimiter", delimiter, gold_file.DELIMITERS)
        given = [coders] if isinstance(coders, str) else coders
        names = list(given) if given is not None else self.coders or ["code"]
        for name in names:
            if not name or name in OURS or names.count(name) > 1:
                raise ValueError(
                    f"coders must be different names, none of {', '.join(OURS)}, not "
                    f"{checks.shown(name)}"
                )
        known = dict(zip(self.coders, self.codes, strict=True))
        order = np.arange(len(self))
        if shuffle:
            order = np.random.default_rng(self.design["seed"]).permutation(len(self))
        header = [
            "id",
            "text",
            *([] if blind else ["model_label", "inclusion_prob"]),
            *names,
        ]
        rows = [header]
        probs = self.probs
        for i in order.tolist():
            cells = [self.ids[i], self.texts[i] or ""]
            if not blind:
                cells += [self.labels[i] or "", repr(float(probs[i]))]
            cells += [
                self._cell(known[name][i]) if name in known else "" for name in names
            ]
            rows.append(cells)
        content, there = gold_file.written(rows, bom, delimiter), Path(path)
        if not overwrite and there.exists() and there.read_bytes() != content:
            raise ValueError(
                f"path: {str(there)!r} is there already and may have codes in it: choose "
                "another name, or set overwrite if it may be lost"
            )
        there.write_bytes(content)
        sidecar(path).write_text(self.to_json(), encoding="utf-8")

    def _cell(self, code: str | None) -> str:
        return none_of(self.names) if self.several and code == "" else code or ""

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is optional
        """A data frame: row, id, text, model_label, inclusion_prob, codes.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # noqa: PLC0415 - optional

        columns: dict[str, object] = {
            "row": self.rows,
            "id": self.ids,
            "text": self.texts,
            "model_label": self.labels,
            "inclusion_prob": self.probs,
        }
        return pd.DataFrame(
            {**columns, **dict(zip(self.coders, self.codes, strict=True))}
        )

    def to_json(self) -> str:
        """All of it as a text, for `from_json`; floats survive exactly."""
        stored = {
            "llamaherd_gold": _FORMAT,
            "rows": self.rows,
            "ids": self.ids,
            "texts": self.texts,
            "all_probs": self.all_probs.tolist(),
            "strata": self.strata.tolist(),
            "names": self.names,
            "labels": self.labels,
            "design": self.design,
            "codes": self.codes,
            "coders": self.coders,
            **({} if self.all_ids is None else {"all_ids": self.all_ids}),
        }
        stored["probs_sha256"] = _probs_sha256(self.all_probs)
        return json.dumps(stored, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> GoldSample:
        """A sample that was stored.

        Raises:
            ValueError: The text is none, or its probabilities were changed.
        """
        try:
            stored = json.loads(text)
            made = cls(
                rows=[int(row) for row in stored["rows"]],
                ids=list(map(str, stored["ids"])),
                texts=list(stored["texts"]),
                all_probs=np.array(stored["all_probs"], dtype=np.float64),
                strata=np.array(stored["strata"], dtype=np.int64),
                names=tuple(stored["names"]),
                labels=list(stored["labels"]),
                design=dict(stored["design"]),
                codes=[list(each) for each in stored["codes"]],
                coders=list(stored["coders"]),
                all_ids=_texts_or_none(stored.get("all_ids")),
            )
            checksum, form = stored["probs_sha256"], stored["llamaherd_gold"]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"text is no stored gold sample: {error!r}") from error
        if form != _FORMAT:
            raise ValueError(f"text is a gold sample of another format, {form!r}")
        if checksum != _probs_sha256(made.all_probs):
            raise ValueError(
                "the inclusion probabilities of the stored gold sample were changed: it "
                "gives no valid estimates; use the sample as it was drawn"
            )
        return made

    def __repr__(self) -> str:
        n_coded = sum(code is not None for code in self.gold)
        return (
            f"<GoldSample: {len(self)} of {len(self.all_probs)} texts, "
            f"{self.design['kind']}, {n_coded} coded by {len(self.coders)} coders>"
        )


def _texts_or_none(values: Sequence[Any] | None) -> list[str] | None:
    return None if values is None else list(map(str, values))


def _ordered(values: list[Any], order: Sequence[int] | None) -> list[Any]:
    return values if order is None else [values[i] for i in order]


def _probs_sha256(probs: Floats) -> str:
    return hashlib.sha256(np.ascontiguousarray(probs, dtype="<f8").tobytes()).hexdigest()


def _majority(codes: Sequence[str | None]) -> str | None:
    counts = Counter(code for code in codes if code is not None)
    return counts.most_common(1)[0][0] if counts else None


def sidecar(path: str | os.PathLike[str]) -> Path:
    """Where the design of a CSV is."""
    return Path(f"{os.fspath(path)}.json")
