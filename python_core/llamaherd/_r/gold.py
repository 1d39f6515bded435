"""Gold samples for R, which stores a sample as JSON in addition to its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import form_of, renamed
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd._r.arguments import ColumnsOfR


@form_of.register(GoldSize)
@form_of.register(PairedSize)
def _(found: GoldSize | PairedSize) -> Part:
    names = ("gold", "dsl", "ppi", "kappa")
    made = {n: vector("number", [getattr(found, n, None)]) for n in names}
    return r_object("gold_size", made, page=found)


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
    design = {name: own for name, own in bare.design.items() if name != "split"}
    given = {**data, ".label": [None] * len(drawn["texts"])}
    known = replace(bare, design=design)  # all texts of the sample are looked up
    _, moved, _ = match_sample(given, known, ".label", text, several=known.several)
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
        given = list(names) or [""] * len(source)
        with one_warning():
            return read_files(source, given, sample, coders)


@form_of.register(GoldSample)
def _(found: GoldSample) -> Part:
    """Return a sample; row indices start at 1."""
    codes = [
        vector("text", own, name)
        for own, name in zip(found.codes, found.coders, strict=True)
    ]
    design = {
        name: value if isinstance(value, (str, bool, type(None))) else _plain(value)
        for name, value in found.design.items()
        if name != "history"
    }
    made = {
        "rows": vector("integer", [row + 1 for row in found.rows]),
        "ids": vector("text", found.ids),
        "texts": vector("text", found.texts),
        "labels": vector("text", found.labels),
        "probs": vector("number", found.probs),
        "all_probs": vector("number", found.all_probs),
        "strata": vector("integer", [row + 1 for row in found.strata[found.rows]]),
        "names": vector("text", found.names),
        "codes": {"type": "list", "parts": codes},
        "gold": vector("text", found.gold),
        **fields(found, "parts"),
        "none": found.word_of(""),
        "design": value(design),
        "history": table_of(
            found.history, "wave kind n N seed n_coded", integer="wave", text="kind"
        ),
    }
    return r_object("gold", made, page=page_of(found), json=found.to_json())


def _plain(value: object) -> object:
    """Return numbers as floats, because R has no large integers."""
    if isinstance(value, int):
        return float(value)
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return value
