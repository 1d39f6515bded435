"""Codes of people, with the probabilities that their texts are drawn and coded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from llamaherd.coding.codes import text_of
from llamaherd.coding.codes.coders import note_on_ties
from llamaherd.coding.frames import numbers_for
from llamaherd.coding.gold import waves
from llamaherd.coding.gold.joins import note
from llamaherd.coding.gold.sample import GoldSample, majority_code
from llamaherd.coding.statistics import sampling
from llamaherd.coding.statistics.dsl import CodedTexts, Drawing, Outside, join_outside
from llamaherd.coding.statistics.intervals import normal_quantile
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, percents
from llamaherd.engine.core.words import name_of, setting, words

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from llamaherd.engine.core.arrays import Floats, Ints

_ROUNDING = 1e-9  # tolerance for rounding errors of rates
_MOST_ERRORS = 4  # standard errors: more are hardly chance
_HALF = 0.5 + 1e-6  # numbers of texts are whole numbers
# Response rates of labels are treated as different if such a difference is improbable
# with equal rates, over all labels that are tested together (Bonferroni). A label of
# which fewer texts were drawn is not tested, because the normal approximation fails.
_UNLIKELY = 0.05
_LEAST_DRAWN = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codes(CodedTexts):
    """Codes that m people gave to n of N texts, and how these texts were drawn."""

    columns: list[list[Any]]  # For each coder n codes; None if a code is missing
    coders: tuple[str, ...] = ()  # Names of the m coders
    # Record of the draw, see `GoldSample.design`; None if the texts were not drawn, so
    # that their probabilities are unknown
    design: Mapping[str, Any] | None = None
    names: tuple[Hashable, ...] = ()  # Labels that the sample allows; () if unknown
    several: bool = False  # True if a text may have several labels, which are joined
    n_without: int = 0  # Number of drawn texts without a code
    # True if response rates differ by the model's label
    is_by_label: bool = False
    notes: list[str] = field(default_factory=list)  # Notes for the user

    @property
    def decided(self) -> list[str]:
        """The code of each text: that of the majority of its coders."""
        if len(self.columns) == 1:
            return [code or "" for code in self.columns[0]]
        return [code or "" for code, _ in self._majorities]

    @property
    def notes_on_ties(self) -> list[str]:
        """A note on texts on which coders tie."""
        n_ties = sum(is_tie for _, is_tie in self._majorities)
        return note_on_ties(n_ties, len(self.rows), self.coders)

    @property
    def _majorities(self) -> list[tuple[str | None, bool]]:
        texts = zip(*self.columns, strict=True)
        names = tuple(map(str, self.names))
        return [majority_code(codes, names, several=self.several) for codes in texts]

    @property
    def is_even(self) -> bool:
        """True if all texts had the same inclusion probability."""
        probs = self.probs if self.all_probs is None else self.all_probs
        is_equal = bool(np.ptp(probs) == 0)
        return is_equal and self.drawing is None and not self.is_by_label

    @property
    def kind(self) -> str:
        """Kind of the draw."""
        return "" if self.design is None else str(self.design["kind"])

    @property
    def strata_names(self) -> dict[int, str]:
        """Names of the strata by number; {} if they are unknown."""
        names = (self.design or {}).get("strata") or {}
        return {h: str(name) for h, name in enumerate(names)}

    def at(self, texts: Ints) -> Self:
        """Return the codes of some of the n texts."""
        return replace(
            self,
            rows=self.rows[texts],
            probs=self.probs[texts],
            strata=None if self.strata is None else self.strata[texts],
            drawing=None if self.drawing is None else self.drawing.of(texts),
            columns=[[column[i] for i in texts] for column in self.columns],
        )

    def among(self, kept: Ints, n_texts: int) -> Codes:
        """Return the codes for a subset of the N texts, with rows of the subset."""
        new_rows = np.full(n_texts, -1, dtype=np.int64)
        new_rows[kept] = np.arange(len(kept))
        is_here = new_rows[self.rows] >= 0
        outside = self.outside
        if self.strata is not None:
            left = self.drawn_terms[1]
            gone = Outside(strata=self.strata[~is_here], left=left[~is_here])
            outside = join_outside([outside, gone])
        part = self.at(np.flatnonzero(is_here))
        return replace(
            part,
            rows=new_rows[part.rows],
            all_probs=None if self.all_probs is None else self.all_probs[kept],
            all_strata=None if self.all_strata is None else self.all_strata[kept],
            outside=outside,
        )

    def with_columns(self, columns: list[list[Any]]) -> Codes:
        """Return the texts with these codes, without texts that nobody coded."""
        coded = texts_with_code(columns)
        n_lost = 0 if self.design is None else len(self.rows) - len(coded)
        with_codes = replace(self, columns=columns, n_without=self.n_without + n_lost)
        return with_codes.at(coded)


def texts_with_code(columns: Sequence[Sequence[Any]]) -> Ints:
    """Return the indices of the texts that somebody coded."""
    coded = [
        any(code is not None for code in codes) for codes in zip(*columns, strict=True)
    ]
    return np.flatnonzero(coded)


def codes_of_sample(gold: GoldSample, *, has_empty_strata: bool = False) -> Codes:
    """Return the codes of a sample; if some are missing, see `_with_response`."""
    coded = texts_with_code(gold.codes)
    rows = np.array(gold.rows, dtype=np.int64)[coded]
    codes = Codes(
        rows=rows,
        probs=gold.all_probs[rows],
        strata=gold.draw_strata[coded],
        all_probs=gold.all_probs,
        all_strata=gold.strata,
        outside=waves.combine(gold.waves).outside if gold.waves else gold.outside,
        columns=[[column[i] for i in coded] for column in gold.codes],
        coders=tuple(gold.coders),
        design=gold.design,
        names=gold.names,
        several=gold.several,
        n_without=len(gold) - len(coded),
    )
    if 0 < len(coded) < len(gold):
        codes = _with_response(codes, gold, coded, has_empty_strata=has_empty_strata)
    return replace(codes, drawing=_drawing(codes, gold)) if gold.waves else codes


def codes_of_texts(
    gold: GoldSample | Sequence[Any],
    prob: object,
    n_texts: int,
    kept: Ints,
    *,
    is_clustered: bool = False,
) -> Codes:
    """Read a gold sample, or codes with probabilities from `prob`, for the kept texts."""
    if isinstance(gold, GoldSample):
        if prob is not None:
            problem = f"must not be given: {name_of('gold')} has a design"
            raise ArgumentError(problem, argument="prob")
        if not len(kept):
            raise ArgumentError(
                "no text has a value in all columns of the formula",
                argument="formula",
                code="missing",
                form="{name}: {problem}",
            )
        codes = _of_sample(gold, n_texts, kept)
    else:
        codes = _of_list(gold, prob, n_texts, kept, is_clustered=is_clustered)
    warn_notes(codes.notes)
    n_open = len(gold) - len(codes.rows) - codes.n_without
    if isinstance(gold, GoldSample) and n_open:
        codes = replace(codes, notes=[*codes.notes, note("open_wave", n=n_open)])
    return codes.among(kept, n_texts)


def _of_list(
    gold: Sequence[Any], prob: object, n_texts: int, kept: Ints, *, is_clustered: bool
) -> Codes:
    if prob is None:
        raise ArgumentError(
            note("unknown_probabilities", simple=setting("prob", "simple")),
            argument="prob",
            code="missing",
            form="{problem}",
        )
    codes = [text_of(code) for code in gold]
    if len(codes) != n_texts:
        raise ArgumentError(
            f"must have {count_of(n_texts, 'code')}, one for each text and "
            f"{words().missing} for texts "
            f"without one, not {len(codes)}",
            argument="gold",
            code="wrong_length",
        )
    rows = texts_with_code([codes])
    is_simple = isinstance(prob, str)
    if is_simple:
        checks.choice("prob", prob, ("simple",))
        # The codes of any part of the texts are a simple sample of this part.
        rows = rows[np.isin(rows, kept)]
        probs = np.full(n_texts, len(rows) / max(len(kept), 1))
    else:
        probs = numbers_for(prob, n_texts, "prob")
    if len(rows):
        _check_positive(probs, kept, [str(i + 1) for i in range(n_texts)])
    _check_some(len(rows))
    # The number of codes varies more if whole clusters are drawn.
    is_known = is_simple or is_clustered
    by = "simple, as the caller says" if is_simple else "probabilities by the caller"
    return Codes(
        rows=rows,
        probs=probs[rows],
        strata=np.zeros(len(rows), dtype=np.int64) if is_simple else None,
        all_probs=probs,
        columns=[[codes[i] for i in rows]],
        design={"kind": by},
        notes=[] if is_known else unlikely_number(probs[kept], rows[np.isin(rows, kept)]),
    )


def _of_sample(gold: GoldSample, n_texts: int, kept: Ints) -> Codes:
    ids = dict(zip(gold.rows, gold.ids, strict=True))
    _check_positive(
        gold.all_probs, kept, [ids.get(i, str(i + 1)) for i in range(n_texts)]
    )
    gold = gold.coded_waves()
    _check_some(len(texts_with_code(gold.codes)))
    return codes_of_sample(gold)


def _drawing(codes: Codes, gold: GoldSample) -> Drawing:
    """Return the terms of the variance of a sample that was drawn in waves.

    If codes are missing, response is treated as one more random draw. The variance term
    of a code then has the whole weight of the code, 1 / probs.
    """
    combined = waves.combine(gold.waves).of(codes.rows.tolist())
    rates = codes.probs * combined.weights
    is_full = rates > 1 - _ROUNDING
    return Drawing(
        scale=np.where(is_full, combined.scale, 1 / codes.probs),
        left=np.where(is_full, combined.left, 1 - (1 - combined.left) * rates),
    )


def unlikely_number(probs: Floats, rows: Ints) -> list[str]:
    """Return a note if the number of codes does not fit the inclusion probabilities.

    If texts are drawn independently, the number of codes has the mean sum(probs) and the
    variance sum(probs * (1 - probs)); designs that draw texts from strata vary less.
    """
    expected = float(probs.sum())
    error = float(np.sqrt((probs * (1 - probs)).sum()))
    if abs(len(rows) - expected) <= _MOST_ERRORS * error + _HALF:
        return []
    return [note("unlikely_number", expected=expected, n=len(rows))]


def _check_some(n_coded: int) -> None:
    if n_coded < 2:
        raise ArgumentError(
            f"has no codes yet: {words().let_code}"
            if n_coded == 0
            else "has only one code: there must be more",
            argument="gold",
            code="no_codes",
        )


def _check_positive(probs: Floats, kept: Ints, ids: Sequence[str]) -> None:
    values = probs[kept]
    sampling.check_probs(values, kept)
    never = kept[values == 0]
    if len(never) > 0:
        first = [ids[i] for i in never[:5]]
        raise ArgumentError(
            note("never_drawn", n=len(never), ids=first, n_more=len(never) - 5),
            argument="gold",
            code="probability_0",
            form="{name}: {problem}",
        )


def _with_response(
    codes: Codes, gold: GoldSample, coded: Ints, *, has_empty_strata: bool
) -> Codes:
    """Return the probabilities that texts are both drawn and coded, and notes.

    Coded texts are assumed to be a random part of the drawn texts in their stratum. If
    response rates differ by the model's label, coded texts are assumed to be a random
    part of the drawn texts with the same stratum and label.

    Source: weighting within response homogeneity groups, Särndal, Swensson, Wretman,
    "Model Assisted Survey Sampling", 1992, section 15.6.
    """
    n, strata = len(gold), gold.draw_strata
    rates = _rates(strata, coded)
    empty = np.unique(strata[rates[strata] == 0])
    if len(empty) and not has_empty_strata:
        raise ArgumentError(
            "has a stratum, or a wave, of which no text is coded yet; code some texts of "
            f"{_name_strata(gold.design, empty)}",
            argument="gold",
        )
    of_all = np.full(len(gold.strata), len(coded) / n)
    if not gold.waves:
        of_all = rates[gold.strata]
    names = [label or "no label" for label in gold.labels]
    keys = list(zip(strata.tolist(), names, strict=True))
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    cells = np.array([number[key] for key in keys], dtype=np.int64)
    of_cell = _rates(cells, coded)
    uneven = _uneven_response(names, strata, coded)
    has_all = not (of_cell[cells][~np.isin(strata, empty)] == 0).any()
    by_label = bool(uneven) and has_all
    used, by = (of_cell, cells) if by_label else (rates, strata)
    notes = [
        note(
            "without_code", n=n - len(coded), n_drawn=n, uneven=uneven, by_label=by_label
        )
    ]
    if len(empty):
        notes.append(note("empty_strata", n=len(empty)))
    return replace(
        codes,
        probs=codes.probs * used[by[coded]],
        all_probs=gold.all_probs * np.where(gold.strata >= 0, of_all, 0.0),
        is_by_label=bool(uneven),
        notes=notes,
    )


def _name_strata(design: Mapping[str, Any], empty: Ints) -> str:
    """Name strata by number, with the numbers of drawn texts; otherwise name waves."""
    names = list(design.get("strata") or {})
    if not names or max(empty) >= len(names):
        return f"each: {design.get('history')}"
    drawn = design.get("drawn") or {}
    strata = [
        f"{checks.quoted(names[h])} ({drawn.get(names[h], '?')} drawn)" for h in empty
    ]
    return ", ".join(strata)


def _rates(cells: Ints, coded: Ints) -> Floats:
    """Return the share of coded texts in each cell, float64[cells]; 1 for empty cells."""
    drawn = np.bincount(cells)
    n_coded = np.bincount(cells[coded], minlength=len(drawn))
    return np.where(drawn > 0, n_coded / np.maximum(drawn, 1), 1.0)


def _uneven_response(names: list[str], strata: Ints, coded: Ints) -> str:
    """Describe response rates by label if they differ within strata; else return ""."""
    expected = _rates(strata, coded)[strata]
    is_coded = np.zeros(len(strata), dtype=bool)
    is_coded[coded] = True
    labels = np.array(names)
    tested = [name for name, n in Counter(names).items() if n >= _LEAST_DRAWN]
    unlikely = normal_quantile(1 - _UNLIKELY / max(len(tested), 1))
    gaps = {}  # by label, in standard errors
    for name in tested:
        has_label = labels == name
        rest = 1 - has_label.mean()  # a label is compared with all others
        error = float(np.sqrt((expected * (1 - expected))[has_label].sum() * rest))
        gap = abs(float((is_coded - expected)[has_label].sum())) - 0.5
        gaps[name] = gap / error if error > 0 else 0.0
    if max(gaps.values(), default=0.0) <= unlikely:
        return ""
    rates = [
        f"{percents(is_coded[labels == name].mean(), 0)} of {checks.quoted(name)}"
        for name in sorted(gaps, key=lambda name: -gaps[name])
    ]
    return ", ".join(rates[:6])
