"""What of a gold sample an estimate can use, and what makes it refuse one."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.research.codes import text_of
from llamaherd.research.estimation.answered import answered
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.estimation.outcomes import labels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.sampling import Floats, Ints

UNKNOWN = (
    "gold has no inclusion probabilities, the probability with which each text came to "
    "be coded: without them no estimate from it is valid, however many texts were coded. "
    "Draw "
    "the texts to code with gold_sample(). If they were drawn at random, all equally "
    "probable, say prob='simple'; if with other probabilities that you know, give "
    "these as "
    "prob. Texts that were picked by hand, or because they were difficult or came first, "
    "have none"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class GoldUsed:
    """Codes and the probabilities that they came about with.

    Attributes:
        rows: int64[n], indices of the texts with codes.
        codes: Their codes.
        probs: float64[n], their inclusion probabilities.
        strata: int64[n]; None: they were drawn independently of each other.
        is_even: Whether all texts had the same probability.
        design: How they were drawn, in words.
        notes: What to know of it.
        all_probs: float64[N], inclusion probabilities of all texts; None: not known.
        all_strata: int64[N], their strata, likewise.
        names: Of the strata, by their numbers.
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

    def among(self, kept: Ints, n_texts: int) -> GoldUsed:
        """The same for a part of the texts, with indices into that part."""
        places = np.full(n_texts, -1, dtype=np.int64)
        places[kept] = np.arange(len(kept))
        here = np.flatnonzero(places[self.rows] >= 0)
        return GoldUsed(
            rows=places[self.rows[here]],
            codes=[self.codes[i] for i in here],
            probs=self.probs[here],
            strata=None if self.strata is None else self.strata[here],
            is_even=self.is_even,
            design=self.design,
            notes=self.notes,
            all_probs=None if self.all_probs is None else self.all_probs[kept],
            all_strata=None if self.all_strata is None else self.all_strata[kept],
            names=self.names,
        )


def used_gold(
    gold: GoldSample | Sequence[Any], prob: object, n_texts: int, kept: Ints
) -> GoldUsed:
    """Reads a gold sample, or codes whose probabilities `prob` tells.

    Args:
        gold: A sample of these N texts, or N codes, None where a text has none.
        prob: "simple", or N inclusion probabilities; None: the sample's.
        n_texts: N, of the data.
        kept: int64[m], rows of the texts that the estimate is about.

    Raises:
        ValueError: Probabilities are unknown or 0, or there are no codes.
    """
    if isinstance(gold, GoldSample):
        if prob is not None:
            raise ValueError("prob is for codes without a design: gold has one")
        return _of_sample(gold, n_texts, kept)
    if prob is None:
        raise ValueError(UNKNOWN)
    codes = [text_of(code) for code in gold]
    if len(codes) != n_texts:
        raise ValueError(
            f"gold must have {n_texts} codes, one for each text and None for texts "
            f"without one, not {len(codes)}"
        )
    rows = np.flatnonzero([code is not None for code in codes])
    is_simple = isinstance(prob, str)
    if is_simple:
        checks.choice("prob", prob, ("simple",))
        probs = np.full(n_texts, len(rows) / n_texts)
    else:
        probs = np.asarray(prob, dtype=np.float64)
        if probs.shape != (n_texts,):
            raise ValueError(f"prob must have {n_texts} values, one for each text")
    _check_positive(probs, kept, [str(i + 1) for i in range(n_texts)])
    _check_some(len(rows))
    return GoldUsed(
        rows=rows,
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
    codes = gold.gold
    coded = np.flatnonzero([code is not None for code in codes])
    _check_some(len(coded))
    rows = np.array(gold.rows, dtype=np.int64)[coded]
    answers = answered(gold, coded)
    for note in answers.notes:
        warnings.warn(note, UserWarning, stacklevel=3)
    names = gold.design.get("strata") or {}
    return GoldUsed(
        rows=rows,
        codes=[codes[i] or "" for i in coded],
        probs=answers.probs,
        strata=gold.strata[rows],
        is_even=bool(np.ptp(gold.all_probs[kept]) == 0) and answers.is_even,
        design=str(gold.design["kind"]),
        notes=[*answers.notes, *_ties(gold)],
        all_probs=answers.all_probs,
        all_strata=gold.strata,
        names={h: str(name) for h, name in enumerate(names)},
    )


def _ties(gold: GoldSample) -> list[str]:
    """On how many texts coders are equally divided, so that their order decides."""
    several = bool(gold.design.get("several"))
    n_coded = n_ties = 0
    for each in zip(*gold.codes, strict=True):
        said = [code for code in each if code is not None]
        n_coded += bool(said)
        n_ties += _is_tie(said, several=several)
    if n_ties == 0:
        return []
    first, *others = gold.coders
    note = (
        f"{n_ties} of {n_coded} codes are ties, decided by the first coder ({first} "
        f"before {', '.join(others)}): with another order estimates are others. One more "
        "column of codes, of somebody who decides these texts, breaks them"
    )
    return [note]


def _is_tie(said: Sequence[str], *, several: bool) -> bool:
    """Whether as many coders say another thing, or, of several labels, half one."""
    if several:
        given = Counter(x for code in said for x in labels_of(code, several=True))
        return any(2 * n == len(said) for n in given.values())
    first = [n for _, n in Counter(said).most_common(2)]
    return len(first) == 2 and first[0] == first[1]


def _check_some(n_coded: int) -> None:
    if n_coded < 2:
        raise ValueError(
            "gold has no codes yet: write it with .write(), let people code it, and "
            "read it "
            "with read_gold()"
            if n_coded == 0
            else "gold has one code only: there must be more"
        )


def _check_positive(probs: Floats, kept: Ints, ids: Sequence[str]) -> None:
    values = probs[kept]
    if not (np.isfinite(values) & (values >= 0) & (values <= 1)).all():
        raise ValueError("prob must be a probability between 0 and 1 for each text")
    never = kept[values == 0]
    if len(never) > 0:
        named = ", ".join(ids[i] for i in never[:5])
        more = f" and {len(never) - 5} more" if len(never) > 5 else ""
        raise ValueError(
            f"{len(never)} texts could never be drawn for the gold sample (ids "
            f"{named}{more})"
            ": nothing is known of their labels' errors. Draw a sample in which all "
            "have a "
            "probability above 0, or leave these texts out"
        )
