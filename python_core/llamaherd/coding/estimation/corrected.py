"""Corrected outcomes and replicate weights, for the regressions of other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.estimation.inputs import Inputs
from llamaherd.coding.estimation.outcomes import Outcome, asks_median
from llamaherd.coding.estimation.predictions import (
    Predictions,
    predictions_of,
    shares_or_scores,
)
from llamaherd.coding.statistics.influences import replicate_factors
from llamaherd.coding.statistics.intervals import LEVEL
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import one_warning
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.frames import Input
    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.coding.statistics.sampling import Target
    from llamaherd.engine.core.arrays import Floats

COLUMN = "corrected"


@one_warning()
def corrected(
    coded: Any,  # Coded, a data frame, or labels
    gold: GoldSample | str | Sequence[Any],
    outcome: Outcome | None = None,
    *,
    label: str | None = None,
    text: str | None = None,
    prob: str | Sequence[float] | None = None,
    several: bool | None = None,
    predictions: Predictions | None = None,
) -> Any:  # a data frame of the kind of `coded`
    """Return the data with a column of corrected outcomes, for other packages.

    The corrected outcome of a text is its prediction + (code - prediction) / inclusion
    probability if people coded the text, else its prediction. Its mean, and any linear
    regression on columns without labels, equal those of `estimate` by "dsl". Single
    values may be below 0 or above 1. Standard errors need `replicate_weights`.

    Args:
        coded: See `estimate`.
        gold: See `estimate`.
        outcome: See `estimate`: a label, several labels, or numbers of labels. None for
            numbers if `estimate` computes their mean, else for all labels.
        label: See `estimate`.
        text: See `estimate`.
        prob: See `estimate`.
        several: See `estimate`.
        predictions: See `estimate`.

    Returns:
        A data frame of the same kind, with the rows in the same order. The new column is
        "corrected"; with several labels "corrected_<label>" for each. Its value is
        missing for a text without a label.

    Raises:
        ValueError: An argument does not fit the data, or the column exists already.

    Source: arXiv 2306.04746 (DSL).
    """
    inputs = Inputs.of(coded, gold, label=label, text=text, prob=prob, several=several)
    texts, kept, used = inputs.texts, inputs.kept, inputs.used
    numbers = _numbers(inputs, coded, outcome, label, predictions)
    columns = {}
    for name, of_labels, of_codes in numbers:
        values = np.full(len(texts), np.nan)
        values[kept] = of_labels
        values[kept[used.rows]] += (of_codes - of_labels[used.rows]) / used.probs
        columns[COLUMN if len(numbers) == 1 else f"{COLUMN}_{name}"] = values
    taken = [name for name in columns if name in frames.names(texts.frame)]
    if taken:
        raise ArgumentError(
            f"has a column {taken[0]!r} already", argument="coded", code="duplicate"
        )
    return frames.with_columns(texts.frame, columns)


def _numbers(
    inputs: Inputs,
    coded: Input,
    outcome: Outcome | None,
    label: str | None,
    predictions: Predictions | None,
) -> list[tuple[str, Floats, Floats]]:
    """Return each outcome's name, its values by labels and its values by codes."""
    texts, kept = inputs.texts, inputs.kept
    if asks_median(outcome, inputs.all_values):
        raise ArgumentError(
            "must be labels or numbers, not 'median'",
            argument="outcome",
            code="unsupported",
        )
    used, outcome, _ = inputs.measured(coded, outcome, label)
    predicted = predictions_of(coded, texts, predictions, several=inputs.several)[0]
    return shares_or_scores(
        outcome, texts, kept, predicted, used.decided, several=inputs.several
    )[1]


@one_warning()
def replicate_weights(
    coded: Any,  # Coded, a data frame, or labels
    gold: GoldSample | str | Sequence[Any],
    outcome: Outcome | None = None,
    *,
    label: str | None = None,
    text: str | None = None,
    prob: str | Sequence[float] | None = None,
    target: Target = "population",
    cluster: str | None = None,
    several: bool | None = None,
    predictions: Predictions | None = None,
    weights: str | Sequence[float] | None = None,
    n: int = 300,
    seed: int = 0,
) -> Floats:
    """Return replicate weights, for standard errors of regressions of `corrected`.

    The weights are a generalised bootstrap of the texts, as a sample of a population, and
    of the draw of the gold sample: its strata, inclusion probabilities, missing codes and
    waves. The covariance matrix of any estimate t is 4 / n times the sum over replicates
    b of (t_b - t) (t_b - t)', where t_b is the estimate with the weights of column b.
    This is Fay's method with the factor 0.5.

    Args:
        coded: See `estimate`.
        gold: See `estimate`.
        outcome: For the target "texts": the outcome of `corrected`, a single one.
        label: See `estimate`.
        text: See `estimate`.
        prob: See `estimate`.
        target: See `estimate`. For "texts" the replicates vary only with the draw of the
            gold sample. They then belong to one outcome, and to its means and linear
            regressions on columns without labels; standard errors of a regression are
            the less exact the more its covariates explain.
        cluster: See `estimate`; the texts of a cluster have the same replicates.
        several: See `estimate`.
        predictions: See `estimate`; for the target "texts".
        weights: Survey weights, which the replicates contain; see `estimate`. The
            estimate itself needs them as well.
        n: Number of replicates. The random error of a standard error is about
            100 / sqrt(2 n) percent: 4% for 300.
        seed: Seed of the replicates.

    Returns:
        float64[N, n], a row for each text in the order of the data, a column for each
        replicate. Texts without a label have the weight 0.

    Raises:
        ValueError: An argument does not fit the data.

    Source: Beaumont, Patak, Int. Stat. Rev. 80, 2012; see also
        `llamaherd.coding.statistics.influences`.
    """
    checks.integer("n", n, 2, 100_000)
    checks.integer("seed", seed, 0, 2**53)
    inputs = Inputs.of(
        coded,
        gold,
        label=label,
        text=text,
        prob=prob,
        several=several,
        weights=weights,
        cluster=cluster,
        target=target,
    )
    settings = inputs.settings(["dsl"], LEVEL, target)
    of_texts = np.ones(len(inputs.kept))
    of_codes = of_texts[: len(inputs.used.rows)]
    values = (of_texts, of_codes)
    if target == "texts":
        numbers = _numbers(inputs, coded, outcome, label, predictions)
        if len(numbers) != 1:
            raise ArgumentError(
                f"must be one label, or numbers of labels, for "
                f"{setting('target', 'texts')}: replicates belong to one outcome",
                argument="outcome",
                code="missing",
            )
        values = numbers[0][1:]
    elif outcome is not None or predictions is not None:
        raise ArgumentError(
            f"has no effect without {setting('target', 'texts')}: the replicates of the "
            "population belong to any outcome",
            argument="predictions" if outcome is None else "outcome",
            code="conflict",
        )
    problem = settings.problem(
        "ols", of_texts[:, None], values[0], of_codes[:, None], values[1]
    )
    factors = np.zeros((len(inputs.texts), n))
    factors[inputs.kept] = replicate_factors(problem, n, np.random.default_rng(seed))
    return factors if inputs.survey is None else factors * inputs.survey[:, None]
