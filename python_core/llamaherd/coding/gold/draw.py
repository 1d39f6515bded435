"""Drawing of gold-standard samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.label_sets import labels_in, words_for_none
from llamaherd.coding.annotation.texts import same_rows
from llamaherd.coding.codes import check_declared, text_of
from llamaherd.coding.frames import Input, weights_of
from llamaherd.coding.gold.forms import listed_ids
from llamaherd.coding.gold.joins import note
from llamaherd.coding.gold.pooling import earlier_draw, highest_prob, pool
from llamaherd.coding.gold.population import (
    Population,
    known_columns,
    own_column,
    own_ids,
)
from llamaherd.coding.gold.sample import GoldSample
from llamaherd.coding.gold.waves import bounded_probs
from llamaherd.coding.sentences import range_of
from llamaherd.coding.statistics import sampling
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import one_warning, warn_caller
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.words import setting, words

if TYPE_CHECKING:
    from llamaherd.coding.annotation.codebook import Example
    from llamaherd.coding.statistics.sampling import Allocation


# How a gold-standard sample was drawn, by the kind of its design.
DESIGNS = {
    "simple": "at random, all with the same probability",
    "stratified": "at random, a fixed number in each stratum",
    "uncertainty": "at random, with probabilities that grow with the model's uncertainty",
    "weights": "at random, with probabilities that grow with the survey weight",
    "given": "at random, with given probabilities",
    "waves": "in waves of different designs",
}
KINDS = ("simple", "stratified", "uncertainty", "weights")
# Default of an argument, and the designs that it is for.
_USES: dict[str, tuple[object, tuple[str, ...]]] = {
    "by": (None, ("stratified",)),
    "confidence": (None, ("uncertainty",)),
    "floor": (0.3, ("uncertainty", "weights")),
    "allocation": ("proportional", ("stratified",)),
    "weights": (None, ("weights",)),
}


@one_warning()
def gold_sample(
    data: Any,  # Coded, or a data frame of any kind
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
    after: GoldSample | None = None,
    weights: str | Sequence[float] | None = None,
) -> GoldSample:
    """Draw texts for human coding, with known inclusion probabilities.

    Args:
        data: Result of `annotate`, or a data frame with a row for each of N texts.
        n: Number of texts to draw; `gold_size` computes a suitable number.
        by: Columns; each combination of their values is a stratum. With
            `prob="stratified"` and no columns, each label is a stratum.
        prob: "simple": equal probabilities. "stratified": simple within strata.
            "uncertainty": probability grows with 1 - `confidence`. "weights": probability
            grows with survey weights. Or N probabilities that sum to n; with `after` only
            the probabilities of texts that were not drawn before are used, scaled to sum
            to n. None uses "stratified" if `by` is given, else "simple"; with `after`,
            the design of the earlier sample.
        text: Column of texts; None for the column that was coded, or for a data frame the
            column "text" if it has texts.
        label: Column of the model's labels; None for the column that `annotate` wrote,
            or for a data frame the column "label", if there is one.
        id: Column of unique identifiers; None for the column "id" if its values are
            unique, otherwise row numbers from 1. With `after`, None uses the identifiers
            of the earlier sample. Identifiers match codes to texts even after the data
            were sorted or filtered.
        confidence: For "uncertainty": a column, or N numbers from 0 to 1. None computes
            the confidence from the probabilities. With one label per text it is the
            margin between the two most probable labels. With several labels per text it
            is 2 abs(p - 1/2) of the least certain label.
            Missing values are read as 0.
        floor: For "uncertainty" and "weights": share of the sample that is drawn with
            equal probabilities. Every probability is at least floor * n / N.
        allocation: For "stratified": "proportional" to the sizes of strata, "equal", or
            the number of texts for each stratum by name. "proportional" and "equal" draw
            at least 2 texts from each stratum that has 2 or more.
        names: Labels that codes may have; () uses the labels of the codebook, or for a
            data frame the labels that occur in the column `label`. If each of these
            labels has a column of probabilities "p_<label>", codes may also be other
            labels that have such a column.
        seed: Seed of the draw; None for a random seed, which is recorded in `design`.
        several: True if a text may have several labels, joined by "; ". None to use the
            setting of `data`, or False for a data frame.
        after: Sample of an earlier wave, with or without codes: n more texts are drawn
            from the texts not drawn before, and the result is one sample of all waves.
            Waves form one sample of the same design, with pooled probabilities, if all
            are "simple", or if all are "stratified" by the same columns and `allocation`
            is "proportional" or "equal". In other cases probabilities may depend on the
            codes of earlier waves, and estimates weight waves as described in
            `llamaherd.coding.gold.waves`. Decide the sizes of all waves before
            you see any codes.
        weights: For "weights": a column, or N survey weights.

    Returns:
        The sample. Missing and blank texts are never drawn.

    Raises:
        ValueError: An argument does not fit the data, or n does not fit the strata.
        TypeError: An argument has the wrong type.

    Warns:
        UserWarning: Some drawn texts are examples of the codebook, or values of a column
            "id" are missing or not unique, so that the column is not used.
    """
    frame = data.frame if isinstance(data, Coded) else data
    names = _checked_names(names, after)
    for name, values in (
        ("prob", prob),
        ("confidence", confidence),
        ("weights", weights),
    ):
        frames.check_index(values, frame, name)
    earlier = {} if after is None else after.design
    known = known_columns(earlier, frame)
    if not isinstance(data, Coded):
        text = text or known.get("text") or own_column(frame, "text")
        label = label or known.get("label") or own_column(frame, "label")
    texts = Population.of(
        data,
        text=text or known.get("text"),
        label=label,
        # A warning about the column "id" is issued only for the first wave.
        id=id or (own_ids(frame) if after is None else known.get("id")),
        names=names or (() if after is None else after.names),
        several=earlier.get("several") if several is None else several,
    )
    if names:
        _check_labels(names, texts)
    if after is not None:
        after, texts = earlier_draw(after, texts)
        if prob is None and by is None:
            prob, by = _again(after.design)
    if seed is None:
        seed = int(np.random.default_rng().integers(2**53))
    checks.integer("seed", seed, 0, 2**53)
    kind = "given"
    if prob is None or isinstance(prob, str):
        kind = prob or ("simple" if by is None else "stratified")
        checks.choice("prob", kind, KINDS)
    _check_used(
        kind,
        by=by,
        confidence=confidence,
        floor=floor,
        allocation=allocation,
        weights=weights,
    )
    _check_there(texts, n)
    draw, record = _draw_texts(
        texts,
        n,
        kind,
        np.random.default_rng(seed),
        by=by,
        source={"given": prob, "uncertainty": confidence, "weights": weights}.get(kind),
        floor=floor,
        allocation=allocation,
        most=None if after is None else highest_prob(after, n),
    )
    drawn = texts.sample(draw, {"kind": kind, "seed": seed, **record})
    if isinstance(data, Coded):
        warn_of_examples(drawn, getattr(data.codebook, "examples", ()))
    return drawn if after is None else pool(after, drawn, texts.eligible)


def _checked_names(names: object, after: object) -> list[str]:
    """Return the labels that codes may have; check the type of the earlier sample."""
    if after is not None and not isinstance(after, GoldSample):
        raise ArgumentTypeError(
            f"must be a gold sample, not {checks.brief(after)}", argument="after"
        )
    if isinstance(names, (str, Mapping)) or not isinstance(names, Iterable):
        raise ArgumentTypeError(
            f"must be {words().many} of labels, not {checks.brief(names)}",
            argument="names",
        )
    labels = [text_of(name) or "" for name in names]
    for i, name in enumerate(labels):
        if not name.strip():
            raise ArgumentError(
                f"must not be empty: {checks.quoted(name)}",
                argument="names",
                place=(i,),
                code="empty",
            )
    checks.distinct("names", labels)
    return labels


def _check_labels(names: Sequence[str], texts: Population) -> None:
    """Check that the labels of all texts are among `names`."""
    if texts.several:
        columns = [labels_in(label or "", names) for label in texts.labels]
        check_declared([*names, *words_for_none(names)], columns, "names")
    else:
        check_declared(names, [texts.labels], "names")


def _check_there(texts: Population, n: int) -> None:
    """Check that at least n texts can be drawn."""
    if len(texts.eligible) == 0:
        raise ArgumentError(
            "has no text to draw: missing and blank texts are never drawn",
            argument="data",
            code="empty",
        )
    most = len(texts.eligible)
    if checks.integer("n", n, 1) > most:
        raise ArgumentError(
            f"must be at most {most}, not {n}: {count_of(most, 'text')} can be drawn "
            "(missing and blank texts are never drawn)",
            argument="n",
            code="out_of_range",
        )


def _check_used(kind: str, **arguments: Input) -> None:
    """Check that arguments of one design are not given with another design."""
    for name, value in arguments.items():
        default, users = _USES[name]
        is_default = isinstance(value, (str, float, type(None))) and value == default
        if not is_default and kind not in users:
            designs = " or ".join(setting("prob", user) for user in users)
            raise ArgumentError(
                f"has no effect in this design: it is for {designs}", argument=name
            )


def _again(design: Mapping[str, Any]) -> tuple[str | None, Any]:
    """Return `prob` and `by` of an earlier draw, to repeat its design."""
    kind = str(design["kind"])
    if kind not in {"simple", "stratified", "uncertainty"}:
        raise ArgumentError(
            f"must be given: the design {checks.quoted(kind)} of the earlier sample "
            "is not repeatable",
            argument="prob",
            code="missing",
        )
    by = design.get("by")
    return kind, None if by == "label" else by


def _draw_texts(
    texts: Population,
    n: int,
    kind: str,
    rng: np.random.Generator,
    *,
    by: str | Sequence[str] | None,
    source: Input,
    floor: float,
    allocation: Allocation | Mapping[str, int],
    most: float | None,
) -> tuple[sampling.Draw, dict[str, Any]]:
    """Draw from the texts that were not drawn before; also return the record of it.

    `source` has the numbers of an unequal draw; `most` is None for a first wave.
    """
    if kind == "simple":
        return sampling.draw_simple(len(texts.eligible), n, rng), {}
    if kind == "stratified":
        strata = texts.strata(by)
        draw = sampling.draw_stratified(strata, n, rng, allocation)
        return draw, {
            "by": by or "label",
            "strata": dict(Counter(strata)),
            "drawn": dict(Counter(strata[i] for i in draw.rows)),
            "allocation": allocation if isinstance(allocation, str) else dict(allocation),
        }
    record: dict[str, Any] = {"given": True}
    if kind == "given":
        sizes, floor = texts.of_rows(source, "prob"), 0.0
    else:
        record = {"floor": checks.real("floor", floor, 0, 1)}
        sizes = (
            1 - texts.confidence(source)
            if kind == "uncertainty"
            else weights_of(texts.frame, source, len(texts))[texts.eligible]
        )
    if most is not None:
        probs = bounded_probs(sizes, n, floor, most)
    else:
        is_given = kind == "given"
        probs = sizes if is_given else sampling.inclusion_probs(sizes, n, floor)
    draw = sampling.draw_unequal(probs, rng, texts.eligible)
    if len(draw.rows) != n:
        raise ArgumentError(
            f"must sum to {setting('n', n)}, not to {len(draw.rows)}", argument="prob"
        )
    return draw, record


def warn_of_examples(drawn: GoldSample, examples: Sequence[Example]) -> None:
    """Warn if sampled texts are examples of the codebook: the prompt has their labels."""
    rows = same_rows(drawn.texts, [example.text for example in examples])
    if rows:
        ids = listed_ids(drawn.ids, rows)
        warn_caller(note("examples", n=len(rows), n_drawn=len(drawn), ids=ids))


def page_of(sample: GoldSample) -> str:
    """Return a summary of a sample, without its rows."""
    n_coded = sum(code is not None for code in sample.gold)
    ends = (float(sample.probs.min()), float(sample.probs.max()))
    n_decimals = max(len(f"{p:.3g}".partition(".")[2]) for p in ends)
    least, most = (f"{p:.{n_decimals}f}" for p in ends)
    sizes = ", ".join(str(wave["n"]) for wave in sample.history)
    n = f"{len(sample.ids)} of {count_of(len(sample.all_probs), 'text')}"
    lines = [
        f"<GoldSample: {n}, drawn {DESIGNS[sample.design['kind']]}>",
        f"inclusion probabilities {range_of(least, most)}, seed {sample.design['seed']}",
    ]
    if len(sample.history) > 1:
        lines.append(f"waves of {sizes} texts")
    coded = f"{n_coded} coded, by {count_of(len(sample.coders), 'coder')}"
    return "\n".join([*lines, coded])
