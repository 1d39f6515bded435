"""Use of a gold sample: its checks and selection in an estimate, and further draws."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.joins import RAW, SampleRows, current_rows
from llamaherd.coding.codes import numbers_of, text_of
from llamaherd.coding.codes.coders import note_on_ties
from llamaherd.coding.estimation.gold_drawn import WAVE_FIELDS, GoldSample
from llamaherd.coding.statistics import waves
from llamaherd.coding.statistics.dsl import Drawing
from llamaherd.coding.statistics.representative import answered
from llamaherd.coding.statistics.waves import Outside, Wave, together
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, percents, verb
from llamaherd.engine.core.words import call, setting, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.estimation.population import Population
    from llamaherd.coding.statistics.sampling import Draw, Floats, Ints

_ROUNDING = 1e-9  # tolerance for rounding errors of rates
_MOST_ERRORS = 4  # standard errors: more are hardly chance
_HALF = 0.5 + 1e-6  # numbers of texts are whole numbers
_UNKNOWN = (
    "gold has no inclusion probabilities, the probability with which each text was drawn "
    "for coding: without these probabilities no estimate is valid, however many texts "
    "were coded. Draw the texts to code with {draw}. If all texts had the same "
    "probability, pass {simple}; if you know other probabilities, pass these "
    "probabilities as prob. Texts that were picked by hand, or because they were "
    "difficult or came first, have no inclusion probabilities"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class GoldUsed:
    """Codes and their inclusion probabilities.

    Attributes:
        rows: int64[n], indices of the coded texts.
        codes: Codes of these texts.
        probs: float64[n], inclusion probabilities of these texts.
        strata: int64[n], strata of these texts; None if texts were drawn independently.
        is_even: True if all texts had the same inclusion probability.
        design: Description of the draw.
        notes: Notes for the user.
        all_probs: float64[N], inclusion probabilities of all texts; None if unknown.
        all_strata: int64[N], strata of all texts; None if unknown.
        names: Names of the strata by number.
        drawing: Terms of the draw's variance if the sample was drawn in several waves.
        outside: Codes of the sample that do not belong to these texts.
        given: Codes of each text by all coders; () if there is one code of each text.
        tie_notes: Notes on ties of coders, which are among `notes`.
    """

    rows: Ints
    codes: list[str]
    probs: Floats
    strata: Ints | None
    is_even: bool
    design: str
    notes: list[str] = field(default_factory=list)
    all_probs: Floats | None = None
    all_strata: Ints | None = None
    names: dict[int, str] = field(default_factory=dict)
    drawing: Drawing | None = None
    outside: Outside | None = None
    given: list[tuple[str, ...]] = field(default_factory=list)
    tie_notes: list[str] = field(default_factory=list)

    @property
    def notes_without_ties(self) -> list[str]:
        """Notes for a sample whose codes are not those of the majority."""
        return [note for note in self.notes if note not in self.tie_notes]

    def among(self, kept: Ints, n_texts: int) -> GoldUsed:
        """Return the sample for a subset of texts, with indices into the subset."""
        new_rows = np.full(n_texts, -1, dtype=np.int64)
        new_rows[kept] = np.arange(len(kept))
        here = np.flatnonzero(new_rows[self.rows] >= 0)
        return GoldUsed(
            rows=new_rows[self.rows[here]],
            codes=[self.codes[i] for i in here],
            probs=self.probs[here],
            strata=None if self.strata is None else self.strata[here],
            is_even=self.is_even,
            design=self.design,
            notes=self.notes,
            all_probs=None if self.all_probs is None else self.all_probs[kept],
            all_strata=None if self.all_strata is None else self.all_strata[kept],
            names=self.names,
            drawing=None if self.drawing is None else self.drawing.of(here),
            outside=together([self.outside, self._other_than(here)]),
            given=[self.given[i] for i in here] if self.given else [],
            tie_notes=self.tie_notes,
        )

    def _other_than(self, here: Ints) -> Outside | None:
        """Return all codes except those at the indices `here`; None without strata."""
        if self.strata is None:
            return None
        gone = np.setdiff1d(np.arange(len(self.rows)), here)
        left = 1 - self.probs if self.drawing is None else self.drawing.left
        return Outside(strata=self.strata[gone], left=left[gone])


def used_gold(
    gold: GoldSample | Sequence[Any],
    prob: object,
    n_texts: int,
    kept: Ints,
    *,
    is_clustered: bool = False,
) -> GoldUsed:
    """Read a gold sample, or codes with probabilities from `prob`.

    Args:
        gold: A sample of these N texts; or N codes, with None for uncoded texts.
        prob: "simple", or N inclusion probabilities; None to use the probabilities of the
            sample.
        n_texts: N, the number of texts in the data.
        kept: int64[m], rows of the texts that the estimate describes.
        is_clustered: Whether whole clusters of texts were drawn.
    """
    if isinstance(gold, GoldSample):
        if prob is not None:
            raise ArgumentError("must not be given: gold has a design", argument="prob")
        if not len(kept):
            raise ArgumentError(
                "no text has a value in all columns of the formula",
                argument="formula",
                code="missing",
                form="{name}: {problem}",
            )
        return _of_sample(gold, n_texts, kept)
    if prob is None:
        raise ArgumentError(
            _UNKNOWN.format(simple=setting("prob", "simple"), draw=call("gold_sample")),
            argument="prob",
            code="missing",
            form="{problem}",
        )
    codes = [text_of(code) for code in gold]
    if len(codes) != n_texts:
        raise ArgumentError(
            f"must have {count_of(n_texts, 'code')}, one for each text and "
            f"{words().constant(None)} for texts "
            f"without one, not {len(codes)}",
            argument="gold",
            code="wrong_length",
        )
    rows = np.flatnonzero([code is not None for code in codes])
    is_simple = isinstance(prob, str)
    if is_simple:
        checks.choice("prob", prob, ("simple",))
        # The codes of any part of the texts are a simple sample of this part.
        rows = rows[np.isin(rows, kept)]
        probs = np.full(n_texts, len(rows) / max(len(kept), 1))
    else:
        probs = numbers_of(prob, "prob")
        if probs.shape != (n_texts,):
            raise ArgumentError(
                f"must have {n_texts} values, one for each text",
                argument="prob",
                code="wrong_length",
            )
    if len(rows):
        _check_positive(probs, kept, [str(i + 1) for i in range(n_texts)])
    _check_some(len(rows))
    # The number of codes varies more if whole clusters are drawn.
    is_known = is_simple or is_clustered
    notes = [] if is_known else unlikely_number(probs[kept], rows[np.isin(rows, kept)])
    warn_notes(notes)
    return GoldUsed(
        rows=rows,
        notes=notes,
        codes=[codes[i] or "" for i in rows],
        probs=probs[rows],
        strata=np.zeros(len(rows), dtype=np.int64) if is_simple else None,
        is_even=bool(np.ptp(probs[kept]) == 0),
        design="simple, as the caller says"
        if is_simple
        else "probabilities by the caller",
        all_probs=probs,
    )


def _of_sample(gold: GoldSample, n_texts: int, kept: Ints) -> GoldUsed:
    ids = dict(zip(gold.rows, gold.ids, strict=True))
    _check_positive(
        gold.all_probs, kept, [ids.get(i, str(i + 1)) for i in range(n_texts)]
    )
    n_drawn = len(gold)
    gold = gold.coded_waves()
    codes = gold.gold
    coded = np.flatnonzero([code is not None for code in codes])
    _check_some(len(coded))
    open_wave = []
    if len(gold) < n_drawn:
        note = (
            f"{count_of(n_drawn - len(gold), 'text')} of the last wave "
            f"{verb(n_drawn - len(gold), 'has', 'have')} no codes yet: only the "
            "waves before it are used"
        )
        open_wave = [note]
    rows = np.array(gold.rows, dtype=np.int64)[coded]
    answers = answered(gold, coded)
    warn_notes(answers.notes)
    names = gold.design.get("strata") or {}
    return GoldUsed(
        rows=rows,
        codes=[codes[i] or "" for i in coded],
        probs=answers.probs,
        strata=gold.draw_strata[coded],
        is_even=not gold.waves
        and bool(np.ptp(gold.all_probs[kept]) == 0)
        and answers.is_even,
        design=str(gold.design["kind"]),
        notes=[*answers.notes, *open_wave, *ties(gold)],
        tie_notes=ties(gold),
        given=[
            tuple(column[i] or "" for column in gold.codes if column[i] is not None)
            for i in coded.tolist()
        ],
        all_probs=answers.all_probs,
        all_strata=gold.strata,
        names={h: str(name) for h, name in enumerate(names)},
        drawing=_drawing(gold, coded, answers.probs),
        outside=waves.combined(gold.waves).outside if gold.waves else gold.outside,
    )


def _drawing(gold: GoldSample, coded: Ints, probs: Floats) -> Drawing | None:
    """Return the terms of the variance of a sample that was drawn in waves.

    If codes are missing, response is treated as one more random draw. The variance term
    of a code then has the whole weight of the code, 1 / probs.
    """
    if not gold.waves:
        return None
    rows = [gold.rows[i] for i in coded]
    found = waves.combined(gold.waves).of(rows)
    weights, left = found.weights, found.left
    rates = probs * weights
    is_full = rates > 1 - _ROUNDING
    return Drawing(
        scale=np.where(is_full, found.scale, 1 / probs),
        left=np.where(is_full, left, 1 - (1 - left) * rates),
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
    note = (
        f"The probabilities (prob) add up to {expected:,.1f} texts, but "
        f"{count_of(len(rows), 'text')} {verb(len(rows), 'has', 'have')} a code: either "
        "the probabilities are not those of the draw, or codes are missing. Estimates "
        "are wrong if the probabilities are wrong"
    )
    return [note]


def ties(gold: GoldSample) -> list[str]:
    """Return a note on the number of texts with ties among coders."""
    decided = [gold.decided(each) for each in zip(*gold.codes, strict=True)]
    n_coded = sum(code is not None for code, _ in decided)
    return note_on_ties(sum(is_tie for _, is_tie in decided), n_coded, gold.coders)


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
    if not (np.isfinite(values) & (values >= 0) & (values <= 1)).all():
        raise ArgumentError(
            "must be a probability between 0 and 1 for each text",
            argument="prob",
            code="out_of_range",
        )
    never = kept[values == 0]
    if len(never) > 0:
        named = ", ".join(ids[i] for i in never[:5])
        more = f" and {len(never) - 5} more" if len(never) > 5 else ""
        raise ArgumentError(
            f"{count_of(len(never), 'text')} could never be drawn for the gold sample "
            "(ids "
            f"{named}{more}), so the errors of their labels are unknown. Draw a sample "
            "in which all texts have a probability above 0, or leave these texts out",
            argument="gold",
            code="probability_0",
            form="{name}: {problem}",
        )


WAVES = "waves"  # kind of a sample whose waves have different designs


def earlier_draw(after: GoldSample, texts: Population) -> tuple[GoldSample, Population]:
    """Match an earlier sample to the data; also return the texts that it did not draw."""
    if "split" in after.design or "part" in after.design:
        raise ArgumentError(
            f"was split: draw all waves before {call('gold_split')}",
            argument="after",
            code="already_split",
        )
    known = texts.texts if texts.text_column is not None else None
    data = SampleRows.of(after, texts.frame, len(texts), texts=known, labels=texts.labels)
    moved = replace(after.moved(current_rows(after, data)), all_ids=None)
    raw = f"{RAW}{texts.label_column}"
    if raw in frames.names(texts.frame):  # after recalibrate(): labels of the model
        column = frames.column(texts.frame, raw, "label")
        texts = replace(texts, labels=[text_of(each) for each in column])
    left = replace(texts, drawn=frozenset(moved.rows))
    if len(left.there) == 0:
        raise ArgumentError("has all texts already", argument="after", code="no_rows")
    return moved, left


def sizes_of(after: GoldSample) -> list[int]:
    """Return the number of texts of each wave."""
    if after.waves:
        return [wave.n for wave in after.waves]
    return [len(after)]


def highest_prob(after: GoldSample, n: int) -> float:
    """Return the highest inclusion probability that a further wave of n texts may use."""
    n_texts = int((after.all_probs > 0).sum())
    return waves.highest([*sizes_of(after), n], n_texts)


def is_same_design(
    after: GoldSample, draw: Draw, left: Ints, design: dict[str, Any]
) -> bool:
    """Return True if both draws together are one sample of the first draw's design.

    The draws are one sample if both are simple, or if both are stratified in the same way
    and their allocation follows from the sizes of the strata.
    """
    kind = design["kind"]
    if after.waves or kind != after.design["kind"]:
        return False
    if kind == "simple":
        return True
    if kind != "stratified" or not isinstance(design["allocation"], str):
        return False
    if not isinstance(after.design.get("allocation"), str):
        return False
    pairs = {*zip(after.strata[left].tolist(), draw.strata.tolist(), strict=True)}
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def check_highest(draw: Draw, most: float, names: Sequence[str]) -> None:
    """Check that no stratum is sampled so densely that a code would weigh less than 1."""
    dense = np.flatnonzero(draw.all_probs > most + 1e-9)
    if len(dense) > 0:
        name, prob = names[int(dense[0])], draw.all_probs[dense[0]]
        raise ArgumentError(
            f"would draw {percents(prob, 0)} of the remaining texts of stratum {name!r}; "
            f"with waves of different designs at most {percents(most, 0)} of a stratum "
            "can be drawn. "
            "Draw fewer texts of this stratum, or use the design of the first wave again",
            argument="allocation",
            code="out_of_range",
        )


def pooled(
    after: GoldSample, new: GoldSample, left: Ints, *, is_same: bool
) -> GoldSample:
    """Combine an earlier sample and a new wave into one sample.

    Args:
        after: Earlier sample, with row numbers of the current data.
        new: Texts of the new wave, with inclusion probabilities conditional on earlier
            waves.
        left: int64[M], rows from which the new wave was drawn.
        is_same: See `is_same_design`.
    """
    rows = sorted({*after.rows, *new.rows})
    at = {row: (after, i) for i, row in enumerate(after.rows)}
    at |= {row: (new, i) for i, row in enumerate(new.rows)}
    old = {row: i for i, row in enumerate(after.rows)}
    record = {name: new.design[name] for name in WAVE_FIELDS if name in new.design}
    n_coded = sum(code is not None for code in after.gold)
    history = after.history
    history.append(
        {"wave": len(history) + 1, **record, "N": len(left), "n_coded": n_coded}
    )
    both: dict[str, Any] = {
        "rows": rows,
        "ids": [at[row][0].ids[at[row][1]] for row in rows],
        "texts": [at[row][0].texts[at[row][1]] for row in rows],
        "labels": [at[row][0].labels[at[row][1]] for row in rows],
        "codes": [
            [column[old[row]] if row in old else None for row in rows]
            for column in after.codes
        ],
        "coders": after.coders,
        "names": after.names or new.names,
        "all_ids": new.all_ids,
        "label_marks": new.label_marks,
    }
    common = {
        name: value for name, value in new.design.items() if name not in WAVE_FIELDS
    }
    design = {**common, "n": len(rows), "seed": new.design["seed"], "history": history}
    if is_same:
        probs = _of_strata(rows, after.strata)
        of_kind = {
            name: after.design[name] for name in WAVE_FIELDS if name in after.design
        }
        if "drawn" in of_kind:
            counts = np.bincount(after.strata[rows]).tolist()
            of_kind["drawn"] = dict(zip(of_kind["strata"], counts, strict=True))
        design = {**of_kind, **design}
        return replace(after, **both, design=design, all_probs=probs)
    known = after.waves or (_wave(after),)
    made = (*known, _wave(new))
    return replace(
        after,
        **both,
        design={"kind": WAVES, **design},
        all_probs=waves.combined(made).all_probs,
        strata=np.minimum(known[0].strata, 0),
        waves=made,
    )


def _of_strata(rows: Sequence[int], strata: Ints) -> Floats:
    """Return the probabilities of a stratified sample, float64[N]."""
    there = strata >= 0
    totals = np.bincount(strata[there])
    drawn = np.bincount(strata[list(rows)], minlength=len(totals))
    return np.where(there, (drawn / totals)[np.maximum(strata, 0)], 0.0)


def _wave(sample: GoldSample) -> Wave:
    """Convert a sample that has no waves to a wave."""
    return Wave(
        rows=np.array(sample.rows, dtype=np.int64),
        probs=sample.all_probs,
        strata=sample.strata,
        n=len(sample),
        n_left=int((sample.all_probs > 0).sum()),
    )
