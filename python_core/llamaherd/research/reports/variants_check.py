"""Checks that variants of a `Robustness` belong to the labels of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core.errors import ArgumentError
from llamaherd.research.coding.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AGAIN = "Compute it from the labels that are reported: robustness(coded, ...)"


def check_variants(
    fields: Mapping[str, Any], texts: Sequence[str | None], run: Mapping[str, Any]
) -> None:
    """Raise an error if the variants have other texts or another first coding.

    Args:
        fields: Result of `robustness_dict`.
        texts: Texts of the report.
        run: Provenance of the labels in the report.

    Raises:
        ValueError: The variants do not belong to the labels; the message names the
            reason.
    """
    source, rows = Source.from_dict(fields.get("source")), fields.get("rows")
    if source is None or rows is None:
        raise ArgumentError(
            "does not record the texts that it was computed from: it was made by an "
            f"earlier version. {_AGAIN}",
            argument="robustness",
        )
    there = [int(row) for row in rows]
    is_within = not there or 0 <= min(there) <= max(there) < len(texts)
    own = Source.of([texts[row] for row in there], None) if is_within else None
    if own is None or own.texts != source.texts:
        raise ArgumentError(
            "does not belong to these labels: it was computed from other texts, or "
            f"these texts in another order. {_AGAIN}",
            argument="robustness",
        )
    different = _differences(fields["runs"][0], run) if fields.get("runs") else []
    if different:
        raise ArgumentError(
            "does not belong to these labels: its first variant, which the "
            f"others are compared with, is another coding ({'; '.join(different)}). "
            f"{_AGAIN}",
            argument="robustness",
        )


def _differences(first: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    """Return properties in which the first variant differs from the report's coding."""
    found = []
    if first["codebook"].get("hash") != run["codebook"].get("hash"):
        found.append("the codebook differs")
    if _model(first) != _model(run):
        files = (first["model"].get("file"), run["model"].get("file"))
        found.append(f"the model is {files[0]}, but was {files[1]} for the labels")
    before, now = run["settings"], first["settings"]
    found += [
        f"{name} is {now.get(name)!r}, and was {before.get(name)!r}"
        for name in dict.fromkeys((*before, *now))
        if before.get(name) != now.get(name)
    ]
    return found


def _model(run: Mapping[str, Any]) -> tuple[Any, ...]:
    model = run["model"]
    loras = [(each.get("sha256"), each.get("scale")) for each in model.get("loras") or ()]
    return (model.get("sha256"), model.get("file"), loras)
