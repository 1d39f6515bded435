"""Comparison of passages that a model marked with passages that people marked."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from llamaherd.coding import frames
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.coding.codes.span_files import (
    FORMATS,
    Format,
    MarkedText,
    Unit,
    marked_texts,
)
from llamaherd.coding.statistics.intervals import (
    LEVEL,
    REMOVED_BOOTSTRAP,
    Measure,
    level_of,
)
from llamaherd.coding.validation.unitizing import Unitizing, f1_of, matches
from llamaherd.coding.validation.validation import COLUMNS
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import removed_arguments
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of, decimals, first_rows, limits, part_of
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from llamaherd.coding.statistics.uncertainty import UnitStatistic

    Texts = dict[str, tuple[Unit, ...]]  # passages by text

MODEL = "model"
_MOST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class SpanCodes:
    """Passages that people marked.

    Attributes:
        coders: For each coder, passages by text. A text that is not in the mapping was
            not coded; a text without passages has the value ().
        ids: Identifiers by text.
    """

    coders: Mapping[str, Texts]
    ids: Mapping[str, str]

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels, sorted."""
        labels = {
            unit.label
            for texts in self.coders.values()
            for units in texts.values()
            for unit in units
        }
        return tuple(sorted(labels))

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict for each passage: coder, id, label, quote, start, end."""
        return [
            {
                "coder": coder,
                "id": self.ids[text],
                "label": unit.label,
                "quote": text[unit.start : unit.end],
                "start": unit.start,
                "end": unit.end,
            }
            for coder, texts in self.coders.items()
            for text, units in texts.items()
            for unit in units
        ]

    def __repr__(self) -> str:
        n = sum(len(units) for texts in self.coders.values() for units in texts.values())
        names = ", ".join(self.coders)
        what = f"{count_of(len(self.ids), 'text')}, {count_of(n, 'passage')}"
        return f"<SpanCodes: {what}, coders {names}>"


def read_spans(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    format: Format = "auto",  # noqa: A002 - what it is
    text: str = "text",
) -> SpanCodes:
    """Read passages that people marked, or that `llamaherd annotate` wrote as JSON lines.

    Args:
        path: One or several files or folders. JSON lines have "text", "spans" (each with
            start, end, label) and optionally "id" and "coder". doccano's JSONL and Label
            Studio's JSON are read as exported. For brat, pass a folder or an .ann file;
            the texts must be in the same folder. If the file does not name the coder, the
            coder gets the name of the file; for brat, the name of the folder.
        format: "jsonl", "doccano", "labelstudio" or "brat"; "auto" detects the format.
        text: Name of the field with the text in JSON lines.

    Raises:
        ValueError: A file has another format, a passage is not in its text, or a coder
            coded a text twice.
        OSError: A file cannot be read.
    """
    checks.choice("format", format, FORMATS)
    paths = checks.paths("path", path)
    marked = [row for file in paths for row in marked_texts(file, format, text)]
    if not marked:
        raise ArgumentError("has no texts", argument="path", code="empty")
    return span_codes(marked)


def span_codes(marked: Iterable[MarkedText]) -> SpanCodes:
    """Collect texts with passages by coder."""
    coders: dict[str, Texts] = {}
    ids: dict[str, str] = {}
    for text in marked:
        texts = coders.setdefault(text.coder, {})
        if texts.get(text.text, text.units) != text.units:
            raise ArgumentError(
                f"the coder {checks.quoted(text.coder)} has two codings of the text "
                f"{checks.quoted(text.id)}",
                argument="path",
                code="duplicate",
                form="{problem}",
            )
        texts[text.text] = text.units
        ids.setdefault(text.text, text.id)
    return SpanCodes(coders, ids)


@dataclass(frozen=True, slots=True)
class SpanValidation:
    """Comparison of a model's passages with passages that people marked.

    Attributes:
        measures: Estimates with intervals by part, measure and label; label "" for all
            labels together.
        notes: Notes on the compared passages.
        level: Confidence level of the intervals.
    """

    measures: Mapping[tuple[str, str, str], Measure]
    notes: tuple[str, ...]
    level: float

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dict for each measure: part, measure, label, value, low, ..."""
        return [
            dict(zip(COLUMNS, (*key, m.value, m.low, m.high, m.n), strict=True))
            for key, m in self.measures.items()
        ]

    def to_pandas(self) -> Any:  # pandas is optional
        """Return the table as a data frame of pandas."""
        import pandas as pd  # optional

        return pd.DataFrame(self.to_dicts(), columns=list(COLUMNS))

    def __str__(self) -> str:
        lines = ["<SpanValidation>"]
        heading = None
        for (part, name, label), measure in self.measures.items():
            if part != heading:
                lines += ["", f"{part} ({count_of(measure.n, 'text')})"]
                heading = part
            title = f"{name} {label}".strip()
            known = not math.isnan(measure.low)
            ends = f" {limits(measure.low, measure.high, 3)}" if known else ""
            lines.append(f"  {title:<30} {decimals(measure.value, 3):>6}{ends}")
        return "\n".join([*first_rows(lines, _MOST_SHOWN), "", *self.notes]).rstrip()

    __repr__ = __str__


@removed_arguments(
    gamma="use the measure 'unitizing alpha', which is always computed",
    **REMOVED_BOOTSTRAP,
)
def validate_spans(
    coded: Coded | SpanCodes,
    gold: SpanCodes,
    *,
    level: float = LEVEL,
) -> SpanValidation:
    """Compare passages of a model with passages that people marked in the same texts.

    "exact" counts a passage if its begin, end and label are equal, "overlap" if it shares
    at least one character with a passage of the same label. "unitizing alpha" is
    Krippendorff's coefficient (2004) of the agreement of all coders over all texts.
    Intervals follow from the influences of texts, see docs/validation.md.

    Args:
        coded: Texts that `annotate` coded by a codebook of the type "spans"; or passages
            of one coder, from `read_spans`.
        gold: Passages that people marked. Texts are matched by their content.
        level: Confidence level.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The codebook has another type, or no text was coded both by the model
            and by people.
    """
    if not isinstance(gold, SpanCodes):
        raise ArgumentTypeError(
            f"must be what {call('read_spans')} returns, not {checks.brief(gold)}",
            argument="gold",
        )
    level = level_of(level)
    model = _of_model(coded)
    labels = sorted({*gold.labels, *(u.label for us in model.values() for u in us)})
    of = _SpanMeasures(("", *labels) if len(labels) > 1 else ("",), level)
    for coder, texts in gold.coders.items():
        of.compare(f"{MODEL} and {coder}", model, texts)
    if not of.measures:
        raise ArgumentError(
            "has no text that was coded", argument="gold", code="not_found"
        )
    for one, other in combinations(gold.coders, 2):
        of.compare(f"{one} and {other}", gold.coders[one], gold.coders[other])
    people = list(gold.coders.values())
    of.agree(f"{MODEL} and people", [model, *people])
    if len(people) > 1:
        of.agree("between people", people)
    return SpanValidation(of.measures, tuple(_notes(model, gold)), level)


class _SpanMeasures:
    """Measures of passages, for all labels together ("") and for each label."""

    def __init__(self, labels: Sequence[str], level: float) -> None:
        self.measures: dict[tuple[str, str, str], Measure] = {}
        self._labels, self._level = labels, level

    def compare(self, part: str, of_model: Texts, true: Texts) -> None:
        """Compute precision, recall and F1 on the texts that both sides coded."""
        texts = [text for text in true if text in of_model]
        for label in self._labels if texts else ():
            counts = matches(
                [_only(of_model[text], label) for text in texts],
                [_only(true[text], label) for text in texts],
            )
            for name, statistic in f1_of(counts).items():
                if not label or name.endswith("f1"):
                    self._add((part, name, label), statistic, len(texts))

    def agree(self, part: str, coders: Sequence[Texts]) -> None:
        """Compute alpha on the texts that all coders coded."""
        texts = [text for text in coders[0] if all(text in coded for coded in coders)]
        units = [[coded[text] for text in texts] for coded in coders]
        lengths = [len(text) for text in texts]
        for label in self._labels if texts else ():
            alpha = Unitizing(units, lengths, [label] if label else None).statistic()
            self._add((part, "unitizing alpha", label), alpha, len(texts))

    def _add(self, key: tuple[str, str, str], statistic: UnitStatistic, n: int) -> None:
        low, high = statistic.limits(self._level)
        self.measures[key] = Measure(value=statistic.value, low=low, high=high, n=n)


def _only(units: Sequence[Unit], label: str) -> list[Unit]:
    return [unit for unit in units if label in ("", unit.label)]


def _of_model(coded: object) -> Texts:
    if isinstance(coded, SpanCodes):
        if len(coded.coders) != 1:
            raise ArgumentError(
                f"must have one coder, not {len(coded.coders)}", argument="coded"
            )
        return next(iter(coded.coders.values()))
    if not isinstance(coded, Coded) or coded.codebook.type != SPANS:
        kind = coded.codebook.type if isinstance(coded, Coded) else coded
        raise ArgumentTypeError(
            f"must be texts coded by a codebook of the type 'spans', not "
            f"{checks.brief(kind)}",
            argument="coded",
        )
    texts = frames.column(coded.frame, coded.text, "coded")
    return texts_of_labels(texts, coded.labels)


def texts_of_labels(texts: Sequence[str | None], labels: Sequence[str | None]) -> Texts:
    """Return passages by text from labels of coded texts; failed texts are left out."""
    passages: Texts = {}
    for text, label in zip(texts, labels, strict=True):
        if text is None or label is None:
            continue
        spans = json.loads(label)[SPANS]
        passages[text] = tuple(Unit(s["start"], s["end"], s["label"]) for s in spans)
    return passages


def _notes(model: Texts, gold: SpanCodes) -> list[str]:
    missing = sum(text not in model for text in gold.ids)
    if not missing:
        return []
    texts = part_of(missing, len(gold.ids), "text", of="that people coded")
    return [f"{texts} no passages of the model"]
