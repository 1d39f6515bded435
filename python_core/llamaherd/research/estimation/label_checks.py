"""Check of codes that the user declares to be a simple random sample."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from llamaherd.core.caller import warn_caller
from llamaherd.research import frames
from llamaherd.research.codes import text_of
from llamaherd.research.coding.label_sets import labels_in
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.statistics.representative import LabelCheck, copied, label_check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.estimation.gold_data import Population


def label_check_of(
    texts: Population, gold: GoldSample | Sequence[Any], prob: object
) -> LabelCheck | None:
    """Compare codes with the labels, and coded texts with all texts.

    Returns:
        The check; None for a `GoldSample`, or if `prob` is not "simple".

    Warns:
        UserWarning: A code is not the label of any text, or the labels of the coded texts
            are improbable for a simple random sample.
    """
    if isinstance(gold, GoldSample):
        return None
    _warn_of_unknown(texts, gold)
    if not isinstance(prob, str):  # numbers; a column was replaced by its values
        return None
    coded = [
        label for label, code in zip(texts.labels, gold, strict=True) if code is not None
    ]
    found = label_check(texts.labels, coded)
    if found.is_unlikely:
        warn_caller(
            f"The codes are hardly a simple sample: labels of coded texts differ from "
            f"those of all texts. {found}. If texts were picked by their labels, give "
            "the probability of each text as prob; otherwise no estimate from these "
            "texts is valid"
        )
    return found


def copies(texts: Population, gold: GoldSample | Sequence[Any]) -> list[str]:
    """Return a note if codes may be a copy of the model's labels."""
    if isinstance(gold, GoldSample):
        labels = [texts.labels[row] for row in gold.rows]
        same = copied(labels, gold.codes, gold.coders)
    else:
        same = copied(texts.labels, [gold], ["gold"])
    note = (
        f"All codes of {', '.join(map(repr, same))} equal the model's labels: if they "
        "are a copy of the labels and not the codes of people, no error is corrected"
    )
    return [note] if same else []


def _warn_of_unknown(texts: Population, codes: Sequence[Any]) -> None:
    """Warn of codes that no text has as its label, such as a misspelt label."""
    known = set(texts.names)
    if texts.label_column is not None:
        of_column = frames.categories(texts.frame, texts.label_column) or ()
        known |= {str(each) for each in of_column}
    if not texts.names:  # any number may be a code
        return
    given = [text_of(code) for code in codes]
    parts = [
        part
        for code in given
        if code is not None
        for part in (labels_in(code, texts.names) if texts.several else (code,))
    ]
    counts = Counter(part for part in parts if part not in known)
    if counts:
        listed = ", ".join(f"{code!r} ({n})" for code, n in counts.most_common(5))
        more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
        warn_caller(
            f"People gave labels that no text has: {listed}{more}. If they are misspelt, "
            "correct them: a share counts only codes that equal its label"
        )
