"""Check of codes that the user declares to be a simple random sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core.caller import warn_caller
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.statistics.representative import LabelCheck, label_check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.estimation.gold_data import Population


def label_check_of(
    texts: Population, gold: GoldSample | Sequence[Any], prob: object
) -> LabelCheck | None:
    """Compare the label distribution of the coded texts with that of all texts.

    Returns:
        The check; None for a `GoldSample`, or if `prob` is not "simple".

    Warns:
        UserWarning: A simple random sample would hardly have these labels.
    """
    if isinstance(gold, GoldSample) or prob != "simple":
        return None
    coded = [
        label for label, code in zip(texts.labels, gold, strict=True) if code is not None
    ]
    found = label_check(texts.labels, coded)
    if found.is_unlikely:
        warn_caller(
            f"the codes are hardly a simple sample: labels of coded texts differ from "
            f"those of all texts. {found}. If texts were picked by their labels, give "
            "the probability of each as prob; otherwise no estimate from them is valid"
        )
    return found
