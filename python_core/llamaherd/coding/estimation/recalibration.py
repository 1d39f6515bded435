"""Better labels and calibrated probabilities, learned from the codes of a gold sample."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.estimation.notes import note
from llamaherd.coding.estimation.outcomes import in_one_form
from llamaherd.coding.estimation.recalibrated import (
    ProbabilityScores,
    Recalibrated,
    coded_of,
    columns_of,
    units_of,
    used_labels,
    vectors_of,
    with_new_columns,
)
from llamaherd.coding.gold.codes import Codes, codes_of_texts
from llamaherd.coding.gold.population import Population, codes_and_probs, match_sample
from llamaherd.coding.gold.sample import GoldSample
from llamaherd.coding.statistics import heads
from llamaherd.coding.statistics.intervals import LEVEL
from llamaherd.coding.statistics.uncertainty import mean
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.words import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.frames import Input
    from llamaherd.engine.core.arrays import Floats, Ints

Feature = Literal["probs", "embeddings"]
FEATURES: tuple[Feature, ...] = ("probs", "embeddings")


def recalibrate(
    coded: Any,  # Coded, or a data frame
    gold: GoldSample | str | Sequence[Any],
    features: Sequence[Feature] = ("probs",),
    *,
    embeddings: Any = None,  # a model, or float[n, d]
    n_folds: int = 5,
    seed: int = 0,
    label: str | None = None,
    text: str | None = None,
    prob: str | Sequence[float] | None = None,
    cluster: str | None = None,
    level: float = LEVEL,
) -> Recalibrated:
    """Improve labels and probabilities with the codes of a gold sample.

    A head (a ridge multinomial logistic regression) predicts codes from the model's
    log-probabilities of the labels, from embeddings of the texts, or from both. The head
    is cross-fitted: coded texts are divided into folds at random, and each text is
    predicted by a head that was fitted on the codes of the other folds. A text without a
    code gets the mean prediction of all these heads. So no label depends on the text's
    own code, and `estimate` with the same gold sample stays valid.

    Each code has the weight 1 / inclusion probability. The penalty is chosen for each
    fold by cross-validation within the codes of the other folds.

    Args:
        coded: Result of `annotate` with probabilities; or a data frame with a column of
            labels and a column "p_<label>" for each label. One label per text.
        gold: A sample with codes, or N codes; see `estimate`.
        features: "probs", "embeddings" or both.
        embeddings: For "embeddings": a model for embeddings (see `embed_parallel`), or an
            array with a row for each text, float[n, d].
        n_folds: Number of folds, 2 to 20.
        seed: Seed of the folds. The same seed gives the same result.
        label: Column of labels if `coded` is a data frame; None for "label".
        text: Column of texts. None uses the column that `coded` records, otherwise the
            column that `gold` records.
        prob: Inclusion probabilities if `gold` is not a gold sample; see `estimate`.
        cluster: Column of clusters; texts of one cluster are in the same fold. Use the
            same column in `estimate`.
        level: Confidence level of the intervals of scores.

    Returns:
        The coding with new labels and probabilities in the same columns, and the model's
        original values in columns that begin with "raw_". The coding also contains
        accuracy, Brier score and calibration error by cross-validation, for comparison
        with the model.

    Raises:
        ValueError: There are fewer than 30 codes, or fewer than 5 of a label that occurs;
            or an argument does not fit the data.
        TypeError: An argument has the wrong type.

    Warns:
        UserWarning: The codes do not show that the head is better than the model, or than
            a constant; a label has no code; or codes of the sample are missing.

    Source: Zrnic and Candès, "Cross-prediction-powered inference" (arXiv 2309.16598).
    """
    kinds = _checked_features(features, embeddings)
    checks.integer("n_folds", n_folds, 2, 20)
    checks.integer("seed", seed, 0, 2**63 - 1)
    checks.real("level", level, 0.5, 0.9999)
    model = _model_of(coded, gold, label, text)
    texts, codes, more = _inputs(model, gold, prob, text, cluster)
    columns = columns_of(codes.decided, model.names)
    units = units_of(texts, codes, cluster)
    rng = np.random.default_rng(seed)
    strata = [0] * len(columns) if codes.strata is None else codes.strata.tolist()
    folds = heads.deal_folds([units[i] for i in codes.rows], strata, n_folds, rng)
    used, of_labels = used_labels(columns, folds, model.names, n_folds)
    blocks = _blocks(model, texts, kinds, embeddings)
    crossed = heads.cross_fit(
        [block[codes.rows] for block in blocks],
        np.searchsorted(used, columns),
        1 / codes.probs,
        folds,
        rng,
        n_labels=len(used),
    )
    probs = np.zeros((len(model), len(model.names)))
    probs[:, used] = _predicted_probs(crossed, np.hstack(blocks), codes, units)
    probs[[model_label is None for model_label in model.labels]] = np.nan
    record = {
        "features": list(kinds),
        "n_codes": len(columns),
        "n_folds": n_folds,
        "seed": seed,
        "cluster": cluster,
        "level": level,
        "design": codes.kind,
        "penalties": [head.penalty for head in crossed.heads],
    }
    notes = [*more, *of_labels]
    recalibrated = _result(model, probs, codes, columns, crossed, record, notes)
    warn_notes(recalibrated.notes)
    return recalibrated


def _result(  # noqa: PLR0917 - one caller
    model: Coded,
    probs: Floats,
    codes: Codes,
    columns: Ints,
    crossed: heads.Crossed,
    record: dict[str, Any],
    notes: list[str],
) -> Recalibrated:
    """Return the result with its scores by cross-validation."""
    rows, weights, level = codes.rows, 1 / codes.probs, record["level"]
    before, after = _known_probs(model)[rows], probs[rows]
    raw = ProbabilityScores.of(before, columns, weights, level)
    new = ProbabilityScores.of(after, columns, weights, level)
    hits = [np.asarray(p.argmax(axis=1) == columns, float) for p in (before, after)]
    gain = mean(hits[1] - hits[0], weights, level)
    folds: list[int | None] = [None] * len(model)
    for row, fold in zip(rows.tolist(), crossed.folds.tolist(), strict=True):
        folds[row] = fold + 1
    frame, labels = with_new_columns(model, probs, folds)
    constant = constant_probs(columns, weights, crossed.folds, before.shape[1])
    of_constant = ProbabilityScores.of(constant, columns, weights, level)
    targets = np.eye(before.shape[1])[columns]
    losses = [((probs - targets) ** 2).sum(axis=1) for probs in (constant, after)]
    beyond = mean(losses[0] - losses[1], weights, level)
    if not beyond.low > 0:
        scores = {"constant": of_constant.brier.value, "head": new.brier.value}
        notes = [*notes, note("no_better_than_constant", **scores)]
    if not gain.value > 0:
        shares = {"model": raw.accuracy.value, "head": new.accuracy.value}
        notes = [*notes, note("no_better_than_model", **shares)]
    record |= {
        "raw": raw.to_dict(),
        "cross_validated": new.to_dict(),
        "gain": {"value": gain.value, "low": gain.low, "high": gain.high},
        "constant": of_constant.to_dict(),
    }
    return Recalibrated(
        frame=frame,
        text=model.text,
        codebook=model.codebook,
        columns=model.columns,
        names=model.names,
        labels=labels,
        probs=probs,
        errors=model.errors,
        run={**model.run, "notes": notes, "recalibration": record},
        stats=model.stats,
        original=model,
        folds=folds,
        raw=raw,
        cross_validated=new,
        gain=gain,
        constant=of_constant,
        gain_on_constant=beyond,
    )


def _checked_features(features: object, embeddings: object) -> tuple[Feature, ...]:
    """Check the features, and that embeddings are given if they are used."""
    chosen = [features] if isinstance(features, str) else features
    if not isinstance(chosen, (list, tuple)) or not chosen:
        raise ArgumentTypeError(
            f"must be {words().many} of {', '.join(FEATURES)}, not "
            f"{checks.brief(features)}",
            argument="features",
        )
    for feature in chosen:
        checks.choice("features", feature, FEATURES)
    if embeddings is not None and "embeddings" not in chosen:
        raise ArgumentError(
            "goes with 'embeddings' among the features",
            argument="embeddings",
            code="conflict",
        )
    if embeddings is None and "embeddings" in chosen:
        raise ArgumentError(
            "must be a model for embeddings, or an array with a row for each text",
            argument="embeddings",
            code="missing",
        )
    return tuple(feature for feature in FEATURES if feature in chosen)


def _model_of(coded: Input, gold: object, label: str | None, text: str | None) -> Coded:
    """Return the coding by the model; for recalibrated data, the original coding."""
    if isinstance(coded, Recalibrated):
        coded = coded.original
    if not isinstance(coded, Coded):
        design = gold.design if isinstance(gold, GoldSample) else {}
        columns = frames.names(coded)
        label = label or design.get("label") or "label"
        text = text or next(
            (name for name in (design.get("text"), "text") if name in columns), None
        )
        return coded_of(coded, label, text)
    coded.check_frame()
    if coded.codebook.kind.is_several or coded.codebook.kind.is_generated:
        raise ArgumentError(
            f"must have one label for each text, not a codebook of type "
            f"{coded.codebook.type!r}",
            argument="coded",
            code="unsupported",
        )
    if coded.probs is None:
        raise ArgumentError(
            "must have probabilities, and its labels were generated: annotate with "
            "method 'classify'",
            argument="coded",
            code="no_probabilities",
        )
    return coded


def _known_probs(model: Coded) -> Floats:
    assert model.probs is not None  # noqa: S101 - see _model_of
    return model.probs


def _inputs(
    model: Coded, gold: Input, prob: Input, text: str | None, cluster: str | None
) -> tuple[Population, Codes, list[str]]:
    """Return the texts, the codes of texts that have a label, and notes."""
    texts, gold, notes = match_sample(model, gold, None, text, several=False)
    gold, prob = codes_and_probs(texts, gold, prob, None)
    texts, gold, _ = in_one_form(texts, gold, several=False)
    kept = np.flatnonzero(
        [
            label is not None and np.isfinite(row).all()
            for label, row in zip(model.labels, _known_probs(model), strict=True)
        ]
    )
    if len(kept) == 0:
        raise ArgumentError(
            "must have at least one text with a label and its probabilities",
            argument="coded",
            code="no_rows",
        )
    used = codes_of_texts(gold, prob, len(texts), kept, is_clustered=cluster is not None)
    return texts, replace(used, rows=kept[used.rows]), notes


def _blocks(
    model: Coded, texts: Population, kinds: Sequence[Feature], embeddings: Input
) -> list[Floats]:
    """Return the features of all texts, by kind; texts without a label have zeros."""
    blocks = []
    if "probs" in kinds:
        probs = _known_probs(model)
        known = np.isfinite(probs).all(axis=1)
        block = np.zeros(probs.shape)
        block[known] = heads.log_probs(probs[known])
        blocks.append(block)
    if "embeddings" in kinds:
        blocks.append(heads.components(vectors_of(embeddings, texts.texts)))
    return blocks


def _predicted_probs(
    crossed: heads.Crossed, x: Floats, codes: Codes, units: Sequence[Any]
) -> Floats:
    """Return probabilities of all texts, float64[n, k].

    Coded texts, and other texts of the same unit, get the prediction of their fold's
    head; all other texts get the mean prediction of all heads.
    """
    probs = crossed.mean_probs(x)
    fold_of = {
        units[row]: fold
        for row, fold in zip(codes.rows.tolist(), crossed.folds.tolist(), strict=True)
    }
    at = np.array([fold_of.get(unit, -1) for unit in units])
    for fold, head in enumerate(crossed.heads):
        probs[at == fold] = head.probs(x[at == fold])
    return probs


def constant_probs(columns: Ints, weights: Floats, folds: Ints, k: int) -> Floats:
    """Return the weighted shares of the codes of all other folds, float64[n, k]."""
    weighted_codes = np.eye(k)[columns] * weights[:, None]
    sums = np.zeros((int(folds.max()) + 1, k))
    np.add.at(sums, folds, weighted_codes)
    others = weighted_codes.sum(axis=0) - sums
    return np.asarray((others / others.sum(axis=1, keepdims=True))[folds])
