"""Codings in several variants, selection, recalibration, in the form of `forms`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import (
    Part,
    factor,
    fields,
    matrix,
    page_lines,
    parts,
    r_object,
    table,
    table_of,
    vector,
    with_class,
)
from llamaherd.coding import frames
from llamaherd.coding.estimation.recalibrated import Recalibrated, coded_of
from llamaherd.coding.gold.joins import RAW
from llamaherd.coding.pairs.agreement import ComparisonAgreement
from llamaherd.coding.pairs.comparison import PAIR_COLUMNS, STRENGTH_COLUMNS
from llamaherd.coding.reports.methods import MethodsText  # noqa: TC001 - form_of
from llamaherd.coding.reports.report_data import evaluation_dict
from llamaherd.coding.reports.reproduce import Reproduction
from llamaherd.coding.selection.compare import CodebookCandidate, journal_of
from llamaherd.coding.selection.disagreements import Disagreements
from llamaherd.coding.selection.examples import By, effect_on_others
from llamaherd.coding.selection.parts import opened_sample
from llamaherd.coding.validation.validation import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping


_NUMBERS = ("prob", "margin", "entropy", "mean", "sd")  # roles of columns


@form_of.register
def _(robustness: lh.types.Robustness) -> Part:
    names, variants = robustness.names, robustness.variants
    known = {
        label for labels in robustness.labels for label in labels if label is not None
    }
    # With several labels per text, the levels are the combinations that occur.
    levels = names if known <= {*names} else tuple(sorted(known))
    elements = {
        "summary": table(
            [
                vector("text", variants, "variant"),
                vector("number", robustness.flips, "flips"),
                *map(_column, robustness.shares.T, names),
            ],
            len(variants),
        ),
        "labels": table(
            [
                vector("integer", [row + 1 for row in robustness.rows], "row"),
                vector("number", robustness.unstable, "unstable"),
                *(
                    factor(labels, levels, name)
                    for labels, name in zip(robustness.labels, variants, strict=True)
                ),
            ],
            len(robustness.rows),
        ),
        "pairwise": matrix(robustness.pairwise, variants, variants),
        "ranges": table_of(
            zip(names, *robustness.ranges.T, strict=True), "label min max"
        ),
        **fields(robustness, "agreement alpha"),
        "costs": table_of(
            [
                (variant, *cost.values())
                for variant, cost in zip(variants, robustness.costs, strict=True)
            ],
            ("variant", *robustness.costs[0]),
        ),
        "runs": list(map(json.dumps, robustness.runs)),
        "source": None
        if robustness.source is None
        else json.dumps(robustness.source.to_dict()),
    }
    content = json.dumps(robustness.to_dict(), ensure_ascii=False)
    return r_object("robustness", elements, page=robustness, json=content)


def _column(values: Any, name: str) -> Part:  # an array or a list
    return vector("number", values, name)


@form_of.register
def _(comparison: lh.types.CodebookComparison) -> Part:
    elements = {
        "summary": table_of(comparison.to_dicts()),
        "pairs": table_of(comparison.pairs()),
        "best": comparison.names[comparison.best],
        "tied": [comparison.names[i] for i in comparison.tied],
        **fields(comparison, "n measure notes"),
    }
    return r_object("codebooks", elements, page=comparison, json=comparison.to_json())


@form_of.register
def _(choice: lh.types.CodebookChoice) -> Part:
    elements = {
        **fields(choice, "name hash codebook"),
        "settings": {"type": "json", "value": json.dumps(choice.settings)},
        "model": choice.model.get("file"),
        **fields(choice, "measure value tied"),
    }
    return r_object("choice", elements, page=choice, json=choice.to_json())


@form_of.register
def _(evaluation: lh.types.Evaluation) -> Part:
    value = {name: getattr(evaluation.value, name) for name in ("value", "low", "high")}
    elements = {
        "choice": form_of(evaluation.choice),
        "value": table_of([{"measure": evaluation.measure, **value}]),
        "measures": table_of(evaluation.validation.rows(), COLUMNS),
        **fields(evaluation, "n n_failed", first="is_first"),
        "opened": table_of([dict(opening) for opening in evaluation.opened]),
        **fields(evaluation, "notes gold"),
    }
    return r_object(
        "evaluation",
        elements,
        page=evaluation,
        json=json.dumps(evaluation_dict(evaluation)),
    )


@form_of.register
def _(comparison: lh.types.PairComparison) -> Part:
    bias = comparison.position_bias
    elements = {
        "strengths": table_of(comparison.to_dicts(), STRENGTH_COLUMNS),
        "pairs": table_of(comparison.pair_dicts(), PAIR_COLUMNS),
        "question": comparison.question,
        "position_bias": {"value": bias.value, "low": bias.low, "high": bias.high},
        **fields(comparison, "consistent reliability dispersion df"),
        **fields(
            comparison, "n_parts", connected="is_connected", converged="is_converged"
        ),
        "correlations": vector("number", comparison.correlations),
        **fields(comparison, "level design"),
        "seed": float(comparison.seed),
        "notes": comparison.notes,
        "checks": comparison.summary(),
    }
    return r_object("pairs", elements, page=comparison, json=comparison.to_json())


@form_of.register(ComparisonAgreement)
def _(agreement: ComparisonAgreement) -> Part:
    return with_class(
        table_of(agreement.to_dicts()),
        "pair_agreement",
        n_ties=agreement.n_ties,
        page=page_lines(str(agreement), "llamaherd_pair_agreement"),
    )


@form_of.register(Reproduction)
def _(reproduction: Reproduction) -> Part:
    changed = [(label.row + 1, label.then, label.now) for label in reproduction.changed]
    versions = [(name, *pair) for name, pair in reproduction.versions.items()]
    elements = {
        "same": reproduction.is_same,
        **fields(reproduction, "n n_same n_same_labels largest_difference"),
        **fields(
            reproduction,
            "",
            deterministic="is_deterministic",
            summary_same="is_summary_same",
        ),
        "changed": table_of(changed, "row then now"),
        "versions": table_of(versions, "what then now"),
    }
    return r_object("reproduction", elements, page=reproduction)


@form_of.register
def _(methods: MethodsText) -> Part:
    rows = [
        (item.question, item.state, item.answer, "; ".join(item.sources))
        for item in methods.checklist
    ]
    elements = fields(methods, "text bibtex references")
    elements["checklist"] = table_of(rows, "question state answer sources")
    return r_object("methods", elements, page=methods)


@form_of.register(Disagreements)
def _(disagreements: Disagreements) -> Part:
    elements = {
        "table": table_of(disagreements.to_dicts(), disagreements.columns),
        "n_missing": disagreements.n_missing,
    }
    return r_object("disagreements", elements, page=disagreements)


@form_of.register(CodebookCandidate)
def _(_candidate: CodebookCandidate) -> None:
    """Return nothing: R keeps the candidate, which was only checked."""


def choose_examples(
    gold: Any,  # a sample, or the path of its file
    k: int,
    codebook: lh.Codebook,
    *,
    context: Any = None,  # a context
    by: By,
    coded: Any,  # labels
    embeddings: Any,  # an array
    **settings: Any,  # those of `annotate`
) -> Part:
    """Return a codebook with further examples, and their effect as a sentence or None."""
    unused = settings if context is None else {}
    book = lh.choose_examples(
        gold, k, codebook, by=by, coded=coded, embeddings=embeddings, **unused
    )
    note, is_gain = None, False
    if context is not None:
        sample = opened_sample(gold)
        note, is_gain = effect_on_others(sample, codebook, book, context, settings)
    return parts(codebook=book, effect=note, is_gain=is_gain)


def named_journal(name: str, arguments: dict[str, Any]) -> str | None:
    """Replace the journal True of a comparison by its path; return the journal's path."""
    journal = arguments.get("journal")
    if name == "compare_codebooks" and isinstance(journal, bool):
        journal = journal_of(journal, opened_sample(arguments["gold"]))
        arguments["journal"] = journal
    return journal


def recalibrate(
    columns: dict[str, list[Any]],
    gold: Any,  # a sample, or N codes
    coded: Mapping[str, Any],
    **options: Any,  # arguments of `recalibrate`
) -> Part:
    """Recalibrate labels and return the new columns and the record.

    `coded` has the names of columns: `label`, `text`, `probs` in the order of the labels,
    `roles` by role; and `ordered`, and `run` as JSON.
    """
    model = coded_of(
        columns,
        coded["label"],
        coded["text"],
        coded["probs"],
        roles=coded["roles"] or {},
        ordered=coded["ordered"],
    )
    recalibrated = lh.recalibrate(model, gold, **options)
    columns_after = frames.names(recalibrated.frame)
    label, n = recalibrated.columns["label"], len(recalibrated.labels)
    numbers = [
        _column(recalibrated.frame[name], name)
        for role, name in recalibrated.columns.items()
        if role in _NUMBERS or role.startswith("p_")
    ]
    old = {label, *(column["name"] for column in numbers)}
    raw = [
        name for name in columns_after if name.startswith(RAW) and name[len(RAW) :] in old
    ]
    known = {} if coded["run"] is None else json.loads(coded["run"])
    return parts(
        names=vector("text", recalibrated.names),
        label=vector("text", recalibrated.labels),
        numbers=table(numbers, n),
        raw=raw,
        fold=columns_after[-1],
        folds=vector("integer", recalibrated.folds),
        run=json.dumps({**known, **recalibrated.run}),
        record=_record(recalibrated),
    )


def _record(recalibrated: Recalibrated) -> Part:
    run, gain = recalibrated.run["recalibration"], recalibrated.gain
    scores = (recalibrated.raw, recalibrated.cross_validated, recalibrated.constant)
    measures = [
        ("accuracy", *(score.accuracy.value for score in scores)),
        ("brier", *(score.brier.value for score in scores)),
        ("ece", *(score.ece for score in scores)),
    ]
    elements = {
        **{name: run[name] for name in ("features", "n_codes", "n_folds", "seed")},
        "scores": table_of(
            measures, "measure model recalibrated constant", numbers="model"
        ),
        "gain": {"estimate": gain.value, "low": gain.low, "high": gain.high},
        "line": recalibrated.summary().split("\n"),
    }
    return r_object("recalibration", elements, page=recalibrated.summary())
