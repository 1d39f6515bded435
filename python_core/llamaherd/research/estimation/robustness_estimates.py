"""Estimates from each variant's labels and the codes of one gold sample."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llamaherd.core.caller import warn_caller
from llamaherd.core.errors import ArgumentError
from llamaherd.research import frames
from llamaherd.research.estimation.estimate import estimate
from llamaherd.research.estimation.estimate_inputs import joined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llama_cpp import Llama

    from llamaherd.research.coding.codebook import Codebook
    from llamaherd.research.estimation.estimates import Estimates
    from llamaherd.research.estimation.gold_drawn import GoldSample
    from llamaherd.research.estimation.outcomes import Outcome
    from llamaherd.run.host import Host

    Contexts = Host | Llama | Sequence[Host | Llama] | Mapping[str, Host | Llama]


_LABEL = "label"  # name of labels in formulas


@dataclass(frozen=True, kw_only=True, eq=False)
class Judge:
    """Estimator that uses the codes of a gold sample for every variant.

    Attributes:
        columns: Columns of the data frame.
        text: Name of the column of texts.
        gold: Gold sample.
        rows: n rows that have labels.
    """

    columns: dict[str, list[Any]]
    text: str
    gold: GoldSample
    rows: Sequence[int]

    @classmethod
    def of(
        cls,
        frame: Any,  # noqa: ANN401 - a data frame of any kind
        text: str,
        gold: GoldSample,
        rows: Sequence[int],
    ) -> Judge:
        """Check that the sample fits, before anything is coded.

        Raises:
            ValueError: The sample is from other texts, or has too few codes for the texts
                with labels.
        """
        names = frames.names(frame)
        columns = {name: frames.column(frame, name, "frame") for name in names}
        columns[_LABEL] = [None] * len(columns[text])
        # Variants have other labels than the draw.
        gold = replace(gold, labels=[None] * len(gold), label_marks=None)
        _, moved, _ = joined(columns, gold, _LABEL, text, several=gold.several)
        here = set(rows)
        coded = zip(moved.rows, moved.gold, strict=True)
        if sum(code is not None and row in here for row, code in coded) < 2:
            raise ArgumentError(
                "has fewer than two codes of the texts to be coded", argument="gold"
            )
        return cls(columns=columns, text=text, gold=gold, rows=rows)

    def estimates(
        self,
        variant: str,
        labels: Sequence[str | None],
        codebook: Codebook,
        formula: str | None,
        outcome: Outcome | None,
    ) -> Estimates | None:
        """Estimate by DSL from n labels of a variant; if this fails, warn."""
        column: list[str | None] = [None] * len(self.columns[self.text])
        for row, label in zip(self.rows, labels, strict=True):
            column[row] = label
        try:
            with warnings.catch_warnings():
                # the notes contain the same information
                warnings.simplefilter("ignore", UserWarning)
                return estimate(
                    {**self.columns, _LABEL: column},
                    self.gold,
                    formula,
                    outcome,
                    methods=("dsl",),
                    label=_LABEL,
                    text=self.text,
                    several=codebook.kind.is_several,
                )
        except ValueError as error:
            warn_caller(f"The variant {variant!r} has no estimate: {error}")
            return None
