"""Gold samples for R, which stores a sample as JSON in addition to its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import Part, fields, parts, r_object, table_of, value, vector
from llamaherd.coding.annotation.label_sets import confidence_of
from llamaherd.coding.codes import check_names
from llamaherd.coding.gold.draw import page_of, warn_of_examples
from llamaherd.coding.gold.population import match_sample
from llamaherd.coding.gold.sample import GoldSample
from llamaherd.coding.gold.sheets import read_files
from llamaherd.coding.gold.size import GoldSize, PairedSize
from llamaherd.coding.selection.robustness import drawn_rows
from llamaherd.engine.core.caller import one_warning
from llamaherd.engine.core.errors import renamed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd._r.arguments import ColumnsOfR


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
    **options: Any,  # noqa: ANN401 - of `gold_sample`
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
    **drawn: Any,  # noqa: ANN401 - of `drawn_rows`
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
