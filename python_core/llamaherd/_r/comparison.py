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
def _(found: ConfusionTables) -> Part:
    def tables(made: Mapping[str, Any]) -> Part | None:
        known = {name: counts(each.tolist(), found.levels) for name, each in made.items()}
        return parts(**known) if known else None

    return parts(vs_gold=tables(found.vs_gold), pairwise=tables(found.pairwise))


@form_of.register(Reliability)
def _(found: Reliability) -> Part:
    made: dict[str, Part] = {}
    if found.cohen:
        made["cohen"] = cohen_table(found.cohen)
    alpha = found.krippendorff
    if alpha is not None:
        names = "alpha per_item category_proportions alpha_exact"
        made["krippendorff"] = parts(**fields(alpha, names))
    return parts(**made)


@form_of.register(ModelComparison)
def _(found: ModelComparison) -> Part:
    known = {"confusion": found.confusion, "reliability": found.reliability}
    made = {name: form_of(each) for name, each in known.items() if each is not None}
    return r_object("comparison", made, page=found)


def cohen_table(pairs: Sequence[Any]) -> Part:
    """Return a table of Cohen's kappas."""
    names = "model_a model_b kappa observed expected"
    return table_of(pairs, names, text="model_a model_b")
