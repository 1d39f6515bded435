"""A check that variants of a `Robustness` are of the labels of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.research.coding.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AGAIN = "Make it from the labels that are reported: robustness(coded, ...)"


def check_variants(
    told: Mapping[str, Any], texts: Sequence[str | None], run: Mapping[str, Any]
) -> None:
    """Refuses variants of other texts, and those whose first is another coding.

    Args:
        told: What `robustness_dict` returned.
        texts: The texts that are reported.
        run: How their labels came about.

    Raises:
        ValueError: They do not belong to the labels; the message says why.
    """
    source, rows = Source.from_dict(told.get("source")), told.get("rows")
    if source is None or rows is None:
        raise ValueError(
            "robustness does not say which texts it came from: it was made by an earlier "
            f"version. {_AGAIN}"
        )
    there = [int(row) for row in rows]
    is_within = not there or 0 <= min(there) <= max(there) < len(texts)
    own = Source.of([texts[row] for row in there], None) if is_within else None
    if own is None or own.texts != source.texts:
        raise ValueError(
            "robustness does not belong to these labels: it is of other texts, or of "
            f"these in another order. {_AGAIN}"
        )
    different = _differences(told["runs"][0], run) if told.get("runs") else []
    if different:
        raise ValueError(
            "robustness does not belong to these labels: its first variant, which the "
            f"others are compared with, is another coding ({'; '.join(different)}). "
            f"{_AGAIN}"
        )


def _differences(first: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    """The properties in which a coding differs from that of the labels."""
    found = []
    if first["codebook"].get("hash") != run["codebook"].get("hash"):
        found.append("the codebook is another one")
    if _model(first) != _model(run):
        files = (first["model"].get("file"), run["model"].get("file"))
        found.append(f"the model is {files[0]}, and that of the labels {files[1]}")
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
