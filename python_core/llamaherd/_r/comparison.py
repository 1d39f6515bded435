"""Labels of several models: localLLM's confusion matrices and reliability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd._r.boundary import form_of
from llamaherd._r.forms import Part, counts, fields, parts, r_object, table_of
from llamaherd.coding.validation.reliability import (
    ConfusionTables,
    ModelComparison,
    Reliability,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@form_of.register(ConfusionTables)
def _(confusion: ConfusionTables) -> Part:
    def tables(matrices: Mapping[str, Any]) -> Part | None:
        known = {
            name: counts(matrix.tolist(), confusion.levels)
            for name, matrix in matrices.items()
        }
        return parts(**known) if known else None

    return parts(vs_gold=tables(confusion.vs_gold), pairwise=tables(confusion.pairwise))


@form_of.register(Reliability)
def _(reliability: Reliability) -> Part:
    elements: dict[str, Part] = {}
    if reliability.cohen:
        elements["cohen"] = cohen_table(reliability.cohen)
    alpha = reliability.krippendorff
    if alpha is not None:
        names = "alpha per_item category_proportions alpha_exact"
        elements["krippendorff"] = parts(**fields(alpha, names))
    return parts(**elements)


@form_of.register(ModelComparison)
def _(comparison: ModelComparison) -> Part:
    known = {"confusion": comparison.confusion, "reliability": comparison.reliability}
    elements = {
        name: form_of(result) for name, result in known.items() if result is not None
    }
    return r_object("comparison", elements, page=comparison)


def cohen_table(pairs: Sequence[Any]) -> Part:
    """Return a table of Cohen's kappas."""
    names = "model_a model_b kappa observed expected"
    return table_of(pairs, names, text="model_a model_b")
