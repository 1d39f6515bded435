"""Functions that R calls by name, and their results in the form of `forms`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import (
    Part,
    attributed,
    factor,
    matrix,
    named,
    page_lines,
    parts,
    r_object,
    table,
    table_of,
    value,
    vector,
)
from llamaherd._r.recalibration import recalibrate_columns
from llamaherd.coding.pairs.agreement import ComparisonAgreement
from llamaherd.coding.pairs.comparison import PAIR_COLUMNS, STRENGTH_COLUMNS
from llamaherd.coding.reports.reproduction import Reproduction
from llamaherd.coding.selection.candidates import CodebookCandidate
from llamaherd.coding.selection.compare import journal_of
from llamaherd.coding.selection.disagreements import Disagreements
from llamaherd.coding.selection.examples import chosen_examples
from llamaherd.coding.selection.robustness import drawn_rows
from llamaherd.coding.selection.split import opened_sample
from llamaherd.coding.validation.validation import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

_TEXTS = dict.fromkeys(
    (
        *("candidate", "verdict", "hash", "first", "second", "name", "text", "error"),
        *("measure", "id", "part", "code", "label", "thinking", "at", "choice"),
        "codes_sha256",
    ),
    "text",
)
_KINDS = {**_TEXTS, "rank": "integer", "n_pairs": "integer", "round": "integer"}
_KINDS |= {"consistent": "flag"}


def _rows(rows: Any, names: Any = None, **kinds: str) -> Part:  # noqa: ANN401 - dicts
    """Return a table whose columns are numbers unless their names have another type."""
    names = names or (list(rows[0]) if rows else [])
    return table_of(
        rows, {name: {**_KINDS, **kinds}.get(name, "number") for name in names}
    )


@form_of.register
def _(found: lh.Robustness) -> Part:
    names, variants = found.names, found.variants
    known = {label for own in found.labels for label in own if label is not None}
    # With several labels per text, the levels are the combinations that occur.
    levels = names if known <= {*names} else tuple(sorted(known))
    n = len(variants)
    shares = found.shares.T
    ends = found.ranges.T
    costs = found.costs
    made = {
        "summary": table(
            [
                vector("text", variants, "variant"),
                vector("number", found.flips, "flips"),
                *(vector("number", *each) for each in zip(shares, names, strict=True)),
            ],
            n,
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
                vector("number", ends[0], "min"),
                vector("number", ends[1], "max"),
            ],
            len(names),
        ),
        "agreement": value(found.agreement),
        "alpha": value(found.alpha),
        "costs": table(
            [
                vector("text", variants, "variant"),
                *(vector("number", [c[k] for c in costs], k) for k in costs[0]),
            ],
            n,
        ),
        "runs": vector("text", map(json.dumps, found.runs)),
        "source": value(
            None if found.source is None else json.dumps(found.source.to_dict())
        ),
    }
    content = json.dumps(found.to_dict(), ensure_ascii=False)
    return r_object("robustness", made, page=found, json=content)


@form_of.register
def _(found: lh.CodebookComparison) -> Part:
    made = {
        "summary": _rows(found.to_dicts(), n_failed="integer"),
        "pairs": _rows(found.pairs()),
        "best": value(found.names[found.best]),
        "tied": vector("text", [found.names[i] for i in found.tied]),
        "n": vector("integer", [found.n]),
        "measure": value(found.measure),
        "notes": vector("text", found.notes),
    }
    return r_object("codebooks", made, page=found, json=found.to_json())


@form_of.register
def _(found: lh.CodebookChoice) -> Part:
    made = {
        "name": value(found.name),
        "hash": value(found.hash),
        "codebook": form_of(found.codebook),
        "settings": {"type": "json", "value": json.dumps(found.settings)},
        "model": value(found.model.get("file")),
        "measure": value(found.measure),
        "value": value(found.value),
        "tied": vector("text", found.tied),
    }
    return r_object("choice", made, page=found, json=found.to_json())


@form_of.register
def _(found: lh.Evaluation) -> Part:
    own = found.value
    row = {"measure": found.measure, "value": own.value, "low": own.low, "high": own.high}
    measures = [dict(zip(COLUMNS, each, strict=True)) for each in found.validation.rows()]
    made = {
        "choice": form_of(found.choice),
        "value": _rows([row]),
        "measures": _rows(measures),
        "n": vector("integer", [found.n]),
        "n_failed": vector("integer", [found.n_failed]),
        "first": value(found.is_first),
        "opened": _rows([dict(each) for each in found.opened]),
        "notes": vector("text", found.notes),
        "gold": form_of(found.gold),
    }
    return r_object("evaluation", made, page=found)


@form_of.register
def _(found: lh.PairComparison) -> Part:
    bias = found.position_bias
    made = {
        "strengths": _rows(found.to_dicts(), STRENGTH_COLUMNS),
        "pairs": _rows(found.pair_dicts(), PAIR_COLUMNS),
        "question": value(found.question),
        "position_bias": named({"value": bias.value, "low": bias.low, "high": bias.high}),
        "consistent": value(found.consistent),
        "reliability": value(found.reliability),
        "dispersion": value(found.dispersion),
        "df": vector("integer", [found.df]),
        "connected": value(found.is_connected),
        "n_parts": vector("integer", [found.n_parts]),
        "converged": value(found.is_converged),
        "correlations": vector("number", found.correlations),
        "level": value(found.level),
        "design": value(found.design),
        "seed": value(float(found.seed)),
        "notes": vector("text", found.notes),
        "checks": value(found.summary()),
    }
    return r_object("pairs", made, page=found, json=found.to_json())


@form_of.register(ComparisonAgreement)
def _(found: ComparisonAgreement) -> Part:
    return attributed(
        _rows(found.to_dicts(), n="integer"),
        "pair_agreement",
        n_ties=vector("integer", [found.n_ties]),
        page=vector("text", page_lines(str(found), "llamaherd_pair_agreement")),
    )


@form_of.register(Reproduction)
def _(found: Reproduction) -> Part:
    changed = [{"row": e.row + 1, "then": e.then, "now": e.now} for e in found.changed]
    versions = [
        {"what": name, "then": then, "now": now}
        for name, (then, now) in found.versions.items()
    ]
    made = {
        "same": value(found.is_same),
        "n": vector("integer", [found.n]),
        "n_same": vector("integer", [found.n_same]),
        "n_same_labels": vector("integer", [found.n_same_labels]),
        "largest_difference": value(found.largest_difference),
        "deterministic": value(found.is_deterministic),
        "summary_same": value(found.is_summary_same),
        "changed": table_of(changed, {"row": "integer", "then": "text", "now": "text"}),
        "versions": table_of(versions, dict.fromkeys(("what", "then", "now"), "text")),
    }
    return r_object("reproduction", made, page=found)


@form_of.register(Disagreements)
def _(found: Disagreements) -> Part:
    texts = {name: "text" for name in found.columns if name.startswith("code_")}
    made = {
        "table": _rows(found.to_dicts(), list(found.columns), **texts),
        "n_missing": vector("integer", [found.n_missing]),
    }
    return r_object("disagreements", made, page=found)


@form_of.register(CodebookCandidate)
def _(_found: CodebookCandidate) -> None:
    """Return nothing: R keeps the candidate, which was only checked."""


def choose_examples(gold: Any, k: int, codebook: lh.Codebook, **options: Any) -> Any:  # noqa: ANN401
    """Return a codebook with further examples, and a sentence on their effect, or None.

    Args:
        gold: As in `lh.choose_examples`.
        k: As in `lh.choose_examples`.
        codebook: As in `lh.choose_examples`.
        options: `by`, `coded`, `embeddings`, `context`; others are those of `annotate`.
    """
    own = {name: options.pop(name) for name in ("by", "coded", "embeddings", "context")}
    book, effect = chosen_examples(gold, k, codebook, **own, settings=options)
    note, is_gain = effect or (None, False)
    return parts(codebook=form_of(book), effect=value(note), is_gain=value(is_gain))


def _drawn_rows(**arguments: Any) -> Part:  # noqa: ANN401 - of `drawn_rows`
    """Return the rows that a robustness check draws, from 1."""
    return vector("integer", [row + 1 for row in drawn_rows(**arguments)])


def named_journal(name: str, arguments: dict[str, Any]) -> str | None:
    """Replace the journal True of a comparison by its path; return the journal's path."""
    journal = arguments.get("journal")
    if name == "compare_codebooks" and isinstance(journal, bool):
        journal = journal_of(journal, opened_sample(arguments["gold"]))
        arguments["journal"] = journal
    return journal


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "best_codebook": lh.best_codebook,
    "candidate": lh.candidate,
    "choose_examples": choose_examples,
    "compare_codebooks": lh.compare_codebooks,
    "compare_pairs": lh.compare_pairs,
    "disagreements": lh.disagreements,
    "drawn_rows": _drawn_rows,
    "evaluate_codebook": lh.evaluate_codebook,
    "gold_part": lh.gold_part,
    "gold_split": lh.gold_split,
    "pair_agreement": lh.pair_agreement,
    "recalibrate": recalibrate_columns,
    "reproduce": lh.reproduce,
    "robustness": lh.robustness,
}
