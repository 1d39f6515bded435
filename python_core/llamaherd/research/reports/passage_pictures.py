"""Shapes of the plots of passages and of their validation; see `pictures`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core.decimals import percents
from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of
from llamaherd.research.reports.highlights import passages_of
from llamaherd.research.reports.picture_parts import Fields, forest, point
from llamaherd.research.reports.shapes import Bars, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.reports.shapes import Forest

_MEASURES = {
    "exact precision": "exact precision",
    "exact recall": "exact recall",
    "exact f1": "exact F1",
    "overlap precision": "overlap precision",
    "overlap recall": "overlap recall",
    "overlap f1": "overlap F1",
    "unitizing alpha": "unitizing alpha",
    "gamma": "gamma",
}
# Measures of each label.
_OF_LABELS = ("exact f1", "overlap f1", "unitizing alpha", "gamma")


def passage_counts(
    labels: Sequence[str | None], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Count passages, and texts with a passage, for each label.

    Args:
        labels: For each text, its passages as JSON; None if it has no answer.
        names: Labels of the codebook.

    Returns:
        For each label: "n", the number of passages; "n_texts" and "share", the number of
        texts with such a passage and their share of the texts with an answer; and
        "mean_length" of the passages in characters. The share is None without answers;
        the mean length is None without passages.
    """
    found = [passages_of(label) for label in labels]
    n_answered = sum(label is not None for label in labels)
    others = {each.label for own in found for each in own} - set(names)
    counts = []
    for name in [*names, *sorted(others)]:
        lengths = [e.end - e.start for own in found for e in own if e.label == name]
        n_texts = sum(any(each.label == name for each in own) for own in found)
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


def passages_picture(counts: Sequence[dict[str, Any]], n_texts: int) -> Bars:
    """Show number, share of texts and mean length of the passages with each label.

    Args:
        counts: Return value of `passage_counts`.
        n_texts: Number of texts with an answer.

    Raises:
        ValueError: There are no labels.
    """
    if not counts:
        raise ArgumentError("has no passages", argument="x", code="nothing_to_plot")
    return Bars(
        words=Words(
            title=f"Passages in {count_of(n_texts, 'text')} "
            "(share of texts; mean characters)",
            x="number of passages",
            alt="; ".join(f"{each['label']}: {_note(each)}" for each in counts),
        ),
        rows=[str(each["label"]) for each in counts],
        parts=[("passages", [float(each["n"]) for each in counts])],
        notes=[_note(each) for each in counts],
        legend=None,
    )


def _note(count: dict[str, Any]) -> str:
    if count["mean_length"] is None:
        return "0"
    return f"{count['n']:,} ({percents(count['share'], 0)}; {count['mean_length']:.0f})"


def span_measures_picture(fields: Fields) -> Forest:
    """Show precision, recall, F1 and alpha of all labels together, by pair of coders.

    Args:
        fields: "rows", from `to_dicts` of a validation of passages, and "level".
    """
    found = [row for row in fields["rows"] if not row["label"]]
    measures = [name for name in _MEASURES if any(r["measure"] == name for r in found)]
    rows = [_MEASURES[name] for name in measures]
    parts = list(dict.fromkeys(row["part"] for row in found))
    points = [
        point(row, measures.index(row["measure"]), parts.index(row["part"]))
        for row in found
    ]
    return forest(_title(fields), fields["level"], rows, parts, points)


def span_labels_picture(fields: Fields) -> Forest:
    """Show F1 and alpha of each label, between the model and people.

    Args:
        fields: "rows", from `to_dicts` of a validation of passages, and "level".

    Raises:
        ValueError: The passages have a single label.
    """
    found = [row for row in fields["rows"] if row["label"] and _is_of_model(row["part"])]
    if not found:
        raise ArgumentError(
            "cannot be 'labels': all passages have the same label",
            argument="kind",
            code="single_label",
        )
    names = list(dict.fromkeys(row["label"] for row in found))
    keys = list(dict.fromkeys((row["measure"], row["part"]) for row in found))
    keys.sort(key=lambda key: _OF_LABELS.index(key[0]))
    several = len(keys) > len(_OF_LABELS)  # several people: each pair has its own F1
    series = [
        f"{_MEASURES[measure]}, {part}" if several else _MEASURES[measure]
        for measure, part in keys
    ]
    points = [
        point(row, names.index(row["label"]), keys.index((row["measure"], row["part"])))
        for row in found
    ]
    return forest(_title(fields), fields["level"], names, series, points)


def _is_of_model(part: str) -> bool:
    return part.startswith("model and ")


def _title(fields: Fields) -> str:
    n = max((int(row["n"]) for row in fields["rows"]), default=0)
    return f"Passages of the model and of people, {count_of(n, 'text')}"


OF_SPANS = {"measures": span_measures_picture, "labels": span_labels_picture}
