"""Drawing gold samples."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.research import frames
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.joins import hash_of_labels
from llamaherd.research.coding.label_sets import scale_of
from llamaherd.research.coding.texts import same_rows
from llamaherd.research.estimation.gold_codes import ids_told
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
    """Draws texts that people are to code, with known inclusion probabilities.

    Args:
        data: What `annotate` returned, or a data frame with a row for each of N texts.
        n: How many to draw; `gold_size` says how many are needed.
        by: Columns whose combinations are strata; for `prob="stratified"` the label if
            not given.
        prob: "simple": all equally probable. "stratified": simple within strata.
            "uncertainty": the less sure the model is the more probable, by 1 -
            `confidence`. Or N probabilities that sum to n. None: "stratified" if there is
            `by`, "simple" else.
        text: Column of texts; None: that of `data`.
        label: Column of the model's labels; None: that of `data`.
        id: Column of identifiers, no two the same; None: the column "id" if it is such a
            one, else numbers of rows, from 1. By them codes find their texts in data that
            were sorted, or lost their texts.
        confidence: For "uncertainty": column, or N numbers, from 0 to 1; None: the margin
            between the two most probable labels; of several labels 2 abs(p - 1/2) of the
            one that is least sure. Missing is 0.
        floor: For "uncertainty": the share of the sample that is given out evenly. No
            text's probability is below floor * n / N.
        allocation: For "stratified": "proportional" to the strata's sizes, "equal", or
            the number for each stratum by its name; at least 2 where it has them.
        names: Labels that codes may be; (): those of `data`, or those in `label`.
        seed: Of the draw; None: a random one, which `design` tells.
        several: Whether a text may have several labels, which are joined by "; "; None:
            as `data` knows, else not.

    Returns:
        The sample. Texts that are missing, or blank, are never drawn.

    Raises:
        ValueError: An argument does not fit the data, or n does not fit the strata.
        TypeError: An argument is of another type.

    Warns:
        UserWarning: Texts of the sample are examples of the codebook.
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
        raise ValueError(f"by is for prob='stratified', not {checks.shown(prob)}")
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
    """Warns of texts of a sample that the model was told the labels of."""
    rows = same_rows(drawn.texts, [each.text for each in examples])
    if rows:
        warnings.warn(
            f"{len(rows)} of {len(drawn)} texts of the gold sample are examples of the "
            f"codebook (ids {ids_told(drawn.ids, rows)}), whose labels the model was "
            "told: accuracy measured by them is too high. Leave texts that are examples "
            "out of the data before you draw",
            UserWarning,
            stacklevel=3,
        )


def _check_n(n: int, draw: sampling.Draw) -> None:
    if len(draw.rows) != n:
        raise ValueError(f"prob must sum to n = {n}, not to {len(draw.rows)}")
