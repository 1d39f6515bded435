"""Drawing of gold-standard samples."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.caller import warn_caller
from llamaherd.core.errors import ArgumentError
from llamaherd.core.words import setting
from llamaherd.research import frames
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.joins import hash_of_labels
from llamaherd.research.coding.label_sets import scale_of
from llamaherd.research.coding.texts import same_rows
from llamaherd.research.estimation.gold_codes import listed_ids
from llamaherd.research.estimation.gold_data import Population, own_ids
from llamaherd.research.statistics import sampling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.coding.codebook import Example
    from llamaherd.research.estimation.gold_drawn import GoldSample
    from llamaherd.research.statistics.sampling import Allocation


def gold_sample(
    data: Any,  # noqa: ANN401 - Coded, or a data frame of any kind
    n: int,
    by: str | Sequence[str] | None = None,
    prob: str | Sequence[float] | None = None,
    *,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,  # noqa: A002 - what the column is called
    confidence: str | Sequence[float] | None = None,
    floor: float = 0.3,
    allocation: Allocation | Mapping[str, int] = "proportional",
    names: Sequence[str] = (),
    seed: int | None = None,
    several: bool | None = None,
) -> GoldSample:
    """Draw texts for human coding, with known inclusion probabilities.

    Args:
        data: Result of `annotate`, or a data frame with a row for each of N texts.
        n: Number of texts to draw; `gold_size` computes the number needed.
        by: Columns whose combinations are strata; for `prob="stratified"` without
            columns, the label.
        prob: "simple": equal probabilities. "stratified": simple within strata.
            "uncertainty": probability grows with 1 - `confidence`. Or N probabilities
            that sum to n. By default (None) "stratified" with `by`, "simple" without.
        text: Column of texts; None for that of `data`.
        label: Column of the model's labels; None for that of `data`.
        id: Column of unique identifiers; None for the column "id" if its values are
            unique, otherwise row numbers from 1. Identifiers match codes to texts after
            data were sorted or filtered.
        confidence: For "uncertainty": a column, or N numbers from 0 to 1. None for the
            margin between the two most probable labels; with several labels per text, 2
            abs(p - 1/2) of the least certain label. Missing values count as 0.
        floor: For "uncertainty": share of the sample that is allocated evenly. Every
            probability is at least floor * n / N.
        allocation: For "stratified": "proportional" to stratum sizes, "equal", or the
            number for each stratum by name; at least 2 if the stratum has them.
        names: Allowed labels of codes; () for those of `data`, or those in `label`.
        seed: Seed of the draw; None for a random one, which is recorded in `design`.
        several: True if a text may have several labels, joined by "; ". None to take it
            from `data`, otherwise False.

    Returns:
        The sample. Missing and blank texts are never drawn.

    Raises:
        ValueError: An argument does not fit the data, or n does not fit the strata.
        TypeError: An argument has the wrong type.

    Warns:
        UserWarning: Some drawn texts are examples of the codebook.
    """
    frame = data.frame if isinstance(data, Coded) else data
    for name, values in (("prob", prob), ("confidence", confidence)):
        frames.check_index(values, frame, name)
    texts = Population.of(
        data,
        text=text,
        label=label,
        id=own_ids(frame) if id is None else id,
        names=names,
        several=several,
    )
    if seed is None:
        seed = int(np.random.default_rng().integers(2**53))
    checks.integer("seed", seed, 0, 2**53)
    kind = prob if isinstance(prob, str) else None
    if prob is None:
        kind = "simple" if by is None else "stratified"
    rng = np.random.default_rng(seed)
    there = texts.there
    checks.integer("n", n, 1, max(len(there), 1))
    more: dict[str, Any] = {}
    if kind is None:
        given = np.asarray(prob, dtype=np.float64)
        draw = sampling.draw_unequal(texts.of_rows(given, "prob"), rng)
        _check_n(n, draw)
        more["given"] = True
    elif kind == "stratified":
        strata = texts.strata(by)
        draw = sampling.draw_stratified(strata, n, rng, allocation)
        more = {"by": by or "label", "strata": dict(Counter(strata))}
        more["drawn"] = dict(Counter(strata[i] for i in draw.rows))
        more["allocation"] = (
            allocation if isinstance(allocation, str) else dict(allocation)
        )
    elif kind == "uncertainty":
        sizes = 1 - texts.confidence(confidence)
        draw = sampling.draw_unequal(sampling.inclusion_probs(sizes, n, floor), rng)
        more = {"floor": floor}
    else:
        checks.choice("prob", kind, ("simple", "stratified", "uncertainty"))
        draw = sampling.draw_simple(len(there), n, rng)
    if by is not None and kind != "stratified":
        raise ArgumentError(
            f"is for {setting('prob', 'stratified')}, not {checks.shown(prob)}",
            argument="by",
        )
    scale = scale_of(data, None, texts.label_column)
    design = {
        "kind": kind or "given",
        "n": n,
        "N": len(texts),
        "n_missing": len(texts) - len(there),
        "seed": seed,
        "sha256": texts.sha256,
        "labels_sha256": hash_of_labels(texts.labels),
        "text": texts.text_column,
        "label": texts.label_column,
        "id": texts.id_column,
        **({"several": True} if texts.several else {}),
        **({} if scale == "nominal" else {"scale": scale}),
        **more,
    }
    drawn = texts.sample(draw, design)
    if isinstance(data, Coded):
        warn_of_examples(drawn, getattr(data.codebook, "examples", ()))
    return drawn


def warn_of_examples(drawn: GoldSample, examples: Sequence[Example]) -> None:
    """Warn if texts of a sample are examples whose labels the prompt contains."""
    rows = same_rows(drawn.texts, [each.text for each in examples])
    if rows:
        warn_caller(
            f"{len(rows)} of {len(drawn)} texts of the gold sample are examples of the "
            f"codebook (ids {listed_ids(drawn.ids, rows)}), whose labels the model was "
            "told: accuracy measured by them is too high. Leave texts that are examples "
            "out of the data before you draw"
        )


def _check_n(n: int, draw: sampling.Draw) -> None:
    if len(draw.rows) != n:
        raise ArgumentError(
            f"must sum to n = {n}, not to {len(draw.rows)}", argument="prob"
        )
