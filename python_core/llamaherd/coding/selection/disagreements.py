"""Texts whose label by the model differs from their human code."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.coding import frames
from llamaherd.coding.annotation.label_sets import joined_labels
from llamaherd.coding.codes import text_of
from llamaherd.coding.selection.parts import (
    PARTS,
    PartCodes,
    codes_of_part,
    opened_sample,
    record_of,
)
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of, decimals, first_rows
from llamaherd.engine.core.words import call, setting

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.gold.sample import GoldSample

_SHOWN = 10  # number of texts to print
_WIDE = 60  # number of characters of each text to print


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreements:
    """Table of texts whose label differs from the human code, most confident first.

    Attributes:
        columns: Columns by name: "id", "part", "text", "code" (majority code), a column
            for each of several coders, "label", "prob" (probability of the label),
            "prob_code" (probability of the code), and "thinking" if the model thought.
        n_compared: Number of texts that have both a code and a label.
        n_missing: Number of coded texts without a label.
    """

    columns: dict[str, list[Any]]
    n_compared: int
    n_missing: int

    def __len__(self) -> int:
        return len(self.columns["id"])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_dicts())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dict for each text."""
        names = list(self.columns)
        rows = zip(*self.columns.values(), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def to_pandas(self) -> Any:  # pandas is optional
        """Return a data frame.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional

        return pd.DataFrame(self.columns)

    def __str__(self) -> str:
        lines = [f"<Disagreements: {len(self)} of {count_of(self.n_compared, 'text')}>"]
        rows = []
        for row in self.to_dicts()[:_SHOWN]:
            text = " ".join(str(row["text"]).split())
            excerpt = text if len(text) <= _WIDE else f"{text[: _WIDE - 3]}..."
            sure = "" if math.isnan(row["prob"]) else f" {decimals(row['prob'])}"
            rows.append(
                f"{row['id']}  {row['label'] or '(none)'}{sure}, people: "
                f"{row['code'] or '(none)'}  {excerpt}"
            )
        lines += first_rows(rows, _SHOWN, len(self))
        if self.n_missing:
            lines.append(f"! {self.n_missing} coded texts have no label")
        return "\n".join(lines)

    __repr__ = __str__


def disagreements(
    coded: Any,  # Coded, or what is like it
    gold: GoldSample | str | os.PathLike[str],
    parts: str | Sequence[str] = "explore",
    *,
    peek: bool = False,
) -> Disagreements:
    """List the texts whose label differs from the human code.

    Read the texts of "explore" to write a better codebook. If you read texts of "select"
    and then change a codebook, the value of this codebook on "select" becomes too
    optimistic. "evaluate" is locked until `evaluate_codebook` unlocks it.

    Args:
        coded: Result of `annotate` that contains labels of these texts.
        gold: Sample with codes and a split; or the path of its CSV file.
        parts: Part or parts of the sample.
        peek: True to read "evaluate" while it is locked; this gives a warning.

    Returns:
        A table, the most confident labels first.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The sample has no split, a part has no codes, or "evaluate" is locked.

    Warns:
        UserWarning: The locked part "evaluate" was read.
    """
    sample = opened_sample(gold)
    checks.flag("peek", peek)
    part_names = _requested_parts(parts)
    record = record_of(sample)
    if "evaluate" in part_names and not record["opened"]:
        if not peek:
            raise ArgumentError(
                f"'evaluate' is locked until {call('evaluate_codebook')} unlocks it: "
                "once you have read these texts, they give no unbiased accuracy. "
                f"{setting('peek', True)} reads them nevertheless",
                argument="parts",
                code="closed",
            )
        warnings.warn(
            "The part 'evaluate' was read while it was locked: accuracy on its texts is "
            "no longer unbiased",
            UserWarning,
            stacklevel=2,
        )
    rows: list[dict[str, Any]] = []
    n_compared = n_missing = 0
    for part in part_names:
        codes = codes_of_part(sample, part)
        texts, labels = codes.labelled(coded, partly=True)
        n_labelled = sum(label is not None for label in labels.labels)
        n_compared += n_labelled
        n_missing += len(codes) - n_labelled
        rows += _rows(part, texts, labels)
    rows.sort(key=lambda row: 0.0 if math.isnan(row["prob"]) else -row["prob"])
    names = list(rows[0]) if rows else ["id", "part", "text", "code", "label", "prob"]
    return Disagreements(
        columns={name: [row[name] for row in rows] for name in names},
        n_compared=n_compared,
        n_missing=n_missing,
    )


def _requested_parts(parts: object) -> list[str]:
    names = [parts] if isinstance(parts, str) else parts
    if not isinstance(names, (list, tuple)) or not names:
        raise ArgumentTypeError(
            f"must be one or several of {', '.join(PARTS)}, not {checks.brief(parts)}",
            argument="parts",
        )
    return [checks.choice("parts", part, PARTS) for part in dict.fromkeys(names)]


def _rows(part: str, codes: PartCodes, coded: Coded) -> list[dict[str, Any]]:
    """Return a row for each text whose label differs from its code."""
    thoughts = coded.columns.get("thinking")
    cells = () if thoughts is None else frames.column(coded.frame, thoughts, "coded")
    coders = dict(zip(codes.coders, codes.columns, strict=True))
    rows = []
    for i, answer in enumerate(codes.sets_of(coded.labels)):
        right = codes.right[i]
        if answer is None or answer == right:
            continue
        by_coder = {f"code_{name}": column[i] for name, column in coders.items()}
        rows.append(
            {
                "id": codes.ids[i],
                "part": part,
                "text": codes.texts[i],
                "code": joined_labels(right),
                **(by_coder if len(coders) > 1 else {}),
                "label": coded.labels[i],
                "prob": _prob(coded, i, answer),
                "prob_code": _prob(coded, i, right),
                **({} if thoughts is None else {"thinking": text_of(cells[i])}),
            }
        )
    return rows


def _prob(coded: Coded, i: int, of: Sequence[str]) -> float:
    """Return the probability of a label; NaN if unknown, or for several labels."""
    if coded.probs is None or len(of) != 1 or of[0] not in coded.names:
        return math.nan
    return float(coded.probs[i, coded.names.index(of[0])])
