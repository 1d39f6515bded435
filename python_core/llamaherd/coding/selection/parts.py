"""Parts of a gold sample, to explore, to select and to evaluate, and their codes.

The split is a record in the design of the sample, so it is stored together with the
sample. Texts are assigned at random within each stratum of the draw, a fixed number to
each part. Each part is therefore itself a sample, with inclusion probabilities

    probability of the draw * texts of the part / texts drawn, both within the stratum.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.label_sets import Labels, labels_in
from llamaherd.coding.codes import number_in
from llamaherd.coding.gold.codes import Codes, codes_of_sample, texts_with_code
from llamaherd.coding.gold.joins import in_parts
from llamaherd.coding.gold.sample import SPLIT, GoldSample, majority_code, sidecar
from llamaherd.coding.gold.sheets import read_gold
from llamaherd.coding.sentences import Notes
from llamaherd.engine.core import checks, files
from llamaherd.engine.core.errors import ArgumentError, renamed
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.words import call, words

if TYPE_CHECKING:
    from llamaherd.engine.core.arrays import Flags, Floats, Ints

note = Notes("llamaherd.coding.selection")
PartName = Literal["explore", "select", "evaluate"]
PARTS: tuple[PartName, ...] = ("explore", "select", "evaluate")
_LEAST = 2  # least number of texts, or of codes, of a part
_FEW = 20  # a part with fewer texts gets a warning


def gold_split(
    gold: GoldSample | str | os.PathLike[str],
    explore: float = 0.2,
    select: float = 0.5,
    evaluate: float = 0.3,
    *,
    seed: int | None = None,
) -> GoldSample:
    """Split a gold sample at random into three parts.

    Write codebooks and choose examples with the texts of "explore", compare codebooks on
    the texts of "select", and measure the chosen codebook once on the texts of
    "evaluate". The accuracy of the codebook on "evaluate" is unbiased, because these
    texts were not used to choose it.

    Args:
        gold: Gold sample, with or without codes; or the path of its CSV file. With a
            path, the split is stored in the design file next to the CSV file.
        explore: Share of the texts in "explore"; it may be 0.
        select: Share of the texts in "select".
        evaluate: Share of the texts in "evaluate".
        seed: Seed of the split; None for a random seed, which is recorded.

    Returns:
        The sample with the split in its design, which `GoldSample.write` and `read_gold`
        preserve; `gold_part` returns a part.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Shares do not sum to 1, a part would be too small, or the sample was
            split before.

    Warns:
        UserWarning: "select" or "evaluate" has fewer than 20 texts.
    """
    path = None if isinstance(gold, GoldSample) else gold
    sample = opened_sample(gold)
    if SPLIT in sample.design:
        raise ArgumentError(
            "is split already: codebooks compared on another split would have seen "
            "the texts to evaluate",
            argument="gold",
            code="already_split",
        )
    if sample.waves:
        raise ArgumentError(
            "was drawn in waves of different designs, which cannot be split: split a "
            "sample of one wave, or of waves of one design",
            argument="gold",
            code="waves",
        )
    if "part" in sample.design:
        raise ArgumentError(
            f"is the part {checks.quoted(sample.design['part'])} of a sample: split "
            "the whole sample",
            argument="gold",
            code="already_split",
        )
    shares: dict[str, float] = {
        name: checks.real(name, value, 0 if name == "explore" else 1e-6, 1)
        for name, value in zip(PARTS, (explore, select, evaluate), strict=True)
    }
    if abs(sum(shares.values()) - 1) > 1e-6:
        raise ArgumentError(
            f"and the two other shares must sum to 1, not to {sum(shares.values()):g}",
            argument="explore",
            code="out_of_range",
        )
    if seed is None:
        seed = int(np.random.default_rng().integers(2**53))
    checks.integer("seed", seed, 0, 2**53)
    allotted = _allot_parts(sample, shares, np.random.default_rng(seed))
    record: dict[str, Any] = {
        "seed": seed,
        "shares": shares,
        "parts": allotted,
        "sha256": _sha256(sample, allotted),
        "opened": [],
    }
    split_sample = replace(sample, design={**sample.design, SPLIT: record})
    if path is not None:
        store_record(path, record)
    return split_sample


def gold_part(gold: GoldSample, part: PartName) -> GoldSample:
    """Return a part of a split gold sample; the part is itself a sample of all N texts.

    `validate` and `estimate` accept the part like any other sample.

    Args:
        gold: Sample that `gold_split` returned.
        part: "explore", "select" or "evaluate".

    Raises:
        ValueError: The sample has no split; or the part is "evaluate", which is locked
            until `evaluate_codebook` unlocks it.
    """
    checks.choice("part", part, PARTS)
    if part == "evaluate" and not record_of(gold)["opened"]:
        raise ArgumentError(
            f"'evaluate' is locked until {call('evaluate_codebook')} unlocks it, so that "
            "its texts are not used to choose",
            argument="part",
            code="closed",
        )
    return part_of(gold, part)


def part_of(gold: GoldSample, part: str) -> GoldSample:
    """Return a part as `gold_part` does, even if it is locked."""
    record_of(gold)  # checks the split
    return in_parts(gold, (part,))


def record_of(gold: object) -> dict[str, Any]:
    """Return the record of a split."""
    sample = checks.instance("gold", gold, GoldSample, "a GoldSample")
    record = sample.design.get(SPLIT)
    if not isinstance(record, Mapping):
        raise ArgumentError(
            "has no split into explore, select and evaluate: use "
            f"{call('gold_split')} first",
            argument="gold",
            code="no_split",
        )
    allotted = list(record["parts"])
    if len(allotted) != len(sample) or record["sha256"] != _sha256(sample, allotted):
        raise ArgumentError(
            "has a split of other texts, or its split was changed: results would not be "
            "those of the parts drawn",
            argument="gold",
            code="changed",
        )
    return dict(record)


def opened_sample(gold: Any) -> GoldSample:  # a sample or a path
    """Return the sample, or read the sample that was written to a path."""
    if isinstance(gold, (str, os.PathLike)):
        with renamed(path="gold"):
            return read_gold(gold)
    expected = "a GoldSample, or the path of the CSV file that people coded"
    return checks.instance("gold", gold, GoldSample, expected)


def store_record(path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Store a split in the design file of a sample that was written to a path."""
    place = sidecar(path)
    known = GoldSample.from_json(files.text_of_file("gold", place))
    split_sample = replace(known, design={**known.design, SPLIT: dict(record)})
    files.write_whole(place, split_sample.to_json().encode())


def check_storable(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the path of a sheet if records can be stored in its design file."""
    place = sidecar(path)
    reason = files.why_unwritable(place.parent) or files.why_unwritable(place)
    if reason:
        raise PermissionError(
            f"{place} cannot be written: {reason}; the evaluation could not be recorded"
        )
    return path


def _allot_parts(
    gold: GoldSample, shares: Mapping[str, float], rng: np.random.Generator
) -> list[str]:
    """Return the part of each text of the sample."""
    strata = np.asarray(gold.strata[gold.rows])
    names = list(shares)
    targets = np.array([shares[name] for name in names])
    allotted = np.empty(len(gold), dtype=object)
    carry = np.zeros(len(names))
    for stratum in np.unique(strata):
        at = np.flatnonzero(strata == stratum)
        if len(at) < np.count_nonzero(targets):
            raise ArgumentError(
                f"has {count_of(len(at), 'text')} in {_stratum(gold, int(stratum))}, too "
                "few for "
                f"{np.count_nonzero(targets)} parts: draw more texts, or leave one part "
                "out with explore=0",
                argument="gold",
                code="too_few",
            )
        sizes, carry = _sizes(len(at), targets, carry)
        parts = np.repeat(np.array(names, dtype=object), sizes)
        allotted[at] = parts[rng.permutation(len(at))]
    text_parts = [str(part) for part in allotted]
    _check_sizes(text_parts, shares)
    return text_parts


def _sizes(n: int, targets: np.ndarray[Any, Any], carry: Any) -> tuple[Ints, Any]:
    """Return the sizes of parts in a stratum, and the rounding errors."""
    ideal = n * targets + carry
    least = (targets > 0).astype(np.int64)
    sizes = np.maximum(np.floor(ideal + 1e-9).astype(np.int64), least)
    while sizes.sum() < n:
        sizes[int(np.argmax(np.where(targets > 0, ideal - sizes, -np.inf)))] += 1
    while sizes.sum() > n:
        sizes[int(np.argmax(np.where(sizes > least, sizes - ideal, -np.inf)))] -= 1
    return sizes, ideal - sizes


def _check_sizes(allotted: Sequence[str], shares: Mapping[str, float]) -> None:
    few = []
    for name, share in shares.items():
        n = allotted.count(name)
        if share > 0 and n < _LEAST:
            raise ArgumentError(
                f"would have {n} of {count_of(len(allotted), 'text')}, and needs "
                f"{_LEAST} at least: give it a larger share, or draw more texts",
                argument=name,
                code="too_few",
            )
        if name != "explore" and n < _FEW:
            few.append(f"{name} has {n}")
    if few:
        warnings.warn(note("few_texts", parts=few), UserWarning, stacklevel=4)


def _stratum(gold: GoldSample, stratum: int) -> str:
    names = list(gold.design.get("strata") or ())
    return (
        f"the stratum {checks.quoted(names[stratum])}" if stratum < len(names) else "all"
    )


def _sha256(gold: GoldSample, allotted: Sequence[str]) -> str:
    """Hash the ids with their parts, and the texts from which the sample was drawn."""
    content = [gold.design.get("sha256"), list(gold.ids), list(allotted)]
    return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartCodes(Codes):
    """Codes of the n coded texts of a part, whose rows are 0 to n - 1."""

    ids: list[str]
    texts: list[str]
    # The labels of each text: one, unless a text may have several. For numbers the mean
    # of the coders' numbers, as a text
    right: list[Labels]

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, texts: Ints) -> Self:
        """Return some of the texts, in the given order."""
        return replace(
            super(PartCodes, self).at(texts),  # slots need both arguments
            rows=np.arange(len(texts)),
            ids=[self.ids[i] for i in texts],
            texts=[self.texts[i] for i in texts],
            right=[self.right[i] for i in texts],
        )

    def labelled(
        self,
        coded: Any,
        *,
        partly: bool = False,
    ) -> tuple[PartCodes, Coded]:
        """Return the texts that `coded` has, all if not `partly`, and their labels there.

        Texts are found by their content; equal ones are coded once.
        """
        expected = f"the result of {call('annotate')}"
        coded = checks.instance("coded", coded, Coded, expected)
        first: dict[str, int] = {}
        for row, text in enumerate(frames.column(coded.frame, coded.text, "text")):
            if text is not None:
                first.setdefault(" ".join(text.split()), row)
        rows = np.array([first.get(" ".join(text.split()), -1) for text in self.texts])
        missing = np.flatnonzero(rows < 0)
        if len(missing) and not partly:
            raise ArgumentError(
                f"has no labels of {len(missing)} of {count_of(len(self), 'text')}, "
                f"such as {checks.brief(self.texts[missing[0]])}: code all texts of the "
                "part",
                argument="coded",
                code="missing",
            )
        return self.at(np.flatnonzero(rows >= 0)), coded[rows[rows >= 0].tolist()]

    @property
    def weights(self) -> Floats:
        """1 / probability that a text is in the part and coded, float64[n]."""
        return np.asarray(1 / self.probs)

    @property
    def sha256(self) -> str:
        """Hash of ids, texts and codes, which reveals changes."""
        content = [self.ids, self.texts, [list(labels) for labels in self.right]]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @property
    def ties(self) -> set[int]:
        """Indices of the texts on which coders tie."""
        texts = enumerate(zip(*self.columns, strict=True))
        names = tuple(map(str, self.names))
        return {
            i
            for i, codes in texts
            if majority_code(codes, names, several=self.several)[1]
        }

    def has_label(self, labels: Sequence[Labels | None]) -> Flags:
        """Return which label each text has, bool[n, k]; none without an answer."""
        rows = [[name in (of_text or ()) for name in self.names] for of_text in labels]
        return np.array(rows, dtype=bool).reshape(len(labels), len(self.names))

    def sets_of(self, labels: Sequence[str | None]) -> list[Labels | None]:
        """Return labels, single or joined, as tuples of labels."""
        names = tuple(map(str, self.names))
        return [
            None
            if label is None
            else (labels_in(label, names) if self.several else (label,))
            for label in labels
        ]


def codes_of_part(gold: GoldSample, part: str, *, as_numbers: bool = False) -> PartCodes:
    """Return the codes of a part."""
    sample = part_of(gold, part)
    kept = texts_with_code(sample.codes).tolist()
    if len(kept) < _LEAST:
        raise ArgumentError(
            f"has codes of {len(kept)} of {count_of(len(sample), 'text')} of the part "
            f"{checks.quoted(part)}: {words().let_code}",
            argument="gold",
            code="too_few",
        )
    texts = [sample.texts[i] for i in kept]
    if any(text is None for text in texts):
        raise ArgumentError(
            "has no texts: draw it with text, the column of texts",
            argument="gold",
            code="missing",
        )
    people, names = codes_of_sample(sample), sample.names
    right: list[Labels]
    if as_numbers:
        right, ties = (
            [(_mean(codes, sample),) for codes in zip(*people.columns, strict=True)],
            [],
        )
    else:
        several, ties = sample.several, people.notes_on_ties
        right = [labels_in(c, names) if several else (c,) for c in people.decided]
    of_people = {part.name: getattr(people, part.name) for part in fields(people)}
    of_people |= {
        "rows": np.arange(len(kept)),
        "names": names or tuple(sorted({name for labels in right for name in labels})),
        "notes": [*people.notes, *(f"In the part {part!r}, {line}" for line in ties)],
    }
    return PartCodes(
        **of_people,
        ids=[sample.ids[i] for i in kept],
        texts=[str(text) for text in texts],
        right=right,
    )


def _mean(codes: Sequence[str | None], sample: GoldSample) -> str:
    """Return the mean of the coders' numbers as a text."""
    numbers = []
    for code in codes:
        if code is None:
            continue
        number = number_in(code)
        if number is None:
            label = sample.design.get("label")
            of = f" of {checks.quoted(label)}" if label else ""
            raise ArgumentError(
                f"has the code {checks.quoted(code)}{of}, which is not a number",
                argument="gold",
                code="no_number",
            )
        numbers.append(float(number))
    return repr(sum(numbers) / len(numbers))
