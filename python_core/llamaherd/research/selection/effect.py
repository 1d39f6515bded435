"""Effect of a codebook's examples: the change of a measure, in one sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from llamaherd.core.decimals import decimals, limits
from llamaherd.core.plurals import count_of
from llamaherd.research.statistics.paired import MeasureName, PairedDifference

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SelectionMeasure = MeasureName | Literal["mae"]
ERRORS = ("mae",)  # for these measures smaller values are better
TITLES: dict[str, str] = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "kappa": "Cohen's kappa",
    "mae": "mean absolute error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesEffect:
    """Change of a measure by examples in the prompt, on the same texts.

    Attributes:
        n_examples: Number of examples that one of the codebooks has and the other lacks.
        measure: Measure of agreement with human codes.
        before: Value without these examples.
        after: Value with them.
        difference: `after` minus `before`, with its interval.
    """

    n_examples: int
    measure: SelectionMeasure
    before: float
    after: float
    difference: PairedDifference

    @property
    def verdict(self) -> str:
        """Verdict: "better", "worse", or "uncertain" if the interval includes 0."""
        if math.isnan(self.difference.low) or not self.difference.is_clear:
            return "uncertain"
        less_is_better = self.measure in ERRORS
        return "better" if (self.difference.value > 0) != less_is_better else "worse"

    def told(self, texts: str = "") -> str:
        """Return the effect as the end of a sentence that begins with the examples.

        Args:
            texts: Texts on which it was measured, such as "on 31 texts".
        """
        change = decimals(self.difference.value, sign="+")
        if not math.isnan(self.difference.low):
            change += f" {limits(self.difference.low, self.difference.high)}"
        verdict = {
            "better": "labels become better",
            "worse": "labels become worse",
            "uncertain": "this may be chance",
        }[self.verdict]
        where = f" {texts}" if texts else ""
        return (
            f"{'changes' if self.n_examples == 1 else 'change'} the "
            f"{TITLES[self.measure]}{where} from {decimals(self.before)} to "
            f"{decimals(self.after)} ({change}): {verdict}"
        )


def n_more_examples(book: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Return how many examples a codebook has more than another one; 0 if it differs.

    Args:
        book: Content of the codebook with more examples.
        other: Content of a codebook that is the same without them.
    """
    own, fewer = book.get("examples") or [], other.get("examples") or []
    rest = [{k: v for k, v in each.items() if k != "examples"} for each in (book, other)]
    is_same = rest[0] == rest[1] and list(own[: len(fewer)]) == list(fewer)
    return max(0, len(own) - len(fewer)) if is_same else 0


def examples_of(n: int) -> str:
    """Return "The 4 examples", as the subject of a sentence."""
    return f"The {count_of(n, 'example')}".replace("The 1 ", "The ")
