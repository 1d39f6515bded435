"""Measures of agreement on passages, for all labels together and for each label."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics.intervals import Measure, percentiles
from llamaherd.research.statistics.unitizing import Unitizing, f1_of, matches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.research.codes.span_files import Unit
    from llamaherd.research.statistics.ratings import Integers

    Texts = dict[str, tuple[Unit, ...]]  # passages by text

_ALPHA = "unitizing alpha"
_OF_LABELS = ("exact f1", "overlap f1")


class SpanDraws:
    """Bootstrap samples of texts; all measures of the same texts use the same samples."""

    def __init__(self, level: float, n: int, seed: int) -> None:
        self._level, self._n, self._seed = level, n, seed

    def measures(
        self, n: int, compute: Callable[[Integers | None], Mapping[str, float]]
    ) -> dict[str, Measure]:
        """Return bootstrap estimates with intervals.

        `compute` is called with the indices of n resampled texts, or None for all texts.
        """
        generator = np.random.default_rng(self._seed)
        found = compute(None)
        rows: dict[str, list[float]] = {name: [] for name in found}
        for _ in range(self._n):
            for name, value in compute(generator.integers(0, n, n)).items():
                rows[name].append(value)
        made = {}
        for name, value in found.items():
            low, high = percentiles(np.array(rows[name]), self._level)
            made[name] = Measure(value=value, low=low, high=high, n=n)
        return made


class SpanComparison:
    """Measures of passages, for all labels together and for each label.

    Args:
        labels: Labels for which to compute measures; "" for all labels together.
        draws: Bootstrap samples of texts.

    Attributes:
        measures: Measures so far, by part, measure and label.
    """

    def __init__(self, labels: Sequence[str], draws: SpanDraws) -> None:
        self.measures: dict[tuple[str, str, str], Measure] = {}
        self._labels = labels
        self._draws = draws

    def compare(self, part: str, given: Texts, true: Texts) -> None:
        """Compute precision, recall and F1 on the texts that both sides coded."""
        texts = [text for text in true if text in given]
        for label in self._labels if texts else ():
            counts = matches(
                [_only(given[text], label) for text in texts],
                [_only(true[text], label) for text in texts],
            )
            found = self._draws.measures(len(texts), partial(f1_of, counts))
            for name, measure in found.items():
                if not label or name in _OF_LABELS:
                    self.measures[part, name, label] = measure

    def agree(self, part: str, coders: Sequence[Texts]) -> None:
        """Compute alpha on the texts that all coders coded."""
        texts = [text for text in coders[0] if all(text in own for own in coders)]
        each = [[own[text] for text in texts] for own in coders]
        lengths = [len(text) for text in texts]
        for label in self._labels if texts else ():
            wanted = [label] if label else None
            alpha = Unitizing(each, lengths, wanted).alpha
            found = self._draws.measures(len(texts), partial(_agreement, alpha))
            self.measures[part, _ALPHA, label] = found[_ALPHA]


def _agreement(
    alpha: Callable[[Integers | None], float], texts: Integers | None
) -> dict[str, float]:
    return {_ALPHA: alpha(texts)}


def _only(units: Sequence[Unit], label: str) -> list[Unit]:
    return [unit for unit in units if label in ("", unit.label)]
