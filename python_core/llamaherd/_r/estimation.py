"""Gold samples and estimates; R stores a sample as JSON in addition to its columns."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import (
    Part,
    fields,
    items,
    matrix,
    named_numbers,
    parts,
    r_object,
    table,
    table_of,
    value,
    vector,
)
from llamaherd.coding import frames
from llamaherd.coding.annotation.label_sets import confidence_of
from llamaherd.coding.codes import check_names
from llamaherd.coding.estimation.estimates import Estimate, Estimates
from llamaherd.coding.estimation.outcomes import in_one_form
from llamaherd.coding.gold.draw import page_of, warn_of_examples
from llamaherd.coding.gold.population import match_sample
from llamaherd.coding.gold.sample import GoldSample
from llamaherd.coding.gold.sheets import read_files
from llamaherd.coding.gold.size import GoldSize, PairedSize
from llamaherd.coding.plots.intervals import METHODS
from llamaherd.coding.selection.robustness import estimate_lines
from llamaherd.coding.selection.variants import drawn_rows
from llamaherd.coding.validation.dawid_skene import DawidSkene  # noqa: TC001 - form_of
from llamaherd.engine.core.caller import one_warning
from llamaherd.engine.core.errors import renamed

if TYPE_CHECKING:
    from llamaherd._r.arguments import ColumnsOfR

    Gold = GoldSample | Sequence[Any]


def codes_in_one_form(
    data: Mapping[str, Any], gold: Gold, label: str, text: str | None, several: bool
) -> Part:
    """Convert labels and codes to texts; equal labels become equal texts."""
    texts, sample, _ = match_sample(data, gold, label, text, several=several)
    texts, read, _ = in_one_form(texts, sample, several=several)
    codes: Sequence[str | None] = read.gold if isinstance(read, GoldSample) else read
    rows = read.rows if isinstance(read, GoldSample) else range(len(codes))
    coded = [
        (row, code) for row, code in zip(rows, codes, strict=True) if code is not None
    ]
    return parts(
        labels=vector("text", texts.labels),
        rows=vector("integer", [row + 1 for row, _ in coded]),
        codes=vector("text", [code for _, code in coded]),
        gold=value(read.to_json() if isinstance(read, GoldSample) else list(codes)),
    )


@form_of.register
def _(model: DawidSkene) -> Part:
    names, n = model.names, len(model.ids)
    probs = zip(names, model.probs.T, strict=True)
    labels = [
        vector("text", model.ids, "id"),
        vector("text", model.labels, "label"),
        *(vector("number", column, f"p_{name}") for name, column in probs),
    ]
    dims = ("right", "code")
    errors = zip(model.coders, model.errors, strict=True)
    elements = {
        "labels": table(labels, n),
        "accuracy": named_numbers(model.accuracy),
        "shares": named_numbers(dict(zip(names, model.shares.tolist(), strict=True))),
        "errors": parts(
            **{name: matrix(rates, names, names, dims) for name, rates in errors}
        ),
    }
    return r_object("dawid_skene", elements, page=model)


def corrected(data: Mapping[str, Any], gold: Gold, **options: Any) -> Part:
    """Return the columns that `lh.corrected` adds."""
    frame = lh.corrected(data, gold, **options)
    names = [name for name in frames.names(frame) if name not in data]
    columns = [vector("number", frame[name], name) for name in names]
    return table(columns, len(frame[names[0]]))


_COLUMNS = "outcome term group method estimate std_error low high lam df"


@form_of.register(Estimates)
def _(estimates: Estimates) -> Part:
    rows, methods = estimates.rows, estimates.methods
    covariances = [
        parts(
            outcome=outcome,
            method=method,
            values=matrix(covariance.tolist(), names := [""] * len(covariance), names),
        )
        for (outcome, method), covariance in estimates.covariances.items()
    ]
    titles = [METHODS[method] for method in methods]
    elements = {
        "rows": table_of(rows, _COLUMNS),
        "names": [_name(row, estimates) for row in rows],
        "covariances": items(covariances),
        **fields(estimates, "model methods"),
        "titles": {**vector("text", titles), "names": list(methods)},
        **fields(estimates, "level target"),
        "n_texts": float(estimates.n_texts),
        "n_gold": float(estimates.n_gold),
        **fields(estimates, "design notes grouped_by predictions"),
        "widths": table_of(estimates.widths, "predictions method width"),
        **fields(estimates, "simultaneous agreement is_weighted"),
        "label_check": _label_check(estimates),
    }
    content = json.dumps(estimates.to_dict(), ensure_ascii=False)
    return r_object("estimates", elements, page=estimates, json=content)


def _name(row: Estimate, estimates: Estimates) -> str:
    """Return the name of a coefficient, share or mean."""
    if estimates.model != "mean":
        return row.term
    outcomes = {
        estimate.outcome for estimate in estimates.rows if estimate.method == row.method
    }
    words = [row.outcome] if len(outcomes) > 1 else []
    return " ".join(filter(None, [*words, row.term, row.group]))


def _label_check(estimates: Estimates) -> Part | None:
    check = estimates.label_check
    if check is None:
        return None
    rows = zip(check.labels, check.n_texts, check.n_coded, check.expected, strict=True)
    p_value = {**value(check.p_value), "name": "p_value"}
    counts = table_of(rows, "label n_texts n_coded expected")
    return {**counts, "attributes": [p_value]}


def estimates_of_variants(variants: Sequence[str], fits: Sequence[str]) -> Part:
    """Return estimates of several variants, from the JSON of each, as one."""
    known = [json.loads(fit) for fit in fits]
    rows = [
        {"variant": variant, **row}
        for variant, fit in zip(variants, known, strict=True)
        for row in fit["rows"]
    ]
    notes = list(dict.fromkeys(note for fit in known for note in fit["notes"]))
    numbers = [
        {k: math.nan if cell is None else cell for k, cell in row.items()} for row in rows
    ]
    return parts(
        estimates=table_of(rows, f"variant {_COLUMNS}"),
        notes=notes,
        page=estimate_lines(numbers, notes),
        json=json.dumps({**known[0], "notes": notes, "rows": rows}),
    )


@form_of.register(GoldSize)
@form_of.register(PairedSize)
def _(size: GoldSize | PairedSize) -> Part:
    names = ("gold", "dsl", "ppi", "kappa")
    elements = {n: vector("number", [getattr(size, n, None)]) for n in names}
    return r_object("gold_size", elements, page=size)


def gold_draw(
    data: ColumnsOfR,
    n: int,
    each: Sequence[str],
    confidence: str | Sequence[float] | None,
    **options: Any,  # of `gold_sample`
) -> GoldSample:
    """Draw a gold sample from used columns of a data frame."""
    if each and confidence is None:
        probs = np.array([data[name] for name in each], dtype=np.float64).T  # None: NaN
        confidence = confidence_of(probs).tolist()
    drawn = lh.gold_sample(data, n, confidence=confidence, **options)
    if data.codebook is not None:
        warn_of_examples(drawn, data.codebook.examples)
    return drawn


def gold_of_variants(
    data: Mapping[str, Any],
    gold: GoldSample,
    text: str,
    **drawn: Any,  # of `drawn_rows`
) -> Part:
    """Return a sample without labels, as JSON, and its number of codes of drawn texts."""
    bare = replace(gold, labels=[None] * len(gold), label_marks=None)
    design = {name: setting for name, setting in bare.design.items() if name != "split"}
    columns = {**data, ".label": [None] * len(drawn["texts"])}
    known = replace(bare, design=design)  # all texts of the sample are looked up
    _, moved, _ = match_sample(columns, known, ".label", text, several=known.several)
    rows = set(drawn_rows(**drawn))
    codes = zip(moved.rows, moved.gold, strict=True)
    n = sum(row in rows and code is not None for row, code in codes)
    return parts(json=bare.to_json(), n_codes=n)


def gold_read(
    source: Sequence[str] | Mapping[str, Sequence[Any]],
    sample: GoldSample | None,
    coders: Sequence[str] | None,
    names: Sequence[str] = (),
) -> GoldSample:
    """Read the codes of human coders."""
    with renamed(sample="gold"):
        check_names(names, "path")
        if isinstance(source, Mapping):
            return lh.read_gold(source, sample, coders=coders)
        file_names = list(names) or [""] * len(source)
        with one_warning():
            return read_files(source, file_names, sample, coders)


@form_of.register(GoldSample)
def _(sample: GoldSample) -> Part:
    """Return a sample; row indices start at 1."""
    codes = [
        vector("text", coder_codes, name)
        for coder_codes, name in zip(sample.codes, sample.coders, strict=True)
    ]
    design = {
        name: value if isinstance(value, (str, bool, type(None))) else _plain(value)
        for name, value in sample.design.items()
        if name != "history"
    }
    elements = {
        "rows": vector("integer", [row + 1 for row in sample.rows]),
        "ids": vector("text", sample.ids),
        "texts": vector("text", sample.texts),
        "labels": vector("text", sample.labels),
        "probs": vector("number", sample.probs),
        "all_probs": vector("number", sample.all_probs),
        "strata": vector("integer", [row + 1 for row in sample.strata[sample.rows]]),
        "names": vector("text", sample.names),
        "codes": {"type": "list", "parts": codes},
        "gold": vector("text", sample.gold),
        **fields(sample, "parts"),
        "none": sample.word_of(""),
        "design": value(design),
        "history": table_of(sample.history, "wave kind n N seed n_coded", numbers="n"),
    }
    return r_object("gold", elements, page=page_of(sample), json=sample.to_json())


def _plain(value: object) -> object:
    """Return numbers as floats, because R has no large integers."""
    if isinstance(value, int):
        return float(value)
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    return value
