"""Codings in several variants, selection, recalibration, in the form of `forms`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import (
    Part,
    attributed,
    factor,
    fields,
    matrix,
    page_lines,
    parts,
    r_object,
    table,
    table_of,
    vector,
)
from llamaherd.coding import frames
from llamaherd.coding.estimation.recalibrated import Recalibrated, coded_of
from llamaherd.coding.gold.joins import RAW
from llamaherd.coding.pairs.agreement import ComparisonAgreement
from llamaherd.coding.pairs.comparison import PAIR_COLUMNS, STRENGTH_COLUMNS
from llamaherd.coding.reports.report_data import evaluation_dict
from llamaherd.coding.reports.reproduction import Reproduction
from llamaherd.coding.selection.candidates import CodebookCandidate
from llamaherd.coding.selection.compare import journal_of
from llamaherd.coding.selection.disagreements import Disagreements
from llamaherd.coding.selection.examples import chosen_examples
from llamaherd.coding.selection.split import opened_sample
from llamaherd.coding.validation.validation import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Types of columns by name; columns "code_..." are texts, and all others numbers.
_TEXTS = "candidate verdict hash first second name text error measure id part code label"
_TEXTS += " thinking at choice codes_sha256"
_KINDS = {
    **dict.fromkeys(_TEXTS.split(), "text"),
    **dict.fromkeys(("rank", "n_pairs", "round", "n_failed", "n"), "integer"),
    "consistent": "flag",
}
_NUMBERS = ("prob", "margin", "entropy", "mean", "sd")  # roles of columns


def _rows(rows: Sequence[Mapping[str, Any]], names: Iterable[str] = ()) -> Part:
    """Return a table whose columns have types by their names."""
    columns = []
    for name in names or (rows[0] if rows else ()):
        kind = "text" if name.startswith("code_") else _KINDS.get(name, "number")
        columns.append(vector(kind, [row[name] for row in rows], name))
    return table(columns, len(rows))


@form_of.register
def _(found: lh.types.Robustness) -> Part:
    names, variants = found.names, found.variants
    known = {label for own in found.labels for label in own if label is not None}
    # With several labels per text, the levels are the combinations that occur.
    levels = names if known <= {*names} else tuple(sorted(known))
    made = {
        "summary": table(
            [
                vector("text", variants, "variant"),
                vector("number", found.flips, "flips"),
                *map(_column, found.shares.T, names),
            ],
            len(variants),
        ),
        "labels": table(
            [
                vector("integer", [row + 1 for row in found.rows], "row"),
                vector("number", found.unstable, "unstable"),
                *(
                    factor(own, levels, name)
                    for own, name in zip(found.labels, variants, strict=True)
                ),
            ],
            len(found.rows),
        ),
        "pairwise": matrix(found.pairwise, variants, variants),
        "ranges": table(
            [
                vector("text", names, "label"),
                *map(_column, found.ranges.T, ("min", "max")),
            ],
            len(names),
        ),
        **fields(found, "agreement alpha"),
        "costs": table(
            [
                vector("text", variants, "variant"),
                *(_column([cost[k] for cost in found.costs], k) for k in found.costs[0]),
            ],
            len(variants),
        ),
        "runs": list(map(json.dumps, found.runs)),
        "source": None if found.source is None else json.dumps(found.source.to_dict()),
    }
    content = json.dumps(found.to_dict(), ensure_ascii=False)
    return r_object("robustness", made, page=found, json=content)


def _column(values: Any, name: str) -> Part:  # noqa: ANN401 - an array or a list
    return vector("number", values, name)


@form_of.register
def _(found: lh.types.CodebookComparison) -> Part:
    made = {
        "summary": _rows(found.to_dicts()),
        "pairs": _rows(found.pairs()),
        "best": found.names[found.best],
        "tied": [found.names[i] for i in found.tied],
        **fields(found, "n measure notes"),
    }
    return r_object("codebooks", made, page=found, json=found.to_json())


@form_of.register
def _(found: lh.types.CodebookChoice) -> Part:
    made = {
        **fields(found, "name hash codebook"),
        "settings": {"type": "json", "value": json.dumps(found.settings)},
        "model": found.model.get("file"),
        **fields(found, "measure value tied"),
    }
    return r_object("choice", made, page=found, json=found.to_json())


@form_of.register
def _(found: lh.types.Evaluation) -> Part:
    value = {name: getattr(found.value, name) for name in ("value", "low", "high")}
    measures = [dict(zip(COLUMNS, each, strict=True)) for each in found.validation.rows()]
    made = {
        "choice": form_of(found.choice),
        "value": _rows([{"measure": found.measure, **value}]),
        "measures": _rows(measures),
        **fields(found, "n n_failed", first="is_first"),
        "opened": _rows([dict(each) for each in found.opened]),
        **fields(found, "notes gold"),
    }
    return r_object(
        "evaluation", made, page=found, json=json.dumps(evaluation_dict(found))
    )


@form_of.register
def _(found: lh.types.PairComparison) -> Part:
    bias = found.position_bias
    made = {
        "strengths": _rows(found.to_dicts(), STRENGTH_COLUMNS),
        "pairs": _rows(found.pair_dicts(), PAIR_COLUMNS),
        "question": found.question,
        "position_bias": {"value": bias.value, "low": bias.low, "high": bias.high},
        **fields(found, "consistent reliability dispersion df"),
        **fields(found, "n_parts", connected="is_connected", converged="is_converged"),
        "correlations": vector("number", found.correlations),
        **fields(found, "level design"),
        "seed": float(found.seed),
        "notes": found.notes,
        "checks": found.summary(),
    }
    return r_object("pairs", made, page=found, json=found.to_json())


@form_of.register(ComparisonAgreement)
def _(found: ComparisonAgreement) -> Part:
    return attributed(
        _rows(found.to_dicts()),
        "pair_agreement",
        n_ties=found.n_ties,
        page=page_lines(str(found), "llamaherd_pair_agreement"),
    )


@form_of.register(Reproduction)
def _(found: Reproduction) -> Part:
    changed = [{"row": e.row + 1, "then": e.then, "now": e.now} for e in found.changed]
    versions = [
        {"what": name, "then": then, "now": now}
        for name, (then, now) in found.versions.items()
    ]
    made = {
        "same": found.is_same,
        **fields(found, "n n_same n_same_labels largest_difference"),
        **fields(
            found, "", deterministic="is_deterministic", summary_same="is_summary_same"
        ),
        "changed": table_of(changed, "row then now", integer="row", text="then now"),
        "versions": table_of(versions, "what then now", text="what then now"),
    }
    return r_object("reproduction", made, page=found)


@form_of.register(Disagreements)
def _(found: Disagreements) -> Part:
    made = {
        "table": _rows(found.to_dicts(), found.columns),
        "n_missing": found.n_missing,
    }
    return r_object("disagreements", made, page=found)


@form_of.register(CodebookCandidate)
def _(_found: CodebookCandidate) -> None:
    """Return nothing: R keeps the candidate, which was only checked."""


def choose_examples(gold: Any, k: int, codebook: lh.Codebook, **options: Any) -> Any:  # noqa: ANN401
    """Return a codebook with further examples, and their effect as a sentence or None."""
    own = {name: options.pop(name) for name in ("by", "coded", "embeddings", "context")}
    book, effect = chosen_examples(gold, k, codebook, **own, settings=options)
    note, is_gain = effect or (None, False)
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
    gold: Any,  # noqa: ANN401 - a sample, or N codes
    coded: Mapping[str, Any],
    **options: Any,  # noqa: ANN401 - arguments of `recalibrate`
) -> Part:
    """Recalibrate labels and return the new columns and the record.

    Args:
        columns: Used columns of the data frame.
        gold: Sample, or N codes.
        coded: `label`, `text`: names of columns. `probs`: columns of probabilities in the
            order of the labels, or None. `roles`: columns by role. `ordered`: whether the
            labels are ordered. `run`: JSON or None.
        options: Other arguments of `recalibrate`.

    Warns:
        UserWarning: See `recalibrate`.
    """
    model = coded_of(
        columns,
        coded["label"],
        coded["text"],
        coded["probs"],
        roles=coded["roles"] or {},
        ordered=coded["ordered"],
    )
    found = lh.recalibrate(model, gold, **options)
    there = frames.names(found.frame)
    label, n = found.columns["label"], len(found.labels)
    numbers = [
        _column(found.frame[name], name)
        for role, name in found.columns.items()
        if role in _NUMBERS or role.startswith("p_")
    ]
    old = {label, *(each["name"] for each in numbers)}
    raw = [name for name in there if name.startswith(RAW) and name[len(RAW) :] in old]
    known = {} if coded["run"] is None else json.loads(coded["run"])
    return parts(
        names=vector("text", found.names),
        label=vector("text", found.labels),
        numbers=table(numbers, n),
        raw=raw,
        fold=there[-1],
        folds=vector("integer", found.folds),
        run=json.dumps({**known, **found.run}),
        record=_record(found),
    )


def _record(found: Recalibrated) -> Part:
    run, gain = found.run["recalibration"], found.gain
    scores = [
        ("model", found.raw),
        ("recalibrated", found.cross_validated),
        ("constant", found.constant),
    ]
    columns = [vector("text", ("accuracy", "brier", "ece"), "measure")]
    columns += [
        _column((own.accuracy.value, own.brier.value, own.ece), name)
        for name, own in scores
    ]
    made = {
        **{name: run[name] for name in ("features", "n_codes", "n_folds", "seed")},
        "scores": table(columns, 3),
        "gain": {"estimate": gain.value, "low": gain.low, "high": gain.high},
        "line": found.summary().split("\n"),
    }
    return r_object("recalibration", made, page=found.summary())
