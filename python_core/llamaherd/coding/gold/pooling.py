"""Further waves of a gold sample, pooled with the earlier ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.codes import text_of
from llamaherd.coding.gold import waves
from llamaherd.coding.gold.joins import RAW
from llamaherd.coding.gold.sample import PART, SPLIT, GoldSample
from llamaherd.coding.gold.waves import WAVE_FIELDS, Wave, draw_record
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, renamed
from llamaherd.engine.core.phrases import percents
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    from llamaherd.coding.gold.population import Population
    from llamaherd.engine.core.arrays import Ints

WAVES = "waves"  # kind of a sample whose waves have different designs


def earlier_draw(after: GoldSample, texts: Population) -> tuple[GoldSample, Population]:
    """Match an earlier sample to the data; also return the texts that it did not draw."""
    if SPLIT in after.design or PART in after.design:
        raise ArgumentError(
            f"was split: draw all waves before {call('gold_split')}",
            argument="after",
            code="already_split",
        )
    with renamed(gold="after", coded="after"):
        rows = texts.join(after).rows
    moved = replace(after.moved(rows), all_ids=None)
    raw = f"{RAW}{texts.label_column}"
    if raw in frames.names(texts.frame):  # after recalibrate(): labels of the model
        column = frames.column(texts.frame, raw, "label")
        texts = replace(texts, labels=list(map(text_of, column)))
    left = replace(texts, drawn=frozenset(moved.rows))
    if len(left.eligible) == 0:
        raise ArgumentError("has all texts already", argument="after", code="no_rows")
    return moved, left


def highest_prob(after: GoldSample, n: int) -> float:
    """Return the highest probability with which no text of n more weighs less than 1."""
    sizes = [wave.n for wave in after.waves] or [len(after)]
    return float(waves.shares([*sizes, n], int((after.all_probs > 0).sum()))[-1])


def _is_same_design(after: GoldSample, new: GoldSample, left: Ints) -> bool:
    """Return True if both are one sample: simple, or of the same strata.

    The allocation to strata must follow from their sizes.
    """
    kind = new.design["kind"]
    if after.waves or kind != after.design["kind"]:
        return False
    if kind != "stratified":
        return bool(kind == "simple")
    if not all(isinstance(one.design.get("allocation"), str) for one in (after, new)):
        return False
    pairs = {*zip(after.strata[left].tolist(), new.strata[left].tolist(), strict=True)}
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def _check_dense(after: GoldSample, new: GoldSample) -> None:
    """Check that no stratum is sampled so densely that a code would weigh less than 1."""
    most = highest_prob(after, len(new))
    dense = np.flatnonzero(new.all_probs > most + 1e-9)
    if new.design["kind"] == "stratified" and len(dense) > 0:
        name = list(new.design["strata"])[new.strata[dense[0]]]
        raise ArgumentError(
            f"would draw {percents(new.all_probs[dense[0]], 0)} of the remaining texts "
            f"of stratum {checks.quoted(name)}; with waves of different designs at most "
            f"{percents(most, 0)} of a stratum can be drawn. Draw fewer texts of this "
            "stratum, or use the design of the first wave again",
            argument="allocation",
            code="out_of_range",
        )


def pool(after: GoldSample, new: GoldSample, left: Ints) -> GoldSample:
    """Combine an earlier sample and a new wave, drawn from the rows `left`, into one."""
    is_same = _is_same_design(after, new, left)
    if not is_same:
        _check_dense(after, new)
    n_coded = sum(code is not None for code in after.gold)
    history = after.history
    record = {"wave": len(history) + 1, **draw_record(new.design), "N": len(left)}
    history.append({**record, "n_coded": n_coded})
    both = replace(
        after,
        rows=[*after.rows, *new.rows],
        ids=[*after.ids, *new.ids],
        texts=[*after.texts, *new.texts],
        labels=[*after.labels, *new.labels],
        codes=[[*column, *[None] * len(new)] for column in after.codes],
        names=after.names or new.names,
        all_ids=new.all_ids,
        label_marks=new.label_marks,
    )
    order = np.argsort(both.rows).tolist()
    both = replace(both, **both.texts_at(order, [both.rows[i] for i in order]))
    design = {name: fact for name, fact in new.design.items() if name not in WAVE_FIELDS}
    design |= {"n": len(both), "seed": new.design["seed"], "history": history}
    if is_same:
        of_kind = draw_record(after.design)
        is_in_wave = after.strata >= 0
        totals = np.bincount(after.strata[is_in_wave])
        drawn = np.bincount(after.strata[both.rows], minlength=len(totals))
        if "drawn" in of_kind:
            of_kind["drawn"] = dict(zip(of_kind["strata"], drawn.tolist(), strict=True))
        probs = (drawn / totals)[after.strata]
        return replace(
            both, design={**of_kind, **design}, all_probs=np.where(is_in_wave, probs, 0.0)
        )
    all_waves = (*(after.waves or (_wave(after),)), _wave(new))
    return replace(
        both,
        design={"kind": WAVES, **design},
        all_probs=waves.combine(all_waves).all_probs,
        strata=np.minimum(all_waves[0].strata, 0),
        waves=all_waves,
    )


def _wave(sample: GoldSample) -> Wave:
    """Convert a sample that has no waves to a wave."""
    return Wave(
        rows=np.array(sample.rows, dtype=np.int64),
        probs=sample.all_probs,
        strata=sample.strata,
        n=len(sample),
        n_left=int((sample.all_probs > 0).sum()),
    )
