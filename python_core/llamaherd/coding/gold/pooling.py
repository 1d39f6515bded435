"""Further waves of a gold sample, pooled with the earlier ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.codes import text_of
from llamaherd.coding.gold import waves
from llamaherd.coding.gold.joins import RAW, SampleRows, current_rows
from llamaherd.coding.gold.sample import PART, SPLIT, WAVE_FIELDS, GoldSample
from llamaherd.coding.gold.waves import Wave
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import percents
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.gold.population import Population
    from llamaherd.coding.statistics.sampling import Draw, Floats, Ints

WAVES = "waves"  # kind of a sample whose waves have different designs


def earlier_draw(after: GoldSample, texts: Population) -> tuple[GoldSample, Population]:
    """Match an earlier sample to the data; also return the texts that it did not draw."""
    if SPLIT in after.design or PART in after.design:
        raise ArgumentError(
            f"was split: draw all waves before {call('gold_split')}",
            argument="after",
            code="already_split",
        )
    known = texts.texts if texts.text_column is not None else None
    data = SampleRows.of(after, texts.frame, len(texts), texts=known, labels=texts.labels)
    try:
        rows = current_rows(after, data)
    except ArgumentError as error:
        raise error.moved(argument="after") from None
    moved = replace(after.moved(rows), all_ids=None)
    raw = f"{RAW}{texts.label_column}"
    if raw in frames.names(texts.frame):  # after recalibrate(): labels of the model
        column = frames.column(texts.frame, raw, "label")
        texts = replace(texts, labels=[text_of(value) for value in column])
    left = replace(texts, drawn=frozenset(moved.rows))
    if len(left.there) == 0:
        raise ArgumentError("has all texts already", argument="after", code="no_rows")
    return moved, left


def highest_prob(after: GoldSample, n: int) -> float:
    """Return the highest inclusion probability that a further wave of n texts may use.

    Up to this probability no text has a weight below 1 in the estimate.
    """
    sizes = [wave.n for wave in after.waves] or [len(after)]
    return float(waves.shares([*sizes, n], int((after.all_probs > 0).sum()))[-1])


def is_same_design(
    after: GoldSample, draw: Draw, left: Ints, design: dict[str, Any]
) -> bool:
    """Return True if both draws are one sample: simple, or of the same strata.

    The allocation to strata must follow from their sizes.
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
            f"would draw {percents(prob, 0)} of the remaining texts of stratum "
            f"{checks.quoted(name)}; "
            f"with waves of different designs at most {percents(most, 0)} of a stratum "
            "can be drawn. "
            "Draw fewer texts of this stratum, or use the design of the first wave again",
            argument="allocation",
            code="out_of_range",
        )


def pool(after: GoldSample, new: GoldSample, left: Ints, *, is_same: bool) -> GoldSample:
    """Combine an earlier sample and a new wave into one sample."""
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
    earlier = after.waves or (_wave(after),)
    all_waves = (*earlier, _wave(new))
    return replace(
        after,
        **both,
        design={"kind": WAVES, **design},
        all_probs=waves.combine(all_waves).all_probs,
        strata=np.minimum(earlier[0].strata, 0),
        waves=all_waves,
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
