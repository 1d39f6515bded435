"""Selects numbers from a summary for the tables and the plot."""

from __future__ import annotations

ORDER = ("distinct", "annotate", "tree", "mixed", "samples", "long")
TITLES = {"SmolLM2": "SmolLM2-135M, Q4_1", "gemma": "gemma-3-270m, Q4_K_M"}

Summary = dict
Row = dict


def title(model: str) -> str:
    """Return a model's name in the form used in the documents."""
    return TITLES.get(model.split("-", maxsplit=1)[0], model)


def workloads(summary: Summary, model: str) -> list[tuple[str, Row]]:
    """Return the workloads with a model's results, in the order of the documents."""
    found = summary["models"][model]
    return [(name, found[name]) for name in ORDER if name in found]
