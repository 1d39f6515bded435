"""Plots of counts: labels, passages, confusion matrices, and the time of calls."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llamaherd.calls.asks.scores import ClassifyResults
from llamaherd.coding.annotation.answer_types import JOINED
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.coding.plots import description
from llamaherd.coding.plots.description import (
    Axis,
    Band,
    Fields,
    Mark,
    Plot,
    Rects,
    Series,
    Texts,
)
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, percents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.engine.core.arrays import Floats

_SHARES = ("0%", "to 25%", "to 50%", "to 75%", "to 100%")  # classes of shares
_PHASES = ("waited", "prompt read, to the first token", "answer")
_MOST_NUMBERS = 20  # rows of a matrix in which numbers are readable


class Passage(NamedTuple):
    """Passage of a text: characters from start to end, as in a slice, and its label."""

    start: int
    end: int
    label: str


def labels_plot(
    summary: Sequence[Mapping[str, Any]], n: int, things: str = "texts"
) -> Plot:
    """Show the number of texts with each label, shaded by the label's probability."""
    if not summary:
        raise ArgumentError(
            "has no labels to count: its codebook has fields",
            argument="x",
            code="no_labels",
        )
    n_labelled = summary[0]["n_labelled"]
    of = count_of(n, things.removesuffix("s"))
    if n_labelled != n:
        of = f"{n_labelled:,} of {of}"
    if summary[0]["bands"] is None:
        parts = [[float(label["n"]) for label in summary]]
        series = Series(names=(things,), is_area=True)
    else:
        parts = [
            [float(label["bands"][i]) for label in summary] for i in range(len(BANDS))
        ]
        series = Series(
            names=[_band(i) for i in range(len(BANDS))],
            colours=description.BANDS,
            title="probability of the label",
            is_area=True,
        )
    notes = [
        f"{label['n']:,}"
        + ("" if label["share"] is None else f" ({percents(label['share'], 0)})")
        for label in summary
    ]
    return _bars(
        f"Labels of {of}",
        f"number of {things}",
        [str(label["label"]) for label in summary],
        parts,
        notes=notes,
        series=series,
        alt="; ".join(f"{label['label']}: {label['n']} {things}" for label in summary),
    )


def _band(i: int) -> str:
    if i == 0:
        return f"{BANDS[0]} to 1"
    return f"{BANDS[i]} to {BANDS[i - 1]}" if BANDS[i] else f"below {BANDS[i - 1]}"


def _bars(
    title: str,
    quantity: str,
    rows: list[str],
    parts: Sequence[list[float]],
    *,
    notes: list[str],
    series: Series,
    alt: str,
) -> Plot:
    """Return bars of one or several parts each, with a text at the end of each bar."""
    at = list(range(len(rows)))
    ends = [[0.0] * len(rows)]
    for lengths in parts:
        ends.append([a + b for a, b in zip(ends[-1], lengths, strict=True)])
    bars = Rects(
        x=[x for column in ends[:-1] for x in column],
        x_end=[x for column in ends[1:] for x in column],
        y=[i - 0.35 for i in at] * len(parts),
        y_end=[i + 0.35 for i in at] * len(parts),
        series=[part for part in range(len(parts)) for _ in at],
    )
    texts = Texts(x=ends[-1], y=[float(i) for i in at], text=notes, align="left")
    return Plot(
        title=title,
        x=Axis(title=quantity),
        y=Axis.of_rows(rows),
        marks=[bars, texts],
        series=series,
        alt=alt,
    )


def passages_of(label: str | None) -> list[Passage]:
    """Return the passages in the label of a text; the codebook has the type "spans"."""
    if label is None:
        return []
    spans = json.loads(label)[SPANS]
    return [Passage(span["start"], span["end"], str(span["label"])) for span in spans]


def passage_counts(
    labels: Sequence[str | None], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Count passages, and texts with a passage, for each label."""
    passages = [passages_of(label) for label in labels]
    n_answered = sum(label is not None for label in labels)
    others = {passage.label for of_text in passages for passage in of_text} - set(names)
    counts = []
    for name in [*names, *sorted(others)]:
        lengths = [
            e.end - e.start for of_text in passages for e in of_text if e.label == name
        ]
        n_texts = sum(
            any(passage.label == name for passage in of_text) for of_text in passages
        )
        counts.append(
            {
                "label": name,
                "n": len(lengths),
                "n_texts": n_texts,
                "share": n_texts / n_answered if n_answered else None,
                "mean_length": sum(lengths) / len(lengths) if lengths else None,
            }
        )
    return counts


def passages_plot(counts: Sequence[Mapping[str, Any]], n_texts: int) -> Plot:
    """Show number, share of texts and mean length of the passages with each label."""
    if not counts:
        raise ArgumentError("has no passages", argument="x", code="nothing_to_plot")
    notes = [
        f"{label['n']:,} ({percents(label['share'], 0)}; {label['mean_length']:.0f})"
        if label["mean_length"] is not None
        else "0"
        for label in counts
    ]
    rows = [str(label["label"]) for label in counts]
    return _bars(
        f"Passages in {count_of(n_texts, 'text')} (share of texts; mean characters)",
        "number of passages",
        rows,
        [[float(label["n"]) for label in counts]],
        notes=notes,
        series=Series(is_area=True),
        alt="; ".join(f"{row}: {note}" for row, note in zip(rows, notes, strict=True)),
    )


def confusion_plot(fields: Fields) -> Plot:
    """Show the confusion matrix of labels and codes."""
    if fields.get("several"):
        raise ArgumentError(
            "cannot be 'confusion': texts with several labels have no confusion matrix",
            argument="kind",
            code="several_labels",
        )
    measured = fields["accuracy"]
    names = [str(label) for label in measured["labels"]]
    counts = [[int(count) for count in row] for row in measured["confusion"]]
    right = sum(counts[i][i] for i in range(len(counts)))
    at = [(i, j) for i in range(len(names)) for j in range(len(names))]
    classes = [_share_class(counts[i][j], sum(counts[i])) for i, j in at]
    marks: list[Mark] = [
        Rects(
            x=[j - 0.5 for _, j in at],
            x_end=[j + 0.5 for _, j in at],
            y=[i - 0.5 for i, _ in at],
            y_end=[i + 0.5 for i, _ in at],
            series=classes,
        )
    ]
    if len(names) <= _MOST_NUMBERS:
        marks.append(
            Texts(
                x=[float(j) for _, j in at],
                y=[float(i) for i, _ in at],
                text=[f"{counts[i][j]:,}" for i, j in at],
                align="center",
                is_white=[shade >= description.N_LIGHT for shade in classes],
            )
        )
    edge = len(names) - 0.5
    return Plot(
        title="Texts by label and code",
        x=Axis(title="code of people", names=names, limits=(-0.5, edge)),
        y=Axis(title="label of the model", names=names, limits=(edge, -0.5)),
        marks=marks,
        series=Series(
            names=_SHARES,
            colours=description.SHARES,
            title="share of the texts with this label",
            is_area=True,
        ),
        alt=f"{right:,} of {count_of(sum(map(sum, counts)), 'text')} on the diagonal",
    )


def _share_class(n: int, total: int) -> int:
    """Return the index of the class of n / total in `_SHARES`."""
    return -(-4 * n // total) if total else 0


def timeline_plot(requests: Sequence[Any], n_slots: int) -> Plot:
    """Show when each prompt waited, was read and was answered."""
    if not requests:
        raise ArgumentError(
            "has no prompt that ran: all were copied, read from the journal, or failed",
            argument="x",
            code="nothing_to_plot",
        )
    ordered = sorted(requests, key=lambda request: (request.queue_s, request.wall_s))
    waited = [min(request.queue_s, request.wall_s) for request in ordered]
    first = [
        request.wall_s
        if request.first_token_s is None
        else max(request.first_token_s, start)
        for request, start in zip(ordered, waited, strict=True)
    ]
    end = [
        max(request.wall_s, begun) for request, begun in zip(ordered, first, strict=True)
    ]
    # One area for all prompts keeps files small with 20,000 prompts.
    edges = [i + side for i in range(len(ordered)) for side in (-0.5, 0.5)]
    bounds = [
        [second for second in seconds for _ in range(2)]
        for seconds in ([0.0] * len(ordered), waited, first, end)
    ]
    return Plot(
        title=f"{count_of(len(ordered), 'prompt')} in {count_of(n_slots, 'slot')}",
        x=Axis(
            title="seconds since the call began", limits=(0.0, 1.01 * max(end) or 1.0)
        ),
        y=Axis(
            title="prompts, in the order in which they began",
            limits=(len(ordered) - 0.5, -0.5),
            is_whole=True,
        ),
        marks=[
            Band(at=edges, low=bounds[i], high=bounds[i + 1], along="x", series=i)
            for i in range(3)
        ],
        series=Series(names=_PHASES, colours=description.PHASES, is_area=True),
        alt=f"from 0 to {max(end):.1f} s",
    )


def time_plot(fields: Fields) -> Plot:
    """Show the seconds of a call for prompts and answers; `fields` is a `Stats`."""
    wall, read, wrote = fields["wall_s"], fields["prefill_s"], fields["decode_s"]
    rest = max(0.0, wall - read - wrote)
    return _bars(
        f"{count_of(fields['n_prompts'], 'prompt')} in {wall:.1f} s",
        "seconds",
        ["prompt tokens", "answer tokens", "everything else"],
        [[read, wrote, rest]],
        notes=[
            f"{fields['n_prefill_tokens']:,} at {fields['prefill_tokens_per_s']:,.0f}/s",
            f"{fields['n_decode_tokens']:,} at {fields['decode_tokens_per_s']:,.0f}/s",
            "",
        ],
        series=Series(is_area=True),
        alt=f"prompts {read:.1f} s, answers {wrote:.1f} s, else {rest:.1f} s",
    )


# Lower limits of bands of label probabilities, the highest first.
BANDS = (0.9, 0.7, 0.5, 0.0)


def summary_of(coded: Coded | ClassifyResults) -> list[dict[str, Any]]:
    """Count texts by label and by label probability; see `label_summary`."""
    book = None if isinstance(coded, ClassifyResults) else coded.codebook
    several = book is not None and book.kind.is_several
    return label_summary(coded.labels, coded.names, coded.probs, several=several)


def label_summary(
    labels: Sequence[str | None],
    names: Sequence[str],
    probs: Floats | None,
    *,
    several: bool,
) -> list[dict[str, Any]]:
    """Count the n texts by label, with shares and label probabilities, float64[n, k].

    With `several`, a text may have several labels, joined by `JOINED`.
    """
    n_labelled = sum(label is not None for label in labels)
    summary = []
    for j, name in enumerate(names):
        has = np.array([_has(label, name, several) for label in labels], dtype=bool)
        sure = None if probs is None else probs[has, j]
        summary.append(
            {
                "label": name,
                "n": int(has.sum()),
                "n_labelled": n_labelled,
                "share": float(has.sum()) / n_labelled if n_labelled else None,
                "prob": None if sure is None or not len(sure) else float(sure.mean()),
                "bands": None if sure is None else in_bands(sure.tolist()),
            }
        )
    return summary


def in_bands(probs: Sequence[float]) -> list[int]:
    """Count probabilities in each of `BANDS`, ignoring NaN."""
    counted = Counter(
        next((b for b in (*BANDS, -math.inf) if p >= b), math.nan) for p in probs
    )
    return [counted[band] for band in BANDS]


def _has(label: str | None, name: str, several: bool) -> bool:
    if label is None:
        return False
    return name in label.split(JOINED) if several else label == name
